"""Estimate and interval of a claim from its cells."""

from dataclasses import dataclass

import numpy as np

from common.claims import association, estimates
from common.claims.cells import Cells
from common.claims.estimates import Correlation, DifferenceAtEqual, DifferenceOfCorrelations, Slope
from common.claims.intervals import Array, Bounds, clopper_pearson, fieller, over_seeds, worst_over_settings
from common.claims.schema import Accept, Claim
from common.errors import UserError

MINIMAL_SETTINGS = 6


@dataclass(frozen=True)
class Measurement:
    """Estimate with the ends of its interval (None where there is none), and what stands in the way of a verdict."""

    estimate: float | None = None
    interval: tuple[float, float] | None = None
    zero_spread: str | None = None
    undefined: str | None = None


def measure(claim: Claim, cells: Cells) -> Measurement:
    """Estimate and interval; every needed value must be there.

    Raises:
        UserError: the metric of a proportion is not 0/1, or an axis with labels serves as a quantity.
    """
    estimate = claim.estimate
    match estimate:
        case estimates.Exact():
            return _exact(cells.values(estimate.metric), claim.accept, estimate.tolerance)
        case estimates.Mean():
            values = cells.values(estimate.metric)
            return _mean(values.mean(-1), np.abs(values).max())
        case estimates.PairedDifference():
            of, minus = cells.values(estimate.metric, 0), cells.values(estimate.metric, 1)
            return _mean((of - minus).mean(-1), max(np.abs(of).max(), np.abs(minus).max()))
        case estimates.RatioOfMeans():
            return _ratio(cells.values(estimate.metric, 0).mean(-1), cells.values(estimate.metric, 1).mean(-1))
        case estimates.Earlier():
            return _earlier(cells.values(estimate.metric, 0), cells.values(estimate.metric, 1))
        case estimates.DifferenceAtEqual():
            return _at_equal(estimate, cells)
        case estimates.Proportion():
            return _proportion(claim, cells.values(estimate.metric))
        case estimates.WorstCase():
            return _worst_case(cells.values(estimate.metric), claim.accept.below is not None)
        case estimates.Correlation() | estimates.Slope() | estimates.DifferenceOfCorrelations():
            return _association(estimate, cells)


def _exact(values: Array, accept: Accept, tolerance: float) -> Measurement:
    """The value that lies deepest on the wrong side, ± tolerance."""
    flat = values.ravel()
    low, high = accept.ends
    worst = flat[np.argmax(np.maximum(low - flat, flat - high))]
    return Measurement(float(worst), (float(worst - tolerance), float(worst + tolerance)))


def _mean(by_seed: Array, size: float) -> Measurement:
    if len(by_seed) < 2:
        return Measurement(float(by_seed[0]))
    return _measurement(over_seeds(by_seed), zero_spread=_constant(by_seed, size))


def _proportion(claim: Claim, values: Array) -> Measurement:
    if not np.isin(values, (0, 1)).all():
        odd = values[~np.isin(values, (0, 1))][0]
        raise UserError(f"{claim.place}: a proportion needs a metric of zeros and ones, and one run has {odd:g}.")
    return _measurement(clopper_pearson(values.min(-1).sum(), len(values)))


def _ratio(of: Array, to: Array) -> Measurement:
    if not to.mean():
        return Measurement(undefined="The mean below the fraction line is zero")
    ratio = float(of.mean() / to.mean())
    if len(of) < 2:
        return Measurement(ratio)
    bounds = fieller(of, to)
    if not np.isfinite(bounds.low):
        return Measurement(ratio, undefined="The mean below the fraction line may be zero, so the ratio has no bounds")
    return _measurement(bounds, zero_spread=_constant(of / to.mean(), 1.0) and _constant(to / to.mean(), 1.0))


def _earlier(of: Array, than: Array) -> Measurement:
    """A seed counts for the arm that comes first in more of its settings; a missing time is later than all others."""
    first, second = (np.where(np.isnan(times), np.inf, times) for times in (of, than))
    by_seed = ((first < second).astype(float) - (second < first)).sum(-1)
    wins, decided = int((by_seed > 0).sum()), int((by_seed != 0).sum())
    if not decided:
        return Measurement(undefined=f"In none of {len(by_seed)} seeds does one of the two come first")
    return _measurement(clopper_pearson(np.array(wins), decided))


def _at_equal(estimate: DifferenceAtEqual, cells: Cells) -> Measurement:
    by_seed = []
    for seed in range(cells.seeds):
        parts = []
        for setting in range(len(cells.settings)):
            (x, y), (other_x, other_y) = (
                (cells.curve(estimate.equal, seed, setting, arm), cells.curve(estimate.metric, seed, setting, arm))
                for arm in (0, 1)
            )
            parts.append(difference_over_common_range(x, y, other_x, other_y))
        by_seed.append(float(np.mean(parts)))
    values = np.array(by_seed)
    if apart := int(np.isnan(values).sum()):
        return Measurement(undefined=f"In {apart} of {len(values)} seeds the arms never have the same {estimate.equal}")
    return _mean(values, float(np.abs(values).max()))


