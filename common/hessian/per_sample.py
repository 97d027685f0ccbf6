"""Vector–Jacobian products Jₙᵀ vₙ of every example on its own: norms, squares, and the gradients themselves.

One forward pass is recorded; each cotangent then costs one backward pass to the activations (a third of a
gradient). Networks with parameters outside the known layers, or tied ones, go through `torch.func` in pieces.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from common.hessian.chunks import Chunk
from common.hessian.layerwise import LayerwiseLinearisation, layerwise
from common.hessian.linearisation import Linearisation
from common.hessian.problem import Problem
from common.hessian.vmapped import VmappedLinearisation


@contextmanager
def linearised(problem: Problem, chunk: Chunk) -> Iterator[Linearisation]:
    """The linearisation at a chunk, by layers where that is exact, else by `torch.func`."""
    outside = set(problem.structure.outside)
    if len(outside) == len(problem.names):
        yield VmappedLinearisation(problem, chunk, problem.names)
        return
    with problem.only_selected(active=False):
        by_layer = layerwise(problem, chunk)
        yield _Mixed(by_layer, VmappedLinearisation(problem, chunk, problem.structure.outside)) if outside else by_layer


def chunk_linearisations(problem: Problem) -> Iterator[tuple[Chunk, Linearisation]]:
    """Each chunk with its linearisation."""
    for chunk in problem.chunks:
        with linearised(problem, chunk) as linearisation:
            yield chunk, linearisation


@dataclass
class _Mixed(Linearisation):
    """Layers by their rules, parameters outside by `torch.func`: each leaves zeros for the other's."""

    layerwise: LayerwiseLinearisation
    rest: VmappedLinearisation

    def __post_init__(self) -> None:
        self.outputs = self.layerwise.outputs

    def norms(self, cotangent: torch.Tensor) -> list[torch.Tensor]:
        return [a + b for a, b in zip(self.layerwise.norms(cotangent), self.rest.norms(cotangent), strict=True)]

    def squares(self, cotangent: torch.Tensor) -> list[torch.Tensor]:
        return [a + b for a, b in zip(self.layerwise.squares(cotangent), self.rest.squares(cotangent), strict=True)]

    def factor_squares(self, factor: torch.Tensor, sign: torch.Tensor) -> list[torch.Tensor]:
        pairs = zip(self.layerwise.factor_squares(factor, sign), self.rest.factor_squares(factor, sign), strict=True)
        return [a + b for a, b in pairs]

    def gradients(self, cotangent: torch.Tensor) -> torch.Tensor:
        return self.layerwise.gradients(cotangent) + self.rest.gradients(cotangent)
