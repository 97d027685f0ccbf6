"""Where the files of a replication do not speak of the same things: what a run or its analysis would stumble over.

Nothing is computed but, of records that are there, metrics and figures.
"""

import ast
import importlib
import re
from collections.abc import Collection, Generator, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from common.claims import check, load_claims
from common.claims.cells import DIVERGED
from common.errors import UserError, suggestion, told
from common.experiments.replication import Replication
from common.experiments.scales import SCALES
from common.reports.units import Writing
from common.sources import read_source
from common.workflow.discovery import healthy, make_importable
from common.workflow.state import Folders, RunState, run_states

ANALYSIS_PACKAGES = frozenset(
    ("pandas", "pyarrow", "seaborn", "matplotlib", "scipy", "snakemake", "dvc", "jupytext", "jinja2", "numba", "nh3")
)
"""What a bare GPU box lacks: no experiment imports it at its top."""
OF_LOGARITHMS = frozenset(("slope", "correlation", "difference_of_correlations"))
"""Estimates that relate logarithms: what comes out is an exponent, or has no unit."""


def refused(replication: Replication) -> Iterator[str]:
    """What `replicate run` refuses at any scale: files that are not in order, parameters that have not their type."""
    from common.experiments.execution import parameters_of

    make_importable(replication.root)
    sentences = dict.fromkeys(
        s for scale in SCALES for s in healthy({replication.name: replication}, scale)[1].values()
    )
    yield from sentences
    for experiment in () if sentences else replication.experiments:
        module = replication.module(experiment)
        if (problem := _not_importable(replication, module)) is not None:
            yield problem
            continue
        if not callable(getattr(importlib.import_module(module), "run", None)):
            yield f"replications/{replication.name}/{experiment}.py: it defines no run(runs, context)."
        for scale in SCALES:
            try:
                for run in replication.runs(experiment, scale):
                    parameters_of(run, replication)
            except UserError as error:
                yield _shown(str(error), replication)


def needs_analysis_packages(replication: Replication) -> Iterator[str]:
    """Experiments that import an analysis package as they are imported, themselves or through what they share."""
    for experiment in replication.experiments:
        waiting, seen = [replication.module(experiment)], set()
        while waiting:
            name = waiting.pop()
            module = replication.sources.module(name) if name.startswith(f"replications.{replication.name}.") else None
            if module is None or name in seen:
                continue
            seen.add(name)
            for line, imported in _imports_at_top(module.path, name):
                waiting += imported
                for package in {one.split(".")[0] for one in imported} & ANALYSIS_PACKAGES:
                    where = f"{module.path.relative_to(replication.root)}:{line}"
                    yield f"{where}: {experiment} imports {package} at its top, which a bare GPU box lacks."


