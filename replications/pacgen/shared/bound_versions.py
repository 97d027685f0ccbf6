"""Lemmas 6 and 8 and Theorem 7 as printed and corrected, term by term.

What is corrected, and the deviation that says so: the prior must not be taken from the trained weights (D9), the loss
must lie in [0, 1] (D8), (21) needs its η and a truncation that truncates (D7), (17) doubles the divergence (D8), and
the constant of Theorem 7 is 1 + e (D13). `tightened` versions are valid too and spend less where the paper is loose.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch

from common.bounds.eta_grid import best_complexity, closed_complexity, grid_complexity
from common.bounds.perturbation import (
    gaussian_divergence,
    gaussian_levels,
    gaussian_sharpness,
    truncated_gaussian_divergence,
    uniform_divergence,
    uniform_levels,
    uniform_sharpness,
)

from .two_layer import LossName

TERMS = ("loss", "sharpness", "divergence", "rest")
HOEFFDING = 4  # η/(2n) of the paper over the η/(8n) that Hoeffding's lemma allows


@dataclass(frozen=True)
class Side:
    """What a bound asks of one loss at k sets of weights: mean loss [k], diag H [k, m] (at least 0), ρ [k]."""

    loss: torch.Tensor
    curvature: torch.Tensor
    rho: torch.Tensor


@dataclass(frozen=True)
class Case:
    """Weights and κ [k, m], both losses, and the constants; `prior_range` is a τ fixed before training."""

    weights: torch.Tensor
    kappa: torch.Tensor
    sides: dict[LossName, Side]
    eta: float
    examples: int
    delta: float
    prior_range: float

    @property
    def prior_holds(self) -> torch.Tensor:
        """Whether |w_i| + κ_i ≤ τ for all i, [k]."""
        return (self.weights.abs() + self.kappa <= self.prior_range).all(-1)


@dataclass(frozen=True)
class Bound:
    """One version of one bound: its terms [k] (see `TERMS`), and the perturbation [k, m] whose loss it bounds."""

    name: Literal["lemma6", "lemma8", "theorem7"]
    version: str
    loss: LossName
    sigma: torch.Tensor
    terms: dict[str, torch.Tensor]

    @property
    def value(self) -> torch.Tensor:
        """The right-hand side, [k]."""
        return torch.stack([self.terms[name] for name in TERMS]).sum(0)

    def draw(self, kappa: torch.Tensor, unit: torch.Tensor) -> torch.Tensor:
        """A perturbation of this bound's distribution from `unit`, uniform in ±1, both of the shape of σ."""
        if self.name != "lemma8":
            return unit * self.sigma
        reach = torch.erf(kappa / (math.sqrt(2) * self.sigma))
        return math.sqrt(2) * self.sigma * torch.erfinv(unit * reach)


def all_versions(case: Case) -> list[Bound]:
    """Every version of every bound."""
    return [*_lemma_6(case), *_lemma_8(case), *_theorem_7(case)]


def theorem_7_shortfall(case: Case) -> torch.Tensor:
    """Complexity of Theorem 7 as printed minus the minimum over all η; below 0 it cannot be a bound, [k]."""
    side = case.sides["cross_entropy"]
    sigma = _uniform_levels(case, side, _eta_of_15(case))
    divergence = uniform_divergence(case.weights.abs() + case.kappa, sigma)
    printed = closed_complexity(divergence, examples=case.examples, delta=case.delta, as_printed=True)
    return printed - best_complexity(divergence, examples=case.examples, delta=case.delta)


def bound_rows(case: Case, perturbed: Callable[[Bound], torch.Tensor]) -> Iterator[tuple[int, dict[str, Any]]]:
    """What is recorded of every bound at each of the k weights: their place, and the columns.

    Args:
        perturbed: mean loss on fresh data under a bound's perturbation, [k].
    """
    shortfall, holds = theorem_7_shortfall(case), case.prior_holds
    for bound in all_versions(case):
        columns = {"value": bound.value, "population": perturbed(bound), "shortfall": shortfall, **bound.terms}
        for place, prior_holds in enumerate(holds.tolist()):
            values = {name: float(column[place]) for name, column in columns.items()}
            yield place, {"bound": bound.name, "version": bound.version, "prior_holds": prior_holds, **values}


