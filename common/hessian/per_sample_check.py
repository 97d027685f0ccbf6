"""Per-sample rules are compared with single examples before they are used: once for a problem, on two examples.

For random cotangents, Jₙᵀvₙ of each example by the rule of its layer, or vectorised, against a pass of its own; norms
and squares as well. Parameters whose rule differs are vectorised, and where that fails they are taken example by
example. Cost, in gradients of the two examples: one for single passes and one for parameters that are not selected, at
most 4.7 for what is compared, two for the gradient itself (`require_derivatives`): 0.7 to 2.2 gradients of eight. What
differs in single precision is compared again in float64.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import torch

from common.hessian.chunks import Chunk
from common.hessian.layerwise import layerwise
from common.hessian.linearisation import Linearisation
from common.hessian.looped import LoopedLinearisation
from common.hessian.problem import Problem
from common.hessian.random import generator, normal
from common.hessian.sample import Sample
from common.hessian.verification import few, require_derivatives, undisturbed
from common.hessian.vmapped import VmappedLinearisation
from common.memory import shortage

TOLERANCE = {torch.float64: 1e-7, torch.float32: 2e-3}
FLOOR = {torch.float64: 1e-10, torch.float32: 1e-5}
"""Of the largest norm, below which a gradient counts as zero."""

Make = Callable[[Problem, Chunk, Sequence[str]], Linearisation]
"""The linearisation at a chunk of these parameters."""


def verify_layers(problem: Problem) -> None:
    """Find out once for which parameters the rules of their layers hold; the others move to `structure.outside`."""
    state = problem.verified
    if state.layers or not state.wanted:
        return
    state.layers = True
    require_derivatives(problem, order=1)
    with undisturbed(problem):
        _compare(problem, few(problem))


def _compare(problem: Problem, chunk: Chunk) -> None:
    structure, state = problem.structure, problem.verified
    expected = _Expected(problem, chunk)
    layered = [name for name in problem.names if name not in set(structure.outside)]
    if layered:
        differing = expected.differing(_layers, layered)
        if differing := differing and _in_float64(problem, _layers, differing):
            problem.structure = structure = replace(
                structure,
                outside=tuple(name for name in problem.names if name in {*structure.outside, *differing}),
                reason="; ".join(filter(None, [f"{differing[0]} is not used as its layer would", structure.reason])),
            )
    if structure.outside:
        found = expected.differing(VmappedLinearisation, structure.outside)
        state.looped = frozenset(found and _in_float64(problem, VmappedLinearisation, found))


def _layers(problem: Problem, chunk: Chunk, names: Sequence[str]) -> Linearisation:
    return layerwise(problem, chunk)


def _in_float64(problem: Problem, make: Make, names: list[str]) -> list[str]:
    """Those that differ in float64 as well: in single precision an input of a ReLU that is zero but for rounding has
    the one sign in a batch and the other alone."""
    sample = Sample(problem)
    if sample.kind == problem.dtype:
        return names
    chunk = replace(few(problem), inputs=sample.inputs_in(sample.kind))
    with sample.weights(sample.kind) as parameters:
        return _Expected(problem.with_parameters(parameters), chunk).differing(make, names)


class _Expected:
    """Gradients of single examples, and what differs from them."""

    def __init__(self, problem: Problem, chunk: Chunk) -> None:
        self.problem, self.chunk = problem, chunk
        single = LoopedLinearisation(problem, chunk, problem.names)
        self.cotangent = normal(single.outputs.shape, generator(11), single.outputs)
        self.found = _Found(single, self.cotangent, problem)
        self.largest = max(float(gradient.norm()) for gradient in self.found.gradients)
        if len(problem.names) < len(list(problem.model.parameters())):
            self.largest = _largest_gradient(problem, chunk, self.cotangent)
            self.spend(1.0)
        self.spend(1.0)

    def spend(self, gradients: float) -> None:
        """Gradients of each example of the chunk."""
        self.problem.verified.cost += gradients * len(self.chunk) / 8

    def differing(self, make: Make, names: Collection[str]) -> list[str]:
        """The parameters of which a linearisation gives something else than single examples; all, if it fails."""
        problem, expected = self.problem, self.found
        self.spend(5 / 3 if make is _layers else 3.0)
        try:
            with problem.only_selected(active=make is not _layers):
                found = _Found(make(problem, self.chunk, list(names)), self.cotangent, problem)
        except Exception as error:  # whatever a network does that cannot be vectorised or taken layer by layer
            if shortage(error) is not None:
                raise
            return [name for name in problem.names if name in set(names)]
        tolerance = TOLERANCE[problem.dtype]
        floor = FLOOR[problem.dtype] * self.largest
        differing = []
        for place, name in enumerate(problem.names):
            if name not in set(names):
                continue
            right = expected.gradients[place]
            size = right.norm(dim=1)
            near = (found.gradients[place] - right).norm(dim=1) <= tolerance * size + floor
            roots = (found.norms[place].clamp(min=0).sqrt() - size).abs() <= tolerance * size + floor
            rest = found.squares[place].flatten().clamp(min=0).sqrt() - expected.squares[place].sqrt()
            squares = float(rest.norm()) <= tolerance * float(right.norm()) + floor
            if not (bool(near.all()) and bool(roots.all()) and squares):
                differing.append(name)
        return differing


class _Found:
    """Gradients, norms and squares of a linearisation, by parameter."""

    def __init__(self, linearisation: Linearisation, cotangent: torch.Tensor, problem: Problem) -> None:
        self.outputs = linearisation.outputs
        self.gradients = linearisation.gradients(cotangent).split(problem.sizes, dim=1)
        single = isinstance(linearisation, LoopedLinearisation)
        self.norms = [g.square().sum(1) for g in self.gradients] if single else linearisation.norms(cotangent)
        self.squares = [g.square().sum(0) for g in self.gradients] if single else linearisation.squares(cotangent)


def _largest_gradient(problem: Problem, chunk: Chunk, cotangent: torch.Tensor) -> float:
    """Of all parameters of the model, selected or not: a bias before a normalisation has none but rounding."""
    every = [parameter for parameter in problem.model.parameters() if parameter.is_floating_point()]
    before = [parameter.requires_grad for parameter in every]
    try:
        for parameter in every:
            parameter.requires_grad_(True)
        with torch.enable_grad():
            outputs = problem.outputs(chunk.inputs)
            found = torch.autograd.grad(outputs, every, cotangent.view_as(outputs), materialize_grads=True)
    finally:
        for parameter, state in zip(every, before, strict=True):
            parameter.requires_grad_(state)
    return max(float(gradient.norm()) for gradient in found)
