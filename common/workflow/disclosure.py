"""Every grid of settings that published evidence had is held against `amended`, by what git knows.

A published state is a commit that brought evidence of an experiment. Between two of them, and between the last and the
present files, the runs that a claim selects are compared: their parameters, defaults of the class included, and their
seeds, and those of the runs that they start from. Settings that are not the present ones have to be kept in words by an
entry of `amended` that is not older than their evidence, and was not there yet when it was published.
(Rules themselves: `undisclosed.py`.)

What is not seen: a parameter of which one side knows nothing (its value was written in the code), data of another
digest, code of runs or metrics that changed (`metric_history.py`), and commits that are laid out otherwise.
"""

import ast
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise
from typing import Any

import pandas as pd

from common.claims.cells import matching
from common.claims.estimates import SEED
from common.claims.schema import Amendment, Claim, load_claims
from common.errors import UserError
from common.experiments.grid import Run
from common.experiments.provenance import git
from common.experiments.replication import Replication
from common.experiments.scales import SCALES
from common.experiments.syntax import Sources
from common.workflow.earlier_claims import entries_at
from common.workflow.rules import claims_at, files_of, of

Point = dict[str, str]
"""A run's parameters by name, as text, those of a run that it starts from by `need.name`."""

_SEEDS = re.compile(r"(\w+ )?seeds?\b[\d ,to]*")


@dataclass(frozen=True)
class Grid:
    """The runs of an experiment at a scale: axes, and all parameters."""

    axes: pd.DataFrame
    points: tuple[Point, ...]

    def selected(self, claim: Claim) -> list[Point] | None:
        """The runs that a claim selects; None where an axis that it names is missing."""
        chosen: set[int] = set()
        for selection in claim.estimate.selections():
            if not set(selection) <= set(self.axes.columns):
                return None
            chosen |= set(matching(self.axes, selection)["place"])
        return [self.points[place] for place in sorted(chosen)]


@dataclass(frozen=True)
class State:
    """Published evidence of an experiment at a scale: the commit that brought it, and its day."""

    commit: str
    day: str
    judged: frozenset[str]


@dataclass(frozen=True)
class Change:
    """Of a claim at a scale: the evidence after which its settings became others, and what they were and became.

    Attributes:
        kept: what `amended` kept of settings when that evidence was published, which tells of earlier changes.
    """

    claim: Claim
    scale: str
    before: State
    after: State | None
    differences: Mapping[str, tuple[list[str], list[str]]]
    kept: frozenset[tuple[str, str]] = frozenset()


def undisclosed_settings(
    replication: Replication, scales: Sequence[str] = SCALES, experiments: Collection[str] | None = None
) -> Iterator[str]:
    """Each change of settings after evidence was published of which no amendment tells; nothing without history.

    Args:
        experiments: only of these; None: of all.
    """
    by_claim: dict[tuple[str, str], list[Change]] = {}
    for change in changes_of_settings(replication, scales, experiments):
        by_claim.setdefault((change.claim.id, change.scale), []).append(change)
    for changes in by_claim.values():
        yield from map(_sentence, untold(changes))


def untold(changes: Sequence[Change]) -> list[Change]:
    """Those of a claim's changes at one scale, oldest first, of which no entry that is younger is left.

    An entry tells of one change: of its seeds where it names seeds, of its parameters where it names anything else.
    """
    claim, scale = changes[0].claim, changes[0].scale
    left = []
    for of_seeds in (True, False):
        entries = [_key(entry) for entry in claim.amended if _tells(entry, scale, of_seeds)]
        for change in changes:
            found = {name: values for name, values in change.differences.items() if _is_seed(name) is of_seeds}
            if not found:
                continue
            entries = [key for key in entries if key[0] >= change.before.day and key not in change.kept]
            if not entries:
                left.append(replace(change, differences=found))
            del entries[:1]
    return left


