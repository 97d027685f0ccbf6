"""The pairs of minima of Figure 1 once more, for what is measured on them beyond it."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from common.bounds.pacgen import neighbourhood
from common.experiments import ExperimentParameters, Field
from common.experiments.seeds import stream_seed

from .minima import Function, derivatives, square_grid
from .pair_search import OURS, PAPER, PairSearch, search_pair
from .toy_network import Mixture, logit_difference


class LocalConstants(ExperimentParameters):
    """The constants of the neighbourhoods and of the bounds."""

    gamma: float = Field(0.1, ge=0, description="γ of κ = γ|w| + ε", source=f"{PAPER}, Figs. 3-6")
    epsilon: float = Field(0.1, gt=0, description="ε of κ = γ|w| + ε", source=f"{PAPER}, Figs. 3-6")
    eta: float = Field(39.0, gt=0, description="η of the bounds", source=f"{PAPER}, footnote 1")
    delta: float = Field(0.05, gt=0, lt=1, description="probability with which a bound may fail", source=OURS)
    lipschitz_points: int = Field(
        15, ge=3, description="points a side of a neighbourhood where its ρ is sought", source="our choice"
    )


@dataclass(frozen=True)
class Pair:
    """A mixture, its training sample [n, 2], and its sharp (global) and flat minimum [2, 2], in this order."""

    mixture: Mixture
    points: torch.Tensor
    minima: torch.Tensor

    def tensors(self) -> dict[str, torch.Tensor]:
        """What an artifact holds of it."""
        numbers = torch.tensor([self.mixture.width, self.mixture.threshold], dtype=torch.float64)
        return {"means": self.mixture.means, "numbers": numbers, "points": self.points, "minima": self.minima}


def find_pair(search: PairSearch) -> Pair | None:
    """The pair of minima that `toy_landscape` finds at this seed: its stream, its search."""
    stream = torch.Generator().manual_seed(stream_seed("toy_landscape", "split", search.seed, {}))
    found, _ = search_pair(search, stream)
    return None if found is None else Pair(found.mixture, found.points, found.pair)


def kept_pair(tensors: dict[str, torch.Tensor], label_by: str) -> Pair | None:
    """The pair whose `tensors()` these are; None where none was found."""
    if "minima" not in tensors:
        return None
    width, threshold = tensors["numbers"].tolist()
    return Pair(Mixture(tensors["means"], width, label_by, threshold), tensors["points"], tensors["minima"])


def probability_loss(points: torch.Tensor, labels: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """Mean probability that the network gives to the wrong class, in [0, 1]; weights [k, 2] to values [k]."""
    signs = 2 * labels.to(points.dtype) - 1

    def loss(weights: torch.Tensor) -> torch.Tensor:
        return functional.sigmoid(-signs * logit_difference(weights, points)).mean(1)

    return loss


@dataclass(frozen=True)
class LocalGeometry:
    """What the lemmas ask of a loss at k points of two weights.

    Attributes:
        loss: [k].
        hessian: [k, 2, 2].
        kappa: [k, 2].
        rho: largest ‖∇²L(v) − ∇²L(w)‖/‖v − w‖ over a lattice of the neighbourhood, [k]. Inequality (5) needs pairs
            with w alone.
        least_eigenvalue: smallest eigenvalue of ∇²L over the same lattice; negative where L is not convex, [k].
    """

    loss: torch.Tensor
    hessian: torch.Tensor
    kappa: torch.Tensor
    rho: torch.Tensor
    least_eigenvalue: torch.Tensor

    @property
    def diagonal(self) -> torch.Tensor:
        """h_i = ∇²_i L, at least 0: [k, 2]."""
        return self.hessian.diagonal(dim1=1, dim2=2).clamp(min=0)

    @property
    def largest_eigenvalue(self) -> torch.Tensor:
        """λ₁ of the Hessian, [k]."""
        eigenvalues: torch.Tensor = torch.linalg.eigvalsh(self.hessian)
        return eigenvalues[:, -1]


def local_geometry(loss: Function, points: torch.Tensor, run: LocalConstants) -> LocalGeometry:
    """Loss, Hessian, ρ and convexity at points [k, 2] and in their neighbourhoods; the Hessians are exact."""
    kappa = neighbourhood(points, gamma=run.gamma, epsilon=run.epsilon)
    values, _, hessian = derivatives(loss, points)
    steps = square_grid(1.0, run.lipschitz_points) * kappa[:, None]
    _, _, others = derivatives(loss, (points[:, None] + steps).flatten(0, 1))
    others = others.view(len(points), -1, 2, 2)
    change = torch.linalg.matrix_norm(others - hessian[:, None], ord=2)
    distance = steps.norm(dim=2)
    rho = torch.where(distance > 0, change / distance.clamp(min=1e-300), 0.0).amax(1)
    return LocalGeometry(values, hessian, kappa, rho, torch.linalg.eigvalsh(others).amin((1, 2)))
