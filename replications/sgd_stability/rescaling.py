"""Rescaled neurons: one function, any sharpness; and curvature read off perturbed losses (the three identities)."""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn

from common.errors import UserError
from common.experiments import ExperimentParameters, Field, RunContext
from common.hessian import (
    Hessian,
    Problem,
    dense,
    sharpness_from_perturbations,
    squared_norm_from_perturbations,
    trace_from_perturbations,
)

from .shared.squared_error import squared_error

SLIDE = 'Wu 2025, "Sharp Minima Can Generalize well"'
IDENTITIES = 'Wu 2025, "Theoretical Questions", the three identities'
OURS = "our choice, D24"
NEVER = 1e-12
"""A relative error out of reach: no estimate stops before its budget, so that the draws are equal at every ρ."""

Data = tuple[torch.Tensor, torch.Tensor]


class Parameters(ExperimentParameters):
    """Settings: a small network at an interpolating minimum, factors of rescaling, sizes of perturbations."""

    model: Literal["product", "relu", "tanh"] = Field(
        "relu", description="the toy f = aw with y = 1, or a two-layer network", source=f"{SLIDE}; tanh is {OURS}"
    )
    width: int = Field(16, ge=1, unit="neurons", description="hidden units of a network", source=OURS)
    dimension: int = Field(4, ge=1, description="of a network's inputs", source=OURS)
    examples: int = Field(12, ge=1, unit="examples", description="interpolated exactly; labels ±1", source=OURS)
    newton_steps: int = Field(60, ge=1, unit="steps", description="Gauss–Newton steps to the minimum", source=OURS)
    factors: tuple[float, ...] = Field(
        (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0), description="c of (a/c, c w)", source=SLIDE
    )
    radii: tuple[float, ...] = Field(
        (1e-4, 1e-3, 3e-3, 1e-2, 3e-2), description="ρ; the smallest stands for 0", source=IDENTITIES
    )
    draws: int = Field(64, ge=2, description="pairs ±ε for the two expectations", source=OURS)
    loss_limit: float = Field(2e-20, gt=0, description="largest loss that counts as interpolation", source=OURS)


