"""What we find, for a reader with two minutes: statements, the verdicts under them, and whether these still fit."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from markupsafe import Markup

from common.claims.verdicts import CONTRADICTED, REPRODUCED
from common.errors import suggestion
from common.experiments.paper import SHORT, SYNTHESIS, Finding, Synthesis, pieces
from common.reports.amounts import amount_text
from common.reports.evidence import Evidence
from common.reports.judgements import ClaimRow
from common.reports.text import answer, asks, linked, prose
from common.sources import load_typed

_OPEN, _CLOSE = "\ue000", "\ue001"  # stand for markup while Markdown is read


def read_synthesis(root: Path) -> list[Finding]:
    """What the replications come to together; nothing where nobody has written it.

    Raises:
        UserError: synthesis.yaml is not of its form; names the line.
    """
    path = root / SYNTHESIS
    return load_typed(path, Synthesis).root if path.is_file() else []


def unknown(finding: Finding, claims: Collection[str], figures: Collection[str]) -> list[str]:
    """A sentence for each claim that a finding names and that is not there, and for its figure, once any is drawn."""
    found = [f"there is no claim {name!r}{suggestion(name, claims)}" for name in finding.claims if name not in claims]
    if finding.figure is not None and figures and finding.figure not in figures:
        found.append(f"there is no figure {finding.figure!r}{suggestion(finding.figure, figures)}")
    return found


def misfit(finding: Finding, claims: Mapping[str, ClaimRow]) -> str | None:
    """Why the verdicts do not bear out how far a finding may be believed; None where they do.

    "believe" needs every claim reproduced. "not supported" needs every claim contradicted, or reproduced where it is
    a hypothesis of ours, which says the opposite of the document. "with care" goes with any verdicts.
    """
    for name in finding.claims if finding.belief != "with care" else ():
        row = claims[name]
        ours = row.stub.polarity == "our_finding"
        fits = REPRODUCED if finding.belief == "believe" or ours else CONTRADICTED
        if row.name != fits:
            return f"it says {finding.belief!r}, but {name} is {row.name}"
    return None


@dataclass(frozen=True)
class Told:
    """A finding as a page shows it.

    Attributes:
        text: the sentence with its amounts in place.
        detail: what is folded away, with its amounts, too; empty where there is nothing.
        evidence: its claims, each with the address of more, those of one verdict together.
        changed: what no longer fits, where the verdicts have changed since the sentence was written.
        missing: a sentence for each claim or figure that is not there.
    """

    finding: Finding
    text: Markup
    detail: Markup
    evidence: list[tuple[ClaimRow, str]]
    changed: str | None
    missing: list[str]

    @property
    def groups(self) -> list[tuple[str, str, list[tuple[ClaimRow, str]]]]:
        """The evidence by verdict, ours apart: what a group is called, its verdict, its claims."""
        found: dict[tuple[str, bool, bool], list[tuple[ClaimRow, str]]] = {}
        for row, address in self.evidence:
            kind = row.name, row.stub.polarity == "our_finding", asks(row.shown.statement)
            found.setdefault(kind, []).append((row, address))
        return [(_called(*kind, len(rows)), kind[0], rows) for kind, rows in found.items()]


def _called(verdict: str, ours: bool, asked: bool, count: int) -> str:
    """ "reproduced", "3 claims reproduced", "our hypothesis contradicted", "2 of our questions: no"."""
    if not ours:
        return verdict if count == 1 else f"{count} claims {verdict}"
    if asked:
        return f"{'our question' if count == 1 else f'{count} of our questions'}: {answer(verdict)}"
    return f"{'our hypothesis' if count == 1 else f'{count} of our hypotheses'} {verdict}"


@dataclass(frozen=True)
class Glance:
    """A figure beside a finding: it leads to where the figure stands."""

    picture: Markup
    address: str
    title: str


def tell_findings(
    findings: Sequence[Finding],
    claims: Mapping[str, ClaimRow],
    figures: Collection[str],
    address: Callable[[str], str],
    deviations: Mapping[str, str] = MappingProxyType({}),
) -> list[Told]:
    """Findings for a page; `address` leads from the id of a claim to more of it, `deviations` from D3 and the like."""
    told = []
    for finding in findings:
        missing = unknown(finding, claims, figures)
        evidence = [(claims[name], address(name)) for name in finding.claims if name in claims]
        order = list(dict.fromkeys(row.name for row, _ in evidence))
        evidence.sort(key=lambda pair: order.index(pair[0].name))
        changed = None if missing else misfit(finding, claims)
        text, detail = (_with_amounts(said, claims, deviations) for said in (finding.text, finding.detail or ""))
        told.append(Told(finding, text, detail, evidence, changed=changed, missing=missing))
    return told


def _with_amounts(text: str, claims: Mapping[str, ClaimRow], deviations: Mapping[str, str]) -> Markup:
    def said(name: str) -> str:
        amount, bracket, rest = (amount_text(claims[name]) if name in claims else "").partition(" (")
        return f"{_OPEN}{amount or 'an amount that is not measured yet'}{_CLOSE}{bracket}{rest}"

    whole = "".join(said(part) if is_claim else linked(part, deviations) for part, is_claim in pieces(text))
    html = prose(whole).replace(_OPEN, Markup('<span class="amount">')).replace(_CLOSE, Markup("</span>"))
    return Markup(html)


def open_points(root: Path, folders: Iterable[Path], *, together: bool = False) -> list[str]:
    """What is unfinished or no longer true in the findings of replications, a sentence each, with its place.

    Judged is by the published verdict; where a claim has none, by this machine's at laptop scale.

    Args:
        folders: replications/<paper>, all of them where `together`.
        together: look at synthesis.yaml, instead of at each paper.yaml.
    """
    every = {folder.name: Evidence(folder, "laptop", root) for folder in folders}
    claims = {name: _published_first(evidence) for name, evidence in every.items()}
    figures = {name: [f"{p.entry.experiment}/{p.entry.name}" for p in every[name].figures] for name in every}
    if together:
        findings = read_synthesis(root)
        rows = {f"{name}/{key}": row for name, mine in claims.items() for key, row in mine.items()}
        drawn = [f"{name}/{figure}" for name, mine in figures.items() for figure in mine]
        return [f"{SYNTHESIS}: {sentence}" for sentence in _looked_at(findings, rows, drawn)]
    found = []
    for name, evidence in every.items():
        paper, place = evidence.paper, f"replications/{name}/paper.yaml"
        if not paper.question:
            found.append(f"{place}: no question: say in a sentence what the replication asks.")
        if too_long := _too_long("the answer", paper.answer or "", SHORT["answer"], "a finding or the story"):
            found.append(f"{place}: {too_long}")
        if not paper.findings:
            found.append(f"{place}: no findings: say in three to six sentences what came out.")
        found += [f"{place}: {sentence}" for sentence in _looked_at(paper.findings, claims[name], figures[name])]
    return found


def _published_first(evidence: Evidence) -> dict[str, ClaimRow]:
    rows = [row for row in evidence.claims if row.id in evidence.written]
    return {row.id: replace(row, live=None) if row.published else row for row in rows}


def _looked_at(findings: list[Finding], claims: Mapping[str, ClaimRow], figures: Collection[str]) -> Iterator[str]:
    for number, finding in enumerate(findings, start=1):
        missing = unknown(finding, claims, figures)
        long = _too_long("its text", finding.text, SHORT["finding"], "its `detail`")
        sentences = [*(missing or filter(None, [misfit(finding, claims)])), *filter(None, [long])]
        yield from (
            f"finding {number}: {sentence.rstrip('.?')}{'?' if sentence.endswith('?') else '.'}"
            for sentence in sentences
        )


def _too_long(what: str, text: str, words: int, elsewhere: str) -> str | None:
    count = len(text.split())
    return f"{what} has {count} words; what does not fit into {words} goes into {elsewhere}." if count > words else None
