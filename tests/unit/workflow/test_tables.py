"""Tables for the terminal: names stay whole in a pipe, whatever COLUMNS says."""

from pathlib import Path

import pytest

from common.workflow.tables import claims_table, rehearsal_line, rehearsal_table, status_table

ID = "a-claim-with-a-name-of-more-than-forty-characters"


def test_a_pipe_gets_names_and_verdicts_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    row = {"id": ID, "estimate": 1.25, "interval": (1.0, 1.5), "n": 5, "reason": "One seed."}
    row["verdict"] = "not decidable at this scale"
    claims_table([{"paper": "first", **row}, {"paper": "second", **row}], "laptop")
    lines = capsys.readouterr().out.splitlines()
    whole = [line for line in lines if line.startswith(ID)]
    assert len(whole) == 2
    assert all("[1, 1.5]" in line and line.rstrip().endswith("scale  One seed.") for line in whole)
    assert [line.strip() for line in lines[1:4:2]] == ["first", "second"]


def test_reasons_are_not_broken_in_a_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    reason = "a reason of many words " * 8
    row = {"paper": "first", "experiment": "one", "run": "seed=0", "outcome": "failed", "reason": reason}
    status_table([row], "laptop", tmp_path)
    assert reason.strip() in capsys.readouterr().out


def test_a_number_without_interval_is_no_interval_and_what_was_not_reproduced_says_why(
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = {"paper": "first", "id": ID, "n": 5, "reason": "It lies above 1."}
    exact = {**row, "estimate": 6.81e-16, "interval": (6.81e-16, 6.81e-16), "verdict": "reproduced"}
    other = {**row, "estimate": 2.0, "interval": (1.5, None), "verdict": "contradicted"}
    claims_table([exact, other], "laptop")
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == [ID, "6.81e-16", "5", "reproduced"]
    assert "[1.5, inf]" in lines[3]
    assert lines[3].split()[-5:] == ["contradicted", "It", "lies", "above", "1."]


def test_a_call_that_some_gpu_does_not_hold_says_how_many_seeds_it_would(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    named = {"paper": "first", "experiment": "one", "setting": "single", "status": "ok", "reason": "", "made": []}
    call = {**named, "seeds": 10, "counted_gb": [8.0, 57.9], "fitting": {"16": 2, "24": 3, "40": 6, "80": 10}}
    said = "first/one/single: ok, 57.90 GB (of 10 seeds 2 on 16 GB, 3 on 24 GB, 6 on 40 GB at once)"
    assert rehearsal_line(call) == said
    larger = {**call, "fitting": {"16": 0, "24": 0, "40": 3, "80": 10}}
    assert rehearsal_line(larger).endswith(" (too much for a GPU of 24 GB; of 10 seeds 3 on 40 GB at once)")
    alone = {**call, "seeds": 1, "fitting": {"16": 0, "24": 1}}
    assert rehearsal_line(alone).endswith(" (too much for a GPU of 16 GB)")
    small = {**call, "setting": "small", "counted_gb": [0.1, 0.2], "fitting": {"16": 10, "80": 10}}
    rehearsal_table([call, small])
    printed = capsys.readouterr().out
    assert said in printed
    assert "first/one/small" not in printed
