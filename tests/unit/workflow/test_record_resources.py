"""Resources of config.yaml are written from what is known here, and nothing else of the file changes."""

import json
from pathlib import Path
from typing import Any

import pytest

from common.errors import UserError
from common.experiments import calibration
from common.experiments.calibration import Calibration, machine, reference
from common.experiments.replication import Replication
from common.files import sha256_of
from common.workflow import record_resources as module
from common.workflow.record_resources import (
    record_limits,
    record_minutes,
    record_steps,
    recorded_minutes,
    rehearsed_memory,
    with_stated,
)
from common.workflow.rehearse import keep
from common.workflow.rehearsed import rehearsals
from common.workflow.timings import Estimate, Timings
from tests.conftest import Project

CONFIG = """\
# A remark.
first:            # of the first
  grid: {seed: 2}
  resources:
    smoke: {minutes: 0.05}
    laptop: {minutes: 5.5, per_job: {seed: 1}}   # five and a half
second:
  grid: {seed: 2}
  resources:
    laptop:
      per_job: {seed: 1}
      minutes: 3
third:
  grid: {seed: 2}
  resources: {laptop: {}, paper: {gpus: 1}}
fourth:
  resources:
    paper: {gpus: 1}
fifth:
  grid: {seed: 2}
sixth:
  resources:
    laptop:
      cpus: 2
"""


def test_the_minutes_of_a_scale_change_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    minutes = {"first": 12.345, "second": 0.0123, "third": 130.4, "fourth": 1.0, "fifth": 0.0, "sixth": 2.0}
    changed = with_stated(path, "laptop", "minutes", minutes)
    assert changed == CONFIG.replace("minutes: 5.5", "minutes: 12").replace("minutes: 3", "minutes: 0.012").replace(
        "{laptop: {}", "{laptop: {minutes: 130}"
    ).replace("    paper: {gpus: 1}\nfifth", "    laptop: {minutes: 1}\n    paper: {gpus: 1}\nfifth").replace(
        "fifth:\n  grid", "fifth:\n  resources: {laptop: {minutes: 0.001}}\n  grid"
    ).replace("      cpus: 2", "      minutes: 2\n      cpus: 2")
    path.write_text(changed)
    assert with_stated(path, "laptop", "minutes", minutes) == changed


def test_minutes_that_an_alias_shares_are_refused_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("a:\n  resources: &same\n    laptop: {minutes: 1}\nb:\n  resources: *same\n")
    with pytest.raises(UserError, match=r"config\.yaml:3: b shares this entry"):
        with_stated(path, "laptop", "minutes", {"a": 1.0, "b": 2.0})


@pytest.fixture
def computed(project: Project) -> Project:
    """The example with all its laptop runs."""
    done = project.replicate("run", "decay", "--scale", "laptop")
    assert done.returncode == 0, done.stderr
    return project


def test_what_was_recorded_on_a_machine_half_as_fast_is_stated_as_half(computed: Project) -> None:
    store = computed.folders.store
    slower = {kind: 2 * seconds for kind, seconds in reference().seconds.items()}
    for path in (store.root / "laptop/decay/descent").glob("*/provenance.json"):
        facts = json.loads(path.read_text())
        assert 0 < facts["processor_seconds"] < 60
        assert facts["device"]["calibration"].keys() == slower.keys()
        facts |= {"processor_seconds": 40.0, "seconds": 500.0}
        facts["device"]["calibration"] = slower
        path.write_text(json.dumps(facts))
        outcome = path.with_name("outcome.json")
        stated = json.loads(outcome.read_text())
        outcome.write_text(json.dumps(stated | {"provenance": sha256_of(path)}))
    decay = computed.replication()
    assert recorded_minutes(decay, "laptop", store)["descent"] == pytest.approx(15 * 20.0 / 60)
    lines = record_minutes(decay, "laptop", store)
    assert lines[0] == "decay/descent: 0.6 → 5"
    assert computed.replication().experiment("descent").resources_at("laptop").minutes == 5.0
    assert computed.replication().experiment("descent").resources_at("smoke") == decay.experiment(
        "descent"
    ).resources_at("smoke")


def test_an_experiment_with_a_run_that_is_due_keeps_its_minutes(computed: Project) -> None:
    (computed.root / "results/laptop/decay/descent/learning_rate=0.1,seed=0/outcome.json").unlink()
    decay = computed.replication()
    lines = record_minutes(decay, "laptop", computed.folders.store)
    assert lines[0] == "decay/descent: stays: 1 of 15 runs are not current"
    assert computed.replication().experiment("descent").resources_at("laptop").minutes == 0.6


def test_minutes_of_a_core_are_not_taken_from_a_gpu(computed: Project) -> None:
    path = computed.root / "results/laptop/decay/descent/learning_rate=0.1,seed=0/provenance.json"
    facts = json.loads(path.read_text())
    path.write_text(json.dumps(facts | {"device": facts["device"] | {"type": "cuda"}}))
    outcome = path.with_name("outcome.json")
    outcome.write_text(json.dumps(json.loads(outcome.read_text()) | {"provenance": sha256_of(path)}))
    found = recorded_minutes(computed.replication(), "laptop", computed.folders.store)
    assert found["descent"] == "stays: a GPU computed 1 of its runs"


