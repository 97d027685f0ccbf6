"""A rehearsal of a scale: what it shortens, what it counts, and what it says of calls that would fail."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from common.cli import app
from common.errors import UserError
from common.experiments.execution import parameters_of
from common.files import read_entries, read_json, write_json
from common.workflow import device_checks, rehearsal_step, rehearsed_call
from common.workflow import rehearse as rehearsal
from common.workflow.cost import costs
from common.workflow.discovery import discover
from common.workflow.footprint import Footprint, at_once, shortage
from common.workflow.progress import lives
from common.workflow.rehearse import METRICS, Terms, accept, exit_code, keep, rehearse_all
from common.workflow.rehearsed import Rehearsal, first_calls, provide, rehearsals, rehearsed
from common.workflow.rehearsed_call import Rehearsing, Stage, rehearse
from common.workflow.timings import parameters_digest, setting, trials_path
from tests.conftest import ROOT, Project

HEAD = """
import torch
from common.experiments import DatasetName, ExperimentParameters, Field, RunContext


class Parameters(ExperimentParameters):
    learning_rate: float = Field(0.1, gt=0, description="step size", source="ours")
    steps: int = Field(100, ge=1, unit="steps", description="length", source="ours")
    images: int = Field(1000, ge=1, unit="images", description="data", source="ours")
    width: int = Field(8, ge=1, description="entries of the weights", source="ours")
    dataset: DatasetName = Field("mutag", description="data", source="ours")


def run(runs, context):
"""
TRAINS = """
    data = [torch.ones(run.images, 250, device=context.device) for run in runs]
    weights = torch.nn.Parameter(torch.ones(len(runs), runs[0].width, device=context.device))
    steps = torch.optim.SGD([weights], lr=0.1, momentum=0.9)
    momentum = None
    state = context.restore() or {"step": 0, "momentum": None}
    momentum = state["momentum"]
    for step in range(state["step"], runs[0].steps):
        gradient = weights.detach() * 0.1
        momentum = gradient if momentum is None else MOVED + gradient
        context.progress(step + 1, runs[0].steps)
        context.checkpoint({"step": step + 1, "momentum": momentum})
    for run in runs:
        context.save(run, "weights", {"w": weights.detach()[0]})
        context.record(run, loss=float(momentum.sum()))
"""
STARTS = """
    for run in runs:
        started = context.artifact(run, "start", "weights")["w"]
        context.record(run, loss=float((started * torch.ones(run.width, device=context.device)).sum()))
"""
CONFIG = """
descent:
  grid: {seed: 30}
  together: [seed]
  rehearsal: {lengths: {steps: 4}, sizes: {images: 100}}
  resources:
    paper: {gpus: 1}
measurement:
  needs:
    start: {experiment: descent, match: [seed]}
  grid: {seed: 30}
  together: [seed]
  scales:
    paper: {width: 8}
"""


def plant(project: Project, body: str, config: str = CONFIG) -> None:
    """Two experiments in the place of the example's: one that trains, one that starts from it."""
    project.file("config.yaml").write_text(config)
    project.file("descent.py").write_text(HEAD + body)
    project.file("measurement.py").write_text(HEAD + STARTS)


def place(project: Project, name: str, code: str) -> str:
    """File and line of an experiment's code, as reasons name it."""
    lines = project.file(name).read_text().splitlines()
    (line,) = (number for number, text in enumerate(lines, start=1) if code in text)
    return f"replications/decay/{name}:{line}"


def rehearsing(project: Project, tmp_path: Path, available_gb: float = 4.0, **terms: Any) -> dict[str, Rehearsing]:
    """What comes of the calls of both experiments, in this process."""
    replication = project.replication()
    stage = Stage(project.folders, tmp_path / "scratch", torch.device("cpu"), available_gb, **terms)
    return {
        name: rehearse(stage, replication, call)
        for name in replication.experiments
        for call in rehearsals(replication, name, "paper")
    }


@pytest.fixture(autouse=True)
def every_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLICATIONS_CHECKPOINT_SECONDS", "0")


def test_every_call_of_every_paper_can_be_shortened_at_two_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    for replication in discover(ROOT).values():
        for experiment in replication.experiments:
            for call in rehearsals(replication, experiment, "paper"):
                small, large = rehearsed(replication), rehearsed(replication, 2)
                for run in call.runs:
                    for at in (small, large):
                        parameters_of(at.shortened(run), at)


