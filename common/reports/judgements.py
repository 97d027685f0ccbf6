"""Claims as the site counts them: each with its verdicts, and what all of them come to."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from common.claims import expected_false_verdicts
from common.claims.verdicts import CONTRADICTED, NOT_DECIDABLE, NOT_RUN, REPRODUCED, VERDICTS, Verdict
from common.reports.estimators import EstimatorError
from common.reports.formats import ClaimStub, scale_rank

_RULE = {"estimate", "accept", "smallest_effect", "may_miss_regime"}
_DECIDED = (REPRODUCED, CONTRADICTED)


@dataclass(frozen=True)
class Judged:
    """A verdict and what stands beside it.

    Attributes:
        scale: the scale it was reached at.
        errors: the estimators' own errors in the metrics that it speaks of.
        commit: the commit of its runs, if it was published.
        code_changed: whether the experiment's code differs from the published one; None where that is not known.
        level: what a difference is taken from, the other arm's value, where it can be said.
    """

    verdict: Verdict
    scale: str
    errors: tuple[EstimatorError, ...] = ()
    published: bool = False
    commit: str | None = None
    code_changed: bool | None = None
    level: float | None = None

    @property
    def weight(self) -> tuple[int, int, bool]:
        """Of several verdicts of a claim the heaviest is shown: one that decides more, then of the larger scale.

        Where a larger scale could not decide, because its runs did not reach the claim's regime, a smaller one may
        have; at equal scale this machine's counts.
        """
        decides = {NOT_RUN: 0, NOT_DECIDABLE: 1}.get(self.verdict.verdict, 2)
        return decides, scale_rank(self.scale), not self.published


@dataclass(frozen=True)
class ClaimRow:
    """A claim with this machine's verdict and the heaviest of the published ones."""

    stub: ClaimStub
    live: Judged | None
    published: Judged | None

    @property
    def id(self) -> str:
        return self.stub.id

    @property
    def repeated(self) -> bool:
        """Whether this machine found what was published, to the last digit."""
        told = [
            (judged.scale, judged.verdict.verdict, judged.verdict.estimate, judged.verdict.interval)
            for judged in (self.live, self.published)
            if judged is not None
        ]
        return len(told) == 2 and told[0] == told[1]

    @property
    def judgements(self) -> list[Judged]:
        """What stands in the table: this machine's verdict and the published one, once where they are the same."""
        known = [self.published] if self.repeated else [self.live, self.published]
        return [judged for judged in known if judged is not None]

    @property
    def headline(self) -> Judged | None:
        """The verdict that the index counts, by `Judged.weight`; the published one where both are the same."""
        return max(self.judgements, key=lambda judged: judged.weight, default=None)

    @property
    def name(self) -> str:
        """The headline's verdict, or "not run"."""
        return self.headline.verdict.verdict if self.headline else "not run"

    @property
    def shown(self) -> Verdict:
        """The headline's verdict in full; before any judgement the bare statement."""
        if self.headline:
            return self.headline.verdict
        return self.stub.unjudged("no run of this claim has been analysed yet")

    def of(self, verdict: Verdict) -> "ClaimRow":
        """The same claim as one of its verdicts has it."""
        return ClaimRow(self.stub, Judged(verdict, verdict.scale or ""), None)

    @property
    def errors(self) -> tuple[EstimatorError, ...]:
        """The estimators' own errors behind the headline's verdict."""
        return self.headline.errors if self.headline else ()

    @property
    def amended(self) -> list[dict[str, Any]]:
        """When and why the rule was changed after its runs, oldest first."""
        return self.stub.amended or self.shown.amended

    @property
    def empirical(self) -> bool:
        """Whether the world may disagree; a theorem is checked by numbers, what is printed is added up."""
        return self.stub.nature == "empirical"

    @property
    def whose(self) -> str:
        """Its polarity, by which claims are counted; "exact" for what a document proves or prints."""
        return "exact" if self.stub.polarity == "claim" and not self.empirical else self.stub.polarity

    @property
    def fragile(self) -> bool:
        """Whether the headline's verdict would be another without one of its seeds."""
        return bool(self.shown.turns_without)


