"""Executing a job: every run reaches an outcome, and nothing computed is lost."""

import itertools
import json
import math
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from common.datasets import Dataset, Split
from common.errors import DataUnavailable, UserError
from common.experiments import provenance
from common.experiments.calibration import WORK
from common.experiments.call import Conditions
from common.experiments.context import Clock
from common.experiments.execution import execute_job
from common.experiments.grid import Run
from common.experiments.outcomes import Outcome, read_rows
from common.workflow.state import run_states
from tests.conftest import Project


def execute(project: Project, scale: str = "smoke", **options: object) -> dict[str, Outcome]:
    mine = project.replication()
    conditions = Conditions(mine, project.folders.store, torch.device("cpu"), **options)  # type: ignore[arg-type]
    outcomes: dict[str, Outcome] = {}
    for job in mine.jobs(scale):
        outcomes |= execute_job(job, conditions)
    return outcomes


def statuses(outcomes: dict[str, Outcome]) -> dict[str, str]:
    return {name: outcome.status for name, outcome in outcomes.items()}


def rows(project: Project, path: str) -> list[dict[str, float]]:
    return list(read_rows(project.root / "results" / path / "records.jsonl"))


def test_a_run_folder_holds_records_artifacts_provenance_and_outcome(in_process: Project) -> None:
    execute(in_process)
    folder = in_process.root / "results/smoke/decay/descent/learning_rate=0.1,seed=0"
    assert sorted(p.name for p in folder.rglob("*")) == [
        "artifacts",
        "outcome.json",
        "provenance.json",
        "records.jsonl",
        "weights.safetensors",
    ]
    assert [row["step"] for row in read_rows(folder / "records.jsonl")] == list(range(1, 21))
    provenance = json.loads((folder / "provenance.json").read_text())
    assert {"commit", "dirty", "locks", "inputs", "versions", "seconds"} <= provenance.keys()
    assert {"processor_seconds", "peak_memory_mb"} <= provenance.keys()
    assert provenance["device"]["calibration"].keys() == WORK.keys()
    assert provenance["parameters"] == {"seed": 0, "learning_rate": 0.1, "steps": 20, "pause": 0.0}
    assert not (in_process.root / "results/.work/smoke/decay/descent/learning_rate=0.1,seed=0").exists()


def test_a_diverged_run_is_an_outcome_and_leaves_the_others_alone(in_process: Project) -> None:
    outcomes = execute(in_process)
    assert outcomes["descent/learning_rate=3.0,seed=0"].status == "diverged"
    assert "the distance reached" in outcomes["descent/learning_rate=3.0,seed=0"].reason
    assert outcomes["descent/learning_rate=0.5,seed=0"].status == "completed"
    assert len(rows(in_process, "smoke/decay/descent/learning_rate=3.0,seed=0")) == 20


def test_current_runs_and_their_marker_are_left_alone(in_process: Project) -> None:
    execute(in_process)
    before = {path: path.stat().st_mtime_ns for path in in_process.root.glob("results/**/*.json")}
    assert set(statuses(execute(in_process)).values()) == {"completed", "diverged"}
    assert {path: path.stat().st_mtime_ns for path in in_process.root.glob("results/**/*.json")} == before


def test_an_edit_of_code_or_parameters_makes_the_runs_due_and_one_of_a_plot_does_not(in_process: Project) -> None:
    execute(in_process)
    in_process.edit("analysis/descent.py", 'yscale="log"', 'yscale="linear"')
    in_process.edit("analysis/descent.py", "np.log(", "np.log2(")
    assert all(state.current for state in run_states(in_process.replication(), "smoke", in_process.folders.store))
    in_process.edit("descent.py", "1e-6 * kick", "1e-7 * kick")
    states = run_states(in_process.replication(), "smoke", in_process.folders.store)
    stale = [state for state in states if state.run.experiment == "descent"]
    assert not any(state.current for state in stale)
    assert {state.outcome.reason for state in stale} == {"its results are of other code"}


