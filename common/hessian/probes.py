"""Quadratic forms in random probe vectors, one for every example in a single pass.

With t an unknown of each example and zₗ ↦ zₗ + tₙ uₗₙ at every layer l, uₗₙ = layer(Vₗₙ; aₗₙ) held fixed, the
second derivative of ℓₙ by tₙ is vᵀHₙv for the direction v = Vₙ, less the terms in which the direction of one layer
meets the input's change by that of another. Their mean is zero when the two are of different parameters, so the mean
over signs is Tr Hₙ. Examples do not influence each other: one double backward pass gives all of them.

In a layer that holds a parameter of several places (tied weights, a layer called twice) u is not held fixed: uₗₙ =
layer(Vₗₙ; aₗₙ(t)) with the same Vₗₙ in all of them, so that no term is missing.
"""

from collections.abc import Sequence
from typing import Any

import torch

from common.hessian.chunks import Chunk, map_inputs
from common.hessian.layers import ExampleSigns, rule_of
from common.hessian.per_sample_check import verify_layers
from common.hessian.problem import Problem
from common.hessian.random import Counter
from common.hessian.recurrent import layers_in_parts

PASS_COST = 4 / 3
"""Forward, backward to the activations, and both again for the second derivative: four thirds of a gradient."""


def probed_names(problem: Problem) -> list[str]:
    """Parameters for which this is unbiased: those that act in layers with a rule only."""
    verify_layers(problem)
    refused = {*problem.structure.outside, *problem.structure.reused} - {*problem.structure.shared}
    return [name for name in problem.names if name not in refused]


def numbers_of_others(problem: Problem, names: Sequence[str]) -> tuple[int, int]:
    """Signs that a pass of `hessian_quadratic_forms` takes for the chunks of lower and of higher ranks."""
    if problem.ranks.count == 1:
        return 0, 0
    found: dict[Any, int] = {}
    own = 0
    for chunk in problem.chunks:
        shapes: list[torch.Size] = [chunk.targets.shape]
        map_inputs(chunk.inputs, lambda tensor: shapes.append(tensor.shape) or tensor)  # type: ignore[func-returns-value]  # noqa: B023
        if tuple(shapes) not in found:
            source = Counter()
            hessian_quadratic_forms(problem, chunk, names, source)
            found[tuple(shapes)] = source.count
        own += found[tuple(shapes)]
    of_ranks = problem.ranks.objects(own)
    return sum(of_ranks[: problem.ranks.rank]), sum(of_ranks[problem.ranks.rank + 1 :])


def hessian_quadratic_forms(
    problem: Problem, chunk: Chunk, names: Sequence[str], source: torch.Generator
) -> torch.Tensor:
    """One unbiased draw of Tr Hₙ over the parameters `names`, for each example [n]; uncorrelated between examples.

    Args:
        names: among `probed_names(problem)`.
    """
    problem.require_second_derivatives()
    places = {id(p): name for name, p in zip(problem.names, problem.parameters, strict=True) if name in set(names)}
    steps = torch.zeros(len(chunk), dtype=problem.dtype, device=problem.device, requires_grad=True)
    shared = {place for place, name in places.items() if name in problem.structure.shared}
    drawn: dict[int, ExampleSigns] = {}
    handles = []

    def moved_along(layer: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
        def draw(part: str) -> ExampleSigns | None:
            parameter = getattr(layer, part, None)
            if parameter is None or id(parameter) not in places:
                return None
            if id(parameter) not in drawn:
                drawn[id(parameter)] = ExampleSigns.drawn(parameter.shape, len(chunk), source, parameter.detach())
            return drawn[id(parameter)]

        direction = rule_of(layer).along(layer, inputs[0], draw)  # type: ignore[union-attr]
        return output + steps.view(-1, *(1,) * (output.ndim - 1)) * direction

    def moved(needs: tuple[bool, bool]) -> Any:
        def hook(layer: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                direction = rule_of(layer).probe(layer, inputs[0].detach(), source, needs)  # type: ignore[union-attr]
            return output + steps.view(-1, *(1,) * (output.ndim - 1)) * direction

        return hook

    with layers_in_parts(problem.model) as layers:
        for layer in layers:
            needs = tuple(id(getattr(layer, part, None)) in places for part in ("weight", "bias"))
            if rule_of(layer) is None or not any(needs):
                continue
            if any(id(getattr(layer, part, None)) in shared for part in ("weight", "bias")):
                handles.append(layer.register_forward_hook(moved_along))
            else:
                handles.append(layer.register_forward_hook(moved((needs[0], needs[1]))))
        try:
            with torch.enable_grad(), problem.only_selected(active=False):
                total = problem.summed_loss(problem.outputs(chunk.inputs), chunk.targets)
                (slope,) = torch.autograd.grad(total, steps, create_graph=True)
                if not slope.requires_grad:
                    return torch.zeros_like(slope)
                (curvature,) = torch.autograd.grad(slope.sum(), steps, materialize_grads=True)
        finally:
            for handle in handles:
                handle.remove()
    return curvature.detach()
