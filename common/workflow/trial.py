"""`replicate plan --trial`: the first seconds of each distinct call of `run()`, each in a process of its own."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.experiments.grid import Job, Run, together
from common.experiments.identity import Identities
from common.experiments.outcomes import COMPUTED, Results
from common.experiments.replication import Replication
from common.files import published, read_entries, read_json, write_json
from common.workflow.discovery import find, make_importable
from common.workflow.extrapolation import SINGLE_SPREAD, of_the_whole
from common.workflow.progress import several
from common.workflow.state import Folders
from common.workflow.timings import setting, trials_path

if TYPE_CHECKING:
    from common.experiments.call import Conditions

START_SECONDS = 300.0
"""How long a call may take until its first report of progress (data, model, first step)."""


def try_calls(replication: Replication, scale: str, folders: Folders, seconds: float) -> Iterator[str]:
    """Start every distinct call that has a due run, for about `seconds` each; yields a line for each.

    What is found is kept for `replicate plan`. A call that cannot be tried (it starts from another run, its data
    are out of reach, it tells no progress) is named with the reason.
    """
    path = trials_path(folders.store, scale, replication.name)
    kept = {(entry.get("experiment"), entry.get("setting")): entry for entry in read_entries(path)}
    for runs in distinct_calls(replication, scale, folders.store):
        found = _in_a_process(replication, scale, folders, runs[0], seconds)
        name = f"{replication.name}/{runs[0].experiment}/{setting(runs[0])}"
        if "reason" in found:
            yield f"{name}: no trial: {found['reason']}"
            continue
        kept[(found["experiment"], found["setting"])] = found
        write_json(path, list(kept.values()))
        yield f"{name}: {found['seconds']:.3g} s for {several(found['runs'], 'run')} on {found['device']}"


def distinct_calls(replication: Replication, scale: str, results: Results) -> list[list[Run]]:
    """One call of `run()` for each setting that has a due run: the first, as its job makes it."""
    identities = Identities(replication, results)
    found: dict[tuple[str, str], list[Run]] = {}
    for job in replication.jobs(scale):
        for runs in calls_of(replication, job):
            if any(not identities.current(run) for run in runs):
                found.setdefault((runs[0].experiment, setting(runs[0])), runs)
    return list(found.values())


def calls_of(replication: Replication, job: Job) -> Iterator[list[Run]]:
    """The calls of `run()` that a job makes."""
    for experiment in dict.fromkeys(run.experiment for run in job.runs):
        mine = [run for run in job.runs if run.experiment == experiment]
        yield from together(mine, replication.experiment(experiment))


def _in_a_process(replication: Replication, scale: str, folders: Folders, run: Run, seconds: float) -> dict[str, Any]:
    """What the trial of the call that begins with `run` found, or a `reason`; its process is ended in time."""
    if replication.experiment(run.experiment).needs:
        return {"reason": "it starts from other runs"}
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "trial.json"
        command = [sys.executable, "-m", "common.cli", "step", "trial", str(answer)]
        command += [str(run), scale, str(seconds)]
        try:
            done = subprocess.run(
                command, cwd=folders.root, capture_output=True, text=True, timeout=START_SECONDS + 3 * seconds
            )
        except subprocess.TimeoutExpired:
            return {"reason": "it told no progress in time"}
        if done.returncode or not answer.is_file():
            return {"reason": (done.stderr.strip().splitlines() or [f"its process ended with {done.returncode}"])[-1]}
        found: dict[str, Any] = read_json(answer)
        return found


def trial_step(folders: Folders, answer: Path, target: str, scale: str, seconds: float) -> None:
    """Try the call that begins with a run, PAPER/EXPERIMENT/RUN, and write what was found, or why nothing was."""
    paper, experiment, name = target.split("/", 2)
    replication = find(folders.root, paper)
    make_importable(folders.root)
    runs = next(
        runs
        for job in replication.jobs(scale)
        for runs in calls_of(replication, job)
        if runs[0].experiment == experiment and runs[0].name == name
    )
    write_json(answer, _try(replication, scale, runs, answer.parent, seconds))


def _try(replication: Replication, scale: str, runs: Sequence[Run], scratch: Path, seconds: float) -> dict[str, Any]:
    """`timed` in a results folder of its own."""
    from common.experiments.call import Conditions
    from common.experiments.process import prepare_torch

    device = prepare_torch(replication.experiment(runs[0].experiment).resources_at(scale).cpus)
    job = Job(replication.name, runs[0].experiment, scale, tuple(runs))
    return timed(Conditions(replication, Results(scratch / "results"), device), job, seconds)


def timed(conditions: "Conditions", job: Job, seconds: float) -> dict[str, Any]:
    """Start a call and end it some seconds after its first progress: what stands in the file of trials, or a `reason`.

    `seconds` is what the whole call would take at the rate seen, with bounds from the parts of the trial; `disk_mb` is
    of the records and artifacts of all its runs, as far as they grow with the progress; `code` tells what was timed.
    """
    from common.experiments import provenance
    from common.experiments.execution import execute_job

    clock, device = conditions.clock, conditions.device
    points: list[tuple[float, float]] = []
    started = time.monotonic()

    def report(run: Run, fraction: float, message: str) -> None:
        now = time.monotonic()
        points.append((now - started, fraction))
        if clock.deadline is None:
            clock.deadline = now + seconds

    outcomes = list(execute_job(job, conditions, report).values())
    whole = outcomes[0].status in COMPUTED
    if not whole and outcomes[0].status != "unfinished":
        return {"reason": outcomes[0].reason}
    estimate = _extrapolated(points, time.monotonic() - started, whole)
    if estimate is None:
        return {
            "reason": f"it told no progress in {seconds:g} s; `context.progress` more often, or a longer trial, helps"
        }
    reached = 1.0 if whole else points[-2][1]
    centre, lower, upper = estimate
    return {
        "experiment": job.experiment,
        "setting": setting(job.runs[0]),
        "runs": len(job.runs),
        "seconds": centre,
        "lower": lower,
        "upper": upper,
        "peak_memory_mb": _peak_memory_mb(provenance.peak_memory_mb(), device),
        "disk_mb": _records_mb(conditions.results.root / ".work") / reached,
        "device": device.type,
        "code": conditions.replication.code_digest(job.experiment, "run"),
    }


def _extrapolated(
    points: Sequence[tuple[float, float]], elapsed: float, whole: bool
) -> tuple[float, float, float] | None:
    """Seconds of the whole call with bounds, from (seconds, fraction) pairs; None where the fraction did not grow."""
    if whole:
        return elapsed, elapsed / SINGLE_SPREAD, elapsed * SINGLE_SPREAD
    return of_the_whole([point for point in points if 0 < point[1] < 1.0])  # the executor reports 1.0 at the end


def _peak_memory_mb(resident: float, device: Any) -> float:
    """Of this process, on a GPU that of the GPU if it is more."""
    if device.type != "cuda":
        return resident
    import torch

    return max(resident, torch.cuda.max_memory_allocated() / 1e6)


def _records_mb(work: Path) -> float:
    """What will be kept of the work in progress: records and artifacts, not checkpoints."""
    kept = [*published(work, "**/records.jsonl"), *published(work, "**/*.safetensors")]
    return sum(path.stat().st_size for path in kept) / 1e6
