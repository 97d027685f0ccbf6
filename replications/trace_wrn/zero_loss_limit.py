"""Theorem 1: does λ₁ go to 0 with the loss of a ReLU network? On the ray it does, rescaled layers refute it."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn import functional

from common.experiments import DatasetName, ExperimentParameters, Field, RunContext
from common.experiments.one_by_one import one_by_one
from common.hessian import Problem, sharpness, trace

OURS = "our choice, deviation D9"
SIDE = 7
LEAST_LOSS = 1e-12
Pair = tuple[torch.Tensor, torch.Tensor]
HALVINGS = 40
NARROW = 1e-6
"""Where the bisection of log s ends."""


class Parameters(ExperimentParameters):
    """Settings: a two-layer ReLU network without biases, trained until it separates its images, then scaled."""

    dataset: DatasetName = Field("mnist", description="images, averaged down to 7 × 7 pixels", source=OURS)
    training_images: int = Field(100, ge=10, unit="images", description="size of the training set", source=OURS)
    width: int = Field(32, ge=1, description="hidden units", source=OURS)
    steps: int = Field(
        1_000, ge=1, unit="steps", description="full-batch gradient steps with momentum 0.9", source=OURS
    )
    learning_rate: float = Field(0.1, gt=0, description="of these steps", source=OURS)
    scales: tuple[float, ...] = Field(
        (1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.25, 2.5),
        description="c of (c w₁, c w₂); the ray along which the loss goes to 0, down to 10⁻¹²",
        source="proof of Theorem 1: weights grow",
    )


class TwoLayer(nn.Module):
    """W₂ relu(W₁ x), no biases: multiplying W₁ by s and dividing W₂ by s leaves the function."""

    def __init__(self, first: torch.Tensor, second: torch.Tensor) -> None:
        super().__init__()
        self.first = nn.Linear(first.shape[1], len(first), bias=False)
        self.second = nn.Linear(second.shape[1], len(second), bias=False)
        self.first.weight, self.second.weight = nn.Parameter(first), nn.Parameter(second)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Logits [n, classes] of inputs [n, features]."""
        logits: torch.Tensor = self.second(functional.relu(self.first(inputs)))
        return logits


def margin_loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy as log(1 + Σ exp(zₖ − z_y)): exact in float64 far below the 10⁻¹⁶ of the usual form."""
    own = logits.gather(1, targets[:, None])
    others = (logits - own).scatter(1, targets[:, None], -torch.inf)
    return functional.softplus(others.logsumexp(1)).mean()


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train each seed's network, then walk the ray in both arms."""
    for run in one_by_one(runs, context):
        images = _images(run, context)
        _walk(run, context, _trained(run, context, images), images)


def _images(run: Parameters, context: RunContext) -> Pair:
    subset = context.data(run.dataset).train.subset(run.training_images, seed=context.stream_seed(run, "split"))
    small = functional.adaptive_avg_pool2d(subset.as_float(torch.float64), SIDE).flatten(1)
    return small.to(context.device), subset.targets.to(context.device)


def _trained(run: Parameters, context: RunContext, images: Pair) -> Pair:
    """W₁ and W₂ after full-batch descent on the margin loss from He's initial weights, float64."""
    inputs, targets = images
    source = context.generator(run, "init")
    shapes = ((run.width, inputs.shape[1]), (10, run.width))
    weights = [
        (torch.randn(shape, generator=source, dtype=torch.float64) * math.sqrt(2 / shape[1]))
        .to(inputs.device)
        .requires_grad_()
        for shape in shapes
    ]
    optimiser = torch.optim.SGD(weights, lr=run.learning_rate, momentum=0.9)
    for _ in range(run.steps):
        optimiser.zero_grad()
        loss = margin_loss(
            functional.linear(functional.relu(functional.linear(inputs, weights[0])), weights[1]), targets
        )
        torch.autograd.backward(loss)
        optimiser.step()
    return weights[0].detach(), weights[1].detach()


def _walk(run: Parameters, context: RunContext, layers: Pair, data: Pair) -> None:
    """λ₁ on the ray, and with layers rescaled by the s ≥ 1 that keeps λ₁ where it was at c = 1 (same function)."""
    first, second = layers

    def at(scale: float, rescaling: float) -> Problem:
        model = TwoLayer(scale / rescaling * first, scale * rescaling * second)
        return Problem(model, margin_loss, data)

    logits = TwoLayer(first, second)(data[0])
    separated = bool((logits.argmax(1) == data[1]).all())
    start = None
    for scale in run.scales:
        on_ray = at(scale, 1.0)
        if on_ray.loss() < LEAST_LOSS:
            break
        value = _largest(on_ray)
        start = value if start is None else start
        rescaling = _rescaling(at, scale, start)
        moved = at(scale, rescaling)
        context.record(
            run,
            scale=scale,
            separated=separated,
            loss=on_ray.loss(),
            sharpness=value,
            trace=trace(on_ray).value,
            rescaling=rescaling,
            rescaled_loss=moved.loss(),
            rescaled_sharpness=_largest(moved),
            rescaled_trace=trace(moved).value,
        )


def _largest(problem: Problem) -> float:
    return sharpness(problem, relative_error=1e-6).estimate.value


def _rescaling(at: Callable[[float, float], Problem], scale: float, wanted: float) -> float:
    """The s ≥ 1 at which λ₁ is `wanted`, by bisection of log s; λ₁ grows without limit as s does."""
    low, high = 0.0, 1.0
    while _largest(at(scale, math.exp(high))) < wanted:
        low, high = high, 2 * high
    if scale == 1.0:
        return 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _largest(at(scale, math.exp(middle))) < wanted:
            low = middle
        else:
            high = middle
        if high - low < NARROW:
            break
    return math.exp((low + high) / 2)
