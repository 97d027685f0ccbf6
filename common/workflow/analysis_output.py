"""What `metrics()` and `figures()` of an experiment return or raise, checked, so that it concerns that one alone."""

import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.errors import UserError, told, writable
from common.figures import export

LONGEST_NAME = 100
"""Characters of a figure's name, which becomes a part of file names."""


class Unusable(UserError):
    """What an experiment's code returned or raised, in one sentence with its file and line."""


def metrics_of(module: Any, records: pd.DataFrame, runs: "pd.Series[str]", root: Path) -> pd.DataFrame:
    """The table of an experiment's `metrics()`: one row a run, of numbers, truth values, texts and curves.

    Args:
        records: of the runs that have any; `metrics()` gets a copy.
        runs: the names that there are.

    Raises:
        Unusable: `metrics()` raised something, or returned something else.
    """
    where = _place(module.metrics, root)
    found = _called(module.metrics, records, root)
    if not isinstance(found, pd.DataFrame):
        raise Unusable(f"{where}: metrics() returns {_kind(found)}; return a DataFrame with one row a run")
    if odd := [name for name in found.columns if not isinstance(name, str)]:
        raise Unusable(f"{where}: metrics() returns a column named {odd[0]!r}; name columns by texts")
    if twice := sorted(set(found.columns[found.columns.duplicated()])):
        raise Unusable(f"{where}: metrics() returns the column {twice[0]!r} more than once")
    if "run" not in found.columns:
        if found.index.nlevels > 1:
            raise Unusable(f"{where}: metrics() returns a table of several index levels; index it by run alone")
        found = found.rename_axis("run").reset_index()
    known = set(runs)
    if unknown := [name for name in found["run"] if not isinstance(name, str) or name not in known]:
        raise Unusable(
            f"{where}: metrics() returns a row for {unknown[0]!r}, which is no run; index the rows by run, or give "
            "them a column run"
        )
    if found["run"].duplicated().any():
        raise Unusable(f"{where}: metrics() returns more than one row for a run; return one row a run")
    if "regime_reached" not in found.columns:
        raise Unusable(f"{where}: metrics() returns no column regime_reached; say of each run whether it got there")
    for name in found.columns:
        found = found.assign(**{name: _plain(found[name], where)})
    for run, reached in zip(found["run"], found["regime_reached"], strict=True):
        if not pd.isna(reached) and reached not in (True, False):
            raise Unusable(f"{where}: metrics() returns regime_reached = {reached!r} for {run}; return True or False")
    return found


def figures_of(module: Any, records: pd.DataFrame, root: Path) -> tuple[dict[str, Figure], dict[str, str]]:
    """The figures of an experiment's `figures()` by name, and the sentences about those that cannot be kept.

    Raises:
        Unusable: `figures()` raised something, or returned no dict.
    """
    where = _place(module.figures, root)
    found = _called(module.figures, records, root)
    if not isinstance(found, Mapping):
        raise Unusable(f"{where}: figures() returns {_kind(found)}; return a dict of figures by name")
    good: dict[str, Figure] = {}
    bad: dict[str, str] = {}
    for name, figure in found.items():
        if not _names_a_file(name):
            bad[writable(name)] = f"{where}: figures() names a figure {name!r}; take letters, digits and hyphens"
        elif not isinstance(figure, Figure):
            bad[name] = f"{where}: figures() returns {_kind(figure)} as {name!r}; return matplotlib Figures"
        else:
            good[name] = figure
    return good, bad


def exported(figure: Figure, folder: Path, name: str, root: Path) -> dict[str, Path]:
    """Export a figure; raises `Unusable` if it cannot be drawn, by bad TeX for example."""
    try:
        return export(figure, folder, name)
    except (KeyboardInterrupt, OSError):
        raise
    except BaseException as error:  # drawing runs the figure's own callbacks
        traceback.print_exc()
        raise Unusable(told(error, root)) from error


def _called(function: Callable[[pd.DataFrame], Any], records: pd.DataFrame, root: Path) -> Any:
    try:
        return function(records.copy())
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever the code does, SystemExit included
        traceback.print_exc()
        raise Unusable(told(error, root)) from error


def _place(function: Any, root: Path) -> str:
    """`file:line` of a function, the file below `root`."""
    code = getattr(function, "__code__", None)
    if code is None:
        return f"{getattr(function, '__module__', None) or type(function).__name__}"
    file = Path(code.co_filename).resolve()
    shown = file.relative_to(root.resolve()) if file.is_relative_to(root.resolve()) else file
    return f"{shown}:{code.co_firstlineno}"


def _kind(value: object) -> str:
    return "nothing (None)" if value is None else f"an object of type {type(value).__name__}"


def _names_a_file(name: object) -> bool:
    return (
        isinstance(name, str)
        and 0 < len(name) <= LONGEST_NAME
        and name.isprintable()
        and not name.startswith(".")
        and not set(name) & set("/\\")
    )


def _plain(column: "pd.Series[Any]", where: str) -> "pd.Series[Any]":
    """A column as it is where it holds numbers alone, else each of its cells as a number, truth value, text or None."""
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
        return column
    return pd.Series([_cell(value, str(column.name), where) for value in column], index=column.index, dtype=object)


def _cell(value: Any, name: str, where: str) -> Any:
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if hasattr(value, "item") and np.ndim(value) == 0:
        value = value.item()
    if isinstance(value, list | tuple | np.ndarray):  # a curve, numbers along the training of one run
        return [_number(point, name, where) for point in value]
    if not isinstance(value, bool | int | float | str):
        raise Unusable(
            f"{where}: metrics() returns {_kind(value)} in the column {name!r}; give each run a number, a truth value, "
            "a text, or a list of numbers"
        )
    if isinstance(value, str) and writable(value) != value:
        raise Unusable(f"{where}: metrics() returns {value!r} in the column {name!r}, which holds no character")
    return float(value) if isinstance(value, int) and abs(value) >= 2**63 else value


def _number(value: Any, name: str, where: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise Unusable(f"{where}: metrics() returns {value!r} in a list of the column {name!r}; give numbers") from None
