"""The process in which a paper's calls are rehearsed, one after the other; it writes a line as each begins and ends."""

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from common.experiments.grid import Run
from common.experiments.outcomes import Outcome, Results
from common.experiments.process import prepare_torch
from common.experiments.replication import Replication
from common.files import read_json
from common.workflow.counting import count, keep_count
from common.workflow.discovery import find, make_importable
from common.workflow.footprint import available_gb, limit_memory, reset_peak
from common.workflow.ownership import end_with
from common.workflow.rehearse import METRICS
from common.workflow.rehearsed import Rehearsal, first_calls, rehearsals, rehearsed
from common.workflow.rehearsed_call import CPU, Stage, Stub, is_needed, rehearse
from common.workflow.state import Folders, RunState

Step = tuple[str, str, Callable[[Stage], dict[str, Any]]]
"""Experiment, setting, and what rehearses it."""


def rehearsal_step(folders: Folders, task: Path) -> None:
    """Rehearse what a task says, from its `first` step on; ends with the process that wrote it, however that ended."""
    stated = read_json(task)
    end_with([stated["owner"]])
    make_importable(folders.root)
    replication = find(folders.root, stated["paper"])
    stages = _stages(folders, stated)
    make = _counts if stated["count"] else _first_steps if stated["one_each"] else _steps
    steps = list(make(replication, stated["scale"], stated["experiments"]))
    with Path(stated["answers"]).open("a", encoding="utf-8") as stream:
        for number, (experiment, setting, step) in enumerate(steps):
            if number < stated["first"]:
                continue
            if stated["until"] and time.time() > stated["until"]:
                break
            named = {"paper": replication.name, "experiment": experiment}
            _write(stream, {**named, "begun": number, "of": len(steps), "setting": setting})
            resources = replication.experiment(experiment).resources_at(stated["scale"])
            stage = stages[resources.gpus > 0]
            _settle(stage)
            torch.set_num_threads(resources.cpus)
            _write(stream, {**named, **step(stage)})


def _stages(folders: Folders, stated: Mapping[str, Any]) -> dict[bool, Stage]:
    """Where experiments are rehearsed that ask for a GPU (True), and that ask for none: on the CPU, whatever there is.

    The memory that a task states is of the device that is there.
    """
    there = prepare_torch(1)
    rooms = {CPU: available_gb(CPU)}
    rooms[there] = stated["available_gb"] or available_gb(there)
    return {
        asking: Stage(
            folders,
            Path(stated["scratch"]),
            device,
            rooms[device],
            seconds=stated["real_seconds"],
            again=stated["again"],
        )
        for asking, device in ((False, CPU), (True, there))
    }


def _settle(stage: Stage) -> None:
    """Have the process be as a job on that device is; what it has freed goes back."""
    reset_peak(stage.device)
    torch.use_deterministic_algorithms(stage.device.type == "cuda", warn_only=True)
    limit_memory(stage.available_gb if stage.device == CPU else float("inf"))


def _write(stream: Any, line: dict[str, Any]) -> None:
    stream.write(json.dumps(line) + "\n")
    stream.flush()


def _steps(replication: Replication, scale: str, experiments: Collection[str]) -> Iterator[Step]:
    """The calls of each experiment, then its metrics and figures."""
    for name in replication.experiments:
        if name in experiments:
            for call in rehearsals(replication, name, scale):
                yield name, call.name, partial(_rehearsed, replication, call)
            yield name, METRICS, partial(_analysed, replication, name, scale)


def _first_steps(replication: Replication, scale: str, experiments: Collection[str]) -> Iterator[Step]:
    """The first call of each experiment that asks for a GPU, and the calls that it starts from."""
    asking = [name for name in experiments if replication.experiment(name).resources_at(scale).gpus]
    for call in first_calls(replication, asking, scale):
        yield call.runs[0].experiment, call.name, partial(_rehearsed, replication, call)


def _counts(replication: Replication, scale: str, experiments: Collection[str]) -> Iterator[Step]:
    """The calls of each experiment, counted."""
    for name in replication.experiments:
        if name in experiments:
            for call in rehearsals(replication, name, scale):
                yield name, call.name, partial(_counted, replication, call)


def _counted(replication: Replication, call: Rehearsal, stage: Stage) -> dict[str, Any]:
    """What was counted of a call; one that others start from is rehearsed before, at the larger of two sizes."""
    if is_needed(replication, call):
        Stub(stage, rehearsed(replication, 2), call.runs).play()
    found = count(stage, replication, call)
    if "reason" not in found:
        keep_count(stage.folders, call.runs[0].scale, replication.name, found)
    return {"setting": call.name, **found}


def _rehearsed(replication: Replication, call: Rehearsal, stage: Stage) -> dict[str, Any]:
    found = asdict(rehearse(stage, replication, call))
    code = replication.code_digest(found["experiment"], "run")
    return {**found, "settings": list(call.settings), "code": code}


def _analysed(replication: Replication, experiment: str, scale: str, stage: Stage) -> dict[str, Any]:
    """What goes wrong with metrics and figures of the records of an experiment's stubs, or why none were drawn."""
    try:
        from common.workflow.analyse import analysed
    except ImportError as error:
        return {"analysis": [], "status": "not tried", "reason": str(error)}
    shortened, results = rehearsed(replication), stage.results(1)
    states = [_state(run, results) for run in shortened.runs(experiment, scale)]
    if not any(state.current for state in states):
        return {"analysis": [], "status": "not tried", "reason": "none of its calls was rehearsed to its end"}
    limit_memory(float("inf"))  # the limit is of calls
    folders, place = Folders(stage.folders.root, results.root), stage.scratch / "analysis" / replication.name
    return {"analysis": [problem.sentence for problem in analysed(shortened, states, folders, place)[1]]}


def _state(run: Run, results: Results) -> RunState:
    stored = results.stored(run)
    if stored is None:
        return RunState(run, Outcome("missing", "not rehearsed"), False)
    return RunState(run, Outcome(stored.status, stored.reason), True)
