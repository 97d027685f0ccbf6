"""Published evidence of a paper, as it lies in git: verdicts, figures, metrics and provenance by scale."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from common.claims.verdicts import Verdict
from common.experiments.scales import SCALES
from common.reports.formats import (
    FigureEntry,
    PublishedExperiment,
    PublishedProvenance,
    read_as,
    read_list,
    read_metrics,
)


@dataclass(frozen=True)
class Published:
    """What reports/published/<scale>/<paper>/ holds, read when first asked for."""

    folder: Path
    scale: str

    @cached_property
    def verdicts(self) -> list[Verdict]:
        return read_list(self.folder / "verdicts.json", Verdict)

    @cached_property
    def figures(self) -> list[FigureEntry]:
        return read_list(self.folder / "figures.json", FigureEntry)

    @cached_property
    def metrics(self) -> dict[str, list[dict[str, Any]]]:
        return read_metrics(self.folder)

    @cached_property
    def experiments(self) -> dict[str, PublishedExperiment]:
        """Provenance by experiment."""
        path = self.folder / "provenance.json"
        provenance: PublishedProvenance = read_as(path, PublishedProvenance, PublishedProvenance())
        return provenance.experiments

    def commit_of(self, verdict: Verdict) -> str | None:
        """The commit that a verdict names, else the one its experiment was run at."""
        experiment = self.experiments.get(verdict.experiment or "")
        return verdict.commit or (experiment.commit if experiment else None)


def published_scales(root: Path, paper: str) -> list[Published]:
    """The published evidence of a paper, the largest scale first."""
    places = [Published(root / "reports" / "published" / scale / paper, scale) for scale in reversed(SCALES)]
    return [place for place in places if place.folder.is_dir()]
