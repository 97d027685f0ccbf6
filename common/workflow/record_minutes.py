"""`minutes` of config.yaml from the runs recorded here: core minutes of an experiment on the reference machine."""

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
from common.workflow.timings import Timings


def record_minutes(replication: Replication, scale: str, results: Results) -> list[str]:
    """Write `minutes` of every experiment whose runs at a scale are all current; nothing else of the file changes.

    Returns:
        A line for each experiment: what was stated and is now, or why it stays.
    """
    found, lines = recorded_minutes(replication, scale, results), []
    before = {name: replication.experiment(name).resources_at(scale).minutes for name in replication.experiments}
    minutes = {name: value for name, value in found.items() if isinstance(value, float)}
    path = replication.folder / "config.yaml"
    text = with_minutes(path, scale, minutes)
    if text != path.read_text(encoding="utf-8"):
        write_atomically(path, text)
    for name, value in found.items():
        was = "nothing" if before[name] is None else f"{before[name]:g}"
        said = value if isinstance(value, str) else f"{was} → {_number(value)}"
        lines.append(f"{replication.name}/{name}: {said}")
    return lines


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
            found[name] = sum(timings.recorded_core_seconds(run) for run in runs) / 60
    return found


def with_minutes(path: Path, scale: str, minutes: Mapping[str, float]) -> str:
    """The text of a config.yaml in which the experiments state other minutes at a scale.

    Raises:
        UserError: two experiments share what states their minutes (an alias of YAML), or the file is none.
    """
    _, root = read_yaml(path)
    text = path.read_text(encoding="utf-8")
    edits: dict[tuple[int, int], str] = {}
    for name, value in minutes.items():
        experiment = _entry(root, name)
        if not isinstance(experiment, yaml.MappingNode):
            raise UserError(f"{path}: it has no entry {name!r} whose minutes could be written.")
        start, end, new = _edit(experiment, scale, _number(value))
        if (start, end) in edits:
            line = text.count("\n", 0, start) + 1
            raise UserError(f"{path}:{line}: {name} shares this entry with another experiment; give each its own.")
        edits[start, end] = new
    for (start, end), new in sorted(edits.items(), reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _edit(experiment: yaml.MappingNode, scale: str, value: str) -> tuple[int, int, str]:
    """(start, end, text to stand there) that makes an experiment's entry state the minutes."""
    resources = _entry(experiment, "resources")
    here = _entry(resources, scale)
    stated = _entry(here, "minutes")
    if stated is not None:
        return stated.start_mark.index, stated.end_mark.index, value
    if isinstance(here, yaml.MappingNode):
        return _first_in(here, f"minutes: {value}")
    if isinstance(resources, yaml.MappingNode):
        return _first_in(resources, f"{scale}: {{minutes: {value}}}")
    return _first_in(experiment, f"resources: {{{scale}: {{minutes: {value}}}}}")


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
