"""The page of a paper: story, figures, claims, deviations, coverage, runs, provenance and cost."""

import logging
import re
import shutil
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from common.files import atomic_path, published, remove_abandoned, write_atomically
from common.reports.drawing import inline_svg, least_width
from common.reports.evidence import Evidence, Picture
from common.reports.formats import FigureEntry, Run, by_experiment, cost
from common.reports.gist import Glance, tell_findings
from common.reports.guide import PAGE, has_guide
from common.reports.judgements import ClaimRow, chance, controls_text, grouped, in_order, judged_scales, tally
from common.reports.notebook import Story, run_notebook, tell
from common.reports.paper_view import PAPER_VARIABLE, ROOT_VARIABLE, SCALE_VARIABLE
from common.reports.pdf import pdf_of
from common.reports.predictions import predicted
from common.reports.render import macro, write_page
from common.reports.verdict_page import write_verdict_pages

INLINE_BUDGET = 600_000  # bytes of SVG inside a page; beyond it the largest figures are loaded as files

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FigureView:
    """A figure as the page shows it: inline, or as a picture file beside the page."""

    picture: Picture
    drawing: Markup | None
    files: dict[str, str]
    deviations: list[str]
    anchor: str

    @property
    def entry(self) -> FigureEntry:
        return self.picture.entry

    @property
    def title(self) -> str:
        """What the figure calls itself, without the title of a panel that stands below it."""
        return self.entry.title.split("\n")[0] or self.entry.name

    def named(self, title: str) -> Markup:
        """The drawing, which a screen reader calls `title`: of itself it has the name of its first panel."""
        drawing = str(self.drawing or "")
        return Markup(re.sub(r'(aria-label|alt)="[^"]*"', lambda at: f'{at[1]}="{escape(title)}"', drawing, count=1))

    @property
    def glance(self) -> Glance | None:
        """The figure beside a finding of its page."""
        again = self.again
        return Glance(again, f"#{self.anchor}", self.entry.title or self.entry.name) if again else None

    @property
    def again(self) -> Markup | None:
        """The drawing a second time on its page, without its bytes."""
        box = re.search(r'viewBox="([-\d. ]+)"', self.drawing or "")
        if self.drawing is None:
            return None
        if box is None:
            return Markup('<img loading="lazy" src="{}" alt="{}">').format(self.files["svg"], self.entry.title)
        shown = '<svg viewBox="{}" role="img" aria-label="{}"><use href="#{}-drawing"/></svg>'
        return Markup(shown).format(box[1], self.entry.title or self.entry.name, self.anchor)


def build_page(paper_dir: Path, scale: str, root: Path) -> Path:
    """Write `reports/site/<paper>.html` and the files beside it, from what the analysis at `scale` left.

    What is missing is said on the page: without an analysis it shows the paper, its claims, and the figures and
    verdicts that were published.
    A cell of report.py that fails is named on the page and logged as an error.

    Args:
        paper_dir: replications/<paper>, holding paper.yaml and, if there is a narrative, report.py.
        scale: smoke, laptop, workstation or paper.
        root: the checkout.

    Returns:
        The path of the page.

    Raises:
        UserError: paper.yaml, claims.yaml or a file of the analysis cannot be read; names file and line or entry.
    """
    evidence = Evidence(paper_dir, scale, root)
    beside = root / "reports" / "site" / evidence.name
    beside.mkdir(parents=True, exist_ok=True)
    figures = _figures(evidence, beside)
    story = _story(evidence, beside, figures)
    smaller = [_view(evidence, picture, beside) for picture in evidence.smaller_figures]
    claims = write_verdict_pages(evidence, beside, _beside(story, figures))
    _forget_others(beside, [*figures.values(), *smaller], bool(story.notebook), claims)
    path = beside.parent / f"{evidence.name}.html"
    rows = {row.id: row for row in evidence.claims}
    drawn = {name: figures[picture.key] for name, picture in evidence.named_figures.items()}
    told = tell_findings(
        evidence.paper.findings, rows, drawn, lambda name: f"#claim-{name}", evidence.deviation_addresses("")
    )
    return write_page(
        path,
        "page.html",
        "page.js",
        evidence=evidence,
        paper=evidence.paper,
        scale=scale,
        scales=judged_scales(evidence.claims),
        guide=PAGE if has_guide(root) else None,
        story=story,
        told=told,
        drawn=drawn,
        groups=[group for group in grouped(evidence.claims) if group.claims],
        counts=tally(evidence.claims, empirical=True),
        exact=tally(evidence.claims, empirical=False),
        controls=controls_text(tally(evidence.claims, "control")),
        findings=tally(evidence.claims, "our_finding"),
        chance=chance(evidence.claims),
        figures=[
            story.asides.get(key) or macro("figure_card", view, evidence)
            for key, view in figures.items()
            if key not in story.figures
        ],
        smaller_figures=smaller,
        shown_figures={view.entry.name: view.anchor for view in reversed(figures.values())},
        outcomes=_outcomes(evidence.runs),
        unsettled=_unsettled(evidence.runs),
        provenance=_provenance(evidence.runs),
        costs=_costs(evidence.runs),
        notebook=f"{evidence.name}/report.ipynb" if story.notebook else None,
    )


