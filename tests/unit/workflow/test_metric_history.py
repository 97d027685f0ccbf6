"""Numbers that published evidence gives otherwise for the same runs are named until an amendment tells."""

from pathlib import Path

import pytest

from common.files import write_json
from common.workflow.metric_history import undisclosed_metrics
from tests.conftest import EXAMPLE, Project, make_project

FIRST = "fig1-larger-steps-descend-faster"
NAMES = ("log_distance", "loss", "trace", "accuracy")


@pytest.fixture
def committed(tmp_path: Path) -> Project:
    """The example, committed as it stands."""
    project = make_project(tmp_path, {"decay": EXAMPLE})
    project.commit("start")
    return project


def publish(
    project: Project, finished: str, *, regime: bool = True, verdict: str = "reproduced", **moved: float
) -> None:
    """Publish numbers that differ by run and name, each of `moved` by so much from what it is else."""
    rows = [
        {"run": f"learning_rate={rate},seed={seed}", "learning_rate": rate, "seed": seed, "regime_reached": regime}
        | {name: rate + seed / 7 + place + moved.get(name, 0.0) for place, name in enumerate(NAMES)}
        for rate in (0.1, 0.5)
        for seed in range(3)
    ]
    place = project.root / "reports/published/laptop/decay"
    write_json(place / "metrics.json", {"descent": rows})
    write_json(place / "provenance.json", {"experiments": {"descent": {"finished": finished}}})
    write_json(place / "verdicts.json", [{"id": FIRST, "verdict": verdict}])
    project.commit(f"evidence of {finished}")


def named(project: Project) -> list[str]:
    sentences = undisclosed_metrics(project.replication())
    return [sentence.split("at scale ")[1].split(" of the same")[0] for sentence in sentences]


def amend(project: Project, words: str) -> None:
    line = "  experiment: descent\n  estimate: {kind: paired_difference, metric: log_distance, of: {learning_rate: 0.5}"
    entry = f"{{date: 2099-01-01, reason: it was wrong, former: {words}}}"
    project.edit("claims.yaml", line, f"  amended: [{entry}]\n{line}")


def test_other_numbers_of_the_same_records_are_named_until_an_entry_keeps_how_they_were_made(
    committed: Project,
) -> None:
    publish(committed, "one")
    publish(committed, "one", log_distance=1e-9)
    assert named(committed) == []
    publish(committed, "one", log_distance=0.01)
    assert named(committed) == ["laptop log_distance"]
    publish(committed, "one", log_distance=0.01, regime=False)
    assert named(committed) == ["laptop log_distance", "laptop regime_reached"]
    amend(committed, "{metrics: 'workstation: the distance of the mean'}")
    assert len(named(committed)) == 2, "an entry of another scale"
    committed.edit("claims.yaml", "{metrics: 'workstation: the distance of the mean'}", "{settings: 'seeds 0 to 4'}")
    assert len(named(committed)) == 2, "seeds are no numbers"
    committed.edit("claims.yaml", "{settings: 'seeds 0 to 4'}", "{metrics: the distance of the mean}")
    assert named(committed) == []


def test_an_entry_that_stood_when_the_evidence_was_published_tells_of_an_earlier_change(committed: Project) -> None:
    amend(committed, "{metrics: a pilot's}")
    publish(committed, "one")
    publish(committed, "one", log_distance=0.01)
    assert named(committed) == ["laptop log_distance"]


def test_what_a_claim_does_not_read_and_what_nobody_had_judged_need_no_entry(committed: Project) -> None:
    publish(committed, "one", verdict="not run")
    publish(committed, "one", log_distance=0.01)
    publish(committed, "one", log_distance=0.01, loss=0.01)
    assert named(committed) == []
    publish(committed, "one", loss=0.01)
    assert named(committed) == ["laptop log_distance"]
    committed.edit(
        "claims.yaml", "accept: {below: 0}\n  decidable_from: laptop", "accept: {below: 0}\n  decidable_from: paper"
    )
    assert named(committed) == []


def test_runs_that_were_computed_anew_are_the_same_where_what_rounding_moves_is_what_it_was(
    committed: Project,
) -> None:
    publish(committed, "one")
    publish(committed, "two", log_distance=0.01, loss=0.02, trace=0.003)
    assert named(committed) == [], "another processor; the accuracy is not known to move"
    publish(committed, "three", log_distance=0.01, loss=0.03, trace=0.004)
    assert named(committed) == [], "a third one"
    publish(committed, "four", log_distance=0.5, loss=0.03, trace=0.004)
    assert named(committed) == ["laptop log_distance"]
    publish(committed, "five", log_distance=0.5 * (1 + 1e-9), loss=0.03, trace=0.004)
    assert named(committed) == ["laptop log_distance"], "six digits"
