"""The index: every replication under its question, what they come to together, and the ledger of all claims."""

from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from common.claims.verdicts import VERDICTS
from common.reports.board import write_board
from common.reports.drawing import thumbnail
from common.reports.evidence import Evidence, Picture
from common.reports.gist import Glance, Told, read_synthesis, tell_findings
from common.reports.guide import PAGE, has_guide, write_guide
from common.reports.judgements import ClaimRow, chance, changed, controls_text, in_order, judged_scales, tally
from common.reports.render import write_page


@dataclass(frozen=True)
class PaperRow:
    """One replication on the index.

    Attributes:
        page: its page, seen from the index.
        picture: its first finding's figure, cut to what it plots.
        told: its findings.
    """

    evidence: Evidence
    page: str | None
    picture: Markup | None
    told: list[Told]
    counts: dict[str, int]
    exact: dict[str, int]
    controls: str
    findings: dict[str, int]
    scales: list[str]

    @property
    def judged(self) -> bool:
        """Whether any claim has a verdict other than "not run"."""
        return any(count for counts in (self.counts, self.exact) for name, count in counts.items() if name != "not run")

    @property
    def first(self) -> Told | None:
        """The headline finding."""
        return self.told[0] if self.told else None


def build_index(root: Path, scale: str) -> Path:
    """Write `reports/index.html` and `verdicts.csv`, from analyses at `scale`, published evidence and synthesis.yaml.

    A paper without a page or without any verdict is listed as not yet run.

    Returns:
        The path of the index.

    Raises:
        UserError: a paper.yaml, claims.yaml, synthesis.yaml or file of an analysis cannot be read; names file and line
            or entry.
    """
    papers = sorted(root.glob("replications/*/paper.yaml"))
    rows = sorted((_row(path.parent, scale, root) for path in papers), key=lambda row: not row.judged)
    claims = [(row, claim, _address(row.evidence, claim)) for row in rows for claim in in_order(row.evidence.claims)]
    write_board(root, (row.evidence for row in rows))
    write_guide(root)
    together = _together(root, claims, rows)
    return write_page(
        root / "reports" / "index.html",
        "index.html",
        script="index.js",
        rows=rows,
        synthesis=[(one, _glance(rows, one.finding.figure)) for one in together],
        answers=[("", one, "#synthesis") for one in together]
        + [(row.evidence.name, one, f"{row.page}#gist") for row in rows if row.page for one in row.told],
        totals={name: sum(row.counts[name] for row in rows) for name in VERDICTS},
        chance=chance(claim for _, claim, _ in claims),
        changed=changed(claim for _, claim, _ in claims),
        scale=scale,
        guide=f"site/{PAGE}" if has_guide(root) else None,
        claims=claims,
        fragile=[(row, claim, address) for row, claim, address in claims if claim.fragile],
    )


def _row(paper_dir: Path, scale: str, root: Path) -> PaperRow:
    evidence = Evidence(paper_dir, scale, root)
    site = root / "reports" / "site"
    claims = {claim.id: claim for claim in evidence.claims}
    figures = evidence.named_figures
    wanted = [finding.figure for finding in evidence.paper.findings if finding.figure in figures] + list(figures)
    pictures = [(_svg(evidence, figures[name]), figures[name].entry.title or name) for name in wanted]
    shown = next((picture for picture in pictures if (site.parent / picture[0]).is_file()), None)
    page = f"site/{evidence.name}.html" if (site / f"{evidence.name}.html").is_file() else None
    deviations = evidence.deviation_addresses(page) if page else {}
    return PaperRow(
        evidence=evidence,
        page=page,
        picture=thumbnail((site.parent / shown[0]).read_text(), *shown) if shown else None,
        told=tell_findings(
            evidence.paper.findings, claims, figures, lambda name: _address(evidence, claims[name]), deviations
        ),
        counts=tally(evidence.claims, empirical=True),
        exact=tally(evidence.claims, empirical=False),
        controls=controls_text(tally(evidence.claims, "control")),
        findings=tally(evidence.claims, "our_finding"),
        scales=judged_scales(evidence.claims),
    )


def _svg(evidence: Evidence, picture: Picture) -> str:
    """The file beside the page, seen from the index."""
    return f"site/{evidence.name}/{evidence.stem(picture)}.svg"


def _glance(rows: list[PaperRow], figure: str | None) -> Glance | None:
    """A figure PAPER/EXPERIMENT/NAME beside a statement, where a page shows it."""
    paper, _, name = (figure or "").partition("/")
    evidence = next((row.evidence for row in rows if row.evidence.name == paper), None)
    picture = evidence.named_figures.get(name) if evidence else None
    if evidence is None or picture is None:
        return None
    address, stem = _svg(evidence, picture), evidence.stem(picture)
    path = evidence.root / "reports" / address
    if not path.is_file():
        return None
    return Glance(
        thumbnail(path.read_text(), address, stem), f"site/{paper}.html#figure-{stem}", picture.entry.title or name
    )


def _address(evidence: Evidence, claim: ClaimRow) -> str:
    """Where a claim is shown with all that is known of it, seen from the index; nothing where no page shows it."""
    page = f"{evidence.name}.html"
    shown = evidence.claim_page(claim) or f"{page}#claim-{claim.id}"
    return f"site/{shown}" if (evidence.root / "reports" / "site" / page).is_file() else ""


def _together(root: Path, claims: list[tuple[PaperRow, ClaimRow, str]], rows: list[PaperRow]) -> list[Told]:
    """What the replications come to together."""
    known = {f"{row.evidence.name}/{claim.id}": (claim, address) for row, claim, address in claims}
    figures = [
        f"{row.evidence.name}/{picture.entry.experiment}/{picture.entry.name}"
        for row in rows
        for picture in row.evidence.figures
    ]
    only = {name: claim for name, (claim, _) in known.items()}
    return tell_findings(read_synthesis(root), only, figures, lambda name: known[name][1])