def _beside(story: Story, figures: dict[tuple[str, str], FigureView]) -> dict[str, list[tuple[str, str]]]:
    """Of each claim the figures that the story shows beside it: anchor and title."""
    return {
        claim: [(figures[of, name].anchor, title or figures[of, name].title) for of, name, title in shown]
        for claim, shown in story.beside.items()
    }


def _figures(evidence: Evidence, beside: Path) -> dict[tuple[str, str], FigureView]:
    """Every figure by (experiment, name), its files copied beside the page."""
    pictures = {picture.key: picture for picture in evidence.figures}
    sizes = {key: path.stat().st_size for key, picture in pictures.items() if (path := picture.file("svg"))}
    inline = set(sizes)
    for key in sorted(sizes, key=lambda item: -sizes[item]):
        if sum(sizes[item] for item in inline) <= INLINE_BUDGET:
            break
        inline.discard(key)
    return {key: _view(evidence, picture, beside, inline=key in inline) for key, picture in pictures.items()}


def _view(evidence: Evidence, picture: Picture, beside: Path, inline: bool = False) -> FigureView:
    """A figure with its files copied beside the page."""
    entry, name = picture.entry, evidence.stem(picture)
    files = {}
    for kind in ("svg", "png", "csv"):
        if source := picture.file(kind):
            with atomic_path(beside / f"{name}.{kind}") as temporary:
                shutil.copyfile(source, temporary)
            files[kind] = f"{evidence.name}/{name}.{kind}"
    title, source = entry.title or entry.name, picture.file("svg")
    if source and (pdf := pdf_of(source)):
        write_atomically(beside / f"{name}.pdf", pdf, sync=False)
        files["pdf"] = f"{evidence.name}/{name}.pdf"
    drawing = None
    if inline and source:
        svg = inline_svg(source.read_text(), name, title, evidence.rows_of(picture))
        drawing = Markup(str(svg).replace("<svg ", f'<svg id="{escape(f"figure-{name}-drawing")}" ', 1))
    elif source:
        drawing = _linked(source.read_text(), files["svg"], title)
    return FigureView(picture, drawing, files, evidence.deviation_ids(entry.experiment), f"figure-{name}")


def _linked(content: str, address: str, title: str) -> Markup:
    """A figure that is loaded as a file, as large as it would be inside the page."""
    box = re.search(r'viewBox="([-\d. ]+)"', content)
    width = float(box[1].split()[2]) if box else 0.0
    size = (
        Markup(' style="max-width:{:.0f}px;min-width:{:.0f}px"').format(1.6 * width, least_width(width)) if box else ""
    )
    return Markup('<img loading="lazy" src="{}" alt="{}"{}>').format(address, title, size)


def _forget_others(beside: Path, figures: list[FigureView], notebook: bool, claims: Collection[str] = ()) -> None:
    """Remove what an earlier build left beside the page: figures, a notebook and pages of claims that are no more."""
    kept = set(claims) | {Path(file).name for view in figures for file in view.files.values()}
    kept |= {"report.ipynb"} if notebook else set()
    for path in published(beside):
        if path.is_file() and path.name not in kept:
            path.unlink(missing_ok=True)
    remove_abandoned(beside)


