"""Does a claim speak of metrics, axes and experiments that exist, and of every axis?"""

import difflib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from common.claims.estimates import SEED, AxisValue, Correlation, DifferenceOfCorrelations, Slope
from common.claims.schema import Claim
from common.errors import UserError

Axes = Mapping[str, Collection[Any]] | Collection[str]
"""Axis names, or axis names with all values that any scale gives them."""


def check(
    claim: Claim, metric_names: Collection[str] | None, axes: Axes, *, experiments: Collection[str] | None = None
) -> None:
    """Hold a claim against its experiment.

    Args:
        metric_names: columns that `metrics` returns; None where they are not known yet.
        axes: the axes of the experiment's grid; with their values, those that the claim selects are checked too.
        experiments: names of the paper's experiments.

    Raises:
        UserError: no such experiment, metric, axis or value; or an axis that is neither named nor in `over`.
    """
    if experiments is not None and claim.experiment not in experiments:
        raise UserError(
            f"{claim.place}: no experiment is called {claim.experiment}{_hint(claim.experiment, experiments)}."
        )
    _check_axes(claim, list(axes))
    if isinstance(axes, Mapping):
        _check_values(claim, axes)
    if metric_names is not None:
        _check_variables(claim, metric_names, axes)


def setting_axes(claim: Claim, axes: Iterable[str]) -> tuple[str, ...]:
    """The axes whose combinations are the settings: `over`, and axes that serve as x, y or given."""
    estimate = claim.estimate
    used = [name for name in estimate.variables() if estimate.relates_settings and name in set(axes)]
    return tuple(dict.fromkeys((*estimate.over, *used)))


def same_value(left: AxisValue, right: Any) -> bool:
    """Whether an axis value of a claim is that of a run: equal as numbers, or as text."""
    if str(left) == str(right):
        return True
    try:
        return not isinstance(left, str) and float(left) == float(right)
    except (TypeError, ValueError):
        return False


def _check_axes(claim: Claim, axes: list[str]) -> None:
    estimate = claim.estimate
    settings = setting_axes(claim, axes)
    for axis in (*estimate.over, *(name for selection in estimate.selections() for name in selection)):
        if axis not in axes:
            raise UserError(f"{claim.place}: {claim.experiment} has no axis {axis}{_hint(axis, axes)}.")
    if estimate.stochastic and SEED not in axes:
        raise UserError(
            f"{claim.place}: {claim.experiment} has no axis {SEED} to count n by; add one to its grid, or make the "
            "estimate exact."
        )
    for selection in estimate.selections():
        for axis in settings:
            if axis in selection:
                raise UserError(f"{claim.place}: axis {axis} is fixed to {selection[axis]} and cannot vary as well.")
        for axis in axes:
            if axis not in selection and axis not in settings and not (axis == SEED and estimate.stochastic):
                raise UserError(
                    f"{claim.place}: axis {axis} of {claim.experiment} is neither named nor in over; fix it in where "
                    "or list it in over."
                )
    if estimate.relates_settings and not settings:
        raise UserError(f"{claim.place}: list in over the axes that make the settings.")


def _check_values(claim: Claim, axes: Mapping[str, Collection[Any]]) -> None:
    for selection in claim.estimate.selections():
        for axis, value in selection.items():
            if not any(same_value(value, known) for known in axes[axis]):
                raise UserError(f"{claim.place}: axis {axis} has no value {value}{_hint(value, axes[axis])}.")


def _check_variables(claim: Claim, metric_names: Collection[str], axes: Axes) -> None:
    estimate = claim.estimate
    known = {*metric_names, *axes} if estimate.relates_settings else set(metric_names)
    for name in estimate.variables():
        if name not in known:
            raise UserError(f"{claim.place}: {claim.experiment} has no metric {name}{_hint(name, metric_names)}.")
    if isinstance(estimate, Correlation | Slope | DifferenceOfCorrelations) and SEED in estimate.variables():
        raise UserError(f"{claim.place}: seed is no quantity; x, y and given are metrics or axes that have a size.")


def _hint(name: Any, known: Collection[Any]) -> str:
    numbers = sorted({item for item in known if isinstance(item, int | float)})
    names = [str(item) for item in (*numbers, *sorted({str(item) for item in known if item not in numbers}))]
    close = difflib.get_close_matches(str(name), names, n=1)
    if numbers and isinstance(name, int | float):
        close = [str(min(numbers, key=lambda number: abs(number - name)))]
    listed = "known: " + (", ".join(names) or "none")
    return f" (did you mean {close[0]}? {listed})" if close else f" ({listed})"
