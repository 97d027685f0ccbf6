"""Estimate and interval of a claim from its cells."""

from dataclasses import dataclass

import numpy as np

from common.claims import association
from common.claims.cells import Cells
from common.claims.intervals import Array, Bounds, clopper_pearson, over_seeds, worst_over_settings
from common.claims.schema import (
    Accept,
    Claim,
    Correlation,
    DifferenceOfCorrelations,
    Exact,
    Mean,
    PairedDifference,
    Proportion,
    Slope,
    WorstCase,
)
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
        case Exact():
            return _exact(cells.values(estimate.metric), claim.accept, estimate.tolerance)
        case Mean():
            values = cells.values(estimate.metric)
            return _mean(values.mean(-1), np.abs(values).max())
        case PairedDifference():
            of, minus = cells.values(estimate.metric, 0), cells.values(estimate.metric, 1)
            return _mean((of - minus).mean(-1), max(np.abs(of).max(), np.abs(minus).max()))
        case Proportion():
            return _proportion(claim, cells.values(estimate.metric))
        case WorstCase():
            return _worst_case(cells.values(estimate.metric), claim.accept.below is not None)
        case Correlation() | Slope() | DifferenceOfCorrelations():
            return _association(estimate, cells)
    raise TypeError(f"no measure for {type(estimate).__name__}")


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
