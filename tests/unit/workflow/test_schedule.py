"""The time left of a build: how jobs are packed on cores, and what was seen of some says of the others."""

import json
import math
import random
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from common.workflow.progress import Watched
from common.workflow.schedule import Task, TimeLeft, computing_seconds, makespan, with_dependents

Looks = list[tuple[float, float, float]]
"""(seconds gone, seconds said to be left, seconds left in truth) at each look."""


def test_jobs_are_packed_as_the_scheduler_starts_them() -> None:
    thirds = [Task(name, 10.0) for name in "abc"]
    assert makespan(thirds, 2) == 20.0
    assert makespan(thirds, 3) == 10.0
    long = Task("long", 30.0)
    assert makespan([*thirds, long], 2) == 40.0  # the long one is left alone at the end
    assert makespan([*thirds, Task("long", 30.0, priority=1.0)], 2) == 30.0
    assert makespan([], 2) == 0.0


def test_a_job_waits_for_the_jobs_that_it_needs_and_for_all_its_cores() -> None:
    first, second = Task("first", 10.0), Task("second", 5.0, needs=frozenset({"first", "current already"}))
    assert makespan([second, first], 2) == 15.0
    assert makespan([Task("a", 10.0), Task("b", 10.0, cores=2)], 2) == 20.0
    assert makespan([Task("wide", 10.0, cores=16)], 2) == 10.0  # as Snakemake, which gives it what there is
    assert makespan([second], 2, running=[Task("first", 3.0)]) == 8.0
    assert makespan([Task("a", 10.0)], 1, running=[Task("x", 2.0), Task("y", 4.0)]) == 14.0


def test_a_short_job_for_which_long_ones_wait_comes_before_them() -> None:
    minutes = {"short": 1.0, "middle": 2.0, "long": 10.0, "alone": 5.0}
    needs = {"middle": ["short", "current already"], "long": ["middle"]}
    assert with_dependents(minutes, needs) == {"short": 13.0, "middle": 12.0, "long": 10.0, "alone": 5.0}
    assert with_dependents({"first": 1.0, "second": 2.0}, {"first": ["second"], "second": ["first"]}) == {
        "first": 3.0,
        "second": 3.0,
    }


def build(
    tasks: list[Task],
    true: Mapping[str, float],
    cores: int = 2,
    shape: Callable[[float], float] = lambda share: share,
    every: float = 2.0,
) -> Looks:
    """Play a build: each job takes its `true` seconds, and says of a share of them the fraction `shape`."""
    ahead, now = TimeLeft(tasks, cores), 0.0
    waiting, running, ended = list(tasks), dict[str, float](), dict[str, float | None]()
    said: list[tuple[float, float]] = []
    while waiting or running:
        for name in [name for name, began in running.items() if now - began >= true[name]]:
            ended[name] = true[name]
            del running[name]
        while waiting and len(running) < cores:
            running[waiting.pop(0).id] = now
        looks = [Watched(name, shape((now - began) / true[name]), now - began, name) for name, began in running.items()]
        said.append((now, ahead.seconds(now, ended, looks)))
        now += every
    return [(gone, left, now - gone) for gone, left in said]


