"""Ψ of equation (24) in all the readings that section 7 leaves open, and what it is made of.

The Hessian's diagonal h is taken from squared mini-batch gradients (the paper's estimate: an average along training,
with and without Adam's bias correction; and at the final weights alone, with mini-batches of one size for all
settings) and from the Gauss–Newton diagonal (for this network the Hessian's own). ρ is 0, the maximum over
coordinates of |Δh_i|/|u_i| (the paper's), or ‖Δh‖/‖u‖.

The Hessian's diagonal and trace are the toolkit's. Squared gradients of mini-batches are no curvature but what the
paper takes for it, and its ρ is a quotient of diagonals where the toolkit's is one of spectral norms: both are here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from common.bounds.pacgen import neighbourhood, pacgen, rho_by_coordinate, rho_by_norm
from common.hessian import estimate_ggn_diagonal
from common.training import Ensemble

from .sweep_setting import SweepParameters, Task

SOURCES = ("", "_fixed_batch", "_hessian")
"""What h and Δh are taken from: mini-batches of the run's size, mini-batches of one size for all, the Hessian."""


@dataclass(frozen=True)
class _Rho:
    """Both readings of ρ over the draws of u, each [draws], and h at the weights themselves, [parameters]."""

    by_coordinate: torch.Tensor
    by_norm: torch.Tensor
    at_weights: torch.Tensor


def curvature_measures(
    weights: torch.Tensor,
    squares: Mapping[str, torch.Tensor],
    task: Task,
    setting: SweepParameters,
    *,
    ensemble: Ensemble,
) -> dict[str, float]:
    """All readings of Ψ of one network, with floor, shares, trace and the spread of ρ over its draws.

    Where ρ is drawn several times, Ψ takes the median.

    Args:
        weights: of the network, a row of `ensemble`'s, [parameters].
        squares: averages of squared gradients along training, [parameters], by the suffix of their columns; "" is
            the paper's and "_corrected" that with Adam's correction.
        ensemble: of `1 + setting.rho_draws` members, which become the network and its perturbations.
    """
    ensemble.weights[0] = weights
    images = task.standardise(task.images[: setting.curvature_images])
    estimate = estimate_ggn_diagonal(ensemble.members[0], images, probes=setting.probes, generator=task.probes)
    rho = _rho_draws(ensemble, task, setting)
    averages = {**squares, "_fixed_batch": rho["_fixed_batch"].at_weights, "_hessian": ensemble.row(estimate.diagonal)}
    columns: dict[str, torch.Tensor | float] = {
        "mean_squared_gradient": squares["_corrected"].double().mean(),
        "hessian_trace": estimate.trace.value,
        "hessian_trace_error": estimate.trace.standard_error,
    }
    for suffix, curvature in averages.items():
        own = rho.get(suffix, rho[""])
        readings: dict[str, torch.Tensor | float] = {
            "": _median(own.by_coordinate),
            "_norm_rho": _median(own.by_norm),
            "_no_rho": 0.0,
        }
        for name, value in readings.items():
            score = pacgen(weights, curvature, value, gamma=setting.gamma, epsilon=setting.epsilon)
            columns[f"psi{suffix}{name}"] = score.value
            columns[f"share{suffix}{name}"] = score.curvature_share
            columns["psi_floor"] = score.floor
    for suffix, own in rho.items():
        for name, values in (("", own.by_coordinate), ("_norm", own.by_norm)):
            columns[f"rho{suffix}{name}"] = _median(values)
            columns[f"rho{suffix}{name}_spread"] = (values.amax() / values.amin()).log10()
    return {name: float(value) for name, value in columns.items()}


def _median(values: torch.Tensor) -> torch.Tensor:
    """The middle value, or the mean of the two in the middle."""
    return values.quantile(0.5)


def _rho_draws(ensemble: Ensemble, task: Task, setting: SweepParameters) -> dict[str, _Rho]:
    """ρ of each source of h at the first member, for u uniform in the neighbourhood of Definition 4.

    h(w) and h(w + u) are taken on the same mini-batches, or with the same signs, so that only u tells them apart.
    """
    weights, perturbed = ensemble.weights[0], ensemble.weights[1:]
    kappa = neighbourhood(weights, gamma=setting.gamma, epsilon=setting.epsilon)
    signs = task.probes.get_state()
    draws = [2 * torch.rand(len(weights), generator=task.probes) - 1 for _ in range(setting.rho_draws)]
    perturbations = torch.stack(draws).to(weights) * kappa
    torch.add(weights, perturbations, out=perturbed)
    return {
        source: _Rho(
            rho_by_coordinate(h[:1], h[1:], perturbations).double(),
            rho_by_norm(h[:1], h[1:], perturbations).double(),
            h[0],
        )
        for source, h in _curvatures(ensemble, task, signs, setting).items()
    }


def _curvatures(
    ensemble: Ensemble, task: Task, signs: torch.Tensor, setting: SweepParameters
) -> dict[str, torch.Tensor]:
    """h of each of `SOURCES` at the weights of each member, [members, parameters]."""
    images = task.standardise(task.images[: setting.rho_images])
    hessian = torch.empty_like(ensemble.weights)
    for member, row in zip(ensemble.members, hessian, strict=True):
        generator = torch.Generator()
        generator.set_state(signs)
        row.copy_(ensemble.row(estimate_ggn_diagonal(member, images, probes=2, generator=generator).diagonal))
    sizes = setting.batch_size, setting.fixed_batch_size
    squares = _mean_squares(ensemble, task, sizes, setting.rho_batches)
    return dict(zip(SOURCES, (*squares, hessian), strict=True))


def _mean_squares(ensemble: Ensemble, task: Task, sizes: tuple[int, int], count: int) -> list[torch.Tensor]:
    """Mean over `count` mini-batches of the squared gradient, for each of two sizes, [members, parameters].

    Mini-batches are cut from the training images in order, from the start again where these are too few. So one of a
    multiple of the other size is made of several of those, and its gradient is their mean.
    """
    small, large = sorted(min(size, len(task.targets)) for size in sizes)
    found: dict[int, torch.Tensor] = {}
    for size, parts in ((small, large // small),) if large % small == 0 else ((small, 1), (large, 1)):
        squares, squares_of_means, sums = ensemble.weights.new_zeros(3, *ensemble.weights.shape)
        order = torch.arange(count * parts * size, device=task.targets.device).remainder(len(task.targets))
        for number, index in enumerate(torch.split(order, size)):
            batch = task.standardise(task.images[index]), task.targets[index]
            ensemble.losses_and_gradients([batch] * len(ensemble.members))
            if number < count:
                squares += ensemble.gradients.square()
            sums += ensemble.gradients
            if (number + 1) % parts == 0:
                squares_of_means += (sums / parts).square()
                sums.zero_()
        found |= {size * parts: squares_of_means / count, size: squares / count}
    return [found[min(size, len(task.targets))] for size in sizes]