def difference_over_common_range(x: Array, y: Array, other_x: Array, other_y: Array) -> float:
    """Mean of y − other_y over the range of x through which both curves come; nan if there is none.

    A curve that comes by a value several times has there the y of the last time: what it had settled on.
    """
    low, high = max(x.min(), other_x.min()), min(x.max(), other_x.max())
    if not low <= high:
        return float("nan")
    points = np.unique(np.concatenate([[low, high], *(s[(s >= low) & (s <= high)] for s in (x, other_x))]))
    gaps = _last_time(points, x, y) - _last_time(points, other_x, other_y)
    if len(points) == 1:
        return float(gaps[0])
    return float(np.trapezoid(gaps, points) / (high - low))


def _last_time(points: Array, x: Array, y: Array) -> Array:
    """y where the curve comes by each of `points` for the last time, linear between its numbers."""
    found = np.full(len(points), np.nan)
    for k in range(len(x) - 1):
        low, high = sorted((x[k], x[k + 1]))
        inside = (points >= low) & (points <= high)
        share = (points[inside] - x[k]) / (x[k + 1] - x[k]) if high > low else np.ones(inside.sum())
        found[inside] = y[k] + share * (y[k + 1] - y[k])
    return np.where(np.isnan(found), y[-1], found) if len(x) == 1 else found


def _worst_case(values: Array, largest: bool) -> Measurement:
    by_seed = values.max(-1) if largest else values.min(-1)
    if len(values) < 2:
        return Measurement(float(by_seed[0]))
    spread = _constant(by_seed, float(np.abs(values).max()))
    return _measurement(worst_over_settings(values, largest), zero_spread=spread)


def _association(estimate: Correlation | Slope | DifferenceOfCorrelations, cells: Cells) -> Measurement:
    seeds, settings = cells.seeds, len(cells.settings)
    levels = cells.levels()
    if settings < max(MINIMAL_SETTINGS, len(estimate.given) + 3):
        return Measurement()
    if levels is None:
        return Measurement(
            undefined=f"The settings do not fill the grid of {', '.join(cells.axes)}: fix one of these axes in where"
        )
    quantities = {name: cells.values(name) for name in estimate.variables()}
    given = np.stack([quantities[name] for name in estimate.given], axis=-1) if estimate.given else None
    if constant := _constant_profile(estimate, quantities, given):
        return Measurement(undefined=constant)
    random = [name for name in quantities if name not in cells.axes]
    same = seeds > 1 and all(np.ptp(quantities[name], axis=0).max() == 0 for name in random)
    spread = f"every seed gives the same {' and '.join(random)}" if same else None
    if isinstance(estimate, Slope):
        bounds = association.slope(quantities[estimate.x], quantities[estimate.y], levels, given=given)
    elif isinstance(estimate, Correlation):
        bounds = association.correlation(
            quantities[estimate.x], quantities[estimate.y], levels, method=estimate.method, given=given
        )
    else:
        of, minus = estimate.of, estimate.minus
        bounds = association.difference(
            (quantities[of.x], quantities[of.y]),
            (quantities[minus.x], quantities[minus.y]),
            levels,
            method=estimate.method,
            given=given,
        )
    if seeds < 2:
        return Measurement(float(bounds.estimate))
    return _measurement(bounds, zero_spread=spread)


def _constant_profile(
    estimate: Correlation | Slope | DifferenceOfCorrelations, quantities: dict[str, Array], given: Array | None
) -> str | None:
    """Which quantity does not vary over the settings of some seed, so that its correlation is not defined."""
    ranked = not isinstance(estimate, Slope) and estimate.method == "spearman"
    if given is not None and ranked:
        given = association.ranks(given, axis=-2)
    for name, values in quantities.items():
        if name in estimate.given:
            continue
        flat = ~association.varies(association.ranks(values) if ranked else values, given)
        if flat.any():
            beyond = f" beyond what {', '.join(estimate.given)} gives" if estimate.given else ""
            return f"No variation of {name} over the settings{beyond} in {flat.sum()} of {len(flat)} seeds"
    return None


def _constant(by_seed: Array, size: float) -> str | None:
    """A sentence if the seeds agree to rounding (1e-12 of the values' size)."""
    if np.ptp(by_seed) > 1e-12 * size:
        return None
    return f"all {len(by_seed)} seeds give {by_seed[0]:.6g}"


def _measurement(bounds: Bounds, *, zero_spread: str | None = None) -> Measurement:
    low, high = float(bounds.low), float(bounds.high)
    if not (np.isfinite(low) and np.isfinite(high)):
        return Measurement(float(bounds.estimate), undefined="The settings vary along too few levels for an interval")
    return Measurement(float(bounds.estimate), (low, high), zero_spread)