def test_what_a_small_call_trains_on_grows_and_is_whole_batches_of_either_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    looked_at = 0
    for replication in discover(ROOT).values():
        for name, config in replication.experiments.items():
            trained_on = [size for size in config.rehearsal.sizes if size.startswith("train")]
            for call in rehearsals(replication, name, "paper") if trained_on and config.rehearsal.batches else ():
                at = [rehearsed(replication, factor) for factor in (1, 2)]
                if at[0].divided(run := call.runs[0]) == 1:
                    continue
                small, large = (parameters_of(one.changed(run, "sizes", "batches"), one) for one in at)
                looked_at += 1
                for size in trained_on:
                    assert getattr(small, size) < getattr(large, size), str(run)
                    for batch in config.rehearsal.batches:
                        left = [getattr(one, size) % (getattr(large, batch) or 1) for one in (small, large)]
                        assert left == [0, 0], f"{run}: {size}, {batch}"
    assert looked_at > 10


def test_a_part_of_each_batch_stays_the_same_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    replication = discover(ROOT)["trace_wrn"]
    parts: dict[Any, set[float | None]] = {}
    for call in rehearsals(replication, "sub_batch", "paper"):
        run = call.runs[0]
        for at in (replication, *(rehearsed(replication, factor) for factor in (1, 2))):
            own = parameters_of(run if at is replication else at.changed(run, "batches"), at).model_dump()
            part = own["penalty_images"]
            parts.setdefault(run.axes["arm"], set()).add(part and own["batch_size"] / part)
    assert parts == {"none": {None}, "whole": {None}, "eighth": {8.0}}


def test_lengths_are_cut_sizes_divided_and_all_else_stays(in_process: Project) -> None:
    plant(in_process, TRAINS)
    replication = in_process.replication()
    run = replication.runs("descent", "paper")[0]
    assert rehearsed(replication).shortened(run).settings == {"seed": 0, "images": 10, "steps": 4}
    assert rehearsed(replication, 2).shortened(run).settings["images"] == 20
    in_process.edit("config.yaml", "steps: 4}, sizes: {images: 100}", "steps: 400}, sizes: {images: 900}")
    replication = in_process.replication()
    assert rehearsed(replication).shortened(run).settings == {"seed": 0, "steps": 100}


def test_calls_of_one_kind_are_rehearsed_once_with_two_seeds(in_process: Project) -> None:
    in_process.edit("config.yaml", "[0.1, 0.5, 3.0]\n    seed: 5\n  together", "[0.1, 0.5]\n    seed: 7\n  together")
    replication = in_process.replication()
    (call,) = rehearsals(replication, "descent", "paper")
    assert (call.seeds, [run.axes["seed"] for run in call.runs]) == (7, [0, 1])
    in_process.edit("config.yaml", "steps: 40", "steps: 40, pause: 0.1")
    in_process.edit("config.yaml", "learning_rate: [0.1, 0.5]\n", "pause: [0, 0.5]\n")
    assert len(rehearsals(in_process.replication(), "descent", "paper")) == 2


def test_a_call_that_is_well_is_interrupted_resumed_and_counted(in_process: Project, tmp_path: Path) -> None:
    plant(in_process, TRAINS.replace("MOVED", "momentum.to(context.device)"))
    found = rehearsing(in_process, tmp_path)
    assert {name: (one.status, one.reason) for name, one in found.items()} == {
        "descent": ("ok", ""),
        "measurement": ("ok", ""),
    }
    descent = found["descent"]
    assert descent.checkpoints == 4
    assert descent.counted_gb is not None
    assert descent.counted_gb == pytest.approx((0.001, 0.030), abs=0.0011)  # 1,000 rows of 250 numbers a seed
    assert not in_process.root.joinpath("results", "paper").exists()


def test_estimates_of_the_toolkit_end_with_their_first_draws(in_process: Project, tmp_path: Path) -> None:
    body = """
    from common.hessian import Problem, trace
    data = torch.randn(40, 3), torch.randn(40, 2)
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
    found = trace(Problem(model, torch.nn.MSELoss(), data), relative_error=1e-6, method="sample signs")
    for run in runs:
        context.record(run, passes=found.passes)
    assert (found.passes, found.converged) == (2, False), found
    """
    plant(in_process, body)
    found = rehearsing(in_process, tmp_path)["descent"]
    assert (found.status, found.reason) == ("ok", "")


