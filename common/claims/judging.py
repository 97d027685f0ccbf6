"""From a claim and the runs of one scale to its verdict."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from common.claims.cells import Cells, axes_of, matching, metrics_of, numbers, outcomes_text, select
from common.claims.checking import check
from common.claims.estimates import SEED, DifferenceAtEqual, Earlier, Exact, Measured, Proportion
from common.claims.estimation import MINIMAL_SETTINGS, Measurement, every_one, measure
from common.claims.intervals import clopper_pearson
from common.claims.schema import Amendment, Claim, FormerRule
from common.claims.size import size_of
from common.claims.verdicts import (
    CONTRADICTED,
    DECIDED,
    INCONCLUSIVE,
    NOT_DECIDABLE,
    NOT_RUN,
    REPRODUCED,
    Verdict,
    VerdictName,
)
from common.claims.wording import accept_text, former_text, interval_text, number, pairs_text, rule_text
from common.errors import UserError
from common.experiments.outcomes import COMPUTED
from common.experiments.scales import SCALES

MINIMAL_SEEDS = 5


def judge(claim: Claim, table: pd.DataFrame, *, paper: str, scale: str, axes: Sequence[str] | None = None) -> Verdict:
    """Hold a claim against the runs of one scale.

    Args:
        table: one row per expected run of the claim's experiment: `run`, the axes, `outcome`, `reason`,
            `regime_reached` and the metrics (NaN where a run has no value). Without the column `regime_reached` no
            metrics have been computed.
        axes: the experiment's axes; by default those in the run names.

    Raises:
        UserError: the claim names no such metric or axis, leaves an axis out, or takes the share of a metric that is
            not 0/1.
    """
    if scale not in SCALES:
        raise UserError(f"unknown scale {scale}; there are {', '.join(SCALES)}.")
    axes = axes_of(table) if axes is None else axes
    if len(table):
        check(claim, metrics_of(table, axes) if "regime_reached" in table.columns else None, axes)
    try:
        used, seen = unseen(claim, table, axes, scale)
        found = _decide(claim, used, axes, scale)
        turns = _turns_without(claim, used, axes, scale, found.verdict)
    except UserError as error:
        text = str(error)
        raise UserError(text if text.startswith(claim.place) else f"{claim.place}: {text.rstrip('.')}.") from error
    return Verdict(
        paper=paper,
        id=claim.id,
        statement=claim.statement,
        polarity=claim.polarity,
        nature=claim.nature,
        experiment=claim.experiment,
        scale=scale,
        source=claim.source.model_dump(mode="json"),
        rule=rule_text(claim),
        estimate=found.measurement.estimate,
        interval=found.measurement.interval,
        n=found.n,
        accept=claim.accept.model_dump(mode="json", exclude_none=True),
        verdict=found.verdict,
        reason=found.reason,
        unit=claim.unit,
        decidable_from=claim.decidable_from,
        smallest_effect=claim.smallest_effect,
        amended=[amendment.model_dump(mode="json", exclude_unset=True) for amendment in claim.amended],
        former=[
            _before(amendment, then, table, axes, scale)
            for amendment, then in claim.former()
            if amendment.former and amendment.former.bears_on_runs
        ],
        seen=sorted(seen),
        turns_without=turns,
        size=size_of(claim.size, found.measurement, found.n) if claim.size and found.verdict in DECIDED else None,
    )


@dataclass(frozen=True)
class _Decision:
    """A verdict with its reason, and what was measured from how many seeds."""

    verdict: VerdictName
    reason: str
    measurement: Measurement = field(default_factory=Measurement)
    n: int | None = None


def unseen(claim: Claim, table: pd.DataFrame, axes: Sequence[str], scale: str) -> tuple[pd.DataFrame, set[int]]:
    """The runs that judge a claim, and those of their seeds that had been looked at before its rule.

    Where five seeds are complete that nobody had seen, they alone decide.
    """
    seen = claim.seen(scale)
    if not seen or not len(table) or not claim.estimate.stochastic:
        return table, {int(seed) for seed in table[SEED]} & seen if SEED in table.columns else set()
    fresh = table[~table[SEED].isin(seen)]
    if len(fresh) and select(claim, fresh, axes).seeds >= MINIMAL_SEEDS:
        return fresh, set()
    return table, {int(seed) for seed in table[SEED]} & seen


def _turns_without(
    claim: Claim, table: pd.DataFrame, axes: Sequence[str], scale: str, verdict: VerdictName
) -> list[int]:
    """The seeds without any one of which the verdict would be another."""
    if verdict not in (REPRODUCED, CONTRADICTED) or not claim.estimate.stochastic:
        return []
    cells = select(claim, table, axes)
    return [
        int(seed)
        for seed in sorted(cells.rows[SEED].unique())
        if _decide_of(claim, cells.without(seed), scale, fewest=MINIMAL_SEEDS - 1).verdict != verdict
    ]


def _before(amendment: Amendment, claim: Claim, table: pd.DataFrame, axes: Sequence[str], scale: str) -> dict[str, Any]:
    """What an amendment replaced, and what that says of the same runs if it decides."""
    former = amendment.former or FormerRule()
    entry: dict[str, Any] = {"date": amendment.date.isoformat(), "rule": former_text(former, claim), "verdict": None}
    if not former.decides:
        other_settings = "It asked for other settings; what decides is as it was."
        other_numbers = "Its numbers were made otherwise, and these are made as now."
        return {**entry, "reason": other_settings if former.settings else other_numbers}
    try:
        if len(table):
            check(claim, metrics_of(table, axes) if "regime_reached" in table.columns else None, axes)
        found = _decide(claim, table, axes, scale)
    except UserError:
        return {**entry, "reason": "It reads what is no longer measured."}
    measured = {"estimate": found.measurement.estimate, "interval": found.measurement.interval}
    return {**entry, **measured, "verdict": found.verdict, "reason": found.reason}


def _decide(claim: Claim, table: pd.DataFrame, axes: Sequence[str], scale: str) -> _Decision:
    if not len(table):
        return _Decision(NOT_RUN, f"{claim.experiment} has no run at scale {scale}.")
    cells = select(claim, table, axes)
    if absent := _absent(claim, cells, table, scale):
        return _Decision(NOT_RUN, absent)
    return _decide_of(claim, cells, scale)


def _decide_of(claim: Claim, cells: Cells, scale: str, *, fewest: int = MINIMAL_SEEDS) -> _Decision:
    cells, outside = cells.in_regime(claim.may_miss_regime)
    stochastic = claim.estimate.stochastic
    incomplete = _incomplete(cells, stochastic)
    valued = cells.seeds > 0 and not _without_value(claim, cells, "all")
    measurement = measure(claim, cells) if valued else Measurement()
    n = cells.seeds - measurement.ties if stochastic else None
    before = _too_small(claim, scale) or _too_few(claim, cells, incomplete, fewest)
    missed = _regime(cells)
    if missed and not before and valued and (counterexample := _counterexample(claim, cells)):
        told = number(counterexample.estimate or 0.0)
        reason = f"{told}, of a run in its regime, lies outside the accepted region ({accept_text(claim.accept)})"
        return _Decision(CONTRADICTED, f"{reason}; {missed[0].lower()}{missed[1:]}.", counterexample)
    obstacle = (
        before
        or missed
        or (None if valued else _without_value(claim, cells, "diverged") or _without_value(claim, cells, "completed"))
        or measurement.undefined
        or _too_many_ties(measurement, cells.seeds, fewest)
        or _zero_spread(measurement)
    )
    if obstacle or measurement.interval is None:
        return _Decision(NOT_DECIDABLE, f"{obstacle or 'There is no interval'}.", measurement, n)
    verdict, reason = _compare(claim, measurement.interval)
    if verdict == INCONCLUSIVE and (impossible := beyond_so_few(claim, n or 0)):
        return _Decision(NOT_DECIDABLE, f"{impossible}.", measurement, n)
    missing = cells.seeds_expected - cells.seeds
    left_out = f"; left out are {missing} of {cells.seeds_expected} seeds ({incomplete})" if incomplete else ""
    tied = f"; in {measurement.ties} of {cells.seeds} seeds neither comes first" if measurement.ties else ""
    asked = cells.seeds_expected + outside
    allowed = f"; {outside} of {asked} seeds missed their regime, as {claim.may_miss_regime} may" if outside else ""
    return _Decision(verdict, f"{reason}{tied}{left_out}{allowed}.", measurement, n)


def _absent(claim: Claim, cells: Cells, table: pd.DataFrame, scale: str) -> str | None:
    for selection in claim.estimate.selections():
        if not len(matching(table, selection)):
            return f"{claim.experiment} has no run with {pairs_text(selection)} at scale {scale}."
    if not cells.rows["outcome"].isin(COMPUTED).any():
        return f"None of the {len(cells.rows)} runs needed is complete: {outcomes_text(cells.rows)}."
    return None


def _incomplete(cells: Cells, stochastic: bool) -> str | None:
    if cells.seeds == cells.seeds_expected:
        return None
    return outcomes_text(cells.rows) or "no run in some settings"


def _too_small(claim: Claim, scale: str) -> str | None:
    if SCALES.index(scale) < SCALES.index(claim.decidable_from):
        return f"Decidable from scale {claim.decidable_from}, these runs are of scale {scale}"
    return None


def _too_few(claim: Claim, cells: Cells, incomplete: str | None, fewest: int) -> str | None:
    if not claim.estimate.stochastic:
        return f"Some of the runs needed have no result ({incomplete})" if incomplete else None
    if cells.seeds < fewest:
        planned, missing = cells.seeds_expected, cells.seeds_expected - cells.seeds
        left_out = f"; of {planned} planned {missing} are left out ({incomplete})" if incomplete else ""
        return f"n = {cells.seeds} seeds, and {fewest} are needed{left_out}"
    if claim.estimate.relates_settings:
        given = getattr(claim.estimate, "given", ())
        needed = max(MINIMAL_SETTINGS, len(given) + 3)
        if len(cells.settings) < needed:
            return f"{len(cells.settings)} settings, and {needed} are needed"
    return None


def beyond_so_few(claim: Claim, seeds: int) -> str | None:
    """The sentence if so few seeds could not reproduce a share of them, however they came out."""
    if not isinstance(claim.estimate, Proportion | Earlier):
        return None
    bounds = clopper_pearson(np.arange(seeds + 1.0), seeds)
    intervals = list(zip(bounds.low.tolist(), bounds.high.tolist(), strict=True))
    if any(claim.accept.contains(*interval) for interval in intervals):
        return None
    region = accept_text(claim.accept)
    if claim.accept.within is not None:
        return f"n = {seeds} seeds, of which no number would give an interval {region}"
    hits = seeds if claim.accept.below is None else 0
    best_case = f"even {hits} of {seeds} would give {interval_text(*intervals[hits])}"
    return f"n = {seeds} seeds, and {best_case}, which does not lie {region}"


def _regime(cells: Cells) -> str | None:
    """A run that diverged is judged by its metric; a completed one that says nothing has not reached its regime."""
    used = cells.used
    if "regime_reached" not in used.columns:
        return None if (used["outcome"] == "diverged").all() else "The metrics of these runs could not be computed"
    reached = used["regime_reached"].where(used["regime_reached"].notna(), used["outcome"] == "diverged")
    of_truth = reached.dtype == bool
    if not of_truth and (odd := [v for v in reached if isinstance(v, str) or v not in (True, False)]):
        return f"regime_reached holds {odd[0]!r}, which is neither true nor false"
    missed = int((~reached.astype(bool)).sum())
    return f"Regime not reached in {missed} of {len(used)} runs" if missed else None


def _counterexample(claim: Claim, cells: Cells) -> Measurement | None:
    """The value, of runs that reached their regime, by which a claim on every run falls, whatever others did."""
    if not isinstance(claim.estimate, Exact | Measured) or "regime_reached" not in cells.rows.columns:
        return None
    reached = cells.rows["regime_reached"].loc[cells.arms[0].ravel()].eq(True).to_numpy().reshape(cells.arms[0].shape)
    if not reached.any():
        return None
    found = every_one(claim.estimate, cells, claim.accept, reached)
    return found if found.interval and claim.accept.excludes(*found.interval) else None


def _without_value(claim: Claim, cells: Cells, outcome: str) -> str | None:
    """The sentence if needed values are missing or infinite in runs of this outcome ("all": of either)."""
    used = cells.used
    total = len(used)
    if outcome != "all":
        used = used[used["outcome"] == outcome]
    if isinstance(claim.estimate, DifferenceAtEqual):
        return _without_curve(claim.estimate, used, total, outcome)
    if not claim.estimate.of_numbers:
        return None
    for name in claim.estimate.variables():
        if name in cells.axes:
            continue
        values = numbers(used[name]) if name in used.columns else np.full(len(used), np.nan)
        if bad := int((~np.isfinite(values)).sum()):
            if outcome == "diverged":
                return f"{bad} of {total} runs diverged, and {name} gives them no value"
            return f"No finite value of {name} in {bad} of {total} runs"
    return None


def _without_curve(estimate: DifferenceAtEqual, used: pd.DataFrame, total: int, outcome: str) -> str | None:
    for name in (estimate.equal, estimate.metric):
        if name not in used.columns:
            continue
        if bad := sum(not _may_be_a_curve(value) for value in used[name]):
            if outcome == "diverged":
                return f"{bad} of {total} runs diverged, and {name} gives them no curve"
            return f"No curve of finite numbers of {name} in {bad} of {total} runs"
    return None


def _may_be_a_curve(value: Any) -> bool:
    """False where there is none, or one that is not finite; a number in its place is an error of the metrics."""
    if isinstance(value, list | tuple | np.ndarray):
        return len(value) > 0 and bool(np.isfinite(np.asarray(value, dtype=float)).all())
    return not pd.isna(value)


def _too_many_ties(measurement: Measurement, seeds: int, fewest: int) -> str | None:
    decided = seeds - measurement.ties
    if not measurement.ties or decided >= fewest:
        return None
    return f"In {measurement.ties} of {seeds} seeds neither comes first; {decided} decide, and {fewest} are needed"


def _zero_spread(measurement: Measurement) -> str | None:
    if measurement.zero_spread is None:
        return None
    return f"Zero spread: {measurement.zero_spread}, which gives no interval; a deterministic number is an exact claim"


def _compare(claim: Claim, interval: tuple[float, float]) -> tuple[VerdictName, str]:
    low, high = interval
    shown = interval_text(low, high) if high > low else number(low)
    ours = f"{'The interval' if claim.estimate.stochastic else 'The value'} {shown}"
    region = accept_text(claim.accept)
    boundary, effect = claim.accept.boundary, claim.smallest_effect
    small = None
    if effect is not None and boundary is not None:
        farthest = boundary - low if claim.accept.below is not None else high - boundary
        small = number(effect) if farthest <= effect else None
    if claim.accept.contains(low, high):
        note = f", though the effect is smaller than {small}" if small else ""
        return REPRODUCED, f"{ours} lies {region}{note}"
    if claim.accept.excludes(low, high):
        return CONTRADICTED, f"{ours} lies outside the accepted region ({region})"
    if small:
        return CONTRADICTED, f"{ours} excludes an effect {region} as large as {small}"
    return INCONCLUSIVE, f"{ours} lies partly inside and partly outside the accepted region ({region})"
