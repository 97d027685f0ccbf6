"""How long a job on a cluster may compute."""

from pathlib import Path

import pytest

from common.workflow.job import allowed_minutes
from common.workflow.slurm import as_minutes, minutes_left, time_limit
from tests.conftest import program


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("1:30", 1.5), ("59:00", 59), ("2:00:00", 120), ("1-01:00:30", 1500.5), ("UNLIMITED", None), ("INVALID", None),
        ("", None),
    ],
)  # fmt: skip
def test_slurms_words_for_a_time_are_read(text: str, minutes: float | None) -> None:
    assert as_minutes(text) == minutes


def test_the_strictest_of_the_partitions_says_how_long_a_job_may_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "sinfo", r'printf "preempt 4:00:00\ngpu 2-00:00:00\nlong infinite\n"')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert [time_limit(names) for names in ("preempt,gpu", "gpu", "gpu,long")] == [240, 2880, 2880]
    assert time_limit("long") is time_limit("other") is None
    program(tmp_path, "sinfo", "exit 1")
    assert time_limit("gpu") is None


def test_a_job_keeps_two_minutes_or_half_of_what_slurm_says_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "squeue", "echo 28:00")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert minutes_left() is None
    assert allowed_minutes(30) == 28
    assert allowed_minutes(1) == 0.5
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert allowed_minutes(30) == 26  # two minutes went before this process began
    program(tmp_path, "squeue", "echo 0:30")
    assert allowed_minutes(30) == 0
    program(tmp_path, "squeue", "echo INVALID")
    assert allowed_minutes(30) == 28
