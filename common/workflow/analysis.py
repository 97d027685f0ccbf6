"""From records to metrics, figures and verdicts: one process a paper, nothing trained."""

import importlib
import traceback
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from common import claims
from common.errors import UserError
from common.experiments.outcomes import Results, read_rows
from common.experiments.replication import Replication
from common.figures import export, figure_title, placeholder, use_style
from common.files import atomic_path, published, read_json, remove_abandoned, write_json
from common.workflow.cost import Estimate, Timings
from common.workflow.discovery import make_importable
from common.workflow.state import Folders, RunState, analysis_digest, run_states


@dataclass(frozen=True)
class Analysis:
    """What `analyse` found wrong: figures that could not be drawn and experiments without metrics."""

    problems: list[str]


def analyse(replication: Replication, scale: str, folders: Folders) -> Analysis:
    """Write metrics, figures and verdicts of a paper into `analysis/<scale>/<paper>/`.

    Runs that are missing, failed or out of date are left out and named; everything else is built.

    Raises:
        UserError: claims.yaml names a metric or an axis that does not exist.
    """
    make_importable(folders.root)
    place = folders.analysis(scale, replication.name)
    states = run_states(replication, scale, folders.store)
    tables: dict[str, pd.DataFrame] = {}
    figures: list[dict[str, Any]] = []
    problems: list[str] = []
    for experiment in replication.experiments:
        mine = [state for state in states if state.run.experiment == experiment]
        records = collect(mine, folders.store)
        with atomic_path(place / f"{experiment}.parquet") as path:
            records.to_parquet(path, index=False)
        module = _module(replication, experiment, problems)
        tables[experiment] = _metrics(module, mine, records, problems)
        figures += _figures(replication, module, experiment, mine, records, place / "figures", problems)
    _remove_others(place / "figures", figures)
    write_json(place / "figures.json", figures)
    timings = Timings(replication, scale, folders.store)
    foretold = {str(run): timings.foretold(run, job) for job in replication.jobs(scale) for run in job.runs}
    write_json(place / "runs.json", [_run_entry(state, folders.store, foretold[str(state.run)]) for state in states])
    write_json(place / "metrics.json", {name: table.to_dict(orient="records") for name, table in tables.items()})
    verdicts = [verdict.to_json() for verdict in _verdicts(replication, scale, tables)]
    write_json(place / "state.json", {"digest": analysis_digest(replication)})
    write_json(folders.root / "reports" / "metrics" / scale / f"{replication.name}.json", metric_file(verdicts))
    write_json(place / "verdicts.json", verdicts)
    return Analysis(problems)


def _module(replication: Replication, experiment: str, problems: list[str]) -> Any:
    """The experiment's module; where it cannot be imported an empty one, and a problem."""
    name = replication.module(experiment)
    try:
        return importlib.import_module(name)
    except Exception as error:
        traceback.print_exc()
        problems.append(f"{name} cannot be imported: {type(error).__name__}: {error}")
        return types.ModuleType(name)


def collect(states: Sequence[RunState], results: Results) -> pd.DataFrame:
    """Records of the current runs of one experiment: a row a record, with axes and scalar parameters."""
    rows = []
    for state in states:
        if not state.current:
            continue
        folder = results.folder(state.run)
        parameters = read_json(folder / "provenance.json")["parameters"]
        scalars = {k: v for k, v in parameters.items() if v is None or isinstance(v, bool | int | float | str)}
        fixed = {**scalars, "run": state.run.name, **state.run.axes}
        rows += [{**fixed, **row} for row in read_rows(folder / "records.jsonl")]
    return pd.DataFrame(rows)


def _metrics(module: Any, states: Sequence[RunState], records: pd.DataFrame, problems: list[str]) -> pd.DataFrame:
    """One row an expected run: axes, outcome, reason, and the experiment's metrics where there are any."""
    expected = pd.DataFrame(
        [{"run": s.run.name, **s.run.axes, "outcome": s.outcome.status, "reason": s.outcome.reason} for s in states]
    )
    if records.empty or not hasattr(module, "metrics"):
        return expected
    try:
        measured: pd.DataFrame = module.metrics(records)
    except Exception as error:
        traceback.print_exc()
        problems.append(f"{module.__name__}.metrics: {type(error).__name__}: {error}")
        return expected
    if "run" not in measured.columns:
        measured = measured.rename_axis("run").reset_index()
    if measured["run"].duplicated().any():
        raise UserError(f"{module.__name__}.metrics: more than one row for a run; return one row a run.")
    if "regime_reached" not in measured.columns:
        raise UserError(f"{module.__name__}.metrics: no column regime_reached; say of each run whether it got there.")
    new = [column for column in measured.columns if column == "run" or column not in expected.columns]
    return expected.merge(measured[new], on="run", how="left", validate="one_to_one")


