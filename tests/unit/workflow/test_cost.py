"""The cost of a plan: what it rests on, its interval, and the budget that it may not pass."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from common.cli import app
from common.experiments import calibration
from common.experiments.calibration import Calibration, reference
from common.experiments.grid import Job, Run
from common.files import write_json
from common.workflow import plan, timings
from common.workflow.cost import ExperimentCost, costs, gpu_hours, total_hours, wall_hours
from common.workflow.devices import DEVICES
from common.workflow.timings import Timings, trials_path
from tests.conftest import Project

GPU = "    laptop: {minutes: 6, gpus: 2, runtime: 30, per_job: {learning_rate: 1, seed: 5}}\nmeasurement"


@pytest.fixture(autouse=True)
def on_the_reference_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process takes this machine for the one whose minutes stand in config.yaml."""
    for module in (timings, plan):
        monkeypatch.setattr(module, "here", reference)
    monkeypatch.setattr(plan, "step_seconds", lambda step, of="": {"snakemake": 6.0, "start": 3.0}.get(step, 10.0))


@pytest.fixture
def as_the_reference_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes take this machine for the reference machine, too: so it stands in their cache."""
    monkeypatch.setenv("REPLICATIONS_CACHE", str(tmp_path / "cache"))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(calibration._place(), {"machine": {}, "date": now, "seconds": dict(reference().seconds), "steps": {}})


def slower(times: float) -> Calibration:
    """A machine that takes so many times as long for everything as the reference machine."""
    return Calibration({}, "", {kind: times * seconds for kind, seconds in reference().seconds.items()})


@pytest.fixture
def costly(project: Project) -> Project:
    """Three jobs on two GPUs each that take six minutes in all; `measurement` states nothing but its time limit."""
    project.edit("config.yaml", "    laptop: {minutes: 0.6}\nmeasurement", GPU)
    text = project.file("config.yaml").read_text()
    project.file("config.yaml").write_text(text.replace("    laptop: {minutes: 0.6}\n", "    laptop: {runtime: 60}\n"))
    return project


def timings_of(project: Project, **options: Any) -> Timings:
    return Timings(project.replication(), "laptop", project.folders.store, **options)


def costs_of(project: Project, device_factor: float = 1.0) -> list[ExperimentCost]:
    return costs(project.replication(), "laptop", project.folders.store, device_factor)


def plan_of(project: Project) -> list[plan.JobPlan]:
    return plan.plan(project.replication(), "laptop", project.folders.store)


def record(
    project: Project,
    run: str,
    seconds: float,
    device: str | dict[str, object] = "cpu",
    memory: float = 500.0,
    experiment: str = "descent",
    **more: object,
) -> None:
    """A run folder as far as the cost looks at it."""
    folder = project.root / "results/laptop/decay" / experiment / run
    folder.mkdir(parents=True)
    (folder / "records.jsonl").write_text("x" * 1_000_000)
    made_on = {"type": device} if isinstance(device, str) else device
    facts = {"seconds": seconds, "peak_memory_mb": memory, "device": made_on, **more}
    (folder / "provenance.json").write_text(json.dumps(facts))


def test_stated_minutes_are_device_hours_of_all_gpus_of_a_job_with_an_interval(costly: Project) -> None:
    descent, measurement = costs_of(costly)
    assert (descent.jobs, descent.runs, descent.devices, descent.gpu) == (3, 15, 2, True)
    assert descent.hours == pytest.approx((0.2, 0.1, 0.4))
    assert descent.longest == pytest.approx(0.1 / 3)
    assert descent.basis == ("minutes",)
    assert not measurement.gpu


def test_without_a_timing_it_takes_at_most_the_time_limits_of_all_attempts(costly: Project) -> None:
    measurement = costs_of(costly)[1]
    assert measurement.hours == pytest.approx((1.0, 0.0, 1.0 + 1.5 + 2.0))
    assert (measurement.limit_hours, measurement.tight) == (pytest.approx(1.0), False)
    assert measurement.basis == ("time limit",)
    assert not measurement.measured_memory
    assert measurement.disk_mb is None


def test_recorded_runs_of_the_setting_go_before_what_is_stated(costly: Project) -> None:
    for seed, seconds in enumerate((10.0, 20.0, 30.0)):
        record(costly, f"learning_rate=0.1,seed={seed}", seconds, device="cuda", memory=700.0 + seed)
    timings = timings_of(costly)
    same = timings.run(*_run(timings, "learning_rate=0.1,seed=4"))
    assert (same.seconds, same.lower, same.upper, same.basis) == (20.0, 10.0, 30.0, "recorded (cuda)")
    assert timings.run(*_run(timings, "learning_rate=3.0,seed=0")).basis == "other settings (cuda)"
    descent = costs_of(costly)[0]
    assert (descent.memory_mb, descent.measured_memory) == (702.0, True)
    assert descent.disk_mb == pytest.approx(15 * 1.0, rel=0.01)


def test_what_a_gpu_took_says_nothing_of_a_job_that_asks_for_none(costly: Project) -> None:
    runs = costly.replication().runs("measurement", "laptop")
    record(costly, runs[0].name, 20.0, device="cuda", experiment="measurement")
    assert costs_of(costly)[1].basis == ("time limit",)
    record(costly, runs[1].name, 20.0, device="cpu", experiment="measurement")
    assert costs_of(costly)[1].hours[0] == pytest.approx((len(runs)) * 20.0 / 3600)


def test_a_run_is_predicted_without_what_it_recorded_itself(costly: Project) -> None:
    record(costly, "learning_rate=0.1,seed=0", 1000.0)
    timings = timings_of(costly)
    predicted = timings.predicted(*_run(timings, "learning_rate=0.1,seed=0"))
    assert predicted.seconds == pytest.approx(6 * 60 / 15)
    assert predicted.basis == "minutes"


def test_minutes_are_carried_over_from_the_reference_machine(costly: Project) -> None:
    for times in (1.0, 2.5):
        timings = timings_of(costly, machine=slower(times))
        found = timings.run(*_run(timings, "learning_rate=0.1,seed=0"))
        assert found.seconds == pytest.approx(times * 6 * 60 / 15)


def test_a_recorded_run_counts_with_its_processor_time_carried_over_from_its_machine(costly: Project) -> None:
    made_on = {"type": "cpu", "threads": 1, "calibration": dict(slower(2.0).seconds)}
    record(costly, "learning_rate=0.1,seed=0", 500.0, processor_seconds=40.0, device=made_on)
    record(costly, "learning_rate=0.5,seed=0", 500.0, processor_seconds=900.0, device={**made_on, "threads": 2})
    record(costly, "learning_rate=3.0,seed=0", 500.0, device={"type": "cuda", "calibration": made_on["calibration"]})
    timings = timings_of(costly, machine=slower(1.0))
    seconds = [timings.run(*_run(timings, f"learning_rate={rate},seed=1")).seconds for rate in (0.1, 0.5, 3.0)]
    assert seconds == pytest.approx([20.0, 250.0, 500.0])  # threads share the work; a GPU's time is its own
    timings = timings_of(costly, machine=slower(4.0))
    assert timings.run(*_run(timings, "learning_rate=0.1,seed=1")).seconds == pytest.approx(80.0)


def test_a_recorded_run_with_other_parameters_is_no_measure(costly: Project) -> None:
    timings = timings_of(costly)
    run, job = _run(timings, "learning_rate=0.1,seed=0")
    record(costly, "learning_rate=0.1,seed=0", 500.0, inputs={"parameters": {**run.settings, "steps": 7}})
    assert timings.run(run, job).basis == "minutes"


def test_what_is_announced_rests_on_the_same_settings_or_on_minutes(costly: Project) -> None:
    record(costly, "learning_rate=0.1,seed=0", 100.0)
    timings = timings_of(costly)
    same, other = (timings.announced(*_run(timings, f"learning_rate={rate},seed=1")) for rate in (0.1, 0.5))
    assert same is not None
    assert other is not None
    assert (same.seconds, same.basis) == (100.0, "recorded (cpu)")
    assert (other.seconds, other.basis) == (24.0, "minutes")
    job = next(job for job in timings.replication.jobs("laptop") if job.experiment == "measurement")
    assert timings.announced(job.runs[0], job) is None


def test_the_announcement_counts_processes_needs_and_pages(project: Project) -> None:
    jobs = plan_of(project)
    descent, measurement = jobs
    assert measurement.needs == {descent.name}
    assert plan.duration_text(jobs, 2) == "about 1 min 44 s on 2 cores"  # 6 + (3 + 36) + (3 + 36) + (10 + 10)
    for run in project.replication().runs("descent", "laptop"):
        record(project, run.name, 60.0)
    assert plan.duration_text(plan_of(project), 2) == "about 16 min 08 s on 2 cores"  # recorded, but not current
    assert plan.tasks([]) == []


def test_an_experiment_without_minutes_is_named(costly: Project) -> None:
    assert plan.duration_text(plan_of(costly), 2) == "how long is not stated for decay/measurement"


def test_a_device_factor_divides_what_was_timed_on_a_cpu_and_nothing_else(costly: Project) -> None:
    record(costly, "learning_rate=0.1,seed=0", 100.0, device="cpu")
    record(costly, "learning_rate=0.5,seed=0", 100.0, device="cuda")
    timings = timings_of(costly, device_factor=20.0)
    assert timings.run(*_run(timings, "learning_rate=0.1,seed=1")).seconds == pytest.approx(5.0)
    assert timings.run(*_run(timings, "learning_rate=0.5,seed=1")).seconds == pytest.approx(100.0)
    assert costs_of(costly, 20.0)[1].hours[0] == pytest.approx(1.0)  # no GPU, no factor


def test_a_trial_of_other_code_is_not_used(costly: Project) -> None:
    paper = costly.replication()
    path = trials_path(costly.folders.store, "laptop", "decay")
    path.parent.mkdir(parents=True)
    trial = {
        "experiment": "descent", "setting": "learning_rate=0.1", "runs": 5, "seconds": 50.0, "lower": 40.0,
        "upper": 70.0, "peak_memory_mb": 300.0, "disk_mb": 5.0, "device": "cpu",
    }  # fmt: skip
    for code, basis in (("other", "minutes"), (paper.code_digest("descent", "run"), "trial (cpu)")):
        path.write_text(json.dumps([{**trial, "code": code}]))
        timings = timings_of(costly)
        found = timings.run(*_run(timings, "learning_rate=0.1,seed=0"))
        assert found.basis == basis
    assert (found.seconds, found.lower, found.upper) == (10.0, 8.0, 14.0)


def test_a_trial_stands_for_all_calls_of_its_kind_and_one_on_a_gpu_for_no_job_of_a_core(costly: Project) -> None:
    paper = costly.replication()
    runs = paper.runs("descent", "laptop")
    digests = {timings.setting(run): timings.parameters_digest(run) for run in runs}
    trial = {
        "setting": "learning_rate=0.1", "settings": ["learning_rate=0.1", "learning_rate=0.5", "learning_rate=3.0"],
        "parameters": digests | {"learning_rate=3.0": "00000000"}, "runs": 5, "seconds": 50.0, "lower": 40.0,
        "upper": 70.0, "peak_memory_mb": 300.0, "disk_mb": 5.0, "device": "cuda",
    }  # fmt: skip
    both = [
        {**trial, "experiment": name, "code": paper.code_digest(name, "run")} for name in ("descent", "measurement")
    ]
    write_json(trials_path(costly.folders.store, "laptop", "decay"), both)
    found = timings_of(costly)

    def basis(name: str) -> str:
        return found.run(*_run(found, name)).basis

    assert basis("learning_rate=0.1,seed=0") == basis("learning_rate=0.5,seed=3") == "trial (cuda)"
    assert basis("learning_rate=3.0,seed=0") == "minutes", "its parameters are others now"
    assert costs_of(costly)[1].basis == ("time limit",), "a GPU's trial says nothing of a core"


def test_the_memory_of_the_gpu_is_the_most_that_was_rehearsed_or_counted(costly: Project) -> None:
    paper = costly.replication()
    line = {"paper": "decay", "experiment": "descent", "setting": "learning_rate=0.1", "counted_gb": [20.0, 30.0]}
    path = timings.rehearsals_path(costly.folders.store, "laptop")

    def held(gpu: str) -> tuple[timings.GpuMemory | None, bool]:
        found = costs(paper, "laptop", costly.folders.store, gpu=DEVICES[gpu])[0]
        return found.gpu_memory, found.too_large

    assert held("rtx4090") == (None, False)
    write_json(path, [{**line, "code": "00000000"}])
    assert held("rtx4090") == (None, False), "of former code"
    code = paper.code_digest("descent", "run")
    write_json(path, [{**line, "code": code}])
    assert held("rtx4090") == (timings.GpuMemory(20.0, 30.0), False), "its seeds are computed in parts"
    write_json(path, [{**line, "counted_gb": [25.0, 30.0], "code": code}])
    assert held("rtx4090") == (timings.GpuMemory(25.0, 30.0), True)
    assert held("a100") == (timings.GpuMemory(25.0, 30.0), False)


def test_memory_that_git_keeps_is_of_former_code_until_the_present_one_is_rehearsed(costly: Project) -> None:
    paper = costly.replication()
    run, path = paper.runs("descent", "laptop")[0], timings.kept_counts_path(paper, "laptop")
    kept = {
        "experiment": "descent", "settings": [timings.setting(run)], "marks": [[1.0, {"operations": 1.0}]],
        "parameters": {timings.setting(run): timings.parameters_digest(run)}, "peak_gb": 5.0, "runs": 1, "code": "0",
    }  # fmt: skip
    code = paper.code_digest("descent", "run")

    def held(**entry: object) -> tuple[timings.GpuMemory | None, bool]:
        write_json(path, [{**kept, **entry}])
        found = costs(paper, "laptop", costly.folders.store, gpu=DEVICES["rtx4090"])[0]
        return found.gpu_memory, found.too_large

    assert held() == (timings.GpuMemory(None, 5.0, former=True), False), "counted"
    assert held(rehearsed_gb=[None, 22.0]) == (timings.GpuMemory(None, 22.0, former=True), True)
    assert held(rehearsed_gb=[3.0, 22.0], rehearsed_code="0") == (timings.GpuMemory(3.0, 22.0, former=True), False)
    assert held(rehearsed_gb=[3.0, 22.0], rehearsed_code=code) == (timings.GpuMemory(3.0, 22.0), False)
    line = {"paper": "decay", "experiment": "descent", "setting": "one", "settings": [timings.setting(run)]}
    lines = [{**line, "counted_gb": [1.0, 2.0], "code": code}]
    write_json(timings.rehearsals_path(costly.folders.store, "laptop"), lines)
    assert held(rehearsed_gb=[3.0, 22.0]) == (timings.GpuMemory(1.0, 2.0), False), "what is rehearsed may fall, too"


def test_wall_time_is_the_work_shared_out_or_the_longest_job(costly: Project) -> None:
    found = costs_of(costly)[:1]
    assert wall_hours(found, 1) == pytest.approx(0.2)
    assert wall_hours(found, 100) == pytest.approx(found[0].longest)
    assert gpu_hours(found) == total_hours(found)


def test_the_chain_of_what_jobs_wait_for_bounds_the_wall_time(costly: Project) -> None:
    descent, measurement = costs_of(costly)
    assert (descent.needs, descent.path) == ((), ("descent",))
    assert (measurement.needs, measurement.path) == (("descent",), ("descent", "measurement"))
    assert measurement.path_hours == pytest.approx(descent.longest + measurement.longest)
    assert wall_hours([descent, measurement], 100) == pytest.approx(measurement.path_hours)


def test_the_command_refuses_a_plan_whose_upper_bound_is_above_its_budget_and_says_what_to_keep(
    costly: Project, as_the_reference_machine: None
) -> None:
    refused = costly.replicate("plan", "--scale", "laptop", "--budget", "0.3")
    assert refused.returncode == 2
    said = "replicate: the plan may take 0.4 GPU hours, more than the budget of 0.3; the 0 experiments kept above take"
    assert refused.stderr.startswith(said)
    assert "decide 0 of 1 open claims" in refused.stderr
    assert refused.stderr.count("\n") == 1
    kept_none = refused.stdout[refused.stdout.index("leave out") :]
    assert "decay/descent" in kept_none
    assert "decay/measurement" in kept_none
    assert costly.replicate("plan", "--scale", "laptop", "--budget", "0.41").returncode == 0


def test_the_budget_of_an_experiment_holds_what_it_starts_from(
    costly: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(costly.root)
    planned = ["plan", "--scale", "laptop", "--budget", "0.3"]
    refused = CliRunner().invoke(app, [*planned, "decay/measurement"])
    assert "the plan may take 0.4 GPU hours, more than the budget of 0.3" in str(refused.exception)
    assert "decay/descent " in refused.stdout
    alone = CliRunner().invoke(app, [*planned, "decay/descent"]).stdout.partition("In all")[0]
    assert "decay/measurement " not in alone


def test_a_trial_runs_the_real_thing_for_a_while_and_the_plan_rests_on_it(project: Project) -> None:
    project.edit("config.yaml", "{steps: 40}", "{steps: 4000, pause: 0.01}")
    done = project.replicate("plan", "--scale", "laptop", "--trial", "2")
    assert done.returncode == 0, done.stderr
    assert "decay/measurement/learning_rate=0.1: no trial: it starts from other runs" in done.stderr
    assert "trial (cpu)" in done.stdout
    trials = json.loads((project.root / "results/.trials/laptop/decay.json").read_text())
    assert [trial["setting"] for trial in trials] == [f"learning_rate={rate}" for rate in (0.1, 0.5, 3.0)]
    for trial in trials:
        assert trial["runs"] == 5
        assert trial["seconds"] > 4000 * 0.01  # the pauses alone; how much more depends on the machine
        assert trial["lower"] < trial["seconds"] < trial["upper"]
        assert trial["peak_memory_mb"] > 50
        assert trial["disk_mb"] > 0
    assert not list((project.root / "results").glob("laptop"))


def test_the_command_counts_calls_that_start_from_others_too_and_compares_them_with_minutes(
    project: Project, as_the_reference_machine: None
) -> None:
    assert "choose one of" in project.replicate("plan", "--device", "h1000").stderr
    done = project.succeeds("plan", "--scale", "laptop", "--count", "5")
    assert "decay/descent/learning_rate=0.1: " in done.stderr
    assert "not counted" not in done.stderr
    assert done.stdout.count("counted (cpu)") == 2
    counts = json.loads((project.root / "results/.counts/laptop/decay.json").read_text())
    assert {entry["experiment"] for entry in counts} == {"descent", "measurement"}
    compared = project.succeeds("plan", "--scale", "laptop", "--compare").stdout
    assert "experiments that were counted whole" in compared
    assert not list((project.root / "results").glob("laptop"))


def test_a_finished_run_stands_beside_its_prediction(project: Project, as_the_reference_machine: None) -> None:
    assert project.replicate("run", "decay", "--scale", "laptop").returncode == 0
    assert project.replicate("step", "analyse", "decay", "laptop").returncode == 0
    entries = json.loads((project.root / "analysis/laptop/decay/runs.json").read_text())
    for entry in entries:
        assert entry["predicted"]["seconds"] == pytest.approx(0.6 * 60 / 15)
        assert entry["predicted"]["basis"] == "minutes"
        assert entry["seconds"] > 0


def _run(timings: Timings, name: str) -> tuple[Run, Job]:
    """A run of descent with its job."""
    jobs = [job for job in timings.replication.jobs("laptop") if job.experiment == "descent"]
    return next((run, job) for job in jobs for run in job.runs if run.name == name)
