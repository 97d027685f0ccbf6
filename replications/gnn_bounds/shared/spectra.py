"""Degrees and spectral norms of the diffusion matrices A, D⁻¹A and D^-½AD^-½: dense, or by Lanczos on sparse networks.

Isolated nodes have no row of D⁻¹A: they count as rows and columns of zeros here, which leaves all norms as they are.
"""

from dataclasses import dataclass

import torch

from common.hessian.lanczos import Krylov, Product


def diffusion_norms(adjacency: torch.Tensor) -> dict[str, torch.Tensor]:
    """Largest degree, ‖A‖₂, ‖D⁻¹A‖₂ and ‖D^-½AD^-½‖₂ of each graph [graphs] (float64), by eigenvalues.

    Args:
        adjacency: symmetric with entries 0 and 1, [graphs, n, n].
    """
    matrix = adjacency.double()
    degrees = matrix.sum(-1)
    inverse = torch.where(degrees > 0, 1 / degrees.clamp(min=1), 0.0)
    root = inverse.sqrt()
    walk = inverse[..., None] * matrix
    return {
        "degree": degrees.amax(-1),
        "adjacency_norm": torch.linalg.eigvalsh(matrix).abs().amax(-1),
        "walk_norm": torch.linalg.eigvalsh(walk @ walk.mT).amax(-1).clamp(min=0).sqrt(),
        "normalised_norm": torch.linalg.eigvalsh(root[..., None] * matrix * root[..., None, :]).abs().amax(-1),
    }


@dataclass(frozen=True)
class Norm:
    """A spectral norm from Lanczos: `value`, the residual ‖Mv − θv‖/θ of its eigenpair, and the products made."""

    value: float
    residual: float
    products: int


class Network:
    """A sparse undirected graph from its edges int64 [edges, 2], each once; products are sparse (float64).

    Attributes:
        nodes, edges: their numbers, without isolated nodes.
        degrees: float64 [nodes].
    """

    def __init__(self, edges: torch.Tensor) -> None:
        self.nodes, self.edges = int(edges.max()) + 1, len(edges)
        both = torch.cat([edges, edges.flip(1)]).T
        ones = torch.ones(both.shape[1], dtype=torch.float64)
        shape = (self.nodes, self.nodes)
        self._matrix = torch.sparse_coo_tensor(both, ones, shape, check_invariants=True).coalesce()
        self.degrees = torch.bincount(both[0], minlength=self.nodes).double()
        if int(self.degrees.min()) == 0:
            raise ValueError("isolated nodes are to be left out: number the nodes by the edges.")

    def times(self, vector: torch.Tensor) -> torch.Tensor:
        """A v."""
        return self._matrix @ vector

    def norms(self, generator: torch.Generator, tolerance: float, limit: int) -> dict[str, Norm]:
        """The three spectral norms; M is A, AD⁻²A (whose largest eigenvalue is ‖D⁻¹A‖₂²) and D^-½AD^-½."""
        root, square = self.degrees.rsqrt(), self.degrees**-2
        start = torch.rand(self.nodes, generator=generator, dtype=torch.float64) + 0.5
        largest = {
            "adjacency_norm": largest_eigenvalue(self.times, start, tolerance, limit),
            "walk_norm": largest_eigenvalue(lambda v: self.times(square * self.times(v)), start, tolerance, limit),
            "normalised_norm": largest_eigenvalue(lambda v: root * self.times(root * v), start, tolerance, limit),
        }
        walk = largest["walk_norm"]
        return largest | {"walk_norm": Norm(walk.value**0.5, walk.residual, walk.products)}


def largest_eigenvalue(product: Product, start: torch.Tensor, tolerance: float, limit: int) -> Norm:
    """Largest eigenvalue of a symmetric matrix without negative entries, by Lanczos from a positive `start` [n].

    The eigenvector to it (Perron) has no negative entry either, so that a positive start cannot miss it. Stops where
    ‖Mv − θv‖ ≤ `tolerance` θ, which is looked at every eighth product, or after `limit` products.
    """
    krylov = Krylov(product, start)
    while True:
        more = krylov.extend()
        if more and krylov.size % 8 and krylov.size < limit:
            continue
        values, vectors = torch.linalg.eigh(krylov.tridiagonal())
        residual = krylov.offdiagonal[-1] * abs(float(vectors[-1, -1])) / float(values[-1])
        if residual <= tolerance or not more or krylov.size >= limit:
            return Norm(float(values[-1]), residual, krylov.size)