def test_a_call_that_needs_45_gb_is_refused_with_what_would_fit(in_process: Project, tmp_path: Path) -> None:
    body = TRAINS.replace("MOVED", "momentum.to(context.device)")
    plant(in_process, body, CONFIG.replace("  resources:", "  base: {images: 1500000}\n  resources:", 1))
    in_process.edit("config.yaml", "sizes: {images: 100}", "sizes: {images: 100000}")
    found = rehearsing(in_process, tmp_path, available_gb=16.0)["descent"]
    assert found.status == "refused"
    assert found.reason == "its 30 seeds at once need 45.0 GB of 16.0 GB that tensors may take; 10 at a time would fit"


def test_state_that_stays_on_the_host_is_told_on_a_machine_without_gpu(in_process: Project, tmp_path: Path) -> None:
    plant(in_process, TRAINS.replace("MOVED", "0.9 * momentum"))
    found = rehearsing(in_process, tmp_path)["descent"]
    assert found.status == "failed"
    assert found.reason == (
        f"resumed from its checkpoint: {place(in_process, 'descent.py', '0.9 * momentum')}: RuntimeError: add takes "
        "tensors on the host and on the GPU, which a GPU refuses; all belong on context.device"
    )


def test_an_artifact_of_another_shape_is_told_with_where_it_comes_from(in_process: Project, tmp_path: Path) -> None:
    plant(in_process, TRAINS.replace("MOVED", "momentum.to(context.device)"))
    in_process.edit("config.yaml", "paper: {width: 8}", "paper: {width: 16}")
    found = rehearsing(in_process, tmp_path)["measurement"]
    assert found.status == "failed"
    assert found.reason == (
        f"{place(in_process, 'measurement.py', 'started * torch')}: RuntimeError: The size of tensor a (8) must match "
        "the size of tensor b (16) at non-singleton dimension 0 "
        "(it starts from descent)"
    )


def test_a_data_set_that_cannot_be_had_is_one_sentence(
    in_process: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REPLICATIONS_MIRROR", "REPLICATIONS_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / "empty"))
    body = '\n    context.data("imagenet32")\n' + TRAINS.replace("MOVED", "momentum")
    plant(in_process, body)
    found = rehearsing(in_process, tmp_path)
    assert (found["descent"].status, found["descent"].reason.count("\n")) == ("unavailable", 0)
    assert "imagenet32" in found["descent"].reason
    assert found["measurement"].reason.startswith("it starts from decay/descent/seed=0 (start)")


def test_artifacts_of_one_seed_stand_in_for_those_of_another(in_process: Project, tmp_path: Path) -> None:
    plant(in_process, TRAINS.replace("MOVED", "momentum.to(context.device)"))
    rehearsing(in_process, tmp_path)
    small = rehearsed(in_process.replication())
    stage = Stage(in_process.folders, tmp_path / "scratch", torch.device("cpu"), 4.0)
    third = [small.runs("measurement", "paper")[2]]
    assert provide(small, stage.results(1), third, stage.results(1)) == []
    assert stage.results(1).folder(small.runs("descent", "paper")[2]).is_dir()


def test_a_call_with_batches_may_start_from_one_that_has_no_sizes(in_process: Project, tmp_path: Path) -> None:
    config = CONFIG.replace(", sizes: {images: 100}", "")
    plant(
        in_process,
        TRAINS.replace("MOVED", "momentum.to(context.device)"),
        config + "  rehearsal: {batches: {images: 10}}\n",
    )
    found = rehearsing(in_process, tmp_path)["measurement"]
    assert (found.status, found.reason) == ("ok", "")


def test_artifacts_of_one_rate_stand_in_for_those_of_another_of_the_same_kind(
    in_process: Project, tmp_path: Path
) -> None:
    config = CONFIG.replace("  grid: {seed: 30}", "  grid: {learning_rate: [0.1, 0.2], width: [8, 9], seed: 30}", 1)
    plant(
        in_process,
        TRAINS.replace("MOVED", "momentum.to(context.device)"),
        config.replace("match: [seed]", "match: [seed], where: {learning_rate: 0.2, width: 8}"),
    )
    found = rehearsing(in_process, tmp_path)
    assert (found["measurement"].status, found["measurement"].reason) == ("ok", "")


