"""Numbers of the same runs that published evidence gives otherwise than before are held against `amended`.

Code of metrics changes often and means the same; what tells of another meaning are the numbers. Between two published
states of an experiment the runs of both are compared. Their records are the same where none was computed in between.
Where they were, other rounding moves what training makes of it, and leaves the rest: if more than half of the numbers
that some published state is known to have moved are what they were to six digits, in every run, the records are taken
to be the same. What differs all the same was made otherwise, by `metrics()` or by what a run measures.

What is not seen: metrics that changed together with runs that came out otherwise, and numbers of a scale that decides
the claim no more.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any

import pandas as pd

from common.claims.cells import matching
from common.claims.metric_rows import rows_of
from common.claims.schema import Claim, load_claims
from common.experiments.provenance import git
from common.experiments.replication import Replication
from common.experiments.scales import SCALES
from common.workflow.disclosure import State, beside_seeds, concerns, kept_at
from common.workflow.publish import close
from common.workflow.rules import claims_at, of

REGIME = "regime_reached"
_NO_NUMBER = {"run", "reason", "outcome"}

Rows = Mapping[str, Mapping[str, Any]]
"""What was published of each run, by its name."""


@dataclass(frozen=True)
class Numbers:
    """What a published state gives of an experiment, and when the last of its runs ended."""

    state: State
    rows: Rows
    finished: str


def undisclosed_metrics(replication: Replication) -> Iterator[str]:
    """Each number of a claim that became another for the same runs, of which no amendment tells."""
    claims = load_claims(replication.folder / "claims.yaml")
    claims_then, kept = cache(partial(claims_at, replication)), cache(partial(kept_at, replication))
    for scale in SCALES:
        for experiment, states in published_numbers(replication, scale).items():
            for before, after, differing in made_otherwise(states):
                for claim in (claim for claim in claims if claim.experiment == experiment):
                    if SCALES.index(scale) < SCALES.index(claim.decidable_from):
                        continue
                    then, later = (of(claim, claims_then(one.state.commit)) for one in (before, after))
                    if then is None or later is None or then.id not in before.state.judged:
                        continue
                    read = {REGIME, *then.estimate.variables()} & {REGIME, *later.estimate.variables()}
                    found = sorted(read & _of_claim(differing, later, after.rows))
                    known = kept(before.state.commit).get(then.id, frozenset())
                    if found and not _told(claim, scale, before.state.day, known):
                        yield _sentence(claim, scale, before.state, after.state, found)


def published_numbers(replication: Replication, scale: str) -> dict[str, list[Numbers]]:
    """Of each experiment the numbers of its published states, oldest first, wherever one is another."""
    root, place = replication.root, f"reports/published/{scale}/{replication.name}"
    listed = git(root, *("log", "--first-parent", "--reverse", "--format=%H %cs", "--", f"{place}/metrics.json"))
    found: dict[str, list[Numbers]] = defaultdict(list)
    for commit, day in map(str.split, (listed or "").splitlines()):
        tables, made, verdicts = (
            json.loads(git(root, "show", f"{commit}:{place}/{name}.json") or empty)
            for name, empty in (("metrics", "{}"), ("provenance", "{}"), ("verdicts", "[]"))
        )
        judged = frozenset(entry["id"] for entry in verdicts if entry["verdict"] != "not run")
        for experiment, rows in rows_of(tables).items():
            by_run = {row["run"]: row for row in rows}
            if not found[experiment] or found[experiment][-1].rows != by_run:
                facts = made.get("experiments", {}).get(experiment, {})
                found[experiment].append(Numbers(State(commit, day, judged), by_run, facts.get("finished", "")))
    return found


def made_otherwise(states: list[Numbers]) -> Iterator[tuple[Numbers, Numbers, dict[str, set[str]]]]:
    """Consecutive states whose runs have the same records and other numbers: which numbers, and in which runs."""
    pairs = [(before, after, *_compared(before.rows, after.rows)) for before, after in pairwise(states)]
    ever_moved = {name for *_, differing in pairs for name in differing} - {REGIME}
    for before, after, names, differing in pairs:
        may_move = names & ever_moved
        held = may_move - differing.keys()
        same_records = before.finished == after.finished or 2 * len(held) > len(may_move)
        if differing and same_records:
            yield before, after, differing


def _compared(before: Rows, after: Rows) -> tuple[set[str], dict[str, set[str]]]:
    """The names that both states give of common runs, and those that differ with the runs in which they do."""
    names, differing = set(), defaultdict(set)
    for run in before.keys() & after.keys():
        for name in before[run].keys() & after[run].keys() - _NO_NUMBER:
            names.add(name)
            if not close(before[run][name], after[run][name]):
                differing[name].add(run)
    return names, dict(differing)


def _of_claim(differing: Mapping[str, set[str]], claim: Claim, rows: Rows) -> set[str]:
    """Those of the differing numbers that differ in a run which the claim selects."""
    table = pd.DataFrame(list(rows.values()))
    selections = [where for where in claim.estimate.selections() if set(where) <= set(table.columns)]
    chosen = {run for where in selections for run in matching(table, where)["run"]}
    return {name for name, runs in differing.items() if runs & chosen}


def _told(claim: Claim, scale: str, day: str, known: frozenset[tuple[str, str]]) -> bool:
    """Whether an entry that is no older than the evidence, and was not there yet, keeps how numbers were made.

    What a run measures stands in its settings, too.
    """
    for entry in claim.amended:
        former = entry.former
        words = [former.metrics, former.settings if beside_seeds(former.settings or "") else None] if former else []
        for text in words:
            new = text and str(entry.date) >= day and (str(entry.date), text) not in known
            if text and new and concerns(entry, scale, text):
                return True
    return False


def _sentence(claim: Claim, scale: str, before: State, after: State, names: list[str]) -> str:
    between = f"the evidence of commit {before.commit[:7]} of {before.day} and that of commit {after.commit[:7]}"
    return (
        f"{claim.place}: at scale {scale} {', '.join(names)} of the same runs became other numbers between {between}, "
        "which no entry of `amended` tells; keep how they were made in `former: {metrics: …}`."
    )
