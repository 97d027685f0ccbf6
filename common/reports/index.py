"""The scoreboard over all papers: which claims hold, at which scale, and where to read on."""

from dataclasses import dataclass
from pathlib import Path

from common.claims.verdicts import VERDICTS
from common.experiments.scales import SCALES
from common.reports.evidence import Evidence
from common.reports.formats import scale_rank
from common.reports.judgements import chance, controls_text, tally
from common.reports.render import write_page


@dataclass(frozen=True)
class PaperRow:
    """One paper on the scoreboard."""

    evidence: Evidence
    page: str | None
    counts: dict[str, int]
    exact: dict[str, int]
    controls: str
    findings: dict[str, int]
    largest: str | None

    @property
    def judged(self) -> bool:
        """Whether any claim has a verdict other than "not run"."""
        return any(count for counts in (self.counts, self.exact) for name, count in counts.items() if name != "not run")


def build_index(root: Path, scale: str) -> Path:
    """Write `reports/index.html` from what is there: analyses at `scale`, published evidence, pages.

    A paper without a page or without any verdict is listed as not yet run.

    Returns:
        The path of the index.

    Raises:
        UserError: a paper.yaml, claims.yaml or file of an analysis cannot be read; names file and line or entry.
    """
    papers = sorted(root.glob("replications/*/paper.yaml"))
    rows = sorted((_row(path.parent, scale, root) for path in papers), key=lambda row: not row.judged)
    totals = {name: sum(row.counts[name] for row in rows) for name in VERDICTS}
    return write_page(
        root / "reports" / "index.html",
        "index.html",
        script="index.js",
        rows=rows,
        totals=totals,
        chance=chance(claim for row in rows for claim in row.evidence.claims),
        scale=scale,
        claims=[(row, claim) for row in rows for claim in row.evidence.claims],
    )


def _row(paper_dir: Path, scale: str, root: Path) -> PaperRow:
    evidence = Evidence(paper_dir, scale, root)
    page = root / "reports" / "site" / f"{evidence.name}.html"
    judged = [claim.headline for claim in evidence.claims if claim.headline and claim.name != "not run"]
    return PaperRow(
        evidence=evidence,
        page=f"site/{page.name}" if page.is_file() else None,
        counts=tally(evidence.claims, empirical=True),
        exact=tally(evidence.claims, empirical=False),
        controls=controls_text(tally(evidence.claims, "control")),
        findings=tally(evidence.claims, "our_finding"),
        largest=max((item.scale for item in judged if item.scale in SCALES), key=scale_rank, default=None),
    )
