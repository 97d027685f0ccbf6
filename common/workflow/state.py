"""Where every run of a paper stands: current, or why it is not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.experiments.digests import code_digest, short_digest
from common.experiments.grid import Job, Run
from common.experiments.identity import Identities
from common.experiments.outcomes import COMPUTED, FORGOTTEN, Outcome, Results
from common.experiments.replication import Replication
from common.files import peek_json, status_of
from common.sources import read_source


@dataclass(frozen=True)
class RunState:
    """A run of the grid with its present outcome; only a current run has records that may be read."""

    run: Run
    outcome: Outcome
    current: bool


@dataclass(frozen=True)
class Folders:
    """The generated folders of a checkout.

    Raises:
        UserError: the results folder is a link that leads nowhere.
    """

    root: Path
    results: Path

    def __post_init__(self) -> None:
        if self.results.is_symlink() and not self.results.exists():
            raise UserError(
                f"{self.results} is a link to {self.results.readlink()}, which is not there; make that folder (or "
                "mount it), or remove the link."
            )

    @property
    def store(self) -> Results:
        """The results folder."""
        return Results(self.results)

    def analysis(self, scale: str, paper: str) -> Path:
        """Metrics, figures and verdicts of a paper at a scale."""
        return self.root / "analysis" / scale / paper

    def problems(self, scale: str, paper: str) -> list[str]:
        """What went wrong with metrics and figures when the paper was analysed last."""
        try:
            found = peek_json(self.analysis(scale, paper) / "problems.json")
            return [f"{problem['experiment']}: {problem['sentence']}" for problem in found]
        except (LookupError, TypeError):
            return []


def run_states(replication: Replication, scale: str, results: Results) -> list[RunState]:
    """Every run of a paper at a scale, in the order of its jobs."""
    identities = Identities(replication, results)
    states = []
    for job in replication.jobs(scale):
        marker = results.marker(job)
        for run in job.runs:
            states.append(_state(run, marker.get(run.key), identities, results))
    return states


def _state(run: Run, marked: Outcome | None, identities: Identities, results: Results) -> RunState:
    identity = identities.digest(run)
    stored = results.stored(run)
    if stored is not None and identities.current(run):
        return RunState(run, Outcome(stored.status, stored.reason, identity), True)
    if marked is not None and marked.identity == identity and marked.status not in COMPUTED:
        return RunState(run, marked, False)
    if (damage := results.damage(run)) is not None:
        return RunState(run, Outcome("damaged", f"{damage}; it is computed again", identity), False)
    reason = "not run yet" if stored is None else f"its results are of {_changes(run, identities, stored.inputs)}"
    return RunState(run, Outcome("missing", reason, identity), False)


def _changes(run: Run, identities: Identities, stored: Mapping[str, Any]) -> str:
    now = identities.inputs(run)
    changed = [name for name in ("code", "parameters", "data") if stored.get(name) != now[name]]
    return f"other {' and '.join(changed)}" if changed else "another start"


def job_state(job: Job, identities: Identities, results: Results) -> str:
    """A text that changes when the job is due: its runs' inputs, what was left open, what is damaged."""
    marker = results.marker(job)
    open_again = {
        name: [outcome.status, outcome.reason] for name, outcome in marker.items() if outcome.status in FORGOTTEN
    }
    parts = {run.key: identities.digest(run) for run in job.runs}
    again = open_again or any(results.damage(run) is not None for run in job.runs)
    written = status_of(results.root / job.marker) if again else None
    return short_digest(parts) + (f" again {written.st_mtime_ns}" if written else "")


def analysis_of(replication: Replication, states: Sequence[RunState], results: Results) -> dict[str, str]:
    """What an analysis is made of: what it is computed with, and the runs as they stand."""
    runs = {}
    for state in states:
        stored = results.stored(state.run) if state.current else None
        runs[str(state.run)] = [state.outcome.status, state.outcome.identity, stored.records if stored else ""]
    return {"digest": analysis_digest(replication), "runs": short_digest(runs)}


def analysis_is_current(replication: Replication, scale: str, folders: Folders) -> bool:
    """Whether the verdicts that lie there are of the present runs, by the present rules and metrics."""
    made = peek_json(folders.analysis(scale, replication.name) / "state.json") or {}
    if made.get("digest") != analysis_digest(replication):
        return False
    results = folders.store
    return bool(made == analysis_of(replication, run_states(replication, scale, results), results))


def analysis_digest(replication: Replication) -> str:
    """Digest of what an analysis is computed with: metrics, figures, claims, coverage, and how claims are judged."""
    code = {
        f"{experiment}.{entry}": replication.code_digest(experiment, entry)
        for experiment in replication.experiments
        for entry in ("metrics", "figures")
    }
    files = {name: read_source(replication.folder / name) for name in ("claims.yaml", "paper.yaml")}
    judged = code_digest(replication.sources, "common.claims.judging", "judge")
    return short_digest({"code": code, "files": files, "judged": judged})
