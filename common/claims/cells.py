"""From a table of runs to the cells that a claim reads: seeds × settings, for each arm."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from common.claims.checking import same_value, setting_axes
from common.claims.estimates import SEED, Selection
from common.claims.intervals import Array
from common.claims.permutation import Levels
from common.claims.schema import Claim
from common.errors import UserError
from common.experiments.outcomes import COMPUTED

DIVERGED = "diverged"
"""A metric that every experiment has: 1 for a run that diverged, 0 for one that did not."""

BOOKKEEPING = ("run", "outcome", "reason", "regime_reached")


@dataclass(frozen=True)
class Cells:
    """What a claim reads from the runs of one scale.

    `rows` are the needed runs, one row each; `arms` hold, for each arm, the row labels as seeds × settings (seeds are
    those whose every needed run has a result). `seeds_expected` counts all seeds of these runs.
    """

    rows: pd.DataFrame
    arms: tuple[Any, ...]
    settings: tuple[tuple[Any, ...], ...]
    axes: tuple[str, ...]
    seeds_expected: int

    @property
    def seeds(self) -> int:
        """How many seeds are complete."""
        return len(self.arms[0])

    @cached_property
    def used(self) -> pd.DataFrame:
        """The rows of complete seeds."""
        labels = np.concatenate([np.asarray(arm).ravel() for arm in self.arms])
        return self.rows.loc[list(dict.fromkeys(labels))]

    def in_regime(self, may_miss: int) -> tuple["Cells", int]:
        """Without the seeds that have a run outside its regime, and their number; all seeds and 0 if they are too many.

        A run that diverged lies outside only if its metrics say so; where they say nothing of it, its metric judges it.

        Args:
            may_miss: the most seeds that may be left out.
        """
        if not may_miss or "regime_reached" not in self.rows.columns:
            return self, 0
        said = self.rows["regime_reached"]
        outside = said.eq(False) | (said.isna() & self.rows["outcome"].ne("diverged"))
        kept = np.all([~outside.loc[arm.ravel()].to_numpy().reshape(arm.shape).any(1) for arm in self.arms], axis=0)
        missed = int((~kept).sum())
        if missed > may_miss:
            return self, 0
        arms = tuple(arm[kept] for arm in self.arms)
        return replace(self, arms=arms, seeds_expected=self.seeds_expected - missed), missed

    def without(self, seed: int) -> "Cells":
        """The cells of the other seeds."""
        seeds = self.rows[SEED]
        arms = tuple(arm[seeds.loc[arm[:, 0]].to_numpy() != seed] for arm in self.arms)
        return replace(self, rows=self.rows[seeds != seed], arms=arms, seeds_expected=self.seeds_expected - 1)

    def values(self, name: str, arm: int = 0) -> Array:
        """A metric's values (NaN where a run has none), or a setting axis's, as seeds × settings."""
        shape = (self.seeds, len(self.settings))
        if name in self.axes:
            return np.broadcast_to(self._axis_values(name), shape)
        if name not in self.rows.columns:
            return np.full(shape, np.nan)
        return numbers(self.rows[name].loc[np.asarray(self.arms[arm]).ravel()]).reshape(shape)

    def curve(self, name: str, seed: int, setting: int, arm: int) -> Array:
        """The numbers along the training of one run, for metrics that are curves.

        Raises:
            UserError: the metric is no curve.
        """
        value = self.rows[name].loc[np.asarray(self.arms[arm])[seed, setting]]
        if not isinstance(value, list | tuple | np.ndarray) or not len(value):
            raise UserError(f"metric {name} holds no curve; have metrics return a list of numbers for each run")
        return np.asarray(value, dtype=float)

    def _axis_values(self, axis: str) -> Array:
        position = self.axes.index(axis)
        try:
            return np.array([float(setting[position]) for setting in self.settings])
        except (TypeError, ValueError):
            values = ", ".join(sorted({str(setting[position]) for setting in self.settings}))
            raise UserError(f"axis {axis} has labels ({values}), not sizes; use a metric for x, y and given") from None

    def levels(self) -> Levels | None:
        """The grid that the settings fill row by row, axes that go together counted once; None if it has holes."""
        kept = [p for p in range(len(self.axes)) if len({s[p] for s in self.settings}) > 1]
        columns: list[list[Any]] = []
        for position in kept:
            column = [setting[position] for setting in self.settings]
            if not any(_one_to_one(column, other) for other in columns):
                columns.append(column)
        levels = tuple(len(set(column)) for column in columns)
        return levels if int(np.prod(levels)) == len(self.settings) else None


def axes_of(table: pd.DataFrame) -> tuple[str, ...]:
    """The axes, read from the run names ("batch_size=64,seed=0")."""
    names = [re.findall(r"(?:^|,)([^=,]+)=", str(run)) for run in table["run"]]
    return tuple(dict.fromkeys(axis for axes in names for axis in axes if axis in table.columns))


def metrics_of(table: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    """The metric columns."""
    return [*(str(name) for name in table.columns if name not in (*BOOKKEEPING, *axes)), DIVERGED]


def numbers(column: "pd.Series[Any]") -> Array:
    """A column as floats: truth values as 0 and 1, what is missing as NaN.

    Raises:
        UserError: the column holds text.
    """
    if pd.api.types.is_float_dtype(column.dtype):
        return column.to_numpy(dtype=float)
    try:
        return np.asarray(pd.to_numeric(column.astype(object).where(column.notna(), np.nan)), dtype=float)
    except (TypeError, ValueError):
        raise UserError(f"metric {column.name} holds text, not numbers; have metrics return numbers") from None


def select(claim: Claim, table: pd.DataFrame, axes: Sequence[str]) -> Cells:
    """The cells of `claim` in a table with one row per expected run."""
    read = {*BOOKKEEPING, *axes, *claim.estimate.variables()}
    table = table[[name for name in table.columns if name in read]].reset_index(drop=True)
    table[DIVERGED] = table["outcome"] == "diverged"
    over = setting_axes(claim, axes)
    counted = SEED if claim.estimate.stochastic else None
    parts = [matching(table, selection) for selection in claim.estimate.selections()]
    rows = pd.concat(parts).loc[lambda frame: ~frame.index.duplicated()]
    settings = _ordered(_settings(rows, over))
    seeds = _ordered(rows[counted]) if counted else [None]
    grids = [_grid(claim, part, over, counted, settings=settings, seeds=seeds) for part in parts]
    has_result = set(rows.index[rows["outcome"].isin(COMPUTED)])
    complete = [i for i in range(len(seeds)) if all(label in has_result for grid in grids for label in grid[i])]
    arms = tuple(
        np.array([grid[i] for i in complete], dtype=int).reshape(len(complete), len(settings)) for grid in grids
    )
    return Cells(rows, arms, tuple(settings), over, len(seeds))


def outcomes_text(rows: pd.DataFrame) -> str:
    """Counts of the runs without a result: "8 unfinished, 2 data unavailable (no source)"."""
    without = rows[~rows["outcome"].isin(COMPUTED)]
    counts = Counter(without["outcome"].astype(str))
    text = ", ".join(f"{count} {outcome.replace('_', ' ')}" for outcome, count in counts.most_common())
    reasons = [str(r) for r in without.get("reason", pd.Series(dtype=object)).dropna() if str(r).strip()]
    return f"{text} ({reasons[0].strip().rstrip('.')})" if reasons else text


def _settings(rows: pd.DataFrame, over: tuple[str, ...]) -> list[tuple[Any, ...]]:
    return list(rows[list(over)].itertuples(index=False, name=None)) if over else [()] * len(rows)


def matching(table: pd.DataFrame, selection: Selection) -> pd.DataFrame:
    """The rows with these axis values."""
    keep = np.ones(len(table), dtype=bool)
    for axis, value in selection.items():
        codes, cells = pd.factorize(table[axis], use_na_sentinel=False)
        keep &= np.array([same_value(value, cell) for cell in cells], dtype=bool)[codes]
    return table[keep]


def _grid(
    claim: Claim,
    part: pd.DataFrame,
    over: tuple[str, ...],
    counted: str | None,
    *,
    settings: list[tuple[Any, ...]],
    seeds: list[Any],
) -> list[list[int]]:
    place: dict[tuple[Any, tuple[Any, ...]], int] = {}
    for label, setting, seed in zip(
        part.index,
        _settings(part, over),
        part[counted] if counted else [None] * len(part),
        strict=True,
    ):
        if (seed, setting) in place:
            raise UserError(
                f"{claim.place}: two runs stand for one cell: {part['run'][place[seed, setting]]} and "
                f"{part['run'][label]}; name every axis."
            )
        place[seed, setting] = int(label)
    return [[place.get((seed, setting), -1) for setting in settings] for seed in seeds]


def _ordered(values: Any) -> list[Any]:
    """Distinct values; numbers by size and text by name, so that the settings of a grid stand row by row."""

    def key(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(key(item) for item in value)
        return (1, 0.0, value) if isinstance(value, str) else (0, float(value), "")

    return sorted(set(values), key=key)


def _one_to_one(left: list[Any], right: list[Any]) -> bool:
    pairs = set(zip(left, right, strict=True))
    return len(pairs) == len(set(left)) == len(set(right))