@dataclass(frozen=True)
class ClaimGroup:
    """Claims that a page lists together."""

    anchor: str
    title: str
    claims: list[ClaimRow]


def grouped(claims: Iterable[ClaimRow]) -> tuple[ClaimGroup, ClaimGroup, ClaimGroup]:
    """The document's empirical claims; our hypotheses and controls; theorems and arithmetic."""
    first, second, third = list[ClaimRow](), list[ClaimRow](), list[ClaimRow]()
    for claim in claims:
        control = claim.stub.polarity == "control"
        exact = not claim.empirical and not control
        (third if exact else first if claim.stub.polarity == "claim" else second).append(claim)
    second.sort(key=lambda claim: claim.stub.polarity == "control")
    return (
        ClaimGroup("claims", "What the document claims", first),
        ClaimGroup("findings", "Our hypotheses, and controls", second),
        ClaimGroup("appendix", "Appendix: theorems and printed arithmetic", third),
    )


def in_order(claims: Iterable[ClaimRow]) -> list[ClaimRow]:
    """Claims by `grouped`, each group as it stands."""
    return [claim for group in grouped(claims) for claim in group.claims]


def judged_scales(claims: Iterable[ClaimRow]) -> list[str]:
    """The scales of the verdicts that count, the largest first."""
    headlines = [claim.headline for claim in claims if claim.headline and claim.name != NOT_RUN]
    return sorted({judged.scale for judged in headlines}, key=scale_rank, reverse=True)


def tally(claims: list[ClaimRow], polarity: str = "claim", *, empirical: bool | None = None) -> dict[str, int]:
    """How many claims of a polarity have each verdict, in the order of `VERDICTS`; of one nature if that is given."""
    counted = Counter(
        claim.name for claim in claims if claim.stub.polarity == polarity and empirical in (None, claim.empirical)
    )
    return {name: counted[name] for name in VERDICTS}


def controls_text(counts: dict[str, int]) -> str:
    """How the controls of a paper came out: "2 of 2 as expected", "1 of 2 as expected, 1 not decidable"."""
    total = sum(counts.values())
    if not total:
        return "none"
    words = {"contradicted": "failed", "not decidable at this scale": "not decidable"}
    others = [f"{count} {words.get(name, name)}" for name, count in counts.items() if count and name != "reproduced"]
    expected = counts["reproduced"]
    if len(others) == 1 and not expected:
        return others[0]
    return ", ".join([f"{expected} of {total} as expected", *others])


@dataclass(frozen=True)
class Changed:
    """Of the decided empirical claims of documents those whose rule was changed after results had been seen.

    Attributes:
        decided: how many are decided.
        after: of these, those with another estimate, limit or smallest effect after results had been seen.
        unseen: of these, those that runs decide which nobody had seen then.
        otherwise: of these, those that a former rule decides otherwise on the present runs.
    """

    decided: int
    after: int
    unseen: int
    otherwise: int


def changed(claims: Iterable[ClaimRow]) -> Changed:
    """How far the verdicts that the site counts rest on rules that are younger than some results."""
    decided = [
        claim for claim in claims if claim.empirical and claim.stub.polarity == "claim" and claim.name in _DECIDED
    ]
    after = [
        claim
        for claim in decided
        if any(entry.get("seen") and _RULE & set(entry.get("former") or {}) for entry in claim.amended)
    ]
    otherwise = [
        claim
        for claim in after
        if any(entry["verdict"] in _DECIDED and entry["verdict"] != claim.name for entry in claim.shown.former)
    ]
    unseen = [claim for claim in after if not claim.shown.seen]
    return Changed(len(decided), len(after), len(unseen), len(otherwise))


@dataclass(frozen=True)
class Chance:
    """How many verdicts rest on an interval over seeds, and how many of them chance alone makes false at most."""

    verdicts: int
    false: float


def chance(claims: Iterable[ClaimRow]) -> Chance:
    """What chance may have done to the verdicts that the site counts, controls and hypotheses of ours included."""
    shown: list[Any] = [claim.shown for claim in claims]
    single = [expected_false_verdicts([verdict]) for verdict in shown]
    return Chance(sum(value > 0 for value in single), sum(single))
