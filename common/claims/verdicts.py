"""The outcome of a claim, as data."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

VerdictName = Literal["reproduced", "contradicted", "inconclusive", "not decidable at this scale", "not run"]
REPRODUCED: VerdictName = "reproduced"
CONTRADICTED: VerdictName = "contradicted"
INCONCLUSIVE: VerdictName = "inconclusive"
NOT_DECIDABLE: VerdictName = "not decidable at this scale"
NOT_RUN: VerdictName = "not run"
VERDICTS: tuple[VerdictName, ...] = (REPRODUCED, CONTRADICTED, INCONCLUSIVE, NOT_DECIDABLE, NOT_RUN)
DECIDED = (REPRODUCED, CONTRADICTED, INCONCLUSIVE)


@dataclass(frozen=True)
class Verdict:
    """A claim, what was measured for it, and what follows.

    Attributes:
        source: `document`, `locator` and what is `reported` there.
        interval: two-sided at `confidence`; None at an end that is infinite.
        n: seeds that decide; None for an exact number.
        amended: when and why the rule was changed after its result was seen, oldest first.
        former: what each rule that the claim had before says of the same runs, where more than its words was another.
        seen: the seeds judged here that had been looked at before the rule took its present form.
        turns_without: the seeds without any one of which the verdict would be another: it is fragile.
        size: the effect beside the one that the document reports (`common.claims.size`).
        commit, rule_commit: of the runs, and since which the rule stands, where the verdict is published.
        decided_by: digests of the rule (`common.workflow.rules`), where it is published.
    """

    id: str
    statement: str
    paper: str = ""
    polarity: str = "claim"
    nature: str = "empirical"
    experiment: str | None = None
    scale: str | None = None
    source: dict[str, Any] = field(default_factory=lambda: {"document": None, "locator": None, "reported": None})
    rule: str = ""
    estimate: float | None = None
    interval: tuple[float | None, float | None] | None = None
    n: int | None = None
    accept: dict[str, Any] = field(default_factory=dict)
    verdict: VerdictName = NOT_RUN
    reason: str = ""
    unit: str | None = None
    decidable_from: str | None = None
    smallest_effect: float | None = None
    amended: list[dict[str, Any]] = field(default_factory=list)
    former: list[dict[str, Any]] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    turns_without: list[int] = field(default_factory=list)
    size: dict[str, Any] | None = None
    confidence: float = 0.95
    commit: str | None = None
    rule_commit: str | None = None
    decided_by: dict[str, str] | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values for `verdicts.json`: every field under its own name, of publication where there is any."""
        published = ("commit", "rule_commit", "decided_by")
        values = {name: value for name, value in vars(self).items() if name not in published or value is not None}
        return values | {"interval": None if self.interval is None else list(self.interval)}


def expected_false_verdicts(verdicts: Iterable[Verdict]) -> float:
    """How many false verdicts chance alone gives the board at most.

    Each claim that was held against an interval over seeds (n is given) is wrong in a given direction with
    probability at most 2.5 %; exact claims have no such error, and the few on every run that are measured with an error
    of their own, as likely wrong, are not counted. An upper bound: it is reached if every claim is true
    or false by the smallest margin.
    """
    judged = [v for v in verdicts if v.verdict in DECIDED and v.n is not None]
    return sum((1 - verdict.confidence) / 2 for verdict in judged)
