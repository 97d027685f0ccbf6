"""`replicate rules`: what decides each verdict, since which commit, and what has been changed of it.

A rule is a claim's estimate and region, the code of the metrics that it reads, and the settings that it selects. It
judges runs if it stood at the commit that they were computed from: then it is older than they are. Else an amendment
has to say what changed and which seeds had been seen.
"""

import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from common.claims.cells import matching
from common.claims.estimates import SEED
from common.claims.schema import DECIDING, Claim, load_claims
from common.claims.wording import former_text, rule_text
from common.errors import UserError
from common.experiments.digests import short_digest
from common.experiments.provenance import git
from common.experiments.replication import Replication
from common.experiments.scales import SCALES
from common.files import read_json
from common.workflow.discovery import find
from common.workflow.earlier_claims import entries_at

Entry = TypeVar("Entry")

_WORDS = {"claim": "rule", "metrics": "code of its metrics", "settings": "settings that it selects"}
_KEPT_AS = {
    "claim": "the fields that decided it and changed",
    "metrics": "`metrics`: how its numbers were made",
    "settings": "`settings`: what the grid was",
}


@dataclass(frozen=True)
class Rule:
    """Digests of what decides a claim at one scale; '' where that is not to be found.

    Attributes:
        claim: its estimate, region, smallest effect, scale and speaker.
        metrics: the code that makes numbers from records.
        settings: the runs that it selects without their seeds, each with all its parameters.
    """

    claim: str
    metrics: str = ""
    settings: str = ""

    def changes(self, before: "Rule") -> list[str]:
        """What is not as it was, in words; where either is not known, nothing is said."""
        pairs = {name: (getattr(self, name), getattr(before, name)) for name in _WORDS}
        return [_WORDS[name] for name, (now, then) in pairs.items() if now != then and now and then]


def rules(replication: Replication, scale: str, claims: Collection[Claim]) -> dict[str, Rule]:
    """What decides each of `claims` at a scale, as the files of the replication stand."""
    return {
        claim.id: Rule(claim_digest(claim), metrics_digest(claim, replication), _settings(claim, replication, scale))
        for claim in claims
    }


def claim_digest(claim: Claim) -> str:
    """Digest of the fields that decide; the wording is none of them.

    Seeds that may miss their regime count where there are any: rules that are older than that field keep their digest.
    """
    fields = claim.model_dump(mode="json", include=set(DECIDING))
    return short_digest({name: value for name, value in fields.items() if name != "may_miss_regime" or value})


def metrics_digest(claim: Claim, replication: Replication) -> str:
    """Digest of the code that makes what a claim reads from records; '' for an experiment without analysis."""
    if not replication.analysis_file(claim.experiment).is_file():
        return ""
    return replication.code_digest(claim.experiment, "metrics")


def _settings(claim: Claim, replication: Replication, scale: str) -> str:
    runs = replication.runs(claim.experiment, scale)
    if not runs:
        return ""
    table = pd.DataFrame([{**run.axes, "run": place} for place, run in enumerate(runs)])
    selections = [selection for selection in claim.estimate.selections() if set(selection) <= set(table.columns)]
    chosen = {int(place) for selection in selections for place in matching(table, selection)["run"]}
    points = [{name: value for name, value in runs[place].settings.items() if name != SEED} for place in chosen]
    return short_digest(sorted({short_digest(point) for point in points}))


def rules_at(replication: Replication, commit: str, scale: str) -> dict[str, Rule]:
    """What decided each claim at a commit; of a commit that is laid out otherwise only what claims.yaml says."""
    claims = claims_at(replication, commit)
    with files_of(replication, commit) as root:
        try:
            return rules(find(root, replication.name), scale, claims.values())
        except UserError:
            return worded_at(replication, commit)


def worded_at(replication: Replication, commit: str) -> dict[str, Rule]:
    """What claims.yaml of a commit says of each claim; no digests of metrics and settings."""
    return {name: Rule(claim_digest(claim)) for name, claim in claims_at(replication, commit).items()}


