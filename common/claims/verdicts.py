"""The outcome of a claim, as data."""

from collections.abc import Iterable
from dataclasses import dataclass
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
    """A claim, what was measured for it, and what follows; `interval` is two-sided at `confidence`.

    Attributes:
        former: what each rule that the claim had before says of the same runs.
        seen: the seeds judged here that had been looked at before the rule took its present form.
        turns_without: the seeds without any one of which the verdict would be another: it is fragile.
        size: the effect beside the one that the document reports.
    """

    paper: str
    id: str
    statement: str
    polarity: str
    nature: str
    experiment: str
    scale: str
    source: dict[str, Any]
    rule: str
    estimate: float | None
    interval: tuple[float, float] | None
    n: int | None
    accept: dict[str, Any]
    verdict: VerdictName
    reason: str
    unit: str | None
    decidable_from: str
    smallest_effect: float | None
    amended: list[dict[str, Any]]
    former: list[dict[str, Any]]
    seen: list[int]
    turns_without: list[int]
    size: dict[str, Any] | None
    confidence: float = 0.95

    def to_json(self) -> dict[str, Any]:
        """Plain values for `verdicts.json`: every field under its own name."""
        values = dict(vars(self))
        values["interval"] = list(self.interval) if self.interval is not None else None
        return values


def expected_false_verdicts(verdicts: Iterable[Verdict]) -> float:
    """How many false verdicts chance alone gives the board at most.

    Each claim that was held against an interval over seeds (n is given) is wrong in a given direction with
    probability at most 2.5 %; exact claims have no such error. An upper bound: it is reached if every claim is true
    or false by the smallest margin.
    """
    judged = [v for v in verdicts if v.verdict in DECIDED and v.n is not None]
    return sum((1 - verdict.confidence) / 2 for verdict in judged)
