"""Theorem 4 of the generalisation part and Figure 8: flattest minima that memorise; SAM against descent."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch

from common.experiments import ExperimentParameters, Field, RunContext

from .shared.memorising_networks import (
    corrected_memorising,
    generalising,
    hessian_trace,
    least_trace,
    parity_problem,
    printed_memorising,
    violating_pairs,
)
from .shared.two_layer_relu import Network

WEN = "Wen, Li and Ma 2023, setting of the figure that the lecture's Fig. 8 shows"
OURS = "our choice, D26"


class Parameters(ExperimentParameters):
    """Settings: data, network, and a budget of gradients of examples that all methods share."""

    method: Literal["constructions", "gd", "sgd", "sam"] = Field("sam", description="what is done", source=WEN)
    dimension: int = Field(30, ge=2, description="d of x ∈ {±1}^d, y = x₁x₂", source=WEN)
    examples: int = Field(100, ge=2, unit="examples", description="n", source=WEN)
    width: int = Field(500, ge=4, unit="neurons", description="m", source=WEN)
    learning_rate: float = Field(0.01, gt=0, description="of the mean squared error", source=WEN)
    weight_decay: float = Field(0.0, ge=0, description="λ of θ ← θ − η(∇L + λθ)", source=WEN)
    radii: tuple[float, ...] = Field(
        (0.05,), min_length=1, description="ρ of SAM, each for an equal share of the epochs", source=WEN
    )
    epochs: int = Field(
        8_000,
        ge=1,
        unit="epochs",
        description="of SAM, which takes two gradients a step; others take twice as many",
        source=OURS,
    )
    fresh_examples: int = Field(4_000, ge=10, unit="examples", description="of the test error", source=OURS)
    wide_dimension: int = Field(100, ge=2, description="d at which the printed construction works", source=OURS)
    evaluations: int = Field(24, ge=2, description="points of a curve, spaced by equal factors", source=OURS)


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """The constructions, or one training; one run a call."""
    (run,) = runs
    if run.method == "constructions":
        _constructions(run, context)
    else:
        train(run, context)


def _constructions(run: Parameters, context: RunContext) -> None:
    generator = context.generator(run, "split")
    for dimension in (run.dimension, run.wide_dimension):
        inputs, targets = parity_problem(run.examples, dimension, generator)
        fresh, fresh_targets = parity_problem(min(run.fresh_examples, 2**dimension), dimension, generator)
        networks = {
            "printed": printed_memorising(inputs, targets),
            "corrected": corrected_memorising(inputs, targets),
            "generalising": generalising(dimension, (dimension + 1) ** 0.25),
            "generalising_printed": generalising(dimension, (dimension**2 + 1) ** 0.25),
        }
        for name, network in networks.items():
            row = _measure(network, inputs, targets, fresh, fresh_targets)
            place = "wide" if dimension == run.wide_dimension else "narrow"
            context.record(run, construction=name, place=place, violations=violating_pairs(inputs), **row)
        context.progress(1, 1)


def _measure(
    network: Network, inputs: torch.Tensor, targets: torch.Tensor, fresh: torch.Tensor, fresh_targets: torch.Tensor
) -> dict[str, float]:
    found, predicted = network.outputs(inputs), network.outputs(fresh)
    return {
        "loss": float((found - targets).square().mean()),
        "largest_error": float((found - targets).abs().max()),
        "training_error": float((found * targets <= 0).double().mean()),
        "test_loss": float((predicted - fresh_targets).square().mean()),
        "test_error": float((predicted * fresh_targets <= 0).double().mean()),
        "trace": hessian_trace(network, inputs),
        "least_trace": least_trace(inputs, targets),
    }


def train(run: Parameters, context: RunContext, *, bias: bool = True) -> None:
    """One training by `run.method`; without a bias the last coordinate of every input is 0 in place of 1."""
    split, init = context.generator(run, "split"), context.generator(run, "init")
    batches = context.generator(run, "batches")
    inputs, targets = parity_problem(run.examples, run.dimension, split)
    fresh, fresh_targets = parity_problem(run.fresh_examples, run.dimension, split)
    if not bias:
        inputs[:, -1] = fresh[:, -1] = 0
    state = context.restore()
    if state is None:
        state = _start(run, init)
    else:
        batches.set_state(state["batches"])
    outer, inner = state["outer"].numpy(), state["inner"].numpy()
    data = (inputs, targets, fresh, fresh_targets)
    advance = _epochs(run, inputs.numpy(), targets.numpy(), batches)
    ends = evaluation_epochs(run)
    if state["epoch"] == 0:
        _record(run, context, 0, _network(state), data)
    for end in sorted({*ends, *range(_chunk(run), ends[-1], _chunk(run))}):
        count = end - state["epoch"]
        if count <= 0:
            continue
        part = min(len(run.radii) * state["epoch"] // ends[-1], len(run.radii) - 1)
        advance(outer, inner, count, run.radii[part])
        state["epoch"], state["batches"] = end, batches.get_state()
        if end in ends:
            _record(run, context, end, _network(state), data)
        context.progress(end, ends[-1])
        context.checkpoint(state)


def evaluation_epochs(run: Parameters) -> list[int]:
    """Epochs after which is measured; the last is that of equal numbers of gradients."""
    last = run.epochs if run.method == "sam" else 2 * run.epochs
    return sorted({round(last ** (k / run.evaluations)) for k in range(run.evaluations + 1)})


def _chunk(run: Parameters) -> int:
    return max(1, 200_000 // run.examples)


def _start(run: Parameters, init: torch.Generator) -> dict[str, Any]:
    """PyTorch's default initial weights: uniform in ±1/√(inputs of the layer), biases too."""
    inner = 2 * torch.rand(run.dimension + 1, run.width, generator=init, dtype=torch.float64) - 1
    outer = 2 * torch.rand(run.width, generator=init, dtype=torch.float64) - 1
    return {"epoch": 0, "inner": inner / run.dimension**0.5, "outer": outer / run.width**0.5}


def _network(state: dict[str, Any]) -> Network:
    return Network(state["outer"], state["inner"].T)


def _record(run: Parameters, context: RunContext, epoch: int, network: Network, data: Sequence[torch.Tensor]) -> None:
    row = _measure(network, *data)
    gradients = epoch * run.examples * (2 if run.method == "sam" else 1)
    context.record(run, epoch=epoch, gradients=gradients, finite=math.isfinite(row["loss"]), **row)


def _epochs(
    run: Parameters, inputs: Any, targets: Any, source: torch.Generator
) -> Callable[[Any, Any, int, float], None]:
    """A function that takes (outer, inner, epochs, radius of SAM) and moves both arrays of weights in place."""
    try:
        from .shared.sequential_training import descend, descend_by_examples
    except ModuleNotFoundError as error:
        raise RuntimeError("its training steps are compiled and need the package numba; install it") from error

    def full_batch(outer: Any, inner: Any, epochs: int, _: float) -> None:
        descend(outer, inner, inputs, targets, rate=run.learning_rate, decay=run.weight_decay, steps=epochs)

    def one_by_one(outer: Any, inner: Any, epochs: int, radius: float) -> None:
        drawn = torch.rand(epochs, len(inputs), generator=source, dtype=torch.float64)
        order = drawn.argsort(1).flatten().numpy()
        radius = radius if run.method == "sam" else 0.0
        by = {"rate": run.learning_rate, "radius": radius, "decay": run.weight_decay}
        descend_by_examples(outer, inner, inputs, targets, order=order, **by)

    return full_batch if run.method == "gd" else one_by_one