_FORMER_METRICS = """
import sys, importlib, json, pandas
analysis, records, rows = sys.argv[1:]
table = importlib.import_module(analysis).metrics(pandas.read_parquet(records)).reset_index()
plain = lambda value: value.tolist() if hasattr(value, "tolist") else str(value)
with open(rows, "w") as file:
    json.dump(table.to_dict("records"), file, default=plain)
"""


def metrics_at(replication: Replication, experiment: str, records: Path, commit: str) -> list[dict[str, Any]]:
    """What `metrics()` of a commit says of the records in a file, a row a run; nothing where it cannot read them.

    Computed by a process of its own, from the files of that commit.
    """
    analysis = f"replications.{replication.name}.analysis.{experiment}"
    with files_of(replication, commit) as root:
        rows = root / "rows.json"
        command = [sys.executable, "-c", _FORMER_METRICS, analysis, str(records), str(rows)]
        done = subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True)
        found: list[dict[str, Any]] = [] if done.returncode else read_json(rows)
        return found


def claims_at(replication: Replication, commit: str) -> dict[str, Claim]:
    """The claims of a commit by id, those that today's schema can read; none where it has no claims.yaml."""
    found = {}
    for entry in entries_at(replication, commit):
        known = {name: value for name, value in entry.items() if name in Claim.model_fields and name != "amended"}
        try:
            found[entry["id"]] = Claim.model_validate({"nature": "empirical", **known})
        except ValueError:  # an estimate that there is no more
            continue
    return found


def since(replication: Replication, claims: Sequence[Claim]) -> dict[str, str]:
    """The commit from which on each claim has been decided as it is now, under whatever name.

    Claims that are not committed are left out.
    """
    path = (replication.folder / "claims.yaml").relative_to(replication.root).as_posix()
    listed = git(replication.root, *("log", "--topo-order", "--format=%H", "--", path)) or ""
    wanted = {claim.id: claim for claim in claims}
    found: dict[str, str] = {}
    for commit in listed.split():
        then = claims_at(replication, commit)
        for name, claim in list(wanted.items()):
            before = of(claim, then)
            if before and claim_digest(before) == claim_digest(claim):
                found[name] = commit
            else:
                del wanted[name]
        if not wanted:
            break
    return found


def names_of(claim: Claim) -> list[str]:
    """The name of a claim and those that it had before, the latest first."""
    return [claim.id, *(entry.former.id for entry in claim.amended[::-1] if entry.former and entry.former.id)]


def of(claim: Claim, entries: Mapping[str, Entry]) -> Entry | None:
    """What stands of a claim in `entries`, under the latest of its names that is there."""
    return next((entries[name] for name in names_of(claim) if name in entries), None)


def history(replication: Replication) -> Iterator[str]:
    """Every claim with its rule, the commit since which it stands, and what it was before; a line each."""
    claims = load_claims(replication.folder / "claims.yaml")
    first = since(replication, claims)
    for claim in claims:
        yield f"{claim.id} ({claim.polarity.replace('_', ' ')}, {claim.nature})"
        stands = f"since {first[claim.id][:12]}" if claim.id in first else "not committed"
        yield f"  {rule_text(claim)}; {stands}"
        for amendment, then in claim.former():
            yield f"  {amendment.date}: {amendment.reason}"
            if amendment.former:
                yield f"    before: {former_text(amendment.former, then)}"
            for scale, seeds in amendment.seen.items():
                yield f"    seen at scale {scale}: seeds {', '.join(map(str, seeds))}"


def broken(replication: Replication) -> Iterator[str]:
    """Published verdicts whose rule or settings have changed since without an amendment that says so."""
    claims = load_claims(replication.folder / "claims.yaml")
    for scale in SCALES:
        path = replication.root / "reports" / "published" / scale / replication.name / "verdicts.json"
        if not path.is_file():
            continue
        now = rules(replication, scale, claims)
        before = {verdict["id"]: verdict for verdict in read_json(path)}
        for claim in claims:
            try:
                check_published(claim, now[claim.id], of(claim, before), same_numbers=True, scale=scale)
            except UserError as error:
                yield str(error).removeprefix("publish: ")


