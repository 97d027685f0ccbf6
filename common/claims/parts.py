"""The seeds behind a verdict, each with what it alone says, for a reader who wants to see them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from common.claims.by_seed import by_seed, reference
from common.claims.cells import DIVERGED, Cells, axes_of, metrics_of, select
from common.claims.checking import check
from common.claims.estimates import SEED
from common.claims.judging import unseen
from common.claims.schema import Claim
from common.claims.wording import pairs_text
from common.errors import UserError


@dataclass(frozen=True)
class Part:
    """What one seed says (of an exact number: one setting).

    Attributes:
        label: the seed's number, or the setting as "axis=value, …"; empty where there is one number only.
        value: in the claim's unit.
        left_out: why it does not go into the verdict, as fresh seeds decide, or as it missed its regime and may; empty
            where it goes in.
    """

    label: str
    value: float
    left_out: str = ""

    @property
    def counts(self) -> bool:
        """Whether it goes into the verdict."""
        return not self.left_out


def parts(claim: Claim, table: pd.DataFrame, *, scale: str) -> tuple[Part, ...]:
    """What each seed says of a claim, in the order of the seeds; computed by the code that judges.

    Args:
        table: as `judge` takes it.

    Returns:
        Nothing where the runs do not hold what the rule reads, or no seed is complete. Seeds that decide nothing (no
        finite value, no variation to relate, neither arm first) are left out.
    """
    table, axes = _read(claim, table)
    if not len(table):
        return ()
    try:
        check(claim, metrics_of(table, axes), axes)
        used, _ = unseen(claim, table, axes, scale)
        found = _parts(claim, used, axes)
        if len(used) < len(table):
            seen = _parts(claim, table.drop(used.index), axes)
            found += [replace(part, left_out="seen before the rule") for part in seen]
    except UserError:
        return ()
    return tuple(sorted(found, key=lambda part: int(part.label))) if claim.estimate.stochastic else tuple(found)


def reference_level(claim: Claim, table: pd.DataFrame, *, scale: str) -> float | None:
    """What a difference is taken from: the other arm's value, its mean over the seeds that decide.

    Returns:
        None for what is no difference, and where the other arm is not above zero in each of these seeds, so that no
        share of it can be said.
    """
    table, axes = _read(claim, table)
    if not len(table):
        return None
    try:
        used, _ = unseen(claim, table, axes, scale)
        found = reference(claim, select(claim, used, axes).in_regime(claim.may_miss_regime)[0])
    except UserError:
        return None
    return float(found.mean()) if found is not None and len(found) and (found > 0).all() else None


def _read(claim: Claim, table: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The columns that a claim reads, and the axes; no row where a column is missing."""
    read = {
        "regime_reached",
        *claim.estimate.variables(),
        *(axis for arm in claim.estimate.selections() for axis in arm),
    }
    if not len(table) or not read <= {*table.columns, DIVERGED}:
        return table[:0], ()
    axes = axes_of(table)
    return table[[name for name in table.columns if name in {"run", "outcome", *axes, *read}]], axes


def _parts(claim: Claim, table: pd.DataFrame, axes: Sequence[str]) -> list[Part]:
    cells = select(claim, table, axes)
    if not cells.seeds:
        return []
    labels, judged = _labels(claim, cells), _labels(claim, cells.in_regime(claim.may_miss_regime)[0])
    values = by_seed(claim, cells)
    known = np.isfinite(values) & _with_numbers(claim, cells, len(values))
    return [
        Part(labels[i], float(values[i]), "" if labels[i] in judged else "outside its regime")
        for i in np.flatnonzero(known)
    ]


def _labels(claim: Claim, cells: Cells) -> list[str]:
    if claim.estimate.stochastic:
        return [str(int(seed)) for seed in cells.rows[SEED].loc[cells.arms[0][:, 0]]]
    return [pairs_text(dict(zip(cells.axes, setting, strict=True))) for setting in cells.settings]


def _with_numbers(claim: Claim, cells: Cells, count: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which seeds have a finite number of all that an estimate of numbers reads."""
    if not claim.estimate.of_numbers:
        return np.ones(count, dtype=bool)
    read = [name for name in claim.estimate.variables() if name not in cells.axes]
    finite = [np.isfinite(cells.values(name, arm)) for name in read for arm in range(len(cells.arms))]
    by_setting = np.all(finite, axis=0)
    return np.asarray(by_setting.all(-1) if claim.estimate.stochastic else by_setting.ravel())
