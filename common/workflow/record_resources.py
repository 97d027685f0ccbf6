"""Resources of config.yaml from what is known here.

`minutes`, core minutes of an experiment on the reference machine, come from recorded runs; `runtime` and `mem_mb`, the
limits of a job on a cluster, from what `replicate plan` says of its longest job and from what was rehearsed.
"""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import mean

import yaml

from common.errors import UserError
from common.experiments.calibration import REFERENCE, STEPS, here, noted_step, ratio, reference
from common.experiments.identity import Identities
from common.experiments.outcomes import Results
from common.experiments.replication import Replication
from common.files import as_json, read_json, write_atomically
from common.sources import read_yaml
from common.workflow.devices import Device
from common.workflow.discovery import make_importable
from common.workflow.rehearsed import rehearsed_gb
from common.workflow.state import Folders
from common.workflow.timings import TIME_LIMIT, Timings

PROCESS_MB = 2000
"""Of a job without its tensors: Python, torch and what it reads."""


def record_minutes(replication: Replication, scale: str, results: Results) -> list[str]:
    """Write `minutes` of every experiment whose runs at a scale are all current; nothing else of the file changes.

    Returns:
        A line for each experiment: what was stated and is now, or why it stays.
    """
    found, lines = recorded_minutes(replication, scale, results), []
    before = {name: replication.experiment(name).resources_at(scale).minutes for name in replication.experiments}
    minutes = {name: value for name, value in found.items() if isinstance(value, float)}
    _write(replication, scale, "minutes", minutes)
    for name, value in found.items():
        was = "nothing" if before[name] is None else f"{before[name]:g}"
        said = value if isinstance(value, str) else f"{was} → {_number(value)}"
        lines.append(f"{replication.name}/{name}: {said}")
    return lines


def record_limits(replication: Replication, scale: str, folders: Folders, gpu: Device | None) -> list[str]:
    """Write `runtime` of every experiment with jobs of its own, and `mem_mb` of those that ask for no GPU.

    `runtime` is the upper bound of the longest job, in quarters of an hour and at least two of them; `mem_mb` is
    `PROCESS_MB` and 1.3 times what the tensors of the rehearsed call with most of them hold, in whole GB. What rests on
    a time limit or a former count stays; so does the memory of a host with a GPU, where tensors lie on the GPU.

    Args:
        gpu: for which counted operations are reckoned; an experiment that asks for one stays where none is given.

    Returns:
        A line for each experiment: what was stated and is now, or why it stays.
    """
    runtimes = longest_jobs(replication, scale, folders.store, gpu)
    memories = rehearsed_memory(replication, scale, folders)
    before = {name: replication.experiment(name).resources_at(scale) for name in replication.experiments}
    for key, found in (("runtime", runtimes), ("mem_mb", memories)):
        _write(replication, scale, key, {name: value for name, value in found.items() if isinstance(value, int)})
    return [
        f"{replication.name}/{name}: runtime {_said(stated.runtime, runtimes[name])}, "
        f"mem_mb {_said(stated.mem_mb, memories[name])}"
        for name, stated in before.items()
    ]


def longest_jobs(replication: Replication, scale: str, results: Results, gpu: Device | None) -> dict[str, int | str]:
    """Minutes that the longest job of each experiment takes at most, by a core of the reference machine; or why not."""
    timings = Timings(replication, scale, results, machine=reference(), gpu=gpu)
    found: dict[str, int | str] = dict.fromkeys(replication.experiments, "stays: it has no jobs of its own")
    longest = dict.fromkeys(replication.experiments, 0.0)
    for job in replication.jobs(scale):
        if job.experiment not in longest:
            continue
        taken = [timings.run(run, job) for run in job.runs]
        if any(one.basis == TIME_LIMIT for one in taken):
            found[job.experiment] = "stays: how long it takes is not known"
            longest[job.experiment] = math.inf
        elif any("former count" in one.basis for one in taken):
            found[job.experiment] = "stays: it was counted by a former counter, or of former code"
            longest[job.experiment] = math.inf
        longest[job.experiment] = max(longest[job.experiment], sum(one.upper for one in taken) / 60)
    for name, minutes in longest.items():
        if replication.experiment(name).resources_at(scale).gpus and gpu is None:
            found[name] = "stays: say with --device which GPU it will have"
        elif 0 < minutes < math.inf:
            found[name] = max(30, 15 * math.ceil(minutes / 15))
    return found


def rehearsed_memory(replication: Replication, scale: str, folders: Folders) -> dict[str, int | str]:
    """MB of a job of each experiment that asks for no GPU, or why that is not known."""
    make_importable(replication.root)
    found: dict[str, int | str] = {}
    for name in replication.experiments:
        told = [gb for _, gb in rehearsed_gb(replication, name, scale, folders.store)]
        held = [gb[1] for gb in told if gb is not None]
        if replication.experiment(name).resources_at(scale).gpus:
            found[name] = "stays: it is of the host of a GPU"
        elif not held or len(held) < len(told):
            found[name] = "stays: not all of its calls were rehearsed well"
        else:
            found[name] = 1000 * math.ceil((PROCESS_MB + 1300 * max(held)) / 1000)
    return found


