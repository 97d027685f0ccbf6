"""Vector–Jacobian products Jₙᵀ vₙ of every example on its own: norms, squares, and the gradients themselves.

One forward pass is recorded; each cotangent then costs one backward pass to the activations (a third of a
gradient). Parameters outside the known layers, or tied ones, go through `torch.func` in pieces, and what that does not
take (scripted modules, control flow that depends on the data) example by example.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from common.hessian.chunks import Chunk, parts
from common.hessian.layerwise import layerwise
from common.hessian.linearisation import Linearisation
from common.hessian.looped import LoopedLinearisation
from common.hessian.per_sample_check import verify_layers
from common.hessian.problem import Problem
from common.hessian.vmapped import VmappedLinearisation


@contextmanager
def linearised(problem: Problem, chunk: Chunk) -> Iterator[Linearisation]:
    """The linearisation at a chunk, by layers where that is exact, else by `torch.func` or example by example."""
    verify_layers(problem)
    outside, looped = set(problem.structure.outside), problem.verified.looped
    rest: list[Linearisation] = []
    if vmapped := [name for name in problem.names if name in outside - looped]:
        rest.append(VmappedLinearisation(problem, chunk, vmapped))
    if looped:
        rest.append(LoopedLinearisation(problem, chunk, [name for name in problem.names if name in looped]))
    if len(outside) == len(problem.names) and len(rest) == 1:
        yield rest[0]
        return
    with problem.only_selected(active=False):
        layers = [] if len(outside) == len(problem.names) else [layerwise(problem, chunk)]
        yield _Mixed([*layers, *rest]) if rest else layers[0]


def chunk_linearisations(problem: Problem, most: int | None = None) -> Iterator[tuple[Chunk, Linearisation]]:
    """Each chunk with its linearisation; cut into parts of at most `most` examples."""
    for whole in problem.chunks:
        for chunk in [whole] if most is None else parts(whole, most):
            with linearised(problem, chunk) as linearisation:
                yield chunk, linearisation


def curvature_forms(problem: Problem, chunk: Chunk, at: Linearisation, vectors: torch.Tensor) -> list[torch.Tensor]:
    """⟨Jₙᵀ uₙ, Jₙᵀ Λₙ uₙ⟩ by parameter, [n] each, from products with Λ alone: over random signs u its mean is Tr Gₙ.

    Args:
        vectors: the uₙ, in the shape of the outputs.
    """
    plus, minus = _halves(problem, chunk, at, vectors)
    return [(more - less) / 4 for more, less in zip(at.norms(plus), at.norms(minus), strict=True)]


def curvature_squares(problem: Problem, chunk: Chunk, at: Linearisation, vectors: torch.Tensor) -> list[torch.Tensor]:
    """Σ_n Jₙᵀ uₙ ∘ Jₙᵀ Λₙ uₙ, in the shapes of the parameters: over random signs u its mean is diag Σ Gₙ."""
    plus, minus = _halves(problem, chunk, at, vectors)
    return [(more - less) / 4 for more, less in zip(at.squares(plus), at.squares(minus), strict=True)]


def units(outputs: torch.Tensor) -> Iterator[torch.Tensor]:
    """One at each output in turn, the same for all examples, in the shape of `outputs`."""
    for place in range(outputs[0].numel()):
        unit = torch.zeros_like(outputs, memory_format=torch.contiguous_format)
        unit.flatten(1)[:, place] = 1.0
        yield unit


def _halves(
    problem: Problem, chunk: Chunk, at: Linearisation, vectors: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """c u ± Λu/c with both terms of one length for each example: 4 a b = (a + b)² − (a − b)² needs squares only."""
    image = problem.curvature.product(at.outputs, chunk.targets, vectors).flatten(1)
    vectors = vectors.flatten(1)
    size = (image.norm(dim=1, keepdim=True) / vectors.norm(dim=1, keepdim=True)).sqrt()
    size = torch.where(size > 0, size, 1.0)
    return size * vectors + image / size, size * vectors - image / size


@dataclass
class _Mixed(Linearisation):
    """Some parameters by the rules of their layers, others otherwise: each leaves zeros for those of the others."""

    parts: list[Linearisation]

    def __post_init__(self) -> None:
        self.outputs = self.parts[0].outputs

    def norms(self, cotangent: torch.Tensor) -> list[torch.Tensor]:
        return _sums([part.norms(cotangent) for part in self.parts])

    def factor_norms(self, factor: torch.Tensor, sign: torch.Tensor) -> list[float]:
        return [sum(values) for values in zip(*(part.factor_norms(factor, sign) for part in self.parts), strict=True)]

    def squares(self, cotangent: torch.Tensor) -> list[torch.Tensor]:
        return _sums([part.squares(cotangent) for part in self.parts])

    def factor_squares(self, factor: torch.Tensor, sign: torch.Tensor) -> list[torch.Tensor]:
        return _sums([part.factor_squares(factor, sign) for part in self.parts])

    def gradients(self, cotangent: torch.Tensor) -> torch.Tensor:
        return _sums([[part.gradients(cotangent)] for part in self.parts])[0]


def _sums(lists: Sequence[list[torch.Tensor]]) -> list[torch.Tensor]:
    first, *others = lists
    for other in others:
        first = [a + b for a, b in zip(first, other, strict=True)]
    return first
