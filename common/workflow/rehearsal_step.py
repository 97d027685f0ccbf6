"""The process in which a paper's calls are rehearsed, one after the other; it writes a line as each begins and ends."""

import json
from collections.abc import Callable, Collection, Iterator
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
from common.workflow.rehearsed import Rehearsal, rehearsals, rehearsed
from common.workflow.rehearsed_call import Stage, Stub, is_needed, rehearse
from common.workflow.state import Folders, RunState

Step = tuple[str, str, Callable[[], dict[str, Any]]]
"""Experiment, setting, and what rehearses it."""


def rehearsal_step(folders: Folders, task: Path) -> None:
    """Rehearse what a task says, from its `first` step on; ends with the process that wrote it, however that ended."""
    stated = read_json(task)
    end_with([stated["owner"]])
    make_importable(folders.root)
    replication = find(folders.root, stated["paper"])
    device = prepare_torch(1)
    room = stated["available_gb"] or available_gb(device)
    stage = Stage(folders, Path(stated["scratch"]), device, room, seconds=stated["real_seconds"], again=stated["again"])
    make = _counts if stated["count"] else _steps
    steps = list(make(stage, replication, stated["scale"], stated["experiments"]))
    with Path(stated["answers"]).open("a", encoding="utf-8") as stream:
        for number, (experiment, setting, step) in enumerate(steps):
            if number < stated["first"]:
                continue
            named = {"paper": replication.name, "experiment": experiment}
            _write(stream, {**named, "begun": number, "of": len(steps), "setting": setting})
            reset_peak(device)
            if device.type == "cpu":
                limit_memory(room)
            torch.set_num_threads(replication.experiment(experiment).resources_at(stated["scale"]).cpus)
            _write(stream, {**named, **step()})


def _write(stream: Any, line: dict[str, Any]) -> None:
    stream.write(json.dumps(line) + "\n")
    stream.flush()


def _steps(stage: Stage, replication: Replication, scale: str, experiments: Collection[str]) -> Iterator[Step]:
    """The calls of each experiment, then its metrics and figures."""
    for name in replication.experiments:
        if name in experiments:
            for call in rehearsals(replication, name, scale):
                yield name, call.name, partial(_rehearsed, stage, replication, call)
            yield name, "metrics and figures", partial(_analysed, stage, replication, name, scale)


def _counts(stage: Stage, replication: Replication, scale: str, experiments: Collection[str]) -> Iterator[Step]:
    """The calls of each experiment, counted."""
    for name in replication.experiments:
        if name in experiments:
            for call in rehearsals(replication, name, scale):
                yield name, call.name, partial(_counted, stage, replication, call)


def _counted(stage: Stage, replication: Replication, call: Rehearsal) -> dict[str, Any]:
    """What was counted of a call; one that others start from is rehearsed before, at the larger of two sizes."""
    if is_needed(replication, call):
        Stub(stage, rehearsed(replication, 2), call.runs).play()
    found = count(stage, replication, call)
    if "reason" not in found:
        keep_count(stage.folders, call.runs[0].scale, replication.name, found)
    return {"setting": call.name, **found}


def _rehearsed(stage: Stage, replication: Replication, call: Rehearsal) -> dict[str, Any]:
    found = asdict(rehearse(stage, replication, call))
    return {**found, "code": replication.code_digest(found["experiment"], "run")}


def _analysed(stage: Stage, replication: Replication, experiment: str, scale: str) -> dict[str, Any]:
    return {"analysis": _analysis(stage, replication, experiment, scale)}


def _analysis(stage: Stage, replication: Replication, experiment: str, scale: str) -> list[str]:
    """What goes wrong with metrics and figures of the records of an experiment's stubs."""
    try:
        from common.workflow.analyse import analysed
    except ImportError as error:
        return [f"not tried: {error}"]
    shortened, results = rehearsed(replication), stage.results(1)
    states = [_state(run, results) for run in shortened.runs(experiment, scale)]
    if not any(state.current for state in states):
        return []
    folders, place = Folders(stage.folders.root, results.root), stage.scratch / "analysis" / replication.name
    return [problem.sentence for problem in analysed(shortened, states, folders, place)[1]]


def _state(run: Run, results: Results) -> RunState:
    stored = results.stored(run)
    if stored is None:
        return RunState(run, Outcome("missing", "not rehearsed"), False)
    return RunState(run, Outcome(stored.status, stored.reason), True)