@pytest.mark.parametrize(
    ("at", "computed", "ended"),
    [(5, 5, False), (11, 11, True), (11, 3, False), (11, 40, True), (51, 3, True), (11, None, True), (9, 40, False)],
)
def test_a_call_may_compute_for_so_long_and_wait_five_times(
    at: float, computed: float | None, ended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = {"time": 0.0, "computed": 0.0 if computed is not None else None}
    monkeypatch.setattr("time.monotonic", lambda: now["time"])
    monkeypatch.setattr(rehearsal, "_processor_seconds", lambda process: now["computed"])
    patience = rehearsal._Patience(1, 10.0)
    now.update(time=at, computed=computed)
    assert patience.ended() == ended


def test_how_many_seeds_fit() -> None:
    one, ten = Footprint(1e9, 1e9), Footprint(10e9, 10e9)
    assert [at_once(one, ten, 10, room) for room in (1e9, 2e9, 7e9, 40e9)] == [0, 1, 3, 10]
    assert shortage(one, ten, 10, 20e9) == ""
    assert shortage(one, ten, 10, 1e9) == (
        "its 10 seeds at once need 20.0 GB of 1.0 GB that tensors may take; one alone needs 2.0 GB"
    )


def test_the_real_call_is_begun_and_kept_as_a_trial_for_the_plan(in_process: Project, tmp_path: Path) -> None:
    plant(in_process, TRAINS.replace("MOVED", "momentum.to(context.device)"))
    found = rehearsing(in_process, tmp_path, seconds=0.5)
    assert found["descent"].real_seconds is not None
    assert found["measurement"].untimed == ""
    replication = in_process.replication()
    costs_now = {cost.experiment: cost for cost in costs(replication, "paper", in_process.folders.store)}
    assert costs_now["descent"].basis == ("trial (cpu)",)
    assert (costs_now["descent"].runs, not in_process.root.joinpath("results", "paper").exists()) == (30, True)


def test_the_real_call_is_timed_with_as_many_checkpoints_as_it_writes(
    in_process: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(in_process, TRAINS.replace("MOVED", "momentum.to(context.device)"))
    monkeypatch.setattr(
        rehearsed_call, "timed", lambda *_: {"reason": f"every {os.environ.get('REPLICATIONS_CHECKPOINT_SECONDS')} s"}
    )
    assert rehearsing(in_process, tmp_path, seconds=0.5)["descent"].untimed == "every None s"
    assert os.environ["REPLICATIONS_CHECKPOINT_SECONDS"] == "0"


def test_a_trial_says_for_which_settings_of_its_kind_it_stands(in_process: Project, tmp_path: Path) -> None:
    config = CONFIG.replace("  grid: {seed: 30}", "  grid: {learning_rate: [0.1, 0.2], seed: 30}", 1).replace(
        "match: [seed]", "match: [seed], where: {learning_rate: 0.1}"
    )
    plant(in_process, TRAINS.replace("MOVED", "momentum.to(context.device)"), config)
    rehearsing(in_process, tmp_path, seconds=0.5)
    replication = in_process.replication()
    trial, _ = read_entries(trials_path(in_process.folders.store, "paper", "decay"))
    assert (trial["setting"], trial["settings"]) == ("learning_rate=0.1", ["learning_rate=0.1", "learning_rate=0.2"])
    runs = replication.runs("descent", "paper")
    assert trial["parameters"] == {setting(run): parameters_digest(run) for run in runs}
    assert len(set(trial["parameters"].values())) == 2


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[str, float]]:
    """A machine with a GPU, where nothing is computed: on which device an experiment was rehearsed with what memory."""
    seen: dict[str, tuple[str, float]] = {}

    def rehearse(stage: Stage, replication: Any, call: Rehearsal) -> Rehearsing:
        experiment = call.runs[0].experiment
        seen[experiment] = stage.device.type, stage.available_gb
        return Rehearsing(replication.name, experiment, call.name, call.seeds, status="ok")

    monkeypatch.setattr(rehearsal_step, "rehearse", rehearse)
    monkeypatch.setattr(rehearsal_step, "prepare_torch", lambda cpus: torch.device("cuda"))
    monkeypatch.setattr(rehearsal_step, "available_gb", lambda device: {"cuda": 80.0, "cpu": 20.0}[device.type])
    for name in ("end_with", "reset_peak", "limit_memory"):
        monkeypatch.setattr(rehearsal_step, name, lambda *_: None)
    monkeypatch.setattr(torch, "use_deterministic_algorithms", lambda *_, **__: None)
    monkeypatch.setattr(rehearsal, "check_device", lambda device: None)
    return seen


def stepped(project: Project, tmp_path: Path, **stated: Any) -> list[dict[str, Any]]:
    """What the process of a rehearsal tells of both experiments as they end, made in this one."""
    terms = {"available_gb": 0, "real_seconds": 0, "again": False, "count": False, "one_each": False, "until": 0}
    task = {"paper": "decay", "experiments": ["descent", "measurement"], "scale": "paper", "first": 0, "owner": 0}
    answers = tmp_path / "told.jsonl"
    places = {"scratch": str(tmp_path / "scratch"), "answers": str(answers)}
    write_json(tmp_path / "task.json", {**terms, **task, **places, **stated})
    rehearsal_step.rehearsal_step(project.folders, tmp_path / "task.json")
    found = [line for line in rehearsal._lines(answers) if "begun" not in line]
    answers.unlink()
    return found


def test_what_asks_for_no_gpu_is_rehearsed_on_the_cpu(
    in_process: Project, tmp_path: Path, gpu: dict[str, tuple[str, float]]
) -> None:
    plant(in_process, TRAINS)
    stepped(in_process, tmp_path)
    assert gpu == {"descent": ("cuda", 80.0), "measurement": ("cpu", 20.0)}
    stepped(in_process, tmp_path, available_gb=24.0)
    assert gpu == {"descent": ("cuda", 24.0), "measurement": ("cpu", 20.0)}


ONE_OF_TWO = CONFIG.replace("  grid: {seed: 30}", "  grid: {width: [7, 8], seed: 30}", 1).replace(
    "match: [seed]", "match: [seed], where: {width: 8}"
)
"""The second experiment starts from the second kind of call of the first."""


def test_a_gpu_is_accepted_by_one_call_of_each_experiment_that_asks_for_one(
    in_process: Project, tmp_path: Path, gpu: dict[str, tuple[str, float]]
) -> None:
    plant(in_process, TRAINS, ONE_OF_TWO.replace("{gpus: 1}", "{gpus: 0}") + "  resources: {paper: {gpus: 1}}\n")
    told = stepped(in_process, tmp_path, one_each=True)
    assert [(line["experiment"], line.get("setting")) for line in told] == [
        ("descent", "width=8"),
        ("measurement", "single"),
    ]
    assert gpu["descent"] == ("cpu", 20.0)
    assert stepped(in_process, tmp_path, one_each=True, until=time.time() - 1) == []
    every = first_calls(in_process.replication(), ["descent", "measurement"], "paper")
    assert [call.name for call in every] == ["width=7", "width=8", "single"]


def test_what_an_acceptance_did_not_reach_in_eight_minutes_is_counted(
    in_process: Project, monkeypatch: pytest.MonkeyPatch, gpu: dict[str, tuple[str, float]]
) -> None:
    plant(in_process, TRAINS, CONFIG + "  resources: {paper: {gpus: 1}}\n")
    in_process.file("claims.yaml").write_text("[]\n")
    check = {"check": "two equal trainings", "status": "ok", "reason": ""}
    monkeypatch.setattr(device_checks, "device_checks", lambda *_: iter([check]))
    asked: list[Any] = []

    def some(folders: Any, targets: Any, scale: str, terms: Terms) -> Any:
        asked.append((targets, terms.one_each, terms.over))
        yield {"paper": "decay", "experiment": "descent", "setting": "single", "status": "ok"}

    monkeypatch.setattr(rehearsal, "rehearse_all", some)
    found = list(accept(in_process.folders, "paper", Terms("cuda")))
    assert asked == [(["decay/descent", "decay/measurement"], True, False)]
    assert [line.get("check", line.get("setting")) for line in found] == ["two equal trainings", "single", "rehearsal"]
    assert found[-1]["reason"] == (
        "1 of 2 experiments that ask for a GPU were not reached in 8 minutes; `replicate rehearse --scale paper` "
        "rehearses every call of all"
    )
    monkeypatch.setattr("time.time", lambda: 0.0)
    late = Terms(until=1.0)
    assert not late.over
    monkeypatch.setattr("time.time", lambda: 2.0)
    assert list(rehearsal.rehearse(in_process.replication(), "paper", in_process.folders, late, ["descent"])) == []


@pytest.mark.parametrize(("targets", "every"), [([], False), (["decay"], True)])
def test_every_call_of_a_named_paper_is_rehearsed_on_a_gpu(
    in_process: Project, monkeypatch: pytest.MonkeyPatch, targets: list[str], every: bool
) -> None:
    said = {"paper": "decay", "experiment": "descent", "analysis": []}
    monkeypatch.setattr(rehearsal, "accept", lambda *_: iter([{**said, "experiment": "accepted"}]))
    monkeypatch.setattr(rehearsal, "rehearse_all", lambda *_: iter([{**said, "experiment": "every"}]))
    done = CliRunner().invoke(app, ["rehearse", "--device", "cuda", *targets])
    assert (f"decay/{'every' if every else 'accepted'}: metrics and figures: ok" in done.output, done.exit_code) == (
        True,
        0,
    )


def test_metrics_and_figures_that_could_not_be_tried_are_no_failure(
    in_process: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpu: dict[str, tuple[str, float]]
) -> None:
    plant(in_process, TRAINS)
    monkeypatch.setitem(sys.modules, "common.workflow.analyse", None)
    told = stepped(in_process, tmp_path)
    monkeypatch.setattr(rehearsal, "rehearse_all", lambda *_: iter(told))
    done = CliRunner().invoke(app, ["rehearse"])
    assert "decay/descent: metrics and figures: not tried: import of common.workflow.analyse halted" in done.output
    assert done.exit_code == 0


@pytest.mark.parametrize(
    ("statuses", "code"),
    [(["ok"], 0), (["ok", "unavailable"], 3), (["refused"], 3), (["refused", "failed"], 1), (["unfinished"], 0)],
)
def test_the_exit_code_says_whether_something_failed_or_was_not_rehearsed(statuses: list[str], code: int) -> None:
    assert exit_code([{"status": status} for status in statuses]) == code
    assert exit_code([{"status": "refused"}, {"analysis": ["it has no column"]}]) == 1


def test_where_no_call_has_records_metrics_and_figures_are_not_tried(
    in_process: Project, tmp_path: Path, gpu: dict[str, tuple[str, float]]
) -> None:
    plant(in_process, TRAINS)
    told = stepped(in_process, tmp_path, experiments=["descent"])[-1]
    assert (told["analysis"], told["status"]) == ([], "not tried")
    assert told["reason"] == "none of its calls was rehearsed to its end"


def test_metrics_and_figures_that_were_lost_are_told_as_what_they_are(in_process: Project) -> None:
    named = {"paper": "decay", "experiment": "descent"}
    lost = rehearsal._lost({**named, "setting": METRICS, "begun": 1, "of": 2}, "it was not done after 60 s")
    assert lost == {**named, "analysis": ["it was not done after 60 s"]}
    path = keep([lost], in_process.folders, "paper")
    keep([{**named, "analysis": []}], in_process.folders, "paper")
    assert read_json(path) == [{**named, "analysis": []}]


def test_a_rehearsal_that_needs_more_memory_than_it_may_take_is_refused(in_process: Project, tmp_path: Path) -> None:
    plant(in_process, "\n    raise MemoryError('Unable to allocate 3.0 GiB')\n")
    found = rehearsing(in_process, tmp_path, available_gb=1.5)["descent"]
    assert (found.status, found.reason) == (
        "refused",
        "its rehearsal alone needs more than the 1.5 GB that it may take",
    )


@pytest.mark.parametrize(("device", "gb"), [("cpu", 20.0), ("cuda", 18.0)])
def test_a_gpu_is_held_to_nine_tenths_of_its_memory(
    in_process: Project, monkeypatch: pytest.MonkeyPatch, device: str, gb: float
) -> None:
    stage = Stage(in_process.folders, in_process.root, torch.device(device), 20.0)
    replication, call, found = in_process.replication(), Rehearsal((), 2), Rehearsing("decay", "descent", "single", 2)
    for total, status in ((gb, "ok"), (gb + 0.1, "refused")):
        counted = Footprint(1e9, 0.0), Footprint(total * 1e9, 0.0)
        monkeypatch.setattr(rehearsed_call, "_counted", lambda *_, counted=counted: counted)
        rehearsed_call._count(found, stage, replication, call, None)  # type: ignore[arg-type]
        assert found.status == status
    assert f"of {gb:.1f} GB that tensors may take" in found.reason


def test_a_process_that_never_begins_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "START_SECONDS", 0.1)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        with pytest.raises(UserError, match=r"the rehearsal did not begin within 0\.1 s"):
            list(rehearsal._told(process, tmp_path / "told.jsonl", 60.0))
    finally:
        process.kill()
        process.wait()


