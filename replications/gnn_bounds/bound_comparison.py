"""Figure 5: bounds of three papers, the measured gap and the Hessian measure of trained graph networks."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch

from common.experiments import Field, RunContext
from common.hessian import Hessian, Problem, quadratic_forms_by_parameter, trace

from .shared.bound_setting import Setting, setting_of
from .shared.training import Members, NetworkParameters, graphs_of, measured_losses


class Parameters(NetworkParameters):
    """Settings of a trained network and of its bounds."""

    model: Literal["gcn", "mpnn"] = Field("gcn", description="the network", source="Fig. 5")
    margin: float = Field(1.0, gt=0, description="γ in the bounds of Liao et al. and Garg et al.", source="D5")
    delta: float = Field(0.1, gt=0, lt=1, description="δ, probability that a bound fails", source="D5")
    trace_error: float = Field(0.1, gt=0, description="wanted relative error of Tr H", source="our choice")
    trace_budget: float = Field(
        20.0, gt=0, description="most gradients for Tr H", source="our choice", unit="gradients"
    )


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds and folds together, then evaluate every bound and measure."""
    first = runs[0]
    data = graphs_of(first, context.device)
    members = Members(runs, context, data)
    members.train(context)
    with torch.no_grad():
        logits = members.logits()
    for place, run in enumerate(runs):
        if not torch.isfinite(logits[place]).all():
            context.diverged(run, "the outputs are not finite")
            continue
        measured = measured_losses(logits[place], data.targets, members.training[place], members.targets[place])
        problem, shift = members.problem(place)
        context.record(
            run,
            depth_of_diffusion=run.depth - 1,
            degree=data.degree,
            diffusion_norm=data.diffusion_norm,
            feature_matrix_norm=data.feature_matrix_norm,
            **measured,
            **_bounds(_setting(members, place)),
            **_hessian_measures(problem, shift, measured["largest_loss"], run, context.stream_seed(run, "probes")),
        )
        context.save(run, "network", _kept(members, place))
        context.progress(place + 1, len(runs))


def _setting(members: Members, place: int) -> Setting:
    """What the bounds of one member are computed from."""
    run, data = members.run, members.data
    own = [weight[place : place + 1] for weight in members.weights]
    return setting_of(
        run,
        own,
        members.neurons,
        degree=data.degree,
        diffusion_norm=data.diffusion_norm,
        feature_matrix_norm=data.feature_matrix_norm,
        examples=int(members.training[place].sum()),
    )


def _kept(members: Members, place: int) -> dict[str, torch.Tensor]:
    """Weights at the end and at the start, and numbers of the graphs, for later measures."""
    setting = _setting(members, place)
    numbers = [setting.degree, setting.diffusion_norm, setting.feature_matrix_norm, setting.examples]
    tensors = {f"weight{number}": weight[place] for number, weight in enumerate(members.weights)}
    tensors |= {f"initial{number}": weight[place] for number, weight in enumerate(members.initial)}
    return tensors | {"graphs": torch.tensor(numbers, dtype=torch.float64), "neurons": setting.neurons}


def _bounds(setting: Setting) -> dict[str, float]:
    """log₁₀ of every bound with d the largest degree, and of Liao's and Garg's with d + 1."""
    plus_one = replace(setting, degree=setting.degree + 1)
    values = {f"log10_{name}": value for name, value in setting.logarithms().items()}
    values |= {f"log10_{name}_plus_one": plus_one.logarithms()[name] for name in ("liao", "garg")}
    values["log10_garg_saturated"] = setting.garg(activation_limit=1.0).log10()
    if setting.model == "mpnn":
        values["log10_ours_fewer_diffusions"] = setting.ours(setting.depth - 2).log10()
    product = setting.layer_spectral.log10().sum(1)
    return {name: float(value) for name, value in values.items()} | {"log10_spectral_product": float(product)}


def _hessian_measures(
    problem: Problem, shift: torch.Tensor, largest_loss: float, run: Parameters, seed: int
) -> dict[str, float | bool]:
    """Σ_i sqrt(C v_iᵀ H_i v_i / N) over the weights, v = W − W⁽⁰⁾, and sqrt(C Tr H ‖v‖² / N) after Theorem 1.

    H is that of the training loss, C the largest loss of a training graph; a negative form counts as zero, an estimated
    trace as at least its standard error.
    """
    forms = quadratic_forms_by_parameter(Hessian(problem), shift).values()
    measure = sum(math.sqrt(largest_loss * max(form, 0.0) / problem.count) for form in forms)
    estimate = trace(problem, relative_error=run.trace_error, budget=run.trace_budget, seed=seed % 2**31)
    squared = float(shift.double().square().sum())
    return {
        "hessian_measure": measure,
        "hessian_trace": estimate.value,
        "hessian_trace_error": estimate.error,
        "trace_measure": math.sqrt(largest_loss * max(estimate.value, estimate.error) * squared / problem.count),
        "examples": problem.count,
        "distance": math.sqrt(squared),
    }
