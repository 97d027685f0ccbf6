"""How a verdict is cited and disputed: what CITATION.cff says of the project, as BibTeX and as links."""

import re
from math import inf
from pathlib import Path
from urllib.parse import quote, urlencode

from pydantic import BaseModel, ConfigDict, Field

from common.experiments.paper import Paper
from common.reports.judgements import ClaimRow
from common.sources import load_typed

_LATEX = {letter: f"\\{letter}" for letter in "&%#_${}"}
_LATEX |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}


class _Author(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str | None = None
    given: str | None = Field(None, alias="given-names")
    family: str | None = Field(None, alias="family-names")

    @property
    def cited(self) -> str:
        """As BibTeX wants it: a group in braces, a person as "Family, Given"."""
        return f"{{{_escaped(self.name)}}}" if self.name else ", ".join(filter(None, [self.family, self.given]))


class Project(BaseModel):
    """What CITATION.cff says of this project.

    Attributes:
        repository: its address, without which a dispute cannot be linked, only described.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    title: str = "hessian-replications"
    authors: tuple[_Author, ...] = ()
    version: str | None = None
    repository: str | None = Field(None, alias="repository-code", pattern=r"^https?://\S+$")


def project(root: Path) -> Project:
    """What CITATION.cff of a checkout says; the project's bare name without such a file.

    Raises:
        UserError: the file is no YAML, or an entry is not of its kind; names the line.
    """
    path = root / "CITATION.cff"
    return load_typed(path, Project) if path.is_file() else Project()


def bibtex(about: Project, paper: Paper, name: str, claim: ClaimRow, finished: str | None = None) -> str:
    """A verdict as a BibTeX entry: claim, verdict, numbers, scale and commit.

    Args:
        name: of the paper's folder.
        finished: when its last run ended, as an ISO date.
    """
    judged, verdict = claim.headline, claim.shown
    authors = " and ".join(author.cited for author in about.authors) or f"{{{_escaped(about.title)}}}"
    whose = f"{_escaped(_surnames(paper))} ({paper.year})"
    facts = [f"verdict: {verdict.verdict}"]
    if verdict.estimate is not None:
        facts.append(f"estimate {verdict.estimate:.3g}{f' {_escaped(verdict.unit)}' if verdict.unit else ''}")
    if verdict.interval is not None and verdict.n is not None:
        low, high = verdict.interval
        low, high = -inf if low is None else low, inf if high is None else high
        facts.append(f"{100 * verdict.confidence:g}\\% interval {low:.3g} to {high:.3g}; {verdict.n} seeds")
    if judged:
        facts.append(f"{judged.scale} scale")
        facts += [f"commit {judged.commit}"] if judged.commit else ["not published"]
    lines = {
        "author": authors,
        "title": f"{{Replication of {whose}, claim {_escaped(claim.id)}: {verdict.verdict}}}",
        "howpublished": _escaped(about.title) + (f", version {about.version}" if about.version else ""),
        "note": "; ".join(facts),
    }
    if finished:
        lines["year"] = finished[:4]
    if about.repository:
        lines["url"] = about.repository
    key = re.sub(r"[^A-Za-z0-9:-]", "-", f"{name}:{claim.id}")
    return "\n".join([f"@misc{{{key},", *(f"  {field} = {{{text}}}," for field, text in lines.items()), "}"])


def dispute_address(about: Project, name: str, claim: ClaimRow) -> str | None:
    """The issue form of the repository with the claim filled in; None where its address is not known."""
    if about.repository is None:
        return None
    filled = {"template": "dispute.yml", "title": f"Dispute: {name}/{claim.id}", "claim": f"{name}/{claim.id}"}
    return f"{about.repository.rstrip('/')}/issues/new?{urlencode(filled, quote_via=quote)}"


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


def _surnames(paper: Paper) -> str:
    names = [author.split()[-1] for author in paper.authors]
    return names[0] if len(names) == 1 else f"{names[0]} and {names[1]}" if len(names) == 2 else f"{names[0]} et al."