def changes_of_settings(
    replication: Replication, scales: Sequence[str] = SCALES, experiments: Collection[str] | None = None
) -> Iterator[Change]:
    """Each change of the settings of a claim between published states, or since the last one; oldest first."""
    claims = load_claims(replication.folder / "claims.yaml")
    then = cache(partial(_replication_at, replication))
    claims_then, kept = cache(partial(claims_at, replication)), cache(partial(kept_at, replication))

    @cache
    def grid(commit: str | None, experiment: str, scale: str) -> Grid | None:
        return _grid(replication if commit is None else then(commit), experiment, scale)

    for scale in scales:
        for experiment, states in evidence(replication, scale).items():
            if experiments is not None and experiment not in experiments:
                continue
            found_at = [(state, there) for state in states if (there := grid(state.commit, experiment, scale))]
            known, grids = [state for state, _ in found_at], [there for _, there in found_at]
            present = grid(None, experiment, scale)
            for place, (before, after) in enumerate(pairwise([*grids, *([present] if present else [])])):
                if before.points == after.points and before.axes.equals(after.axes):
                    continue
                state, following = known[place], known[place + 1] if place + 1 < len(known) else None
                for claim in (claim for claim in claims if claim.experiment == experiment):
                    former = of(claim, claims_then(state.commit))
                    later = of(claim, claims_then(following.commit)) if following else claim
                    if former is None or later is None or former.id not in state.judged:
                        continue
                    if not former.experiment == later.experiment == experiment:
                        continue  # the rule went elsewhere, which is its own change
                    found = _differences(before, after, former, later)
                    if present is not None:  # what the present settings say needs no other place
                        other = {_is_seed(name) for name in _differences(before, present, former, claim)}
                        found = {name: values for name, values in found.items() if _is_seed(name) in other}
                    if found:
                        entries = kept(state.commit).get(former.id, frozenset())
                        yield Change(claim, scale, state, following, found, kept=entries)


def evidence(replication: Replication, scale: str) -> dict[str, list[State]]:
    """The published states of each experiment at a scale, oldest first."""
    root, place = replication.root, f"reports/published/{scale}/{replication.name}"
    listed = git(root, *("log", "--first-parent", "--reverse", "--format=%H %cs", "--", f"{place}/provenance.json"))
    found: dict[str, list[State]] = {}
    before: dict[str, Any] = {}
    for commit, day in map(str.split, (listed or "").splitlines()):
        made = json.loads(git(root, "show", f"{commit}:{place}/provenance.json") or "{}").get("experiments", {})
        verdicts = json.loads(git(root, "show", f"{commit}:{place}/verdicts.json") or "[]")
        judged = frozenset(entry["id"] for entry in verdicts if entry["verdict"] != "not run")
        for experiment, facts in made.items():
            if facts["finished"] != before.get(experiment, {}).get("finished"):
                found.setdefault(experiment, []).append(State(commit, day, judged))
        before = made
    return found


def kept_at(replication: Replication, commit: str) -> dict[str, frozenset[tuple[str, str]]]:
    """Of each claim at a commit, what its `amended` kept in words of settings and metrics, each with its day."""
    found = {}
    for entry in entries_at(replication, commit):
        amended = entry.get("amended") or []
        listed = amended if isinstance(amended, list) else [amended]
        formers = [(str(one["date"]), one.get("former")) for one in listed]
        found[entry["id"]] = frozenset(
            (day, former[name])
            for day, former in formers
            if isinstance(former, dict)
            for name in ("settings", "metrics")
            if former.get(name)
        )
    return found


def _key(entry: Amendment) -> tuple[str, str]:
    return str(entry.date), (entry.former and entry.former.settings) or ""


def _replication_at(replication: Replication, commit: str) -> Replication | None:
    """The replication of a commit with its experiments; None where it is laid out otherwise."""
    with files_of(replication, commit, beside=()) as root, suppress(UserError):
        then = Replication(root, replication.name, Sources(root))
        return then if then.experiments else None
    return None