def _figures(
    replication: Replication,
    module: Any,
    experiment: str,
    states: Sequence[RunState],
    records: pd.DataFrame,
    folder: Path,
    problems: list[str],
) -> Iterator[dict[str, Any]]:
    """Export the experiment's figures; one that cannot be drawn becomes a page that says why."""
    titles = {c.figure: c.item for c in replication.paper.coverage if c.figure and c.experiment == experiment}
    drawn: Mapping[str, Any] = {}
    problem = _why_nothing(states)
    if not records.empty:
        use_style()
        try:
            drawn = module.figures(records) if hasattr(module, "figures") else {}
            problem = "the experiment draws no figure of this name"
        except Exception as error:
            traceback.print_exc()
            problem = f"drawing failed: {type(error).__name__}: {error}"
            problems.append(f"{module.__name__}.figures: {type(error).__name__}: {error}")
    missing = [name for name in titles if name not in drawn]
    incomplete = _why_incomplete(states)
    for name in [*drawn, *missing]:
        figure = drawn[name] if name in drawn else placeholder(titles[name], problem)
        files = export(figure, folder, f"{experiment}-{name}")
        yield {
            "experiment": experiment,
            "name": name,
            "title": figure_title(figure) or titles.get(name, name),
            **{kind: f"figures/{path.name}" for kind, path in files.items()},
            "problem": incomplete if name in drawn else problem,
        }


def _why_nothing(states: Sequence[RunState]) -> str:
    reasons = {state.outcome.status: state.outcome.reason for state in reversed(states)}
    for status in ("data_unavailable", "failed", "blocked", "unfinished", "missing"):
        if status in reasons:
            return f"{status.replace('_', ' ')}: {reasons[status]}"
    return "no run left a record"


def _why_incomplete(states: Sequence[RunState]) -> str | None:
    counts: dict[str, int] = {}
    for state in states:
        if state.outcome.status != "completed":
            counts[state.outcome.status] = counts.get(state.outcome.status, 0) + 1
    if not counts:
        return None
    parts = [f"{count} {status.replace('_', ' ')}" for status, count in counts.items()]
    return f"of {len(states)} runs {', '.join(parts)}"


def _remove_others(folder: Path, figures: Sequence[Mapping[str, Any]]) -> None:
    kept = {Path(figure[kind]).name for figure in figures for kind in ("svg", "png", "csv") if figure.get(kind)}
    for path in published(folder):
        if path.name not in kept:
            path.unlink(missing_ok=True)
    remove_abandoned(folder)


def _run_entry(state: RunState, results: Results, foretold: Estimate) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "experiment": state.run.experiment,
        "run": state.run.name,
        "axes": dict(state.run.axes),
        "outcome": state.outcome.status,
        "reason": state.outcome.reason,
    }
    if state.current:
        facts = read_json(results.folder(state.run) / "provenance.json")
        entry |= {
            "seconds": facts["seconds"],
            "predicted": {
                "seconds": foretold.seconds,
                "interval": [foretold.lower, foretold.upper],
                "basis": foretold.basis,
            },
            "peak_memory_mb": facts["peak_memory_mb"],
            "device": facts["device"]["name"],
            "threads": facts["device"]["threads"],
            "finished": facts["finished"],
            "commit": facts["commit"],
            "dirty": facts["dirty"],
            "versions": facts["versions"],
            "code_digest": facts["inputs"]["code"],
            "data": facts["inputs"]["data"],
        }
    return entry


def metric_file(verdicts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The DVC metric of a paper: each claim's estimate, interval and verdict."""
    return {
        verdict["id"]: {
            "estimate": verdict["estimate"],
            "lower": verdict["interval"][0] if verdict["interval"] else None,
            "upper": verdict["interval"][1] if verdict["interval"] else None,
            "n": verdict["n"],
            "verdict": verdict["verdict"],
        }
        for verdict in verdicts
    }


def _verdicts(replication: Replication, scale: str, tables: Mapping[str, pd.DataFrame]) -> Iterator[claims.Verdict]:
    path = replication.folder / "claims.yaml"
    for claim in claims.load_claims(path):
        if claim.experiment not in tables:
            replication.experiment(claim.experiment, f"{path}: claim {claim.id}")
        yield claims.judge(claim, tables[claim.experiment], paper=replication.name, scale=scale)
