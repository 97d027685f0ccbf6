"""Two sets of results side by side: which verdicts differ, how far the estimates moved, what it ran on and cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from common.claims.verdicts import CONTRADICTED, NOT_RUN, REPRODUCED, Verdict
from common.errors import UserError
from common.experiments.scales import SCALES
from common.files import published
from common.reports.formats import PublishedExperiment, Run, by_experiment, cost, read_list
from common.reports.published import Published
from common.reports.render import write_page

Change = Literal["verdict", "estimate", "none", "only in A", "only in B"]


@dataclass(frozen=True)
class Side:
    """One of the two sets: a folder that holds a folder with `verdicts.json` for each paper."""

    label: str
    folder: Path

    @property
    def papers(self) -> set[str]:
        """The papers that have verdicts here."""
        return {path.parent.name for path in published(self.folder, "*/verdicts.json")}

    def verdicts(self, paper: str) -> dict[str, Verdict]:
        """Verdicts by claim; none of a paper that is not here."""
        return {verdict.id: verdict for verdict in Published(self.folder / paper, self.label).verdicts}

    def experiments(self, paper: str) -> dict[str, PublishedExperiment]:
        """Provenance and cost by experiment, as published, or put together from the runs."""
        if (self.folder / paper / "provenance.json").is_file():
            return Published(self.folder / paper, self.label).experiments
        runs = read_list(self.folder / paper / "runs.json", Run)
        return {name: _together(group) for name, group in by_experiment(runs).items()}


@dataclass(frozen=True)
class ClaimPair:
    """A claim on both sides; None where a side does not have it."""

    paper: str
    id: str
    a: Verdict | None
    b: Verdict | None

    @property
    def statement(self) -> str:
        """What is claimed."""
        return (self.b or self.a or Verdict(id=self.id, statement="")).statement

    @property
    def change(self) -> Change:
        """What differs: the verdict, else the estimate or its interval, else nothing."""
        if self.a is None or self.b is None:
            return "only in B" if self.a is None else "only in A"
        if self.a.verdict != self.b.verdict:
            return "verdict"
        same = (self.a.estimate, self.a.interval) == (self.b.estimate, self.b.interval)
        return "none" if same else "estimate"

    @property
    def alike(self) -> bool:
        """Whether both sides judged it, by one rule, at one scale and from as many seeds."""
        if self.a is None or self.b is None or NOT_RUN in (self.a.verdict, self.b.verdict):
            return False
        asked = ((one.rule, one.scale, one.n, one.smallest_effect) for one in (self.a, self.b))
        return len(set(asked)) == 1

    @property
    def opposite(self) -> bool:
        """Whether one side reproduces what the other contradicts."""
        return {one.verdict for one in (self.a, self.b) if one} == {REPRODUCED, CONTRADICTED}


@dataclass(frozen=True)
class CostPair:
    """What an experiment ran on and cost, on both sides."""

    paper: str
    experiment: str
    a: PublishedExperiment
    b: PublishedExperiment

    @property
    def ratio(self) -> float | None:
        """Seconds of B over seconds of A."""
        return self.b.seconds / self.a.seconds if self.a.seconds and self.b.seconds is not None else None

    @property
    def environment(self) -> list[tuple[str, str, str]]:
        """(what, A, B) for commit, code, device and every version in which the two differ."""
        pairs = [
            ("commit", (self.a.commit or "unknown")[:10], (self.b.commit or "unknown")[:10]),
            ("code", self.a.code or "unknown", self.b.code or "unknown"),
            ("device", ", ".join(self.a.devices) or "unknown", ", ".join(self.b.devices) or "unknown"),
        ]
        for name in sorted({*self.a.versions, *self.b.versions}):
            pairs.append((name, self.a.versions.get(name) or "none", self.b.versions.get(name) or "none"))
        return [(what, a, b) for what, a, b in pairs if a != b]


@dataclass(frozen=True)
class Comparison:
    """Everything that two sides have in common or not."""

    a: Side
    b: Side
    claims: Sequence[ClaimPair]
    costs: Sequence[CostPair]

    def changed(self, change: Change) -> list[ClaimPair]:
        """The claims that differ in one way."""
        return [pair for pair in self.claims if pair.change == change]

    @property
    def stability(self) -> str:
        """How many verdicts turned although the same was asked: of two machines what other rounding does."""
        alike = [pair for pair in self.claims if pair.alike]
        turned = [pair for pair in alike if pair.change == "verdict"]
        share = f" ({len(turned) / len(alike):.1%})" if alike else ""
        fragile = sum(bool(pair.a and pair.a.turns_without) for pair in turned)
        return (
            f"Of {len(alike)} claims that both judge by the same rule, at one scale and from as many seeds, "
            f"{len(turned)} turned{share}, {sum(pair.opposite for pair in turned)} of them into the opposite; "
            f"{fragile} of them are marked fragile in A."
        )


def side(root: Path, name: str) -> Side:
    """The set that a word names: a scale means what is published at it, anything else is a folder.

    Raises:
        UserError: the folder holds no verdicts.
    """
    folder = root / "reports" / "published" / name if name in SCALES else Path(name)
    found = Side(f"published, {name}" if name in SCALES else name, folder)
    if not found.papers:
        raise UserError(
            f"{folder} holds no <paper>/verdicts.json: name a published scale ({', '.join(SCALES)}) or a folder such "
            "as analysis/laptop."
        )
    return found


def compare(a: Side, b: Side) -> Comparison:
    """Put two sides beside each other, claim by claim and experiment by experiment."""
    claims, costs = [], []
    for paper in sorted(a.papers | b.papers):
        left, right = a.verdicts(paper), b.verdicts(paper)
        claims += [ClaimPair(paper, name, left.get(name), right.get(name)) for name in {**left, **right}]
        before, after = a.experiments(paper), b.experiments(paper)
        costs += [CostPair(paper, name, before[name], after[name]) for name in before if name in after]
    return Comparison(a, b, claims, costs)


def write_comparison(comparison: Comparison, path: Path) -> Path:
    """The comparison as a page of its own."""
    return write_page(path, "comparison.html", comparison=comparison)


def _together(runs: Sequence[Run]) -> PublishedExperiment:
    seconds, memory = cost(runs)
    return PublishedExperiment(
        commit=", ".join(sorted({run.commit for run in runs if run.commit})) or None,
        runs=len(runs),
        devices=sorted({run.device for run in runs if run.device}),
        versions=next((run.versions for run in runs if run.versions), {}),
        code=next((run.code_digest for run in runs if run.code_digest), None),
        seconds=seconds,
        peak_memory_mb=memory,
    )