def check_published(claim: Claim, now: Rule, before: Mapping[str, Any] | None, same_numbers: bool, scale: str) -> None:
    """Hold a rule against the one by which evidence of a scale was published last.

    An amendment tells of a change where it is not among those that were published and `former` keeps what changed: for
    a rule the fields that make up the published one, for settings and metrics a sentence under that name.

    Args:
        before: the published verdict; None or without digests where there is nothing to compare with.
        same_numbers: whether the metrics of the same runs are what they were: then their code may differ.

    Raises:
        UserError: something changed and no amendment was added that says so.
    """
    if not before or "decided_by" not in before:
        return
    published = Rule(**before["decided_by"])
    untold = set(now.changes(published)) - _told(claim, published, before["amended"] or [])
    if same_numbers:
        untold.discard(_WORDS["metrics"])
    if untold:
        what, fields = zip(*((word, _KEPT_AS[name]) for name, word in _WORDS.items() if word in untold), strict=True)
        raise UserError(
            f"publish: of claim {claim.id} the {' and the '.join(what)} changed since its evidence at scale {scale} "
            f"was published; add an entry to `amended` with date, reason, the seeds seen, and in `former` "
            f"{' and '.join(fields)}."
        )


def _told(claim: Claim, published: Rule, known: Sequence[Mapping[str, Any]]) -> set[str]:
    """What of a published rule, in words, the amendments of a claim keep that were not published with it."""
    told = set()
    for amendment, then in claim.former():
        if amendment.former is None or amendment.model_dump(mode="json", exclude_unset=True) in known:
            continue
        kept = {"claim": claim_digest(then) == published.claim and amendment.former.decides}
        kept |= {name: bool(getattr(amendment.former, name)) for name in ("metrics", "settings")}
        told |= {_WORDS[name] for name, is_kept in kept.items() if is_kept}
    return told


def check_older(claim: Claim, now: Rule, then: Rule | None, commit: str, *, seeds: Set[int], scale: str) -> None:
    """Hold a rule against that of the commit from which its runs were computed.

    Raises:
        UserError: it stood otherwise there, or not at all, and no amendment says so or, at a scale that decides it,
            names all of these seeds as seen.
    """
    changed = now.changes(then) if then else ["rule"]
    decided = SCALES.index(scale) >= SCALES.index(claim.decidable_from)
    unsaid = seeds - claim.seen(scale) if decided else set()
    if changed and (not claim.amended or unsaid):
        asked = "say when and why in `amended: [{date, reason, former, seen}]`"
        if claim.amended:
            asked = f"its amendments leave out that seeds {sorted(unsaid)} had been seen (`seen: {{{scale}: [...]}}`)"
        elif then is None:
            asked = f"say so in `amended: [{{date, reason, seen: {{{scale}: {sorted(seeds)}}}}}]`"
        what = f"the {' and the '.join(changed)} differs from the one" if then else "no rule stood in claims.yaml"
        raise UserError(f"publish: of claim {claim.id} {what} at the runs' commit {commit[:12]}; {asked}.")


@contextmanager
def files_of(replication: Replication, commit: str, beside: Sequence[str] = ("common", "data")) -> Iterator[Path]:
    """The replication and our code at a commit, in a folder for the time being.

    Args:
        beside: the other folders that are wanted.

    Raises:
        UserError: the history here does not hold the commit.
    """
    paths = [*beside, f"replications/{replication.name}"]
    there = [path for path in paths if git(replication.root, "cat-file", "-t", f"{commit}:{path}") == "tree\n"]
    packed = subprocess.run(["git", "-C", str(replication.root), "archive", commit, *there], capture_output=True)
    if packed.returncode:
        raise UserError(
            f"The history here lacks commit {commit[:12]}, from which runs of {replication.name} were computed: "
            "whether its rules are older than they are cannot be told. Fetch the whole history, or compute them again."
        )
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(folder)  # git's own archive; the argument `filter` is not in every Python 3.11
        yield Path(folder)