def test_the_steps_of_the_workflow_are_carried_over_to_the_reference_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPLICATIONS_CACHE", str(tmp_path / "cache"))
    slower = Calibration(machine(), "", {kind: 2 * seconds for kind, seconds in reference().seconds.items()})
    monkeypatch.setattr(module, "here", lambda: slower)
    for step, of, seconds in (("start", "", 3.0), ("page", "laptop/a", 8.0), ("page", "laptop/b", 16.0)):
        monkeypatch.setattr(calibration.os, "times", lambda seconds=seconds: (seconds, 0.0, 0.0, 0.0, 0.0))
        calibration.note_step(step, of=of)
    path = tmp_path / "reference.json"
    path.write_text(calibration.REFERENCE.read_text())
    record_steps("laptop", ["a", "b", "c"], path)
    steps = json.loads(path.read_text())["steps"]
    assert (steps["start"], steps["page"]) == (1.5, 6.0)
    assert steps["analyse"] == reference().steps["analyse"]
    assert json.loads(path.read_text())["seconds"] == dict(reference().seconds)


def planned(project: Project, monkeypatch: pytest.MonkeyPatch, minutes: float, basis: str = "counted (cpu)") -> None:
    """Paper scale with jobs of five runs, of which each takes so many minutes at most."""
    config = project.root / "replications/decay/config.yaml"
    text = config.read_text().replace("laptop: {minutes: 0.6}", "laptop: {minutes: 0.6}\n    paper: {gpus: 0}")
    config.write_text(text.replace("{gpus: 0}", "{per_job: {learning_rate: 1, seed: 5}}", 1))
    estimate = Estimate(20 * minutes, 0.0, 60 * minutes, basis)
    monkeypatch.setattr(Timings, "run", lambda *_: estimate)


def two_kinds(project: Project) -> Replication:
    """The paper, `descent` with two kinds of calls."""
    project.edit("config.yaml", "seed: 5\n  together", "seed: 5\n    pause: [0, 0.5]\n  together")
    project.edit("config.yaml", "match: [learning_rate, seed]", "match: [learning_rate, seed], where: {pause: 0}")
    return project.replication()


def told(paper: Replication) -> list[dict[str, Any]]:
    """What a rehearsal tells of the calls of `descent`."""
    call = {"paper": "decay", "experiment": "descent", "status": "ok", "code": paper.code_digest("descent", "run")}
    names = [call.name for call in rehearsals(paper, "descent", "paper")]
    sizes = ([0.5, 2.0], [1.0, 7.0])
    return [{**call, "setting": name, "counted_gb": gb} for name, gb in zip(names, sizes, strict=True)]


LOST = {"paper": "decay", "experiment": "descent", "status": "failed", "reason": "late", "seeds": 0, "made": []}


@pytest.mark.parametrize("lacks", ["nothing", "a call", "a memory", "its code", "every entry"])
def test_memory_is_known_if_all_calls_of_this_code_were_rehearsed_well(in_process: Project, lacks: str) -> None:
    paper = two_kinds(in_process)
    first, second = told(paper)
    other: dict[str, dict[str, Any]] = {
        "nothing": second,
        "a call": {**first, "analysis": []},
        "a memory": {**LOST, "setting": second["setting"]},
        "its code": {**second, "code": "other"},
        "every entry": {},
    }
    keep([first, other[lacks]], in_process.folders, "paper")
    stays = "stays: not all of its calls were rehearsed well"
    found = rehearsed_memory(paper, "paper", in_process.folders)["descent"]
    assert found == (12000 if lacks == "nothing" else stays)


def test_limits_hold_the_longest_job_and_the_largest_rehearsed_call(
    in_process: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(in_process, monkeypatch, minutes=10.1)
    keep(told(two_kinds(in_process)), in_process.folders, "paper")
    lines = record_limits(in_process.replication(), "paper", in_process.folders, None)
    assert lines == [
        "decay/descent: runtime 60 → 60, mem_mb 4000 → 12000",
        "decay/measurement: runtime 60 → 165, mem_mb stays: not all of its calls were rehearsed well",
    ]
    resources = {name: one.resources_at("paper") for name, one in in_process.replication().experiments.items()}
    assert (resources["descent"].runtime, resources["descent"].mem_mb) == (60, 12000)
    assert resources["descent"].per_job == {"learning_rate": 1, "seed": 5}
    assert (resources["measurement"].runtime, resources["measurement"].mem_mb) == (165, 4000)


@pytest.mark.parametrize(
    ("basis", "stays"),
    [
        ("time limit", "stays: how long it takes is not known"),
        ("counted (h100, former count)", "stays: it was counted by a former counter, or of former code"),
    ],
)
def test_limits_that_rest_on_limits_or_former_counts_and_those_of_unnamed_gpus_stay(
    in_process: Project, monkeypatch: pytest.MonkeyPatch, basis: str, stays: str
) -> None:
    planned(in_process, monkeypatch, minutes=10.1, basis=basis)
    config = in_process.root / "replications/decay/config.yaml"
    config.write_text(config.read_text().replace("{gpus: 0}", "{gpus: 1}"))
    before = config.read_text()
    lines = record_limits(in_process.replication(), "paper", in_process.folders, None)
    assert f"runtime {stays}" in lines[0]
    assert "runtime stays: say with --device which GPU it will have, mem_mb stays: it is of the host" in lines[1]
    assert config.read_text() == before
