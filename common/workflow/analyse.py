"""From records to metrics, figures and verdicts: one process a paper, nothing trained."""

import importlib
import traceback
import types
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from common import claims
from common.claims.verdicts import NOT_DECIDABLE, NOT_RUN
from common.errors import UserError, told, writable
from common.experiments.outcomes import Results, kind_of, read_rows
from common.experiments.replication import Replication
from common.figures import DIVERGED, IN_REGIME, OUTSIDE_REGIME, export, figure_title, placeholder, use_style
from common.files import (
    as_json,
    atomic_path,
    published,
    read_json_or,
    remove_abandoned,
    write_if_changed,
    write_json,
)
from common.workflow.analysis_output import Unusable, exported, figures_of, metrics_of
from common.workflow.discovery import make_importable
from common.workflow.state import Folders, RunState, analysis_of, run_states
from common.workflow.sync import tracks_metrics
from common.workflow.timings import Estimate, Timings

NO_TABLE = (ValueError, TypeError, OverflowError, NotImplementedError)
"""What pandas and Arrow raise of values that do not make a column: texts and numbers in one, integers of 70 bits, …"""


@dataclass(frozen=True)
class Problem:
    """What went wrong with the metrics or figures of an experiment."""

    experiment: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.experiment}: {self.sentence}"


def analyse(replication: Replication, scale: str, folders: Folders, *, track: bool = True) -> list[Problem]:
    """Write metrics, figures and verdicts of a paper into `analysis/<scale>/<paper>/`.

    Runs that are missing, failed, damaged or out of date are left out and named; an experiment whose metrics or
    figures fail is a problem, kept in problems.json beside them. Everything else is built.

    Args:
        track: write the estimates that git keeps (`reports/metrics`), too; of an experiment without runs here they
            stay as they are.

    Raises:
        UserError: claims.yaml is not in order, or names an experiment or an axis that does not exist.
    """
    make_importable(folders.root)
    place = folders.analysis(scale, replication.name)
    states = run_states(replication, scale, folders.store)
    tables: dict[str, pd.DataFrame] = {}
    failed: dict[str, str] = {}
    figures: list[dict[str, Any]] = []
    problems: list[Problem] = []
    for experiment in replication.experiments:
        mine = [state for state in states if state.run.experiment == experiment]
        work = _Experiment(replication, experiment, mine, folders, place)
        tables[experiment] = work.metrics()
        if work.metrics_failed is not None:
            failed[experiment] = work.metrics_failed
        figures += work.figures(place / "figures")
        problems += work.problems
    _remove_others(place / "figures", figures)
    write_json(place / "figures.json", figures)
    timings = Timings(replication, scale, folders.store)
    predicted = {str(run): timings.predicted(run, job) for job in replication.jobs(scale) for run in job.runs}
    write_json(place / "runs.json", [_run_entry(state, folders.store, predicted[str(state.run)]) for state in states])
    write_json(place / "metrics.json", {name: table.to_dict(orient="records") for name, table in tables.items()})
    verdicts = [verdict.to_json() for verdict in _judged(replication, scale, tables, failed, problems)]
    write_json(place / "state.json", analysis_of(replication, states, folders.store))
    write_json(place / "problems.json", [asdict(problem) for problem in problems])
    if track and tracks_metrics(scale):
        here = {state.run.experiment for state in states if state.current}
        track_metrics(replication, scale, [verdict for verdict in verdicts if verdict["experiment"] in here])
    write_json(place / "verdicts.json", verdicts)
    return problems


def analysed(
    replication: Replication, states: Sequence[RunState], folders: Folders, place: Path
) -> tuple[pd.DataFrame, list[Problem]]:
    """Metrics of one experiment's runs, its figures drawn below `place`, and what went wrong."""
    work = _Experiment(replication, states[0].run.experiment, states, folders, place)
    table = work.metrics()
    list(work.figures(place / "figures"))
    return table, work.problems


