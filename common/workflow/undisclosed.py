"""What git knows of a claim's past, and neither an amendment nor a withdrawal tells.

Before evidence for a claim is published its rule may take shape; from then on whoever reads the board has to find every
form that the claim had.
"""

import json
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from common.claims.schema import IN_WORDS, Claim, FormerRule, load_claims
from common.experiments.provenance import git
from common.experiments.replication import Replication
from common.experiments.scales import SCALES
from common.workflow.earlier_claims import entries_at

_KEPT = tuple(name for name in FormerRule.model_fields if name not in IN_WORDS)
_NONE: dict[str, Any] = {"polarity": "claim", "decidable_from": "laptop", "may_miss_regime": 0}


def undisclosed(replication: Replication) -> Iterator[str]:
    """Each change of a claim after its evidence was published that `amended` does not keep; nothing without history."""
    claims = {claim.id: claim for claim in load_claims(replication.folder / "claims.yaml")}
    for commit, day, name, field, value in changes(replication):
        if name in claims and not any(_keeps(claims[name], field, value)):
            what = f"its {field.replace('_', ' ')} was another until commit {commit} of {day}"
            kept = "keep what it was in `former` of an entry of `amended`"
            yield f"{claims[name].place}: {what}, after its evidence had been published; {kept}."


def dropped(replication: Replication) -> Iterator[str]:
    """Each claim that is gone from claims.yaml after its evidence was published, without a word in either file."""
    claims = load_claims(replication.folder / "claims.yaml")
    kept = {claim.id for claim in claims}
    kept |= {entry.former.id for claim in claims for entry in claim.amended if entry.former and entry.former.id}
    kept |= {name for withdrawal in replication.paper.withdrawn for name in withdrawal.claims}
    where = (replication.folder / "claims.yaml").relative_to(replication.root)
    for commit, day, before, after in _versions(replication):
        gone = before.keys() - after.keys() - kept
        kept |= gone
        for name in sorted(gone & _judged(replication, f"{commit}^") if gone else ()):
            yield (
                f"{where}: claim {name} is gone since commit {commit} of {day}, after its evidence had been published; "
                "keep its id in `former` of the claim that it became, or in `withdrawn` of paper.yaml."
            )


def changes(replication: Replication) -> Iterator[tuple[str, str, str, str, Any]]:
    """Commit, day, claim, field and what the field was before: of claims that published evidence had judged by then.

    Only the line of first parents is followed: what a merged branch tried in between is one change.
    """
    for commit, day, before, after in _versions(replication):
        both = after.keys() & before.keys()
        for name in sorted(both & _judged(replication, f"{commit}^") if both else ()):
            for field in _KEPT:
                then, now = (entry.get(field, _NONE.get(field)) for entry in (before[name], after[name]))
                first_given = field == "nature" and then is None  # the field is younger than the first claims
                if then != now and not first_given and _read(field, then) != _read(field, now):
                    yield commit, day, name, field, then


_Entries = dict[str, dict[str, Any]]


def _versions(replication: Replication) -> Iterator[tuple[str, str, _Entries, _Entries]]:
    """Of each commit of claims.yaml its day, every claim that there was before it, as it was last, and its claims."""
    root, path = replication.root, (replication.folder / "claims.yaml").relative_to(replication.root).as_posix()
    listed = git(root, *("log", "--first-parent", "--reverse", "--format=%h %cs", "--", path)) or ""
    before: _Entries = {}
    for commit, day in map(str.split, listed.splitlines()):
        after = {entry["id"]: entry for entry in entries_at(replication, commit)}
        yield commit, day, dict(before), after
        before |= after


def _judged(replication: Replication, commit: str) -> set[str]:
    """The claims on which published evidence of a commit has something to say."""
    places = [f"reports/published/{scale}/{replication.name}/verdicts.json" for scale in SCALES]
    shown = (git(replication.root, "show", f"{commit}:{place}") for place in places)
    return {entry["id"] for text in shown if text for entry in json.loads(text) if entry["verdict"] != "not run"}


def _keeps(claim: Claim, field: str, value: Any) -> Iterator[bool]:
    """Of each amendment, whether it keeps this value of a field."""
    for amendment in claim.amended:
        if amendment.former and field in amendment.former.model_fields_set:
            yield getattr(amendment.former, field) == _read(field, value)


def _read(field: str, value: Any) -> Any:
    """A field as today's schema reads it, so that two spellings of one rule are equal; as it stands where it cannot."""
    try:
        return getattr(FormerRule.model_validate({field: value}), field)
    except ValidationError:
        return value