@dataclass(frozen=True)
class _Cards:
    """The cards of a page."""

    evidence: Evidence
    figures: dict[tuple[str, str], FigureView]

    def figure(self, shown: dict[str, Any]) -> Markup:
        view = self.figures[shown["experiment"], shown["name"]]
        caption = {key: shown[key] for key in ("title", "see", "printed")}
        return macro("figure_card", view, self.evidence, claims=self._rows(shown["claims"]), **caption)

    def verdicts(self, claims: list[str]) -> Markup:
        return macro("verdict_list", self._rows(claims))

    def _rows(self, names: list[str]) -> list[ClaimRow]:
        return in_order(row for row in self.evidence.claims if row.id in names)


def _story(evidence: Evidence, beside: Path, figures: dict[tuple[str, str], FigureView]) -> Story:
    source = evidence.paper_dir / "report.py"
    if not source.is_file():
        return Story()
    variables = {
        PAPER_VARIABLE: evidence.name,
        SCALE_VARIABLE: evidence.scale,
        ROOT_VARIABLE: str(evidence.root.resolve()),
    }
    notebook, problems = run_notebook(source.resolve(), variables, evidence.root.resolve())
    for problem in problems:
        log.error("%s", problem)
    story = tell(notebook, problems, _Cards(evidence, figures))
    write_atomically(beside / "report.ipynb", story.notebook)
    return story


def _outcomes(runs: list[Run]) -> dict[str, dict[str, int]]:
    """Runs by experiment and outcome."""
    return {name: dict(Counter(run.outcome for run in group)) for name, group in by_experiment(runs).items()}


def _unsettled(runs: list[Run]) -> list[dict[str, Any]]:
    """Runs that did not complete; those whose reasons differ in numbers alone are put together."""
    groups: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        if run.outcome != "completed":
            alike = re.sub(r"[-+]?\d[\d.,]*(e[-+]?\d+)?", "#", run.reason or "")
            groups.setdefault((run.experiment, run.outcome, alike), []).append(run)
    return [
        {
            "experiment": experiment,
            "outcome": outcome,
            "reason": group[0].reason or "no reason was recorded",
            "same": len({run.reason for run in group}) == 1,
            "runs": group,
        }
        for (experiment, outcome, _), group in groups.items()
    ]


def _costs(runs: list[Run]) -> list[dict[str, Any]]:
    """By experiment: runs that took time, their seconds in all, as predicted, the longest, and the highest memory."""
    rows = []
    for name, group in by_experiment(runs).items():
        seconds, memory = cost(group)
        longest = max((run.seconds for run in group if run.seconds is not None), default=None)
        rows.append(
            {
                "experiment": name,
                "runs": len(group),
                "seconds": seconds,
                "predicted": predicted(group),
                "longest": longest,
                "memory": memory,
            }
        )
    return rows


def _accepted(runs: list[Run]) -> list[dict[str, str]]:
    """The changes of code that were accepted, each once, with the experiment."""
    found: list[dict[str, str]] = []
    for run in runs:
        entries = [{"experiment": run.experiment, **entry} for entry in run.accepted]
        found += [entry for entry in entries if entry not in found]
    return found


def _provenance(runs: list[Run]) -> dict[str, Any]:
    """What the runs agree on, and where they do not, all that occurs."""

    def distinct(values: Any) -> list[str]:
        return sorted({str(value) for value in values if value is not None})

    data: dict[str, set[str]] = {}
    versions: dict[str, set[str]] = {}
    for run in runs:
        for name, digest in run.data.items():
            data.setdefault(name, set()).update([digest] if digest else [])
        for name, version in run.versions.items():
            versions.setdefault(name, set()).update([version] if version else [])
    return {
        "commits": distinct(run.commit for run in runs),
        "dirty": any(run.dirty for run in runs),
        "devices": distinct(run.device for run in runs),
        "finished": max(distinct(run.finished for run in runs), default=None),
        "code": {name: distinct(run.code_digest for run in group) for name, group in by_experiment(runs).items()},
        "accepted": _accepted(runs),
        "data": {name: sorted(digests) for name, digests in sorted(data.items())},
        "versions": {name: sorted(found) for name, found in sorted(versions.items())},
    }
