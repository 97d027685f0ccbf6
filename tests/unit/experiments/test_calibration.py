"""What tells how fast a machine is: measured by a process of its own, kept for a day, the same for all."""

import json
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from common.experiments import calibration
from common.experiments.calibration import WEIGHTS, WORK, Calibration, here, machine, ratio, reference, step_seconds


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache, and a process that has not asked yet."""
    monkeypatch.setenv("REPLICATIONS_CACHE", str(tmp_path))
    here.cache_clear()
    yield tmp_path
    here.cache_clear()


def keep(cache: Path, seconds: dict[str, float], age: timedelta = timedelta(), text: str | None = None) -> None:
    """A calibration of this machine in the cache."""
    date = (datetime.now(UTC) - age).isoformat(timespec="seconds")
    path = calibration._place()
    path.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"machine": machine(), "date": date, "seconds": seconds, "steps": {}})
    path.write_text(content if text is None else text)


def test_a_machine_is_timed_by_a_process_of_its_own_and_its_figure_is_kept(cache: Path) -> None:
    found = here()
    assert found.seconds.keys() == WORK.keys()
    assert all(1e-5 < seconds < 1.0 for seconds in found.seconds.values())
    assert found.machine == machine()
    kept = json.loads(next(cache.glob("calibration/*.json")).read_text())
    assert kept["seconds"] == found.seconds
    here.cache_clear()
    assert here() == found


def test_a_figure_is_measured_anew_after_a_day_or_where_it_cannot_be_read(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = dict.fromkeys(WORK, 1.0)
    keep(cache, kept, timedelta(hours=23))
    assert here().seconds == kept
    monkeypatch.setattr(sys, "executable", "/bin/false")  # no measurement is to be had
    for age, text in ((timedelta(hours=25), None), (timedelta(), ""), (timedelta(), "[1]"), (timedelta(), '{"a": 1}')):
        here.cache_clear()
        keep(cache, kept, age, text)
        assert here() == Calibration(machine(), "", {})
    here.cache_clear()
    keep(cache, {"large_products": 1.0})  # of an older version, which timed other work
    assert here().seconds == {}


def test_other_instructions_are_another_machine(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = calibration._place()
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    assert calibration._place() != before


def test_a_machine_takes_as_many_times_as_long_as_its_kinds_of_work_do_on_the_mean() -> None:
    assert WEIGHTS.keys() == WORK.keys()
    one = dict.fromkeys(WORK, 1.0)
    twice = dict.fromkeys(WORK, 2.0)
    assert ratio(one, one) == 1.0
    assert ratio(twice, one) == pytest.approx(2.0)
    assert ratio(one, twice) == pytest.approx(0.5)
    mixed = {**one, "large_products": 4.0}
    assert 1.0 < ratio(mixed, one) < 2.0
    assert ratio(mixed, twice) == pytest.approx(ratio(mixed, one) * ratio(one, twice))
    assert ratio(one, {}) == ratio({}, one) == 1.0


def test_the_reference_machine_is_timed_on_every_kind_of_work_and_step() -> None:
    known = reference()
    assert known.seconds.keys() == WORK.keys()
    assert known.steps.keys() == set(calibration.STEPS)
    assert known.date
    assert known.machine.keys() == machine().keys()


def test_a_step_takes_what_it_took_here_else_what_it_took_on_the_reference_machine(cache: Path) -> None:
    keep(cache, {kind: 3 * seconds for kind, seconds in reference().seconds.items()})
    assert step_seconds("page", of="laptop/decay") == pytest.approx(3 * reference().steps["page"])
    before = sum(os.times()[:4])  # of a process that has run many tests, perhaps a quarter of an hour
    calibration.note_step("page", of="laptop/decay")
    assert before <= step_seconds("page", of="laptop/decay") <= sum(os.times()[:4])
    assert step_seconds("page", of="laptop/other") == pytest.approx(3 * reference().steps["page"])
