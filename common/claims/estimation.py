"""Estimate and interval of a claim from its cells."""

from dataclasses import dataclass, replace

import numpy as np

from common.claims import association, estimates
from common.claims.by_seed import by_seed, constant_profiles, dependent_given, quantities_of
from common.claims.cells import Cells
from common.claims.estimates import Correlation, DifferenceAtEqual, DifferenceOfCorrelations, Exact, Measured, Slope
from common.claims.intervals import (
    TAIL,
    Array,
    Bounds,
    clopper_pearson,
    fieller,
    normal_quantile,
    over_seeds,
    worst_over_settings,
)
from common.claims.schema import Accept, Claim
from common.errors import UserError

MINIMAL_SETTINGS = 6


@dataclass(frozen=True)
class Measurement:
    """Estimate with the ends of its interval (None where there is none), and what stands in the way of a verdict.

    `ties` seeds say nothing: in them neither of two arms comes first.
    """

    estimate: float | None = None
    interval: tuple[float, float] | None = None
    zero_spread: str | None = None
    undefined: str | None = None
    ties: int = 0


def measure(claim: Claim, cells: Cells) -> Measurement:
    """Estimate and interval; every needed value must be there.

    Raises:
        UserError: the metric of a proportion is not 0/1, or an axis with labels serves as a quantity.
    """
    estimate = claim.estimate
    if isinstance(estimate, Exact | Measured):
        return every_one(estimate, cells, claim.accept)
    if isinstance(estimate, Correlation | Slope | DifferenceOfCorrelations):
        return _association(estimate, cells)
    own = by_seed(claim, cells)
    match estimate:
        case estimates.Mean():
            return _mean(own, _size(cells, estimate.metric))
        case estimates.PairedDifference():
            return _mean(own, _size(cells, estimate.metric))
        case estimates.RatioOfMeans():
            return _ratio(*(cells.values(estimate.metric, arm).mean(-1) for arm in (0, 1)))
        case estimates.Earlier():
            return _earlier(own)
        case estimates.DifferenceAtEqual():
            return _at_equal(estimate, own)
        case estimates.Proportion():
            return _proportion(claim, cells.values(estimate.metric), own)
        case estimates.WorstCase():
            return _worst_case(cells.values(estimate.metric), own, claim.accept.below is not None)


def _size(cells: Cells, metric: str) -> float:
    """The largest number that goes in, by which rounding is told from spread."""
    return max(float(np.abs(cells.values(metric, arm)).max()) for arm in range(len(cells.arms)))


def every_one(estimate: Exact | Measured, cells: Cells, accept: Accept, kept: Array | None = None) -> Measurement:
    """The value that surely lies deepest on the wrong side, ± its reach; if none does, that which may.

    Of k measured values the reach is the normal quantile at `TAIL` / k: chance puts one of them on the wrong side with
    probability `TAIL` at most (Bonferroni).

    Args:
        kept: truth values, the shape of `cells.values`: those among which it is looked for; all by default.
    """
    values = cells.values(estimate.metric)
    chosen = np.ones(values.shape, dtype=bool) if kept is None else kept
    if isinstance(estimate, Exact):
        reach = np.full(values.shape, estimate.tolerance)
    else:
        reach = normal_quantile(TAIL / max(int(chosen.sum()), 1)) * np.abs(cells.values(estimate.error))
    values, reach = values[chosen], reach[chosen]
    low, high = accept.ends
    outside = np.maximum(low - values, values - high)
    worst = np.argmax(outside - reach if (outside > reach).any() else outside + reach)
    estimated, half = float(values[worst]), float(reach[worst])
    return Measurement(estimated, (estimated - half, estimated + half))


def _mean(own: Array, size: float) -> Measurement:
    if len(own) < 2:
        return Measurement(float(own[0]))
    return _measurement(over_seeds(own), zero_spread=_constant(own, size))


def _proportion(claim: Claim, values: Array, own: Array) -> Measurement:
    if not np.isin(values, (0, 1)).all():
        odd = values[~np.isin(values, (0, 1))][0]
        raise UserError(f"{claim.place}: a proportion needs a metric of zeros and ones, and one run has {odd:g}.")
    return _measurement(clopper_pearson(own.sum(), len(own)))


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


def _earlier(own: Array) -> Measurement:
    decided = int(np.isfinite(own).sum())
    if not decided:
        return Measurement(undefined=f"In none of {len(own)} seeds does one of the two come first")
    bounds = _measurement(clopper_pearson(np.asarray(np.nansum(own)), decided))
    return replace(bounds, ties=len(own) - decided)


def _at_equal(estimate: DifferenceAtEqual, own: Array) -> Measurement:
    if apart := int(np.isnan(own).sum()):
        return Measurement(undefined=f"In {apart} of {len(own)} seeds the arms never have the same {estimate.equal}")
    return _mean(own, float(np.abs(own).max()))


def _worst_case(values: Array, own: Array, largest: bool) -> Measurement:
    if len(values) < 2:
        return Measurement(float(own[0]))
    spread = _constant(own, float(np.abs(values).max()))
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
    quantities, given = quantities_of(estimate, cells)
    if given is not None and (without := dependent_given(estimate, given)).any():
        what = "No variation of" if len(estimate.given) == 1 else "No variation of each beside the others of"
        names = ", ".join(estimate.given)
        return Measurement(
            undefined=f"{what} {names}, given, over the settings in {without.sum()} of {len(without)} seeds"
        )
    for name, flat in constant_profiles(estimate, quantities, given).items():
        if flat.any():
            beyond = f" beyond what {', '.join(estimate.given)} gives" if estimate.given else ""
            return Measurement(
                undefined=f"No variation of {name} over the settings{beyond} in {flat.sum()} of {len(flat)} seeds"
            )
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


def _constant(own: Array, size: float) -> str | None:
    """A sentence if the seeds agree to rounding (1e-12 of the values' size)."""
    if np.ptp(own) > 1e-12 * size:
        return None
    return f"all {len(own)} seeds give {own[0]:.6g}"


def _measurement(bounds: Bounds, *, zero_spread: str | None = None) -> Measurement:
    low, high = float(bounds.low), float(bounds.high)
    if not (np.isfinite(low) and np.isfinite(high)):
        return Measurement(float(bounds.estimate), undefined="The settings vary along too few levels for an interval")
    return Measurement(float(bounds.estimate), (low, high), zero_spread)