def _grid(replication: Replication | None, experiment: str, scale: str) -> Grid | None:
    """The grid of an experiment at a scale; None where there is none."""
    if replication is None or experiment not in replication.experiments:
        return None
    if not (runs := replication.runs(experiment, scale)):
        return None

    @cache
    def defaults(name: str) -> Point:
        return {field.name: _text(_value(field.written)) for field in replication.parameter_fields(name).values()}

    def point(run: Run) -> Point:
        own = defaults(run.experiment) | {name: _text(value) for name, value in run.settings.items()}
        starts = {name: point(needed) for name, needed in replication.needed(run).items()}
        return own | {f"{name}.{key}": value for name, other in starts.items() for key, value in other.items()}

    axes = pd.DataFrame([{**run.axes, "place": place} for place, run in enumerate(runs)])
    return Grid(axes, tuple(map(point, runs)))


def _value(written: str) -> Any:
    """A default as a value where it is written as one, else as it is written."""
    try:
        return ast.literal_eval(written)
    except (ValueError, SyntaxError):
        return written


def _differences(before: Grid, after: Grid, then: Claim, now: Claim) -> dict[str, tuple[list[str], list[str]]]:
    """The parameters of selected runs that differ, with the values that they had and have; seeds by themselves.

    By the selection of before and by that of after: what the rule alone selects otherwise is its own change.
    Parameters of which one side knows nothing are left out.
    """
    found = []
    for claim in (then, now):
        one, other = before.selected(claim), after.selected(claim)
        found.append(_unlike(one or [], other or []))
    return found[1] if all(found) else {}


def _unlike(one: list[Point], other: list[Point]) -> dict[str, tuple[list[str], list[str]]]:
    if not one or not other:
        return {"runs": ([f"{len(one)}"], [f"{len(other)}"])} if len(one) != len(other) else {}
    both = sorted(set(one[0]) & set(other[0]))
    sides = [{tuple(point[name] for name in both) for point in points} for points in (one, other)]
    if sides[0] == sides[1]:
        return {}
    found = {}
    for place, name in enumerate(both):
        values = [sorted({point[place] for point in side}) for side in sides]
        if values[0] != values[1]:
            found[name] = (values[0], values[1])
    return found or {"combinations": ([f"{len(sides[0])}"], [f"{len(sides[1])}"])}


def _text(value: Any) -> str:
    """A parameter's value, numbers in one spelling."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
    return json.dumps(value, default=str)


def _is_seed(parameter: str) -> bool:
    return parameter.split(".")[-1] == SEED


def concerns(entry: Amendment, scale: str, words: str) -> bool:
    """Whether what an entry keeps in these words is of a scale: it names it, or the seeds seen do, or none is named."""
    named = {name for name in SCALES if name in words} or set(entry.seen)
    return not named or scale in named


def _tells(entry: Amendment, scale: str, of_seeds: bool) -> bool:
    """Whether an entry keeps seeds, or other settings, of this scale."""
    if entry.former is None or not (text := entry.former.settings) or not concerns(entry, scale, text):
        return False
    return "seed" in text if of_seeds else beside_seeds(text)


def beside_seeds(settings: str) -> bool:
    """Whether these words on a former grid speak of anything but its scale and its seeds."""
    return bool(re.search("[a-z]", _SEEDS.sub("", re.sub("|".join(SCALES), "", settings))))


def _sentence(change: Change) -> str:
    what = "; ".join(f"{name} from {', '.join(a)} to {', '.join(b)}" for name, (a, b) in change.differences.items())
    until = f"the evidence of commit {change.after.commit[:7]}" if change.after else "now"
    return (
        f"{change.claim.place}: at scale {change.scale} its settings changed between the evidence of commit "
        f"{change.before.commit[:7]} of {change.before.day} and {until} ({what}), which no entry of `amended` tells; "
        "keep what they were in `former: {settings: …}`."
    )