def test_what_is_told_of_a_call_stands_beside_what_was_told_of_others(in_process: Project) -> None:
    def line(setting: str, status: str) -> dict[str, str]:
        return {"paper": "decay", "experiment": "descent", "setting": setting, "status": status}

    analysis = {"paper": "decay", "experiment": "descent", "analysis": ["old"]}
    keep([line("a", "old"), line("b", "old"), analysis], in_process.folders, "paper")
    keep([line("b", "new")], in_process.folders, "paper")
    path = keep([{**analysis, "analysis": []}], in_process.folders, "paper")
    assert read_json(path) == [line("a", "old"), line("b", "new"), {**analysis, "analysis": []}]


def test_records_that_depend_on_an_interruption_are_told(in_process: Project, tmp_path: Path) -> None:
    body = TRAINS.replace("MOVED", "momentum.to(context.device)")
    plant(in_process, body)
    assert {one.status for one in rehearsing(in_process, tmp_path, again=True).values()} == {"ok"}
    plant(in_process, body.replace('state["momentum"]\n', "None\n"))
    assert rehearsing(in_process, tmp_path / "other", again=True)["descent"].reason == (
        "it records other numbers when it is interrupted and resumed than in one go"
    )


@pytest.mark.slow
def test_the_command_names_a_process_that_died_and_goes_on(in_process: Project) -> None:
    """One call ends its process, the next is rehearsed by another process; nothing of it enters results."""
    dies = "\n    import os\n    if runs[0].width == 8:\n        os._exit(9)\n"
    config = CONFIG.replace("  grid: {seed: 30}", "  grid: {width: [8, 9], seed: 2}", 1).replace(
        "match: [seed]", "match: [seed], where: {width: 9}"
    )
    plant(in_process, dies + TRAINS.replace("MOVED", "momentum.to(context.device)"), config)
    found = list(rehearse_all(in_process.folders, ["decay/descent"], "paper", Terms(device="cpu")))
    said = [(line["setting"], line["status"]) for line in found if "status" in line]
    assert said == [("width=8", "failed"), ("width=9", "ok")]
    assert found[1]["code"] == in_process.replication().code_digest("descent", "run")
    assert not list(in_process.root.glob("results/.rehearsal-*"))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_what_a_rehearsal_has_started_ends_with_it(in_process: Project, number: int) -> None:
    """The call writes who it is, and would go on for long after its rehearsal is ended."""
    sleeps = (
        "\n    import os, pathlib, time\n    pathlib.Path('call').write_text(str(os.getpid()))\n    time.sleep(120)\n"
    )
    plant(in_process, sleeps + TRAINS.replace("MOVED", "momentum.to(context.device)"))
    command = [sys.executable, "-m", "common.cli", "rehearse", "decay/descent"]
    started, call = (
        subprocess.Popen(command, cwd=in_process.root, env=in_process.environment()),
        in_process.root / "call",
    )
    try:
        wait_until(lambda: call.is_file() and bool(call.read_text()))
    finally:
        started.send_signal(number)
        started.wait()
    wait_until(lambda: not lives(int(call.read_text())))
    assert bool(list(in_process.root.glob("results/.rehearsal-*"))) == (number == signal.SIGKILL)


def wait_until(holds: Callable[[], bool]) -> None:
    """Return when it holds; fail where it does not within a minute."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)