def jobs(count: int = 12, kinds: int = 4, seconds: float = 60.0) -> list[Task]:
    return [Task(f"{kind}-{number}", seconds, f"e{kind}") for kind in range(kinds) for number in range(count // kinds)]


@pytest.mark.parametrize(
    ("shape", "below", "above"),
    [
        (lambda share: share, 8, 8),
        (lambda share: 0.0, 15, 15),  # they tell nothing, and are taken to get on as expected
        (lambda share: 0.1 * share, 10, 2 * 60),  # what ends sooner than it promises misleads by what runs at most
    ],
)
def test_what_takes_what_was_expected_is_counted_down_to_the_end(
    shape: Callable[[float], float], below: float, above: float
) -> None:
    tasks = jobs()
    for gone, left, truth in build(tasks, {task.id: 60.0 for task in tasks}, shape=shape):
        assert truth - below <= left <= truth + above, gone


def test_a_machine_that_is_slower_than_expected_is_found_out_after_a_tenth() -> None:
    tasks = jobs()
    looks = build(tasks, {task.id: 150.0 for task in tasks})
    assert looks[0][1] == pytest.approx(360.0)
    end = looks[-1][0]
    for gone, left, truth in looks:
        if gone > 0.25 * end:
            assert left == pytest.approx(truth, rel=0.3, abs=10.0), gone


def test_an_experiment_that_takes_longer_lengthens_the_others_little() -> None:
    others = [Task(f"other-{number}", 60.0, f"o{number % 5}") for number in range(10)]
    tasks = [*jobs(count=2, kinds=1), *others]
    true = {task.id: 600.0 if task.kind == "e0" else 60.0 for task in tasks}
    looks = build(tasks, true)
    for gone, left, truth in looks:
        if 300 < gone < 600:  # its jobs run still
            assert 0.5 * truth < left < 2 * truth, gone
        if gone > 600:  # it has ended: the others, which take what was expected, are waiting
            assert truth - 5 < left < 2 * truth + 5, gone


@pytest.mark.parametrize("common", [0.5, 1.0, 2.2])
def test_the_time_left_is_near_the_truth_and_does_not_jump(common: float) -> None:
    """Fifteen experiments that each take up to half as much or twice as much as expected, on another machine."""
    errors = []
    for seed in range(6):
        numbers = random.Random(seed)
        tasks = [Task(f"{kind}-{n}", numbers.uniform(5, 120), f"e{kind}") for kind in range(15) for n in range(5)]
        factor = {f"e{kind}": common * math.exp(numbers.gauss(0.0, 0.3)) for kind in range(15)}
        numbers.shuffle(tasks)
        true = {task.id: task.seconds * factor[task.kind] * math.exp(numbers.gauss(0.0, 0.2)) for task in tasks}
        looks = build(tasks, true, every=5.0)
        whole = looks[0][2]
        assert all(abs(later[1] - left) < 0.1 * left + 10 for (_, left, _), later in pairwise(looks))  # in 5 seconds
        errors += [abs(left / truth - 1) for gone, left, truth in looks if 0.2 < gone / whole < 0.9]
    assert median(errors) < 0.12
    assert sorted(errors)[int(0.95 * len(errors))] < 0.35


def test_what_an_interrupted_build_had_done_of_a_job_is_not_counted_as_speed() -> None:
    tasks = [Task("resumed", 100.0, "e", interrupted=True), Task("next", 100.0, "e")]
    ahead = TimeLeft(tasks, 1)
    for second in range(20):
        left = ahead.seconds(second, {}, [Watched("resumed", 0.8 + 0.01 * second, float(second), "resumed")])
        assert left == pytest.approx(100.0 + 20.0 - second, abs=3.0)
    assert ahead.seconds(20.0, {"resumed": 20.0}, []) == pytest.approx(100.0, rel=0.05)


def test_a_job_that_first_tells_of_half_its_work_is_not_taken_for_one_that_was_interrupted() -> None:
    ahead = TimeLeft([Task("late", 10.0, "e"), Task("next", 100.0, "e")], 1)
    assert ahead.seconds(5.0, {}, [Watched("late", 0.5, 5.0, "late")]) == pytest.approx(105.0, abs=0.1)
    assert ahead.seconds(9.0, {}, [Watched("late", 0.9, 9.0, "late")]) == pytest.approx(101.0, abs=0.1)
    assert ahead.seconds(10.0, {"late": 10.0}, []) == pytest.approx(100.0, abs=0.1)


def test_a_job_whose_runs_are_partly_current_is_expected_to_take_what_the_others_do() -> None:
    task = Task("half", 50.0, "e", current=0.5)
    ahead = TimeLeft([task, Task("next", 100.0, "e")], 1)
    for second in range(1, 50):
        left = ahead.seconds(second, {}, [Watched("half", 0.5 + 0.01 * second, float(second), "half")])
        assert left == pytest.approx(150.0 - second, rel=0.05)


def test_before_the_first_job_and_after_the_last_one_the_clock_counts_down() -> None:
    ahead = TimeLeft([Task("a", 10.0, "e"), Task("pages", 8.0, "pages", needs=frozenset({"a"}))], 2, 6.0)
    assert ahead.seconds(0.0, {}, []) == 24.0
    assert ahead.seconds(5.0, {}, []) == 19.0
    assert ahead.seconds(16.0, {"a": 10.0}, []) == 8.0
    assert ahead.seconds(21.0, {"a": 10.0}, []) == 3.0
    assert ahead.seconds(99.0, {"a": 10.0}, []) == 0.0


def test_a_data_set_is_there_when_a_job_that_needs_it_runs() -> None:
    job = Task("job", 10.0, "e", needs=frozenset({"data"}))
    ahead = TimeLeft([Task("data", 4.0, "data"), job], 1)
    assert ahead.seconds(0.0, {}, []) == 14.0
    assert ahead.seconds(5.0, {}, [Watched("job", 0.1, 1.0, "job")]) == pytest.approx(9.0)


def test_only_a_job_that_computed_all_its_runs_says_how_long_its_like_take(tmp_path: Path) -> None:
    marker = tmp_path / "marker.json"
    assert computing_seconds(marker) is None
    for text in ("", '{"job": {', "[]", '{"runs": {}}'):
        marker.write_text(text)
        assert computing_seconds(marker) is None
    for status, seconds in (("completed", 7.5), ("diverged", 7.5), ("failed", None), ("data_unavailable", None)):
        marker.write_text(json.dumps({"job": {"seconds": 7.5}, "runs": {"e/r": {"status": status}}}))
        assert computing_seconds(marker) == seconds
