"""What a narrative notebook has in hand: a paper's numbers, figures and verdicts, each in one line."""

import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.errors import UserError
from common.experiments.scales import SCALES
from common.files import project_root
from common.reports.amounts import measured_text
from common.reports.evidence import Evidence
from common.reports.judgements import ClaimRow

if TYPE_CHECKING:
    import pandas as pd

# A page puts its own cards in place of outputs of these kinds; Jupyter shows what stands beside them.
FIGURE_MIME = "application/vnd.hessian-replications.figure+json"
VERDICTS_MIME = "application/vnd.hessian-replications.verdicts+json"

PAPER_VARIABLE, SCALE_VARIABLE, ROOT_VARIABLE = "REPLICATIONS_PAPER", "REPLICATIONS_SCALE", "REPLICATIONS_ROOT"


class Card:
    """An output that Jupyter shows, and a page in its own way."""

    def __init__(self, bundle: dict[str, Any]) -> None:
        self._bundle = bundle

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return self._bundle

    def __repr__(self) -> str:
        return str(self._bundle["text/plain"])


class PaperView:
    """A paper's analysis at one scale, as its notebook sees it."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence

    def __repr__(self) -> str:
        return f"<{self.name} at {self.scale} scale: {len(self._evidence.claims)} claims>"

    @property
    def name(self) -> str:
        """The paper's folder in replications/."""
        return self._evidence.name

    @property
    def scale(self) -> str:
        """The scale that was analysed."""
        return self._evidence.scale

    def metrics(self, experiment: str) -> "pd.DataFrame":
        """One row a run of `experiment`: its axes, outcome and metrics.

        Raises:
            UserError: the analysis holds no such experiment.
        """
        import pandas as pd

        tables = self._evidence.metrics
        if experiment not in tables:
            raise UserError(self._missing("experiment", experiment, sorted(tables)))
        return pd.DataFrame(tables[experiment])

    def records(self, experiment: str) -> "pd.DataFrame":
        """Every recorded row of `experiment`: run, axes, parameters and recorded values.

        Raises:
            UserError: the analysis holds no such experiment.
        """
        import pandas as pd

        folder = self._evidence.folder
        path = folder / f"{experiment}.parquet"
        if not path.is_file():
            known = sorted(file.stem for file in folder.glob("*.parquet"))
            published = any(experiment in place.experiments for place in self._evidence.published)
            sentence = (
                f"the records of {self.name}/{experiment} were not computed here; only its metrics are published."
            )
            raise UserError(sentence if published else self._missing("experiment", experiment, known))
        return pd.read_parquet(path)

    def figure(
        self,
        name: str,
        claims: Sequence[str] = (),
        experiment: str | None = None,
        *,
        title: str = "",
        see: str = "",
        printed: str = "",
        aside: bool = False,
    ) -> Card:
        """The saved figure `name` with its caption, and what `summary` says of `claims`.

        Where experiments have no result on this machine a figure that was never drawn may be theirs: a line says so.

        Args:
            claims: patterns, see `summary`; none for the figure alone.
            experiment: where two experiments have a figure of that name.
            title: what it is called, where its own title is that of one panel; plain text.
            see: what to see in it, one or two sentences of Markdown.
            printed: where it differs from the document's figure, one sentence of Markdown.
            aside: the page shows it after the story, folded among the figures that few will look for.

        Raises:
            UserError: no such figure, more than one, or no such claim.
        """
        pictures = self._evidence.figures
        found = [p for p in pictures if p.entry.name == name and experiment in (None, p.entry.experiment)]
        if not found and self._evidence.awaited:
            return self._lines(f"The figure {name} is not drawn yet.", claims)
        if not found:
            raise UserError(self._missing("figure", name, sorted({picture.entry.name for picture in pictures})))
        if len(found) > 1:
            owners = ", ".join(picture.entry.experiment for picture in found)
            raise UserError(
                f"{self.name} has a figure {name!r} in {owners}: say which, as figure({name!r}, experiment=…)."
            )
        from IPython.display import display

        entry, path = found[0].entry, found[0].file("svg")
        card: dict[str, Any] = {"name": entry.name, "experiment": entry.experiment}
        card |= {"title": title, "see": see, "printed": printed, "aside": aside}
        bundle: dict[str, Any] = {
            FIGURE_MIME: card | {"claims": [claim.id for claim in self._named(claims)]},
            "text/plain": f"{entry.name}: {entry.title}" + (f" ({entry.problem})" if entry.problem else ""),
        }
        picture = Card(bundle | ({"image/svg+xml": path.read_text()} if path else {}))
        beside = [text for text in (see, printed) if text]
        if not claims and not beside:
            return picture
        display(picture)  # type: ignore[no-untyped-call]
        return self._lines(" ".join(beside), claims, shown=True)

    def summary(self, patterns: Sequence[str]) -> Card:
        """One line a claim: its statement, the verdict, and what was measured with its interval and its seeds.

        Args:
            patterns: ids, or what ids begin or end with, as "fig3-*": then the claims stand as in claims.yaml.

        Raises:
            UserError: no such claim.
        """
        return self._lines("", patterns)

    def _lines(self, caption: str, patterns: Sequence[str], *, shown: bool = False) -> Card:
        """A caption and verdicts for Jupyter; for a page the ids, or nothing where its card has `shown` them."""
        claims = self._named(patterns)
        told = [(claim, measured_text(claim)) for claim in claims]
        lines = [
            f"- {one.shown.statement} **{one.name.capitalize()}**{f': {said}' * bool(said)}." for one, said in told
        ]
        text = "\n\n".join(filter(None, [caption, "\n".join(lines)]))
        ids = [] if shown else [claim.id for claim in claims]
        return Card({VERDICTS_MIME: {"claims": ids}, "text/markdown": text, "text/plain": text})

    def _named(self, patterns: Sequence[str]) -> list[ClaimRow]:
        """The claims that patterns name, each once."""
        return list({claim.id: claim for pattern in patterns for claim in self._claims(pattern)}.values())

    def _claims(self, pattern: str) -> list[ClaimRow]:
        claims = self._evidence.claims
        found = [claim for claim in claims if fnmatchcase(claim.id, pattern)]
        if not found:
            raise UserError(self._missing("claim", pattern, sorted(claim.id for claim in claims)))
        return found

    def _missing(self, kind: str, name: str, known: list[str]) -> str:
        there = f"it has {', '.join(known)}" if known else f"it has none at {self.scale} scale yet"
        return f"{self.name} has no {kind} {name!r}; {there}."


