"""Products with the GGN are compared with single examples before they are used: once for a problem, on two examples.

J v against differences of the outputs in float64, Jᵀ u against passes of single examples, both with each other:
uᵀ(J v) = (Jᵀ u)ᵀ v. Cost: at most five gradients of each of the two examples, 1.25 gradients of eight.
"""

from collections.abc import Callable, Sequence

import torch

from common.hessian.chunks import Chunk, map_inputs
from common.hessian.derivative_check import CONFIRMING, LOOSE, STEPS, TOLERANCE, holding, mismatch, rounding_of
from common.hessian.looped import LoopedLinearisation
from common.hessian.problem import Problem
from common.hessian.random import generator, normal
from common.hessian.sample import Sample
from common.hessian.verification import (
    WRITTEN_OUT,
    WrongDerivativeError,
    few,
    refusal,
    say,
    undisturbed,
    write_out,
)

UNLIKE = "derivatives of single examples are not those of all"

Push = Callable[[Chunk, torch.Tensor, Sequence[torch.Tensor]], torch.Tensor | None]
"""A chunk, its recorded outputs and a direction ↦ J v of the examples."""


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
            if not known and write_out(problem, sample):
                known = _first_right(problem, sample, ways)
                if not known:
                    problem.execution.written_out = frozenset()
            for name in problem.execution.written_out:
                say(problem, WRITTEN_OUT[name])
            state.pushed[next(iter(ways))] = known
            if not known:
                state.failures["pushed"] = refusal(problem, sample, UNLIKE)
    if not known:
        raise WrongDerivativeError(state.failures["pushed"])
    return known


def _first_right(problem: Problem, sample: Sample, ways: dict[str, Push]) -> str:
    for name, way in ways.items():
        try:
            problem.verified.cost += 5 * sample.count / 8
            with sample.weights(problem.dtype):
                right = _is_right(problem, sample, way)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:  # there is no such derivative
            continue
        if right:
            return name
    return ""


def _is_right(problem: Problem, sample: Sample, way: Push) -> bool:
    chunk, own = few(problem), problem.dtype
    vector = sample.vectors(1, own)[0]
    with torch.enable_grad():
        outputs = problem.outputs(chunk.inputs)
    cotangent = normal(outputs.shape, generator(21), outputs.detach())
    pushed = way(chunk, outputs, vector)
    pushed = torch.zeros_like(outputs) if pushed is None else pushed
    pulled: list[torch.Tensor] = [torch.zeros_like(parameter) for parameter in problem.parameters]
    if outputs.requires_grad:
        pulled = list(torch.autograd.grad(outputs, problem.parameters, cotangent, materialize_grads=True))
    singly = LoopedLinearisation(problem, chunk, problem.names).gradients(cotangent).sum(0)
    floor = rounding_of(own) * float(cotangent.norm()) * max(float(outputs.detach().norm()), 1.0)
    if mismatch(pulled, problem.split(singly), sample.sizes, LOOSE, floor) > 1:
        return False
    terms = [float((a.double() * b.double()).sum()) for a, b in zip(pulled, vector, strict=True)]
    size = float((cotangent.double() * pushed.double()).square().sum().sqrt()) + sum(map(abs, terms))
    if abs(float((cotangent.double() * pushed.double()).sum()) - sum(terms)) > 10 * LOOSE[1] * size + floor:
        return False
    return _agrees(problem, sample, pushed)


def _agrees(problem: Problem, sample: Sample, pushed: torch.Tensor) -> bool:
    """Whether J v is the change of the outputs; the gaps must be alike at several steps to say that it is not."""
    kind = sample.kind
    inputs = map_inputs(sample.inputs, lambda tensor: tensor.to(kind) if tensor.is_floating_point() else tensor)
    vector = sample.vectors(1, kind)[0]
    gaps = []
    with torch.no_grad(), sample.weights(kind):
        here = problem.outputs(inputs)
        for step in STEPS[kind] + CONFIRMING[kind]:
            moved = [p.data + step * d for p, d in zip(problem.parameters, vector, strict=True)]
            with holding(problem.parameters, moved):
                change = (problem.outputs(inputs) - here) / step
            noise = 1e3 * torch.finfo(kind).eps * float(here.norm()) / step
            loose = kind != problem.dtype or step in CONFIRMING[kind]
            if mismatch([change], [pushed], [1.0], LOOSE if loose else TOLERANCE[kind], noise) <= 1:
                return True
            gaps.append(change - pushed.to(kind))
    return any(float((gap - gaps[0]).norm()) > 0.5 * float(gaps[0].norm()) for gap in gaps)