def test_results_of_another_code_version_stay_until_the_new_ones_are_complete(in_process: Project) -> None:
    execute(in_process)
    old = in_process.records("smoke")
    in_process.edit("descent.py", "torch.stack(start)", "torch.stack(start) / (1 - runs[0].seed // 9)")
    in_process.edit("descent.py", "if state is None:", "if state is None:\n        raise RuntimeError('no luck')")
    outcomes = execute(in_process)
    failed = outcomes["descent/learning_rate=0.1,seed=0"]
    assert failed.status == "failed"
    assert re.fullmatch(r"replications/decay/descent\.py:\d+: RuntimeError: no luck", failed.reason)
    assert outcomes["measurement/learning_rate=0.1,seed=0"].status == "blocked", "it would start from stale weights"
    assert in_process.records("smoke") == old


def test_a_failed_run_is_tried_again_when_asked_or_when_its_code_changes(in_process: Project) -> None:
    in_process.edit("descent.py", "rates = torch", "open('count', 'a').write('x'); 1 / 0\n    rates = torch")
    count = in_process.root / "count"
    outcomes = execute(in_process)
    assert set(statuses(outcomes).values()) == {"failed", "blocked"}
    assert "decay/descent/learning_rate=0.5,seed=1" in outcomes["measurement/learning_rate=0.5,seed=1"].reason
    assert count.read_text() == "xxx"
    execute(in_process)
    assert count.read_text() == "xxx"
    execute(in_process, retry=frozenset({"failed"}))
    assert count.read_text() == "xxxxxx"
    in_process.edit("descent.py", "1 / 0", "0 / 1")
    assert set(statuses(execute(in_process)).values()) == {"completed", "diverged"}


def test_a_changed_artifact_makes_the_runs_that_start_from_it_due(in_process: Project) -> None:
    execute(in_process)
    before = rows(in_process, "smoke/decay/measurement/learning_rate=0.1,seed=0")
    in_process.edit("config.yaml", "smoke: {steps: 20", "smoke: {steps: 10")
    execute(in_process)
    assert rows(in_process, "smoke/decay/measurement/learning_rate=0.1,seed=0") != before