class _Experiment:
    """Records, metrics and figures of one experiment, and what went wrong with them."""

    def __init__(
        self, replication: Replication, experiment: str, states: Sequence[RunState], folders: Folders, place: Path
    ) -> None:
        self.replication, self.experiment, self.states, self.root = replication, experiment, states, folders.root
        self.problems: list[Problem] = []
        self.metrics_failed: str | None = None
        try:
            self.records = collect(states, folders.store)
        except NO_TABLE as error:
            self.records = pd.DataFrame()
            self.metrics_failed = f"its records make no table: {writable(error)}"
            self._problem(self.metrics_failed)
        path = place / f"{experiment}.parquet"
        try:
            with atomic_path(path) as temporary:
                self.records.to_parquet(temporary, index=False)
        except NO_TABLE as error:
            path.unlink(missing_ok=True)
            self._problem(f"its records make no table: {_why_no_table(self.records) or writable(error)}")
        self.module = self._imported()

    def _problem(self, sentence: str) -> None:
        self.problems.append(Problem(self.experiment, sentence))

    def _imported(self) -> Any:
        """The module with its metrics and figures; an empty one if there is none or, with a problem, if it fails."""
        name = self.replication.analysis_module(self.experiment)
        if not self.replication.analysis_file(self.experiment).is_file():
            return types.ModuleType(name)
        try:
            return importlib.import_module(name)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever the file does, SystemExit included
            traceback.print_exc()
            self.metrics_failed = f"{name} cannot be imported: {told(error, self.root)}"
            self._problem(self.metrics_failed)
            return types.ModuleType(name)

    def metrics(self) -> pd.DataFrame:
        """One row an expected run: axes, outcome, reason, and the experiment's metrics where there are any."""
        rows = [
            {"run": s.run.name, **s.run.axes, "outcome": s.outcome.status, "reason": s.outcome.reason}
            for s in self.states
        ]
        expected = pd.DataFrame(rows, columns=None if rows else ["run", "outcome", "reason"])
        self.standing = {s.run.name: DIVERGED if s.outcome.status == "diverged" else IN_REGIME for s in self.states}
        if self.records.empty or not hasattr(self.module, "metrics"):
            return expected
        try:
            measured = metrics_of(self.module, self.records, expected["run"], self.root)
        except Unusable as error:
            self.metrics_failed = str(error)
            self._problem(f"metrics failed: {error}")
            return expected
        for run, reached in zip(measured["run"], measured["regime_reached"], strict=True):
            if not pd.isna(reached) and not reached:
                self.standing[run] = OUTSIDE_REGIME
        new = [column for column in measured.columns if column == "run" or column not in expected.columns]
        return expected.merge(measured[new], on="run", how="left", validate="one_to_one")

    def figures(self, folder: Path) -> Iterator[dict[str, Any]]:
        """Export the experiment's figures; one that cannot be drawn becomes a page that says why."""
        coverage = self.replication.paper.coverage
        mine = [c for c in coverage if c.figure and c.experiment == self.experiment]
        titles = {c.figure: items_text([d.item for d in mine if d.figure == c.figure]) for c in mine if c.figure}
        drawn: dict[str, Figure] = {}
        unusable: dict[str, str] = {}
        left_out = self.replication.experiment(self.experiment).left_out
        problem = _why_nothing(self.states) if self.states else left_out
        if not self.records.empty:
            use_style()
            problem = "the experiment draws no figure of this name"
            records = self.records.assign(standing=self.records["run"].map(self.standing))
            try:
                if hasattr(self.module, "figures"):
                    drawn, unusable = figures_of(self.module, records, self.root)
            except Unusable as error:
                problem = f"drawing failed: {error}"
                self._problem(f"figures failed: {error}")
        for sentence in unusable.values():
            self._problem(f"a figure failed: {sentence}")
        incomplete = _why_incomplete(self.states, self.standing)
        for name, figure in drawn.items():
            said = incomplete
            try:
                files = exported(figure, folder, f"{self.experiment}-{name}", self.root)
            except Unusable as error:
                said = f"drawing failed: {error}"
                self._problem(f"figure {name} failed: {error}")
                figure = placeholder(titles.get(name, name), said)
                files = export(figure, folder, f"{self.experiment}-{name}")
            yield self._entry(name, figure_title(figure) or titles.get(name, name), files, said)
        for name in titles:
            if name not in drawn:
                said = f"drawing failed: {unusable[name]}" if name in unusable else problem
                files = export(placeholder(titles[name], said), folder, f"{self.experiment}-{name}")
                yield self._entry(name, titles[name], files, said)

    def _entry(self, name: str, title: str, files: Mapping[str, Path], problem: str | None) -> dict[str, Any]:
        paths = {kind: f"figures/{path.name}" for kind, path in files.items()}
        return {"experiment": self.experiment, "name": name, "title": writable(title), **paths, "problem": problem}


def items_text(items: Sequence[str]) -> str:
    """What a figure shows of the document, as its title says it: "Fig. 1 (left)", "Fig. 1, Fig. 2 and Table 1"."""
    return " and ".join([*([", ".join(items[:-1])] if items[1:] else []), items[-1]])


def collect(states: Sequence[RunState], results: Results) -> pd.DataFrame:
    """Records of the current runs of one experiment: a row a record, with axes and scalar parameters."""
    rows = []
    for state in states:
        facts = results.provenance(state.run) if state.current else None
        if facts is None:
            continue
        scalars = {k: v for k, v in facts["parameters"].items() if v is None or isinstance(v, bool | int | float | str)}
        fixed = {**scalars, "run": state.run.name, **state.run.axes}
        rows += [{**fixed, **row} for row in read_rows(results.folder(state.run) / "records.jsonl")]
    return pd.DataFrame(rows)


