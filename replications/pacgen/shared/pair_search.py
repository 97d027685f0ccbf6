"""The search for mixtures on which the toy has the paper's situation: a sharp global minimum and a flat one near it."""

import math
from dataclasses import dataclass
from typing import Literal

import torch

from common.experiments import ExperimentParameters, Field

from .minima import Function, Minima, find_minima, in_chunks, square_grid
from .toy_network import Mixture, cross_entropy, draw_mixture

PAPER = "Wang et al. 2018"
OURS = "our choice, deviation D1"
FLATTER_BY = 2.0
HIGHEST_EXCESS = 0.15
REJECTIONS = ("single_minimum", "none_flatter", "flat_too_high", "flat_guesses", "sharp_not_global")
"""Why a mixture is not the paper's situation, in the order in which it is asked."""


class PairSearch(ExperimentParameters):
    """Which mixtures are drawn, and what makes two minima the paper's pair (deviation D1)."""

    examples: int = Field(100, ge=2, unit="examples", description="training sample", source=f"{PAPER}, section 2")
    spread: float = Field(2.0, gt=0, description="standard deviation of the three means", source=OURS)
    width: float = Field(0.7, gt=0, description="standard deviation of each Gaussian", source=OURS)
    label_by: Literal["coordinate", "density"] = Field(
        "coordinate", description="value whose median separates the classes", source=OURS
    )
    half_width: float = Field(12.0, gt=0, description="half width of the square of (w1, w2)", source=OURS)
    grid_points: int = Field(61, ge=20, description="points a side on which minima are sought", source=OURS)
    most_mixtures: int = Field(400, ge=1, description="mixtures drawn before a run gives up", source=OURS)
    flatter_by: float = Field(
        FLATTER_BY, gt=1, description="least λ₁ of the sharp over λ₁ of the flat minimum", source=OURS
    )
    highest_excess: float = Field(
        HIGHEST_EXCESS, gt=0, unit="nats", description="most by which the flat minimum's loss is higher", source=OURS
    )
    check_points: int = Field(
        241, ge=20, description="points a side where no loss may lie below the sharp minimum's", source=OURS
    )
    check_tolerance: float = Field(
        1e-3, gt=0, unit="nats", description="how far below counts in that check", source=OURS
    )


@dataclass(frozen=True)
class FoundPair:
    """A mixture that qualifies, its training sample [n, 2], its minima and which of them is the flat one."""

    mixture: Mixture
    points: torch.Tensor
    minima: Minima
    flat: int

    @property
    def pair(self) -> torch.Tensor:
        """The sharp (global) and the flat minimum, [2, 2]."""
        return self.minima.points[[0, self.flat]]


def search_pair(search: PairSearch, generator: torch.Generator) -> tuple[FoundPair | None, dict[str, int]]:
    """The first mixture that qualifies (None after `most_mixtures`), and how many were rejected for which reason."""
    rejected = dict.fromkeys(REJECTIONS, 0)
    for _ in range(search.most_mixtures):
        mixture, points = draw_mixture(
            generator, spread=search.spread, width=search.width, label_by=search.label_by, examples=search.examples
        )
        loss = cross_entropy(points, mixture.labels(points))
        minima = find_minima(loss, half_width=search.half_width, count=search.grid_points)
        flat = flat_partner(minima, flatter_by=search.flatter_by, highest_excess=search.highest_excess)
        if flat is None:
            rejected[_what_is_missing(minima, search.flatter_by, search.highest_excess)] += 1
        elif not _is_global(loss, minima, search):
            rejected["sharp_not_global"] += 1
        else:
            return FoundPair(mixture, points, minima, flat), rejected
    return None, rejected


def flat_partner(
    minima: Minima, *, flatter_by: float = FLATTER_BY, highest_excess: float = HIGHEST_EXCESS
) -> int | None:
    """Index of the lowest minimum that makes the paper's pair with the global one, which has index 0.

    It is flatter (λ₁ at most 1/`flatter_by` of the global minimum's), slightly higher (by at most `highest_excess`
    nats), and a classifier: its loss lies below log 2, that of guessing.
    """
    useful = _candidates(minima, flatter_by, highest_excess)[-1][0].nonzero().flatten()
    return int(useful[0]) if len(useful) else None


def _candidates(minima: Minima, flatter_by: float, highest_excess: float) -> list[tuple[torch.Tensor, str]]:
    """Which minima are left after each condition, [k], and the reason if none is."""
    other = torch.arange(len(minima.points)) > 0
    flatter = other & (minima.sharpness * flatter_by <= minima.sharpness[:1])
    near = flatter & (minima.losses - minima.losses[:1] <= highest_excess)
    useful = near & (minima.losses < math.log(2))
    return list(zip((other, flatter, near, useful), REJECTIONS, strict=False))


def _what_is_missing(minima: Minima, flatter_by: float, highest_excess: float) -> str:
    left = _candidates(minima, flatter_by, highest_excess)
    return next(reason for candidates, reason in left if not bool(candidates.any()))


def _is_global(loss: Function, minima: Minima, search: PairSearch) -> bool:
    """Whether no point of a fine grid over the square, border included, has a loss below that of minimum 0."""
    lowest = float(in_chunks(loss, square_grid(search.half_width, search.check_points)).min())
    return lowest >= float(minima.losses[0]) - search.check_tolerance