def test_unavailable_data_is_an_outcome_and_is_tried_again(
    in_process: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    from common.datasets import shared

    def nowhere(name: str) -> None:
        raise DataUnavailable(f"{name}: no source delivered it")

    monkeypatch.setattr(shared, "shared", nowhere)
    in_process.edit("descent.py", "rates = torch", "context.data('mnist')\n    rates = torch")
    outcome = execute(in_process)["descent/learning_rate=0.1,seed=0"]
    assert (outcome.status, outcome.reason) == ("data_unavailable", "mnist: no source delivered it")
    images = Split("images", torch.zeros(1, 1, 2, 2, dtype=torch.uint8), torch.zeros(1, dtype=torch.int64))
    monkeypatch.setattr(shared, "shared", lambda name: Dataset(name, name, 1, "digest", images, images))
    assert execute(in_process)["descent/learning_rate=0.1,seed=0"].status == "completed"


def test_time_up_ends_unfinished_and_the_next_invocation_ends_with_the_same_bits(
    in_process: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute(in_process)
    whole = in_process.records("smoke")
    for path in (in_process.root / "results").glob("*"):
        path.rename(in_process.root / f"old-{path.name}")
    in_process.edit("config.yaml", "base: {steps: 40}", "base: {steps: 40, pause: 0.01}")
    monkeypatch.setenv("REPLICATIONS_CHECKPOINT_SECONDS", "0")
    outcomes, rounds = {"": Outcome("unfinished")}, 0
    while any(outcome.status in ("unfinished", "blocked") for outcome in outcomes.values()):
        outcomes = execute(in_process, clock=Clock(time.monotonic() + 0.15))
        rounds += 1
    assert rounds > 3
    assert in_process.records("smoke") == whole
    provenance = in_process.root / "results/smoke/decay/descent/learning_rate=0.1,seed=0/provenance.json"
    assert json.loads(provenance.read_text())["segments"] > 1


def test_the_processor_time_of_all_segments_is_kept_and_shared_by_runs_computed_together(
    in_process: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = [100.0]
    monkeypatch.setenv("REPLICATIONS_CHECKPOINT_SECONDS", "0")
    monkeypatch.setattr(time, "process_time", lambda: spent[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: spent.__setitem__(0, spent[0] + 1))  # once a step
    stop = "context._clock.stop_requested = state['step'] == 7\n        context.progress("
    in_process.edit("descent.py", "context.progress(", stop)
    outcomes = {"": Outcome("unfinished")}
    while any(outcome.status in ("unfinished", "blocked") for outcome in outcomes.values()):
        outcomes = execute(in_process)
        spent[0] += 1000  # between the attempts
    folder = in_process.root / "results/smoke/decay/descent/learning_rate=0.1,seed=0"
    provenance = json.loads((folder / "provenance.json").read_text())
    assert (provenance["segments"], provenance["computed_together"]) == (2, 2)
    assert provenance["processor_seconds"] == 20 / 2


def interrupted(project: Project, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, bytes], Path]:
    """The whole results, and the work folder of a call that was ended at its seventh step."""
    execute(project)
    whole = project.records("smoke")
    shutil.rmtree(project.root / "results")
    monkeypatch.setenv("REPLICATIONS_CHECKPOINT_SECONDS", "0")
    monkeypatch.setenv("STOP_AT", "7")
    stop = "context._clock.stop_requested = str(state['step']) == os.environ.get('STOP_AT')\n        context.progress("
    project.edit("descent.py", "import torch\n", "import os\n\nimport torch\n")
    project.edit("descent.py", "context.progress(", stop)
    assert execute(project)["descent/learning_rate=0.1,seed=0"].status == "unfinished"
    monkeypatch.delenv("STOP_AT")
    return whole, project.root / "results/.work/smoke/decay/descent/learning_rate=0.1,seed=0"


def test_what_a_killed_process_left_half_written_never_becomes_part_of_a_run(
    in_process: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, work = interrupted(in_process, monkeypatch)
    assert (work / "checkpoint.pt").is_file()
    for run in (work / "runs").iterdir():
        (run / "artifacts").mkdir()
        (run / "artifacts" / ".weights.safetensors.abc.safetensors").touch()
    execute(in_process)
    assert in_process.records("smoke") == whole


def test_runs_are_of_the_commit_at_which_they_were_begun(in_process: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def committed() -> str:
        commit = in_process.commit("rules")
        provenance.commit.cache_clear()
        provenance.dirty.cache_clear()
        return commit

    def commit_of(seed: int) -> str:
        run = in_process.root / f"results/smoke/decay/descent/learning_rate=0.1,seed={seed}"
        return str(json.loads((run / "provenance.json").read_text())["commit"])

    interrupted(in_process, monkeypatch)
    shutil.rmtree(in_process.root / "results")
    first = committed()
    monkeypatch.setenv("STOP_AT", "7")
    assert execute(in_process)["descent/learning_rate=0.1,seed=0"].status == "unfinished"
    monkeypatch.delenv("STOP_AT")
    in_process.edit("claims.yaml", "decidable_from: laptop", "decidable_from: smoke")
    second = committed()
    execute(in_process)
    assert commit_of(0) == first, "a rule that is committed meanwhile is no older than a run that is resumed"
    shutil.rmtree(in_process.root / "results")
    execute(in_process)
    assert commit_of(0) == second


def test_a_checkpoint_of_other_code_is_not_resumed(in_process: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(in_process, monkeypatch)
    in_process.edit("descent.py", "1e-6 * kick", "0.0 * kick")
    execute(in_process)
    first = rows(in_process, "smoke/decay/descent/learning_rate=0.5,seed=0")
    ratios = [b["distance"] / a["distance"] for a, b in itertools.pairwise(first)]
    assert ratios == pytest.approx([0.5] * 19)


def test_a_commit_cut_short_is_finished_by_the_next_process(in_process: Project) -> None:
    execute(in_process)
    whole = in_process.records("smoke")
    place = in_process.root / "results/smoke/decay/descent"
    work = in_process.root / "results/.work/smoke/decay/descent/learning_rate=0.1,seed=0"
    (work / "runs").mkdir(parents=True)
    (place / "learning_rate=0.1,seed=1").rename(work / "runs" / "learning_rate=0.1,seed=1")
    (work / "commit.json").write_text(json.dumps(["learning_rate=0.1,seed=0", "learning_rate=0.1,seed=1"]))
    before = in_process.modified()
    execute(in_process)
    assert in_process.records("smoke") == whole
    assert {k: v for k, v in in_process.modified().items() if ".work" not in k}.items() >= {
        k: v for k, v in before.items() if ".work" not in k
    }.items()
    assert not work.exists()


def test_values_of_all_kinds_share_a_column_and_round_trip_exactly(in_process: Project) -> None:
    in_process.edit(
        "measurement.py",
        "weights = context",
        "values = (1, 2.5, None, torch.tensor(3), -(2**63), float('inf'), torch.tensor(1 / 3), float('nan'))\n"
        "        [context.record(run, x=x, y=None, text='a\\nb') for x in values]\n        weights = context",
    )
    in_process.edit("measurement.py", "from collections", "import torch\nfrom collections")
    execute(in_process)
    found = rows(in_process, "smoke/decay/measurement/learning_rate=0.1,seed=0")[:-1]
    assert [row["x"] for row in found[:-1]] == [1, 2.5, None, 3, -(2**63), math.inf, torch.tensor(1 / 3).item()]
    assert math.isnan(found[-1]["x"])
    assert found[0]["text"] == "a\nb"


def test_a_parameter_out_of_range_is_one_sentence_before_anything_is_computed(in_process: Project) -> None:
    in_process.edit(
        "config.yaml",
        "learning_rate: [0.1, 0.5, 3.0]\n    seed: 5\n  together",
        "learning_rate: [0.1, -1]\n    seed: 5\n  together",
    )
    in_process.edit("config.yaml", "  needs:\n    start: {experiment: descent, match: [learning_rate, seed]}\n", "")
    with pytest.raises(UserError, match=r"config.yaml:4: descent.learning_rate = -1 at scale smoke: .*greater than 0"):
        execute(in_process)
    assert not (in_process.root / "results").exists()


def test_the_arms_of_a_seed_start_from_equal_weights_and_differ_in_their_noise(in_process: Project) -> None:
    in_process.edit(
        "descent.py",
        "state = context.restore()",
        "state = context.restore()\n"
        "    for run in runs:\n"
        "        context.save(run, 'streams', {s: torch.randn(3, generator=context.generator(run, s))"
        " for s in ('init', 'batches', 'noise')})",
    )
    execute(in_process)
    from safetensors.torch import load_file

    base = in_process.root / "results/smoke/decay/descent"
    one, other = (load_file(base / f"learning_rate={rate},seed=1/artifacts/streams.safetensors") for rate in (0.1, 0.5))
    assert torch.equal(one["init"], other["init"])
    assert torch.equal(one["batches"], other["batches"])
    assert not torch.equal(one["noise"], other["noise"])


IN_RUN = "    for run in runs:"
AT_THE_TOP = "from collections.abc"


@pytest.mark.parametrize(
    ("code", "reason", "before"),
    [
        ("import nonexistent", ".py:3: ModuleNotFoundError: No module named 'nonexistent'", AT_THE_TOP),
        ("raise SystemExit(0)", "cannot be imported: replications/decay/measurement.py:3: SystemExit: 0", AT_THE_TOP),
        ("    runs = []", "run() recorded nothing for it", IN_RUN),
        ("    raise SystemExit(0)", "run() ended the process (SystemExit: 0)", IN_RUN),
        ("    import sys; sys.exit('enough')", "run() ended the process (SystemExit: enough)", IN_RUN),
        ("    raise GeneratorExit('out')", "GeneratorExit: out", IN_RUN),
        ("    context.artifact(runs[0], 'nothing', 'weights')", "config.yaml has no need 'nothing'", IN_RUN),
        ("    raise ValueError('half a pair: \\ud83d')", "ValueError: half a pair: \\ud83d", IN_RUN),
        ("    context.record(runs[0], big=2**70)", "'big' is an integer of more than 64 bits", IN_RUN),
        ("    context.record(runs[0], text='\\udc80')", "'text' holds half of a surrogate pair", IN_RUN),
        ("    [context.record(runs[0], x=x) for x in (1, 'a')]", "'x' holds numbers elsewhere and texts here", IN_RUN),
        (
            "    [context.record(runs[0], x=x) for x in (True, 2.0)]",
            "'x' holds truth values elsewhere and numbers here",
            IN_RUN,
        ),
        ("    context.save(runs[0], '../../../x', {})", "'../../../x' cannot name an artifact", IN_RUN),
        ("    context.save(runs[0], '.hidden', {})", "'.hidden' cannot name an artifact", IN_RUN),
    ],
)
def test_whatever_an_experiment_does_is_its_own_failure_with_a_sentence(
    in_process: Project, code: str, reason: str, before: str
) -> None:
    in_process.edit("measurement.py", before, f"{code}\n{before}")
    outcomes = execute(in_process)
    assert outcomes["descent/learning_rate=0.1,seed=0"].status == "completed"
    failed = outcomes["measurement/learning_rate=0.1,seed=0"]
    assert failed.status == "failed"
    assert reason in failed.reason


def test_a_real_interrupt_is_not_taken_for_a_failure(in_process: Project) -> None:
    in_process.edit("descent.py", "rates = torch", "raise KeyboardInterrupt\n    rates = torch")
    with pytest.raises(KeyboardInterrupt):
        execute(in_process)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "base: {steps: 40}",
            "base: {step: 40}",
            r"config.yaml:2: class Parameters in descent.py has no parameter 'step'; did you mean 'steps'\?",
        ),
        (
            "smoke: {steps: 20,",
            "smoke: {stepss: 20,",
            r"config.yaml:8: class Parameters in descent.py has no parameter 'stepss'",
        ),
        (
            "experiment: descent,",
            "experiment: descend,",
            r"measurement.needs.start names no experiment .*'descend'; did you mean",
        ),
        ("descent:\n  base", "ascent:\n  base", r"config.yaml: ascent: there is no .*ascent.py"),
        (
            "  together: [seed]\n",
            "  together: [seed]\n  needs: {back: {experiment: measurement}}\n",
            r"needs go in a circle: descent -> measurement -> descent",
        ),
        ("match: [learning_rate, seed]", "match: [seed]", r"measurement.needs.start: 3 runs of descent match"),
    ],
)
def test_names_and_needs_that_do_not_fit_are_one_sentence(
    in_process: Project, old: str, new: str, sentence: str
) -> None:
    in_process.edit("config.yaml", old, new)
    with pytest.raises(UserError, match=sentence):
        execute(in_process)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_request_to_end_is_met_at_the_next_checkpoint(project: Project, number: signal.Signals) -> None:
    project.edit("config.yaml", "base: {steps: 40}", "base: {steps: 40, pause: 0.05}")
    command = [sys.executable, "-m", "common.cli", "run", "decay/descent", "--scale", "laptop"]
    process = subprocess.Popen(command, cwd=project.root, env=project.environment(), stdout=subprocess.PIPE, text=True)
    wait_for(project.root / "results/.work/laptop/decay/descent/learning_rate=0.1,seed=0/runs")
    process.send_signal(number)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 3
    assert "unfinished: it was asked to end" in output
    assert (project.root / "results/.work/laptop/decay/descent/learning_rate=0.1,seed=0/checkpoint.pt").is_file()


def wait_for(path: Path, seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.01)


def test_a_run_is_named_by_its_axes() -> None:
    run = Run("paper", "experiment", "laptop", {"rate": 0.1, "flag": True, "arm": "x"}, {})
    assert run.name == "rate=0.1,flag=true,arm=x"
    assert run.path == Path("laptop/paper/experiment/rate=0.1,flag=true,arm=x")
