"""Published metrics: each column named once, and every number as it was."""

import json
import math

from common.claims.metric_rows import published_text, rows_of

METRICS = {
    "descent": [{"run": "seed=0", "loss": 0.1, "note": "é"}, {"run": "seed=1", "loss": 1 / 3, "note": None}],
    "empty": [],
}


def test_published_rows_come_back_as_they_were() -> None:
    assert rows_of(json.loads(published_text(METRICS))) == METRICS


def test_a_run_is_a_line_and_a_column_is_named_once() -> None:
    text = published_text(METRICS)
    assert text.count('"loss"') == 1
    assert [0.1, "é", "seed=0"] in [json.loads(line.rstrip(",")) for line in text.splitlines() if line.startswith("[")]


def test_rows_of_an_analysis_are_read_as_they_stand() -> None:
    assert rows_of(METRICS) == METRICS


def test_what_is_no_number_or_lacks_is_null() -> None:
    text = published_text({"descent": [{"run": "seed=0", "loss": math.nan}, {"run": "seed=1", "steps": 3}]})
    assert rows_of(json.loads(text))["descent"] == [
        {"run": "seed=0", "loss": None, "steps": None},
        {"run": "seed=1", "loss": None, "steps": 3},
    ]
