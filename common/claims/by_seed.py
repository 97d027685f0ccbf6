"""What each seed alone says of a claim: the parts of which the judged estimate is made."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from common.claims import association, estimates
from common.claims.cells import Cells
from common.claims.estimates import Correlation, DifferenceAtEqual, DifferenceOfCorrelations, Slope
from common.claims.intervals import Array
from common.claims.schema import Claim

Association = Correlation | Slope | DifferenceOfCorrelations


def by_seed(claim: Claim, cells: Cells) -> Array:
    """The estimate of each seed in the unit of the claim; nan where a seed decides nothing.

    Their mean is the estimate, except for a ratio of means, whose parts are the ratios within the seeds.

    Returns:
        [seeds]; of an exact number, which has no seeds, the values of all settings.

    Raises:
        UserError: an axis with labels serves as a quantity, or a curve is none.
    """
    estimate = claim.estimate
    match estimate:
        case estimates.EveryOne():
            return cells.values(estimate.metric).ravel()
        case estimates.Mean():
            return np.asarray(cells.values(estimate.metric).mean(-1))
        case estimates.PairedDifference():
            return np.asarray((cells.values(estimate.metric) - cells.values(estimate.metric, 1)).mean(-1))
        case estimates.RatioOfMeans():
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.asarray(cells.values(estimate.metric).mean(-1) / cells.values(estimate.metric, 1).mean(-1))
        case estimates.Earlier():
            return _first(cells.values(estimate.metric), cells.values(estimate.metric, 1))
        case estimates.DifferenceAtEqual():
            return _gaps(estimate, cells)
        case estimates.Proportion():
            return np.asarray(cells.values(estimate.metric).min(-1))
        case estimates.WorstCase():
            values = cells.values(estimate.metric)
            return np.asarray(values.max(-1) if claim.accept.below is not None else values.min(-1))
        case estimates.Correlation() | estimates.Slope() | estimates.DifferenceOfCorrelations():
            return _association(estimate, cells)


def reference(claim: Claim, cells: Cells) -> Array | None:
    """What the differences of `by_seed` are taken from, the other arm of each seed; None for what is no difference.

    Returns:
        [seeds]; nan where the arms have no common range.
    """
    estimate = claim.estimate
    match estimate:
        case estimates.PairedDifference():
            return np.asarray(cells.values(estimate.metric, 1).mean(-1))
        case estimates.DifferenceAtEqual():
            return _over_seeds(estimate, cells, _level_of_the_other)
        case _:
            return None


def _first(of: Array, than: Array) -> Array:
    """1 where one arm comes first in more of a seed's settings, 0 where the other does, nan where neither.

    A missing time is later than all others.
    """
    first, second = (np.where(np.isnan(times), np.inf, times) for times in (of, than))
    ahead = ((first < second).astype(float) - (second < first)).sum(-1)
    return np.where(ahead == 0, np.nan, (ahead > 0).astype(float))


def _gaps(estimate: DifferenceAtEqual, cells: Cells) -> Array:
    return _over_seeds(estimate, cells, difference_over_common_range)


def _over_seeds(estimate: DifferenceAtEqual, cells: Cells, compared: Callable[..., float]) -> Array:
    """The mean over settings of what `compared` makes of the two arms' curves, x, y, other_x, other_y, by seed."""
    gaps = []
    for seed in range(cells.seeds):
        parts = []
        for setting in range(len(cells.settings)):
            (x, y), (other_x, other_y) = (
                (cells.curve(estimate.equal, seed, setting, arm), cells.curve(estimate.metric, seed, setting, arm))
                for arm in (0, 1)
            )
            parts.append(compared(x, y, other_x, other_y))
        gaps.append(float(np.mean(parts)))
    return np.array(gaps)


def difference_over_common_range(x: Array, y: Array, other_x: Array, other_y: Array) -> float:
    """Mean of y − other_y over the range of x through which both curves come; nan if there is none.

    A curve that comes by a value several times has there the y of the last time: what it had settled on. It is straight
    between its numbers and may jump at each, so that the middles between them give the mean exactly.
    """
    low, high = max(x.min(), other_x.min()), min(x.max(), other_x.max())
    if not low <= high:
        return float("nan")
    ends = np.unique(np.concatenate([[low, high], *(s[(s >= low) & (s <= high)] for s in (x, other_x))]))
    points, widths = ((ends[1:] + ends[:-1]) / 2, np.diff(ends)) if high > low else (ends, np.ones(1))
    return float(np.average(_last_time(points, x, y) - _last_time(points, other_x, other_y), weights=widths))


def _level_of_the_other(x: Array, y: Array, other_x: Array, other_y: Array) -> float:
    """Mean of other_y over the same range."""
    return difference_over_common_range(other_x, other_y, x, np.zeros_like(y))


def _last_time(points: Array, x: Array, y: Array) -> Array:
    """y where the curve comes by each of `points` for the last time, linear between its numbers."""
    found = np.full(len(points), np.nan)
    for k in range(len(x) - 1):
        low, high = sorted((x[k], x[k + 1]))
        inside = (points >= low) & (points <= high)
        share = (points[inside] - x[k]) / (x[k + 1] - x[k]) if high > low else np.ones(inside.sum())
        found[inside] = y[k] + share * (y[k + 1] - y[k])
    return np.where(np.isnan(found), y[-1], found) if len(x) == 1 else found


def quantities_of(estimate: Association, cells: Cells) -> tuple[dict[str, Array], Array | None]:
    """What is related, each as seeds × settings, and what is given, as seeds × settings × quantities.

    Raises:
        UserError: an axis with labels serves as a quantity.
    """
    quantities = {name: cells.values(name) for name in estimate.variables()}
    given = np.stack([quantities[name] for name in estimate.given], axis=-1) if estimate.given else None
    return quantities, given


def constant_profiles(
    estimate: Association, quantities: dict[str, Array], given: Array | None
) -> dict[str, NDArray[np.bool_]]:
    """For each quantity the seeds in which it does not vary over the settings, so that nothing can go with it."""
    ranked = not isinstance(estimate, Slope) and estimate.method == "spearman"
    if given is not None and ranked:
        given = association.ranks(given, axis=-2)
    return {
        name: ~association.varies(association.ranks(values) if ranked else values, given)
        for name, values in quantities.items()
        if name not in estimate.given
    }


def _association(estimate: Association, cells: Cells) -> Array:
    quantities, given = quantities_of(estimate, cells)

    def related(x: str, y: str) -> Array:
        if isinstance(estimate, Slope):
            return association.slope_by_seed(quantities[x], quantities[y], given=given)
        return association.correlation_by_seed(quantities[x], quantities[y], method=estimate.method, given=given)

    with np.errstate(divide="ignore", invalid="ignore"):
        if isinstance(estimate, DifferenceOfCorrelations):
            found = related(estimate.of.x, estimate.of.y) - related(estimate.minus.x, estimate.minus.y)
        else:
            found = related(estimate.x, estimate.y)
    flat = np.any(list(constant_profiles(estimate, quantities, given).values()), axis=0)
    return np.where(flat, np.nan, found)
