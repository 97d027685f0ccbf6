"""A page for every claim: rule, history, what each seed says at every scale, and how to repeat, cite and dispute it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from markupsafe import Markup

from common.claims import Claim
from common.claims.parts import Part, parts
from common.claims.schema import FormerRule
from common.claims.wording import former_text, quantity_text, rule_text
from common.reports import citing
from common.reports.evidence import Evidence
from common.reports.judgements import ClaimRow, Judged
from common.reports.render import write_page
from common.reports.seed_plot import Axis, dot_plot, noun


@dataclass(frozen=True)
class Side:
    """One verdict of a claim: at one scale, of this machine or published.

    Attributes:
        drawing: what each seed says; empty where there is nothing to draw, and `missing` says why.
    """

    judged: Judged
    parts: tuple[Part, ...]
    drawing: Markup
    missing: str = ""

    @property
    def noun(self) -> str:
        return noun(self.judged.verdict, len(self.parts))


@dataclass(frozen=True)
class Change:
    """An amendment: what the claim was before, in words and as data, and what that says of the same runs.

    Attributes:
        data: empty where nothing that decides was changed: `former` says all of it.
        words_only: whether its words or name alone were changed: no verdict is missing.
        verdicts: each side with its former verdict, or with the reason why there is none.
    """

    date: str
    reason: str
    former: str
    data: str
    seen: Mapping[str, tuple[int, ...]]
    verdicts: list[tuple[Judged, dict[str, Any]]] = field(default_factory=list)
    words_only: bool = False

    @property
    def undecided(self) -> list[str]:
        """Why there is no verdict by what was before, each reason once; nothing where words alone were changed."""
        return (
            []
            if self.words_only
            else list(dict.fromkeys(before["reason"] for _, before in self.verdicts if not before["verdict"]))
        )


def write_verdict_pages(
    evidence: Evidence, folder: Path, figures: Mapping[str, list[tuple[str, str]]] | None = None
) -> set[str]:
    """Write `<claim>.html` for every claim of a paper into `folder`; returns the names of the files.

    Args:
        figures: of each claim those that the paper's page shows it beside: anchor and title.

    Raises:
        UserError: claims.yaml, CITATION.cff or a file of the evidence cannot be read; names file and line or entry.
    """
    maker = _Maker(evidence, figures or {})
    return {maker.write(claim, folder).name for claim in evidence.claims}


class _Maker:
    """The pages of one paper: rules and tables are read once."""

    def __init__(self, evidence: Evidence, figures: Mapping[str, list[tuple[str, str]]]) -> None:
        self.evidence = evidence
        self.figures = figures
        self.about = citing.project(evidence.root)
        self._tables: dict[tuple[str, bool, str], Any] = {}

    def write(self, claim: ClaimRow, folder: Path) -> Path:
        rule = self.evidence.rules.get(claim.id)
        finished = self.evidence.finished(claim.headline) if claim.headline else None
        sides = self._sides(rule, self.evidence.judgements.get(claim.id, []))
        return write_page(
            folder / f"{claim.id}.html",
            "verdict.html",
            evidence=self.evidence,
            paper=self.evidence.paper,
            claim=claim,
            verdict=claim.shown,
            rule=rule_text(rule) if rule else claim.shown.rule,
            quantity=quantity_text(rule) if rule else "",
            one=noun(claim.shown, 1),
            data=as_yaml(rule) if rule else "",
            changes=_changes(rule, sides) if rule else [],
            sides=sides,
            figures=self.figures.get(claim.id, []),
            about=self.about,
            bibtex=citing.bibtex(self.about, self.evidence.paper, self.evidence.name, claim, finished),
            dispute=citing.dispute_address(self.about, self.evidence.name, claim),
        )

    def _sides(self, rule: Claim | None, found: Iterable[Judged]) -> list[Side]:
        """The heaviest first; all drawn on one axis."""
        ordered = sorted(found, key=lambda judged: judged.weight, reverse=True)
        seen = {id(judged): self._parts(rule, judged) for judged in ordered}
        axis = Axis.of([(seen[id(judged)], judged.verdict) for judged in ordered])
        return [
            Side(judged, own := seen[id(judged)], dot_plot(own, judged.verdict, axis), "" if own else _missing(judged))
            for judged in ordered
        ]

    def _parts(self, rule: Claim | None, judged: Judged) -> tuple[Part, ...]:
        if rule is None or judged.verdict.experiment != rule.experiment:
            return ()
        import pandas as pd

        key = (judged.scale, judged.published, rule.experiment)
        if key not in self._tables:
            self._tables[key] = pd.DataFrame(self.evidence.rows(judged))
        return parts(rule, self._tables[key], scale=judged.scale)


def as_yaml(entry: Any) -> str:
    """A claim, or what it was before, as claims.yaml holds it, without its history."""
    values = entry.model_dump(mode="json", exclude_unset=True, exclude={"amended", "disputed"})
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, default_flow_style=None, width=88).rstrip()


def _missing(judged: Judged) -> str:
    if judged.verdict.verdict == "not run":
        return ""
    if judged.verdict.estimate is None:
        return "No seed has all that the rule reads."
    return "The metrics at hand no longer hold what this verdict was read from: no seed can be shown alone."


def _words_only(former: FormerRule | None) -> bool:
    return former is not None and former.model_fields_set <= {"statement", "nature", "id"}


def _changes(rule: Claim, sides: Iterable[Side]) -> list[Change]:
    """The amendments of a rule, the newest first, with the verdicts by the rule before each."""
    found = []
    for amendment, then in reversed(rule.former()):
        words = former_text(amendment.former, then) if amendment.former else ""
        day = amendment.date.isoformat()
        verdicts = [
            (side.judged, before)
            for side in sides
            for before in side.judged.verdict.former
            if (before["date"], before["rule"]) == (day, words)
        ]
        data = as_yaml(amendment.former) if amendment.former and amendment.former.decides else ""
        seen = {str(scale): seeds for scale, seeds in amendment.seen.items()}
        found.append(
            Change(
                day,
                amendment.reason,
                words,
                data,
                seen=seen,
                verdicts=verdicts,
                words_only=_words_only(amendment.former),
            )
        )
    return found