def _lemma_6(case: Case) -> Iterator[Bound]:
    own = case.weights.abs() + case.kappa
    fixed = torch.full_like(own, case.prior_range)
    half = case.weights.shape[-1] / 2
    for version, loss, tau in (
        ("printed", "cross_entropy", own),
        ("fixed_prior", "cross_entropy", fixed),
        ("corrected", "probability", fixed),
        ("tightened", "probability", fixed),
    ):
        side = case.sides[loss]  # type: ignore[index]
        sigma = _uniform_levels(case, side, case.eta)
        tight = version == "tightened"
        sharpness = torch.full_like(side.loss, half / case.eta)
        if tight:
            sharpness = uniform_sharpness(side.curvature, side.rho, case.kappa, sigma)
        terms = _terms(case, side.loss, sharpness, uniform_divergence(tau, sigma), tight)
        yield Bound("lemma6", version, loss, sigma, terms)  # type: ignore[arg-type]


def _lemma_8(case: Case) -> Iterator[Bound]:
    size = case.weights.shape[-1]
    squares = case.weights.square().sum(-1)
    fixed = torch.full_like(squares, case.prior_range**2 / 3)  # as wide as the uniform prior
    for version, loss, tau in (
        ("printed", "cross_entropy", squares),
        ("levels", "cross_entropy", squares),
        ("divergence", "cross_entropy", squares),
        ("corrected", "probability", fixed),
        ("tightened", "probability", fixed),
    ):
        side = case.sides[loss]  # type: ignore[index]
        sigma = gaussian_levels(
            side.curvature, side.rho, case.kappa, tau=tau, eta=case.eta, as_printed=version == "printed"
        )
        sharpness = gaussian_sharpness(side.curvature, side.rho, case.kappa, sigma)
        if version in ("printed", "levels"):  # (20): by (30) the terms in σ² add up to m/(2η) at most
            sharpness = torch.full_like(side.loss, size / (2 * case.eta))
            divergence = (size * tau.log() - 2 * sigma.log().sum(-1) + 1 - size) / 2
        elif version == "tightened":
            divergence = truncated_gaussian_divergence(case.weights, sigma, case.kappa, tau=tau)
        else:  # (17)
            divergence = 2 * (gaussian_divergence(case.weights, sigma, tau=tau) + 1)
        terms = _terms(case, side.loss, sharpness, divergence, version == "tightened")
        yield Bound("lemma8", version, loss, sigma, terms)  # type: ignore[arg-type]


def _theorem_7(case: Case) -> Iterator[Bound]:
    own = case.weights.abs() + case.kappa
    fixed = torch.full_like(own, case.prior_range)
    half = math.sqrt(case.weights.shape[-1] / case.examples) / 2
    constants = {"examples": case.examples, "delta": case.delta}
    for version, loss, tau in (
        ("printed", "cross_entropy", own),
        ("constant", "cross_entropy", own),
        ("corrected", "probability", fixed),
        ("tightened", "probability", fixed),
    ):
        side = case.sides[loss]  # type: ignore[index]
        sigma = _uniform_levels(case, side, _eta_of_15(case))
        divergence = uniform_divergence(tau, sigma)
        if version == "tightened":
            sharpness = uniform_sharpness(side.curvature, side.rho, case.kappa, sigma)
            complexity = grid_complexity(divergence, **constants)  # type: ignore[arg-type]
        else:
            sharpness = torch.full_like(side.loss, half)
            complexity = closed_complexity(divergence, **constants, as_printed=version == "printed")  # type: ignore[arg-type]
        terms = dict(zip(TERMS, (side.loss, sharpness, complexity, torch.zeros_like(complexity)), strict=True))
        yield Bound("theorem7", version, loss, sigma, terms)  # type: ignore[arg-type]


def _eta_of_15(case: Case) -> float:
    return math.sqrt(case.weights.shape[-1] * case.examples)


def _uniform_levels(case: Case, side: Side, eta: float) -> torch.Tensor:
    return uniform_levels(side.curvature, side.rho, case.kappa, eta=eta)


def _terms(
    case: Case, loss: torch.Tensor, sharpness: torch.Tensor, divergence: torch.Tensor, tight: bool
) -> dict[str, torch.Tensor]:
    """Loss, sharpness term, KL/η, and what is left of (10): log(1/δ)/η + η/(2n)."""
    factor = HOEFFDING if tight else 1
    rest = -math.log(case.delta) / case.eta + case.eta / (2 * case.examples * factor)
    values = (loss, sharpness, divergence / case.eta, torch.full_like(loss, rest))
    return dict(zip(TERMS, values, strict=True))