def _why_no_table(records: pd.DataFrame) -> str | None:
    """The first column that holds values of several kinds, in words."""
    for name in records.columns:
        kinds = sorted({kind_of(value) for value in records[name] if not pd.isna(value)})
        if len(kinds) > 1:
            return f"the column {name!r} holds {' and '.join(kinds)}; have record() give it one kind"
    return None


def _why_nothing(states: Sequence[RunState]) -> str:
    reasons = {state.outcome.status: state.outcome.reason for state in reversed(states)}
    for status in ("data_unavailable", "failed", "damaged", "blocked", "unfinished", "missing"):
        if status in reasons:
            return f"{status.replace('_', ' ')}: {reasons[status]}"
    return "no run left a record"


def _why_incomplete(states: Sequence[RunState], standing: Mapping[str, str]) -> str | None:
    """What is not as it was meant: "2 of 50 runs diverged, 35 outside their regime"."""
    counts: Counter[str] = Counter(state.outcome.status for state in states if state.outcome.status != "completed")
    counts.update(OUTSIDE_REGIME for state in states if standing[state.run.name] == OUTSIDE_REGIME)
    if not counts:
        return None
    (count, first), *others = [
        (count, (status if count == 1 else status.replace("its", "their")).replace("_", " "))
        for status, count in counts.items()
    ]
    return ", ".join([f"{count} of {len(states)} runs {first}", *(f"{count} {status}" for count, status in others)])


def _remove_others(folder: Path, figures: Sequence[Mapping[str, Any]]) -> None:
    kept = {Path(figure[kind]).name for figure in figures for kind in ("svg", "png", "csv") if figure.get(kind)}
    for path in published(folder):
        if path.name not in kept:
            path.unlink(missing_ok=True)
    remove_abandoned(folder)


def _run_entry(state: RunState, results: Results, predicted: Estimate) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "experiment": state.run.experiment,
        "run": state.run.name,
        "axes": dict(state.run.axes),
        "outcome": state.outcome.status,
        "reason": state.outcome.reason,
    }
    facts = results.provenance(state.run) if state.current else None
    stored = results.stored(state.run)
    if facts is not None and stored is not None:
        entry |= {
            "seconds": facts["seconds"],
            "predicted": {
                "seconds": predicted.seconds,
                "interval": [predicted.lower, predicted.upper],
                "basis": predicted.basis,
            },
            "peak_memory_mb": facts["peak_memory_mb"],
            "device": facts["device"]["name"],
            "threads": facts["device"]["threads"],
            "finished": facts["finished"],
            "commit": facts["commit"],
            "dirty": facts["dirty"],
            "versions": facts["versions"],
            "code_digest": stored.inputs["code"],
            "accepted": stored.accepted,
            "data": stored.inputs["data"],
        }
    return entry


def track_metrics(replication: Replication, scale: str, verdicts: Sequence[Mapping[str, Any]]) -> None:
    """Put estimate, interval and verdict of these claims into the DVC metric of a paper.

    Those of others stay as they are; a claim that there is no more goes.
    """
    path = replication.root / "reports" / "metrics" / scale / f"{replication.name}.json"
    there_are = {claim.id for claim in claims.load_claims(replication.folder / "claims.yaml")}
    known = read_json_or(path, {}) | _metrics_of(verdicts)
    write_if_changed(path, as_json({name: facts for name, facts in known.items() if name in there_are}))


def _metrics_of(verdicts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
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


def _judged(
    replication: Replication,
    scale: str,
    tables: Mapping[str, pd.DataFrame],
    failed: Mapping[str, str],
    problems: list[Problem],
) -> Iterator[claims.Verdict]:
    """The verdicts in the order of claims.yaml; `failed` says of which experiments the metrics failed, and how."""
    path = replication.folder / "claims.yaml"
    for claim in claims.load_claims(path):
        name = claim.experiment
        if name not in tables:
            replication.experiment(name, f"{path}: claim {claim.id}")
        config = replication.experiment(name)
        judged = partial(claims.judge, claim, paper=replication.name, scale=scale)
        if not config.runs_at(scale):
            yield replace(judged(tables[name]), reason=f"{name}: {config.left_out}.")
            continue
        reason = f"Metrics failed: {failed[name]}." if name in failed else None
        try:
            verdict = judged(tables[name])
        except UserError as error:  # a metric that there is not, or one of texts: as if nothing had been run
            verdict = judged(tables[name].loc[:, :"reason"])
            reason = str(error).replace(f"{replication.root}/", "")
            problems.append(Problem(name, reason))
        yield (
            replace(verdict, verdict=NOT_RUN, reason=reason) if reason and verdict.verdict == NOT_DECIDABLE else verdict
        )
