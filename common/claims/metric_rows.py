"""Metrics of runs, rows by experiment, as files keep them.

An analysis writes a row as its names and values. What is published names the columns of an experiment once, a line a
run: names are half of the bytes otherwise. Whoever reads either, does so through `rows_of`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from common.files import finite

Rows = list[dict[str, Any]]


def rows_of(content: Mapping[str, Any]) -> dict[str, Rows]:
    """The rows of each experiment in what was read from a `metrics.json`."""
    return {
        name: [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
        if isinstance(table, Mapping)
        else list(table)
        for name, table in content.items()
    }


def published_text(metrics: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """JSON with the columns of each experiment in the order of their names, then a line a run; what lacks is null."""
    return "{\n" + ",\n".join(_table(name, rows) for name, rows in sorted(metrics.items())) + "\n}\n"


def _table(name: str, rows: Sequence[Mapping[str, Any]]) -> str:
    columns = sorted({column for row in rows for column in row})
    lines = ",\n".join(_compact([row.get(column) for column in columns]) for row in rows)
    return f'{_compact(name)}: {{"columns": {_compact(columns)}, "rows": [\n{lines}\n]}}'


def _compact(value: Any) -> str:
    return json.dumps(finite(value), separators=(",", ":"), ensure_ascii=False)