def _said(before: int, found: int | str) -> str:
    return found if isinstance(found, str) else f"{before} → {found}"


def _write(replication: Replication, scale: str, key: str, values: Mapping[str, float]) -> None:
    """Write what the experiments state at a scale; nothing else of the file changes."""
    path = replication.folder / "config.yaml"
    text = with_stated(path, scale, key, values)
    if text != path.read_text(encoding="utf-8"):
        write_atomically(path, text)


def record_steps(scale: str, papers: Iterable[str], path: Path = REFERENCE) -> str:
    """Write what the workflow's own steps took here, carried over to the reference machine; the mean of the papers."""
    known = reference()
    factor = ratio(known.seconds, here().seconds)
    of = {"analyse": [f"{scale}/{paper}" for paper in papers], "page": [f"{scale}/{paper}" for paper in papers]}
    steps = dict(known.steps)
    for step in STEPS:
        noted = [seconds for whose in of.get(step, [""]) if (seconds := noted_step(step, of=whose)) is not None]
        if noted:
            steps[step] = round(factor * mean(noted), 1)
    write_atomically(path, as_json({**read_json(path), "steps": steps}))
    return "steps of the workflow: " + ", ".join(f"{step} {seconds:g} s" for step, seconds in steps.items())


def recorded_minutes(replication: Replication, scale: str, results: Results) -> dict[str, float | str]:
    """Core minutes of each experiment on the reference machine, or why they are not known."""
    timings = Timings(replication, scale, results, machine=reference())
    identities = Identities(replication, results)
    found: dict[str, float | str] = {}
    for name in replication.experiments:
        runs = replication.runs(name, scale)
        missing = sum(not identities.current(run) for run in runs)
        if missing or not runs:
            found[name] = f"stays: {missing} of {len(runs)} runs are not current" if runs else "stays: it has no runs"
        elif replication.experiment(name).resources_at(scale).gpus:
            found[name] = "stays: its jobs ask for a GPU, and minutes are of a core"
        else:
            seconds = [timings.recorded_core_seconds(run) for run in runs]
            on_cores = [one for one in seconds if one is not None]
            on_gpus = len(seconds) - len(on_cores)
            found[name] = f"stays: a GPU computed {on_gpus} of its runs" if on_gpus else sum(on_cores) / 60
    return found


def with_stated(path: Path, scale: str, key: str, values: Mapping[str, float]) -> str:
    """The text of a config.yaml in which the experiments state another `minutes`, `runtime` or `mem_mb` at a scale.

    Raises:
        UserError: two experiments share what states it (an alias of YAML), or the file is none.
    """
    _, root = read_yaml(path)
    text = path.read_text(encoding="utf-8")
    edits: dict[tuple[int, int], str] = {}
    for name, value in values.items():
        experiment = _entry(root, name)
        if not isinstance(experiment, yaml.MappingNode):
            raise UserError(f"{path}: it has no entry {name!r} whose {key} could be written.")
        start, end, new = _edit(experiment, scale, key, str(value) if isinstance(value, int) else _number(value))
        if (start, end) in edits:
            line = text.count("\n", 0, start) + 1
            raise UserError(f"{path}:{line}: {name} shares this entry with another experiment; give each its own.")
        edits[start, end] = new
    for (start, end), new in sorted(edits.items(), reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _edit(experiment: yaml.MappingNode, scale: str, key: str, value: str) -> tuple[int, int, str]:
    """(start, end, text to stand there) that makes an experiment's entry state a resource."""
    resources = _entry(experiment, "resources")
    here = _entry(resources, scale)
    stated = _entry(here, key)
    if stated is not None:
        return stated.start_mark.index, stated.end_mark.index, value
    if isinstance(here, yaml.MappingNode):
        return _first_in(here, f"{key}: {value}")
    if isinstance(resources, yaml.MappingNode):
        return _first_in(resources, f"{scale}: {{{key}: {value}}}")
    return _first_in(experiment, f"resources: {{{scale}: {{{key}: {value}}}}}")


def _first_in(mapping: yaml.MappingNode, entry: str) -> tuple[int, int, str]:
    """The edit that puts an entry before the others of a mapping."""
    start = mapping.start_mark.index
    if mapping.flow_style:
        return start + 1, start + 1, entry + (", " if mapping.value else "")
    return start, start, f"{entry}\n{' ' * mapping.start_mark.column}"


def _entry(node: yaml.Node | None, key: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for name, value in node.value if name.value == key), None)


def _number(minutes: float) -> str:
    """Two digits: `0.021`, `5.5`, `130`."""
    return f"{float(f'{max(minutes, 0.001):.2g}'):g}"