def _imports_at_top(path: Path, name: str) -> Iterator[tuple[int, list[str]]]:
    """Line and full names of each import that runs with the file; of `from a import b` both `a` and `a.b`."""
    package = name.split(".")[:-1]
    for node in ast.parse(read_source(path)).body:
        if isinstance(node, ast.Import):
            yield node.lineno, [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield node.lineno, [module, *(f"{module}.{alias.name}" for alias in node.names)]


def names_taken(replication: Replication) -> Iterator[str]:
    """What an experiment records under the name of an axis, which a run refuses."""
    for experiment, config in replication.experiments.items():
        for where, name in _recorded_as(replication, experiment, config.grid):
            yield f"{where}: record() takes the name of the axis {name!r}; give it another."


def names_hidden(replication: Replication) -> Iterator[str]:
    """What an experiment records under the name of a parameter, whose own value the table of records then lacks."""
    for experiment, config in replication.experiments.items():
        for where, name in _recorded_as(
            replication, experiment, replication.parameter_fields(experiment).keys() - config.grid
        ):
            yield f"{where}: record() takes the name of the parameter {name!r}; give it another unless it is that."


def _recorded_as(replication: Replication, experiment: str, names: Collection[str]) -> Iterator[tuple[str, str]]:
    """File and line, and the name, of each value that is recorded under one of `names`."""
    module = replication.sources.module(replication.module(experiment))
    for call in _calls(module.path, "record") if module else ():
        for keyword in call.keywords:
            if module and keyword.arg and keyword.arg in names:
                yield f"{module.path.relative_to(replication.root)}:{keyword.value.lineno}", keyword.arg


def unknown_in_report(replication: Replication) -> Iterator[str]:
    """Claims that report.py asks for and that there are not."""
    ids = [claim.id for claim in load_claims(replication.folder / "claims.yaml")]
    path = replication.folder / "report.py"
    for call in (*_calls(path, "figure"), *_calls(path, "summary")):
        named = {keyword.arg: keyword.value for keyword in call.keywords}
        place = 0 if isinstance(call.func, ast.Attribute) and call.func.attr == "summary" else 1
        asked = named.get("claims") or named.get("patterns") or (call.args[place] if len(call.args) > place else None)
        for pattern in asked.elts if isinstance(asked, ast.List | ast.Tuple) else ():
            if isinstance(pattern, ast.Constant) and not any(fnmatchcase(one, str(pattern.value)) for one in ids):
                where = f"{path.relative_to(replication.root)}:{pattern.lineno}"
                yield f"{where}: there is no claim {pattern.value!r}{suggestion(pattern.value, ids)}"


def units_of_logarithms(replication: Replication) -> Iterator[str]:
    """Claims on a metric `log2_…` or `log10_…` in another unit, by which alone pages write its numbers as factors."""
    for claim in load_claims(replication.folder / "claims.yaml"):
        metric = claim.estimate.variables()[0]
        named = None if claim.estimate.kind in OF_LOGARITHMS else re.match(r"(?:.*_)?log(2|10)_", metric)
        if named and Writing.of(claim.unit).base != float(named[1]):
            words = {"2": "powers of two", "10": "powers of ten"}[named[1]]
            place = _shown(claim.place, replication)
            yield f"{place}: {metric} is a logarithm, so that its unit is {words!r}, not {claim.unit or 'none'!r}."


def _not_shown(replication: Replication, drawn: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Figures that report.py asks for and that no experiment, or more than one, draws."""
    path = replication.folder / "report.py"
    covered = {(entry.experiment, entry.figure) for entry in replication.paper.coverage}
    for call in _calls(path, "figure"):
        given = dict(enumerate(call.args)) | {keyword.arg: keyword.value for keyword in call.keywords}
        name, owner = given.get("name", given.get(0)), given.get("experiment", given.get(2))
        if not isinstance(name, ast.Constant) or not isinstance(owner or name, ast.Constant):
            continue
        asked = owner.value if isinstance(owner, ast.Constant) else None
        shown = {e for e, names in drawn.items() if name.value in names or (e, name.value) in covered}
        found = sorted(e for e in shown if asked in (None, e))
        where = f"{path.relative_to(replication.root)}:{call.lineno}"
        if not found:
            known = {figure for names in drawn.values() for figure in names}
            yield f"{where}: no experiment draws a figure {name.value!r}{suggestion(name.value, known)}"
        elif len(found) > 1:
            yield f"{where}: {' and '.join(found)} draw a figure {name.value!r}; say which with experiment=."


def _calls(path: Path, method: str) -> Iterator[ast.Call]:
    """The calls of a method of this name in a file."""
    for node in ast.walk(ast.parse(read_source(path))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method:
            yield node


def unfit_analyses(replication: Replication) -> Iterator[str]:
    """What metrics and figures of the records that are there do not give: an error, or what claims and coverage name.

    Of each experiment the smallest scale with current runs is looked at; without any, nothing is said. What report.py
    shows is held against the figures once those of all experiments are known.
    """
    make_importable(replication.root)
    store = Folders(replication.root, replication.root / "results").store
    waiting = list(replication.experiments)
    drawn: dict[str, Collection[str] | None] = {}
    for scale in SCALES:
        if not waiting or not (store.root / scale / replication.name).is_dir():
            continue
        states = run_states(replication, scale, store)
        for experiment in list(waiting):
            mine = [state for state in states if state.run.experiment == experiment and state.current]
            if mine:
                waiting.remove(experiment)
                drawn[experiment] = yield from _unfit(replication, experiment, mine)
    owners = {experiment: names for experiment, names in drawn.items() if names is not None}
    if owners.keys() == replication.experiments.keys():
        yield from _not_shown(replication, owners)


def _unfit(
    replication: Replication, experiment: str, states: list[RunState]
) -> Generator[str, None, Collection[str] | None]:
    """A sentence for each; returns the names of the experiment's figures, None if they are not known."""
    from common.figures import IN_REGIME
    from common.workflow.analyse import NO_TABLE, collect
    from common.workflow.analysis_output import Unusable, figures_of, metrics_of

    root, name = replication.root, replication.analysis_module(experiment)
    try:
        records = collect(states, Folders(root, root / "results").store)
    except NO_TABLE as error:
        yield f"{experiment}: its records make no table: {error}."
        return None
    if not replication.analysis_file(experiment).is_file():
        return ()
    if records.empty:
        return None
    if (problem := _not_importable(replication, name)) is not None:
        yield problem
        return None
    module: Any = importlib.import_module(name)
    try:
        metrics = metrics_of(module, records, records["run"], root) if hasattr(module, "metrics") else None
        drawn = figures_of(module, records.assign(standing=IN_REGIME), root)[0] if hasattr(module, "figures") else {}
    except Unusable as error:
        yield f"{experiment}: {error}."
        return None
    path = replication.folder / "claims.yaml"
    columns = [] if metrics is None else [*metrics.columns, DIVERGED]
    for claim in load_claims(path):
        if claim.experiment == experiment:
            try:
                check(claim, columns, list(states[0].run.axes))
            except UserError as error:
                yield _shown(str(error), replication)
    yield from _not_drawn(replication, experiment, drawn)
    return list(drawn)


def _not_drawn(replication: Replication, experiment: str, drawn: Mapping[str, Any]) -> Iterator[str]:
    for entry in replication.paper.coverage:
        if entry.experiment == experiment and entry.figure and entry.figure not in drawn:
            where = (replication.folder / "paper.yaml").relative_to(replication.root)
            there = suggestion(entry.figure, drawn)
            yield f"{where}: coverage of {entry.item}: {experiment} draws no figure {entry.figure!r}{there}"


def _not_importable(replication: Replication, module: str) -> str | None:
    try:
        importlib.import_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever the file does, SystemExit included
        return f"{module} cannot be imported: {told(error, replication.root)}."
    return None


def _shown(sentence: str, replication: Replication) -> str:
    """A sentence about a file, which it names from the root of the checkout."""
    return sentence.replace(f"{replication.root}/", "")
