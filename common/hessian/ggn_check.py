"""Products with the GGN are compared with single examples before they are used: once for a problem, on two examples.

J v against differences of the outputs in float64, Jᵀ u against passes of single examples, both with each other:
uᵀ(J v) = (Jᵀ u)ᵀ v. Cost: at most five gradients of each of the two examples, 1.25 gradients of eight.
"""

from collections.abc import Callable, Sequence

import torch

from common.hessian.chunks import Chunk
from common.hessian.derivative_check import CONFIRMING, LOOSE, STEPS, TOLERANCE, holding, mismatch, rounding_of
from common.hessian.looped import LoopedLinearisation
from common.hessian.problem import Problem
from common.hessian.random import generator, normal
from common.hessian.sample import Sample
from common.hessian.verification import WrongDerivativeError, few, refusal, say_written_out, undisturbed, writing_out
from common.memory import shortage

UNLIKE = "derivatives of single examples are not those of all"

Push = Callable[[Problem, Chunk, torch.Tensor, Sequence[torch.Tensor]], torch.Tensor | None]
"""A problem, a chunk, its recorded outputs and a direction ↦ J v of the examples."""


def way_to_push(problem: Problem, ways: dict[str, Push]) -> str:
    """The first of these ways to J v that is right.

    Raises:
        WrongDerivativeError: none is.
    """
    state = problem.verified
    if not state.wanted:
        return next(iter(ways))
    known = state.pushed.get(next(iter(ways)))
    if known is None:
        with undisturbed(problem), problem.only_selected():
            sample = Sample(problem)
            known = _first_right(problem, sample, ways)
            if not known:
                with writing_out(problem):
                    known = _first_right(problem, sample, ways)
            if not known:
                state.failures["pushed"] = refusal(problem, sample, UNLIKE)
            say_written_out(problem)
            state.pushed[next(iter(ways))] = known
    if not known:
        raise WrongDerivativeError(state.failures["pushed"])
    return known


def _first_right(problem: Problem, sample: Sample, ways: dict[str, Push]) -> str:
    for name, way in ways.items():
        try:
            problem.verified.cost += 5 * sample.count / 8
            pushed = _consistent(problem, sample, way)
            right = pushed is not None and _agrees(problem, sample, pushed)
        except RuntimeError as error:  # there is no such derivative
            if shortage(error) is not None:
                raise
            continue
        if right:
            return name
    return ""


def _consistent(problem: Problem, sample: Sample, way: Push) -> torch.Tensor | None:
    """J v, if Jᵀ u is that of single examples and both belong together."""
    chunk, own = few(problem), problem.dtype
    vector = sample.vectors(1, own)[0]
    with sample.weights(own) as parameters:
        near = problem.with_parameters(parameters)
        with torch.enable_grad():
            outputs = near.outputs(chunk.inputs)
        cotangent = normal(outputs.shape, generator(21), outputs.detach())
        pushed = way(near, chunk, outputs, vector)
        pushed = torch.zeros_like(outputs) if pushed is None else pushed
        pulled: list[torch.Tensor] = [torch.zeros_like(parameter) for parameter in parameters]
        if outputs.requires_grad:
            pulled = list(torch.autograd.grad(outputs, parameters, cotangent, materialize_grads=True))
        singly = LoopedLinearisation(near, chunk, near.names).gradients(cotangent).sum(0)
    floor = rounding_of(own) * float(cotangent.norm()) * max(float(outputs.detach().norm()), 1.0)
    if mismatch(pulled, problem.split(singly), sample.sizes, LOOSE, floor) > 1:
        return None
    terms = [float((a.double() * b.double()).sum()) for a, b in zip(pulled, vector, strict=True)]
    size = float((cotangent.double() * pushed.double()).square().sum().sqrt()) + sum(map(abs, terms))
    gap = abs(float((cotangent.double() * pushed.double()).sum()) - sum(terms))
    return pushed if gap <= 10 * LOOSE[1] * size + floor else None


def _agrees(problem: Problem, sample: Sample, pushed: torch.Tensor) -> bool:
    """Whether J v is the change of the outputs; the gaps must be alike at several steps to say that it is not."""
    kind = sample.kind
    inputs, vector = sample.inputs_in(kind), sample.vectors(1, kind)[0]
    gaps = []
    with torch.no_grad(), sample.weights(kind) as parameters:
        here = problem.outputs(inputs)
        for step in STEPS[kind] + CONFIRMING[kind]:
            moved = [p + step * d for p, d in zip(parameters, vector, strict=True)]
            with holding(parameters, moved):
                change = (problem.outputs(inputs) - here) / step
            noise = 1e3 * torch.finfo(kind).eps * float(here.norm()) / step
            loose = kind != problem.dtype or step in CONFIRMING[kind]
            if mismatch([change], [pushed], [1.0], LOOSE if loose else TOLERANCE[kind], noise) <= 1:
                return True
            gaps.append(change - pushed.to(kind))
    return any(float((gap - gaps[0]).norm()) > 0.5 * float(gaps[0].norm()) for gap in gaps)