def open_paper(paper: str | None = None, scale: str | None = None) -> PaperView:
    """The analysis of `paper` at `scale`.

    While a page is built both are given by the build. In Jupyter the paper is by default the folder one works in,
    the scale the largest that has been analysed.

    Raises:
        UserError: no such replication, or the working directory is in none.
    """
    root = Path(os.environ[ROOT_VARIABLE]) if ROOT_VARIABLE in os.environ else project_root()
    paper = paper or os.environ.get(PAPER_VARIABLE) or _paper_here(root)
    folder = root / "replications" / paper
    if not (folder / "paper.yaml").is_file():
        known = ", ".join(sorted(path.parent.name for path in root.glob("replications/*/paper.yaml")))
        raise UserError(f"{folder} has no paper.yaml; the replications are {known or '(none)'}.")
    analysed = [name for name in SCALES if (root / "analysis" / name / paper).is_dir()]
    scale = scale or os.environ.get(SCALE_VARIABLE) or (analysed[-1] if analysed else "laptop")
    return PaperView(Evidence(folder, scale, root))


def _paper_here(root: Path) -> str:
    here = Path.cwd().resolve()
    papers = (root / "replications").resolve()
    if papers in here.parents:
        return here.relative_to(papers).parts[0]
    raise UserError(f"{here} is not inside a replication: say which, as open_paper('…').")
