"""Every bound of the talk at trained weights, and what goes into it."""

from copy import deepcopy
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from common.bounds.hessian_trace import (
    catoni_bound,
    gaussian_divergence,
    hessian_bound,
    mcallester_bound,
    norm_product,
)
from common.hessian import Problem

from .example_traces import GRADIENTS, example_traces
from .fine_tuning import FineTuning, Member
from .pointwise import with_linear_layers
from .systems import Examples


class Setting(Protocol):
    """The constants of the bounds."""

    @property
    def limit(self) -> float: ...
    @property
    def delta(self) -> float: ...
    @property
    def sigmas(self) -> tuple[float, ...]: ...
    @property
    def betas(self) -> tuple[float, ...]: ...
    @property
    def draws(self) -> int: ...


def bound_values(setting: Setting, member: Member, seed: int) -> dict[str, float]:
    """Losses are cut off at C (`setting.limit`); α is the largest Tr ∇²ℓ of a training example.

    Args:
        member: with the trained weights; its network is piecewise linear.
        seed: of the noise in the weights.
    """
    model, train, test = member.model, member.train, member.test
    losses = [_losses(model, data, setting.limit) for data in (train, test)]
    distance = _distance(member)
    examples = len(train[1])
    measured = (train, (test[0][:examples], test[1][:examples]))
    same = with_linear_layers(deepcopy(model))
    traces = [example_traces(Problem(same, nn.CrossEntropyLoss(), data)) for data in measured]
    norms = [(torch.linalg.matrix_norm(w, 2), w.norm()) for w in _matrices(model)]
    spectral, frobenius = (torch.stack(column).double() for column in zip(*norms, strict=True))
    mean, gap = float(losses[0].mean()), float(losses[1].mean() - losses[0].mean())

    def theorem(trace: Tensor) -> float:
        return float(hessian_bound(mean, trace=trace, distance=distance, limit=setting.limit, examples=examples))

    return {
        "cut_training_loss": mean,
        "cut_test_loss": float(losses[1].mean()),
        "gap": gap,
        "limit_of_loss": setting.limit,
        "distance": distance,
        "alpha": float(traces[0].max()),
        "alpha_of_test": float(traces[1].max()),
        "mean_trace": float(traces[0].mean()),
        "largest_loss": float(_losses(model, train, float("inf")).max()),
        "hessian_bound": theorem(traces[0].max()),
        "hessian_bound_of_test": theorem(traces[1].max()),
        "hessian_bound_of_mean": theorem(traces[0].mean()),
        "norm_product": float(norm_product(spectral, frobenius, examples=examples)),
        **_pac_bayes(setting, member, distance, seed),
    }


def measuring_work(setting: Setting, tuning: FineTuning) -> float:
    """Gradients of an example that `bound_values` of a member are worth, three evaluations being one."""
    train, test = (len(tuning.splits[name][0]) for name in ("train", "test"))
    evaluations = 2 * setting.draws * (len(setting.sigmas) * train + 2 * test)
    return evaluations / 3 + GRADIENTS * (train + min(train, test))


def _pac_bayes(setting: Setting, member: Member, distance: float, seed: int) -> dict[str, float]:
    """The least of each bound over the grids of σ and β, every point with its share of δ, and what it bounds."""
    model, examples = member.model, len(member.train[1])
    divergence = gaussian_divergence(distance, torch.tensor(setting.sigmas))
    noisy = torch.tensor([_noisy_loss(setting, model, member.train, sigma, seed) for sigma in setting.sigmas])
    points = len(setting.sigmas)
    mcallester = mcallester_bound(
        noisy, divergence, limit=setting.limit, examples=examples, delta=setting.delta / points
    )
    share = setting.delta / (points * len(setting.betas))
    betas = torch.tensor(setting.betas)[:, None]
    catoni = catoni_bound(noisy, divergence, limit=setting.limit, examples=examples, delta=share, beta=betas)
    found: dict[str, float] = {}
    for name, values in (("mcallester", mcallester), ("catoni", catoni.amin(0))):
        sigma = setting.sigmas[int(values.argmin())]
        found |= {
            name: float(values.min()),
            f"{name}_sigma": sigma,
            f"{name}_bounds": _noisy_loss(setting, model, member.test, sigma, seed),
        }
    return found


def _noisy_loss(setting: Setting, model: nn.Module, data: Examples, sigma: float, seed: int) -> float:
    """Mean loss under N(W, σ² I), by draws taken both ways."""
    source, moved, total = torch.Generator().manual_seed(seed), deepcopy(model), 0.0
    for _ in range(setting.draws):
        drawn = [torch.randn(p.shape, generator=source).to(p) for p in model.parameters()]
        for sign in (sigma, -sigma):
            with torch.no_grad():
                for own, at, noise in zip(moved.parameters(), model.parameters(), drawn, strict=True):
                    own.copy_(at + sign * noise)
            total += float(_losses(moved, data, setting.limit).mean())
    return total / (2 * setting.draws)


@torch.no_grad()
def _losses(model: nn.Module, data: Examples, limit: float) -> Tensor:
    """Cross-entropy of each example, cut off at `limit`."""
    return functional.cross_entropy(model(data[0]), data[1], reduction="none").clamp(max=limit)


@torch.no_grad()
def _distance(member: Member) -> float:
    """r = ‖W − W⁽⁰⁾‖ over all trained parameters."""
    pairs = [(parameter, member.start[name]) for name, parameter in member.model.named_parameters()]
    return float(torch.stack([(now - before).double().square().sum() for now, before in pairs]).sum().sqrt())


def _matrices(model: nn.Module) -> list[Tensor]:
    return [parameter.detach().flatten(1) for parameter in model.parameters() if parameter.ndim > 1]
