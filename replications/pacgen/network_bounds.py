"""Lemmas 6 and 8 and Theorem 7 on two-layer networks trained on MNIST, and M against G over the perturbation."""

from collections.abc import Sequence

import torch

from common.bounds.pac_bayes import hoeffding_complexity
from common.bounds.pacgen import neighbourhood, rho_by_norm
from common.bounds.perturbation import uniform_divergence, uniform_levels, uniform_sharpness
from common.experiments import Field, RunContext

from .shared.bound_versions import Bound, Case, Side, bound_rows
from .shared.network_data import load_problem, load_weights
from .shared.two_layer import LossName, Problem
from .shared.two_layer_curvature import Curvature
from .two_layer_network import Parameters as NetworkParameters

LOSSES: tuple[LossName, ...] = ("cross_entropy", "probability")


class Parameters(NetworkParameters):
    """Settings: those of the trained network, and the constants of the bounds."""

    gamma: float = Field(0.1, gt=0, description="γ of κ = γ|w| + ε", source="Wang et al. 2018, Figs. 3-6")
    epsilon: float = Field(0.1, gt=0, description="ε of κ = γ|w| + ε", source="Wang et al. 2018, Figs. 3-6")
    delta: float = Field(0.05, gt=0, lt=1, description="probability with which a bound may fail", source="our choice")
    prior_range: float = Field(2.0, gt=0, description="τ of a prior fixed beforehand", source="our choice, D12")
    curvature_images: int = Field(1_000, ge=10, unit="images", description="behind H and ρ", source="our choice")
    draws: int = Field(3, ge=2, description="perturbations u drawn for ρ and for perturbed losses", source="our choice")
    scales: tuple[float, ...] = Field(
        (0.0625, 0.125, 0.25, 0.5, 1, 2, 4, 8, 16), description="levels, σ/σ* of Lemma 6, capped by κ", source="ours"
    )


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Every version of every bound, and the trade-off along σ = s σ*, for all seeds; η = √(mn), as in (15)."""
    setting = runs[0]
    training, test = load_problem(runs, context)
    _, weights = load_weights(runs, context)
    problem = training.first_images(setting.curvature_images)
    sources = [context.generator(run, "probes") for run in runs]
    shape = (setting.draws, weights.shape[1])
    unit = torch.stack([2 * torch.rand(shape, generator=g).double() - 1 for g in sources], 1).to(weights.device)
    kappa = neighbourhood(weights, gamma=setting.gamma, epsilon=setting.epsilon)
    sides = {name: _side(problem, training, weights, unit * kappa, name) for name in LOSSES}
    case = Case(
        weights=weights,
        kappa=kappa,
        sides=sides,
        eta=(weights.shape[1] * training.targets.shape[1]) ** 0.5,
        examples=training.targets.shape[1],
        delta=setting.delta,
        prior_range=setting.prior_range,
    )
    _record_bounds(runs, context, case, test, unit)
    _record_levels(runs, context, case, problem, unit)


def _side(problem: Problem, training: Problem, weights: torch.Tensor, shifts: torch.Tensor, loss: LossName) -> Side:
    """Loss on all training images; diag H and ρ (from norms, median over the shifts u) on the first of them."""
    curvature = Curvature(problem, loss)
    diagonal = curvature.diagonal(weights)
    quotients = [rho_by_norm(diagonal, curvature.diagonal(weights + u), u) for u in shifts]
    return Side(training.mean_loss(weights, loss), diagonal.clamp(min=0), torch.stack(quotients).median(0).values)


def _record_bounds(
    runs: Sequence[Parameters], context: RunContext, case: Case, test: Problem, units: torch.Tensor
) -> None:
    def perturbed(bound: Bound) -> torch.Tensor:
        weights = [(case.weights + bound.draw(case.kappa, unit)).float() for unit in units]
        return torch.stack([test.mean_loss(each, bound.loss) for each in weights]).mean(0)

    for member, values in bound_rows(case, perturbed):
        context.record(runs[member], kind="bound", **values)


def _record_levels(
    runs: Sequence[Parameters], context: RunContext, case: Case, problem: Problem, units: torch.Tensor
) -> None:
    """M by (9) and (12), G, and the measured rise of the cross-entropy, along multiples of Lemma 6's σ*."""
    side = case.sides["cross_entropy"]
    best = uniform_levels(side.curvature, side.rho, case.kappa, eta=case.eta)
    start = problem.mean_loss(case.weights)
    tau = torch.full_like(best, case.prior_range)
    for scale in runs[0].scales:
        sigma = torch.minimum(scale * best, case.kappa)
        shifts = units * sigma
        rises = torch.stack([problem.mean_loss(case.weights + shift) - start for shift in shifts])
        cubes = shifts.norm(dim=-1).pow(3).mean(0)
        quadratic = uniform_sharpness(side.curvature, 0.0, case.kappa, sigma)
        divergence = uniform_divergence(tau, sigma)
        complexity = hoeffding_complexity(divergence, eta=case.eta, examples=case.examples, delta=case.delta)
        columns = {
            "sharpness_loosened": uniform_sharpness(side.curvature, side.rho, case.kappa, sigma),
            "quadratic": quadratic,
            "sharpness_bound": quadratic + side.rho / 6 * cubes,
            "complexity": torch.as_tensor(complexity),
            "rise": rises.mean(0),
            "rise_error": rises.std(0) / len(units) ** 0.5,
            "capped": (sigma == case.kappa).double().mean(1),
        }
        for member, run in enumerate(runs):
            values = {name: float(value[member]) for name, value in columns.items()}
            context.record(run, kind="level", scale=scale, **values)