class Product(nn.Module):
    """f = a w, whatever the input."""

    def __init__(self) -> None:
        super().__init__()
        self.outer = nn.Parameter(torch.ones(1, 1, dtype=torch.float64))
        self.inner = nn.Parameter(torch.ones(1, 1, dtype=torch.float64))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[n, 1] for inputs [n, 1] of ones."""
        values: torch.Tensor = inputs * self.inner * self.outer
        return values

    def outer_and_inner(self) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """a, and w in a list."""
        return self.outer, [self.inner]


class TwoLayers(nn.Module):
    """Σ_j a_j σ(w_jᵀx + b_j)."""

    def __init__(self, run: Parameters, generator: torch.Generator) -> None:
        super().__init__()
        self.hidden = nn.Linear(run.dimension, run.width, dtype=torch.float64)
        self.top = nn.Linear(run.width, 1, bias=False, dtype=torch.float64)
        self.activation = nn.ReLU() if run.model == "relu" else nn.Tanh()
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
            self.hidden.weight /= run.dimension**0.5
            self.top.weight /= run.width**0.5

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[n, 1] for inputs [n, d]."""
        values: torch.Tensor = self.top(self.activation(self.hidden(inputs)))
        return values

    def outer_and_inner(self) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """a, and w with b."""
        return self.top.weight, [self.hidden.weight, self.hidden.bias]


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Curvature and outputs over the factors of rescaling; the identities over ρ."""
    for done, run in enumerate(runs):
        model, data = _at_minimum(run, context)
        fresh = torch.randn(200, data[0].shape[1], generator=context.generator(run, "probes"), dtype=torch.float64)
        _rescale(run, context, model, data, fresh if run.model == "relu" else data[0])
        _perturb(run, context, Problem(model, squared_error, data), context.stream_seed(run, "probes") % 2**31)
        context.progress(done + 1, len(runs))


def _at_minimum(run: Parameters, context: RunContext) -> "tuple[Product | TwoLayers, Data]":
    """A model that interpolates, by damped Gauss–Newton steps of least norm from a random start."""
    init = context.generator(run, "init")
    if run.model == "product":
        one = torch.ones(1, 1, dtype=torch.float64)
        return Product(), (one, one)
    model = TwoLayers(run, init)
    split = context.generator(run, "split")
    inputs = torch.randn(run.examples, run.dimension, generator=split, dtype=torch.float64)
    targets = 2 * torch.randint(0, 2, (run.examples, 1), generator=split).double() - 1
    parameters = list(model.parameters())
    for step in range(run.newton_steps):
        error = (model(inputs) - targets)[:, 0]
        if float(error.detach().square().mean()) < run.loss_limit:
            break
        rows = [torch.autograd.grad(one, parameters, retain_graph=True) for one in error]
        jacobian = torch.stack([torch.cat([part.flatten() for part in row]) for row in rows])
        update = torch.linalg.lstsq(jacobian, error.detach()[:, None], driver="gelsd").solution[:, 0]
        scale = 0.5 if step < run.newton_steps // 2 else 1.0
        with torch.no_grad():
            nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(parameters) - scale * update, parameters)
    return model, (inputs, targets)


def _rescale(
    run: Parameters,
    context: RunContext,
    model: "Product | TwoLayers",
    data: Data,
    fresh: torch.Tensor,
) -> None:
    if run.model == "tanh":
        return  # rescaling changes the function
    outer, inner = model.outer_and_inner()
    with torch.no_grad():
        before = model(fresh)
    for factor in run.factors:
        _scale(outer, inner, factor)
        eigenvalues = torch.linalg.eigvalsh(dense(Hessian(Problem(model, squared_error, data))))
        with torch.no_grad():
            change = float((model(fresh) - before).abs().max() / before.abs().max())
            loss = float(squared_error(model(data[0]), data[1]))
        _scale(outer, inner, 1 / factor)
        context.record(
            run,
            part="rescaling",
            factor=factor,
            largest=float(eigenvalues[-1]),
            trace=float(eigenvalues.sum()),
            squared_norm=float(eigenvalues.square().sum()),
            function_change=change,
            loss=loss,
        )


@torch.no_grad()
def _scale(outer: torch.Tensor, inner: list[torch.Tensor], factor: float) -> None:
    outer /= factor
    for part in inner:
        part *= factor


def _perturb(run: Parameters, context: RunContext, problem: Problem, seed: int) -> None:
    """The three identities, with the same draws at every ρ."""
    eigenvalues, vectors = torch.linalg.eigh(dense(Hessian(problem)))
    if not math.isfinite(float(eigenvalues[-1])):
        raise UserError(f"{context.name}: the Hessian at the minimum is not finite.")
    for radius in run.radii:
        worst = max(
            sharpness_from_perturbations(problem, radius, start=sign * vectors[:, -1], iterations=200).value
            for sign in (1.0, -1.0)
        )
        isotropic = trace_from_perturbations(
            problem, radius, relative_error=NEVER, budget=run.draws * (2 / 3), seed=seed
        )
        shaped = squared_norm_from_perturbations(
            problem, radius, relative_error=NEVER, budget=run.draws * (5 / 3), seed=seed
        )
        context.record(
            run,
            part="identity",
            radius=radius,
            loss=problem.loss(),
            largest=float(eigenvalues[-1]),
            trace=float(eigenvalues.sum()),
            squared_norm=float(eigenvalues.square().sum()),
            found_largest=worst,
            found_trace=isotropic.value,
            found_trace_error=isotropic.standard_error,
            found_squared_norm=shaped.value,
            found_squared_norm_error=shaped.standard_error,
        )
