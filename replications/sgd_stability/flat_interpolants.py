"""Theorem 3 (generalisation part): the error of interpolating two-layer ReLU networks against Tr²(G)/n."""

import math
from collections.abc import Sequence

import torch

from common.experiments import ExperimentParameters, Field, RunContext

from .shared.two_layer_relu import Network, sphere, trace_of_g

THEOREM_3 = "Wu 2025, Theorem 3 (Wu and Su 2023, Theorem 4.3)"
OURS = "our choice, D23"
OFTEN = 100
BLOCK = 256
"""Examples of which the hidden units are in memory at a time: a block of 120 neurons stays in a processor's cache."""


class Parameters(ExperimentParameters):
    """Settings: target, network, number of examples, and how sharp the start makes the interpolant."""

    dimension: int = Field(10, ge=2, description="d, of inputs uniform on the sphere of radius √d", source=THEOREM_3)
    examples: int = Field(80, ge=2, unit="examples", description="n", source=THEOREM_3)
    width: int = Field(64, ge=1, unit="neurons", description="m", source=OURS)
    target_width: int = Field(4, ge=1, description="neurons of f*, a mean of ±σ(uᵀx)/√d with ‖u‖ = 1", source=OURS)
    start_scale: float = Field(0.5, gt=0, description="factor on the initial weights", source=OURS)
    learning_rate: float = Field(0.01, gt=0, description="of Adam, falling to 0 along a cosine", source=OURS)
    steps: int = Field(3_000, ge=1, unit="steps", description="full-batch steps", source=OURS)
    fresh_examples: int = Field(10_000, ge=10, unit="examples", description="for the population error", source=OURS)
    interpolation: float = Field(
        1e-3, gt=0, description="error over mean f*² that counts as interpolation", source=OURS
    )


def target(directions: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    """f* [k, n], at most 1 in size, for unit directions [k, t, d] with signs by turns."""
    count, dimension = directions.shape[1:]
    signs = 1 - 2 * (torch.arange(count, dtype=torch.float64) % 2)
    values = (inputs @ directions.transpose(1, 2)).relu() * signs / dimension**0.5
    mean: torch.Tensor = values.mean(2)
    return mean


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one setting to interpolation, then measure the error and Tr G."""
    setting = runs[0]
    drawn = [_draw(run, context) for run in runs]
    inputs, fresh, directions, outer, inner = (torch.stack(part) for part in zip(*drawn, strict=True))
    targets = target(directions, inputs)
    network = _train(setting, context, Network(outer, inner), inputs, targets)
    error = (network.outputs(inputs) - targets).square().mean(1) / targets.square().mean(1)
    fresh_targets = target(directions, fresh)
    population = (network.outputs(fresh) - fresh_targets).square().mean(1)
    trace = trace_of_g(network, inputs)
    for member, run in enumerate(runs):
        context.record(
            run,
            training_error=float(error[member]),
            population_error=float(population[member]),
            target_power=float(fresh_targets[member].square().mean()),
            trace=float(trace[member]),
            path_norm=float(network.path_norm()[member]),
            squared_norm=float(network.squared_norm(setting.dimension)[member]),
        )


def loss_gradients(network: Network, inputs: torch.Tensor, targets: torch.Tensor) -> Network:
    """Of mean (f − y)² by a and by w, in blocks of examples.

    With e the derivatives by the outputs and M_j = Σ_i [w_jᵀx_i > 0] e_i x_i, they are w_jᵀM_j and a_j M_j.
    """
    members, count = targets.shape
    groups = [slice(None)] if count <= BLOCK else [slice(k, k + 1) for k in range(members)]
    moments = torch.zeros_like(network.inner)
    for group in groups:
        outer, inner = network.outer[group, :, None], network.inner[group].transpose(1, 2)
        for start in range(0, count, BLOCK):
            block = inputs[group, start : start + BLOCK]
            values = (block @ inner).clamp_(min=0)
            error = (2 / count) * ((values @ outer)[..., 0] - targets[group, start : start + BLOCK])
            moments[group] += values.sign_().transpose(1, 2) @ (error[..., None] * block)
    return Network((network.inner * moments).sum(2), network.outer[..., None] * moments)


def _draw(run: Parameters, context: RunContext) -> tuple[torch.Tensor, ...]:
    split, init = context.generator(run, "split"), context.generator(run, "init")
    directions = sphere((run.target_width, run.dimension), split) / run.dimension**0.5
    fresh = sphere((run.fresh_examples, run.dimension), split)
    inputs = sphere((run.examples, run.dimension), split)
    outer = torch.randn(run.width, generator=init, dtype=torch.float64) / run.width**0.5
    inner = torch.randn(run.width, run.dimension, generator=init, dtype=torch.float64) / run.dimension**0.5
    return inputs, fresh, directions, run.start_scale * outer, run.start_scale * inner


def _train(
    setting: Parameters, context: RunContext, network: Network, inputs: torch.Tensor, targets: torch.Tensor
) -> Network:
    """Adam (0.9, 0.999) on mean (f − f*)²."""
    flat = _flat(network)
    state = context.restore() or {
        "step": 0,
        "flat": flat,
        "first": torch.zeros_like(flat),
        "second": torch.zeros_like(flat),
    }
    flat, first, second = state["flat"], state["first"], state["second"]
    for step in range(state["step"], setting.steps):
        gradient = _flat(loss_gradients(_network(flat, setting.width), inputs, targets))
        first = first.lerp(gradient, 0.1)
        second = second.lerp(gradient.square(), 0.001)
        rate = setting.learning_rate * 0.5 * (1 + math.cos(math.pi * step / setting.steps))
        rate *= (1 - 0.999 ** (step + 1)) ** 0.5 / (1 - 0.9 ** (step + 1))
        flat = flat - rate * first / (second.sqrt() + 2e-12)
        if (step + 1) % OFTEN == 0:
            context.progress(step + 1, setting.steps)
            context.checkpoint({"step": step + 1, "flat": flat, "first": first, "second": second})
    return _network(flat, setting.width)


def _flat(network: Network) -> torch.Tensor:
    """Both layers in one row [k, m + m d]."""
    return torch.cat([network.outer, network.inner.flatten(1)], 1)


def _network(flat: torch.Tensor, width: int) -> Network:
    """Undo `_flat`."""
    return Network(flat[:, :width], flat[:, width:].unflatten(1, (width, -1)))
