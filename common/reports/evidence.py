"""What is known of a paper: this machine's analysis, and the evidence that was published."""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import RootModel, ValidationError

from common.claims import Claim
from common.claims.estimates import Exact, Mean, Measured, WorstCase
from common.claims.verdicts import Verdict
from common.errors import UserError
from common.experiments.config import ExperimentConfig, ReplicationConfig
from common.experiments.outcomes import COMPUTED
from common.experiments.paper import Paper
from common.experiments.replication import Replication
from common.experiments.syntax import Sources
from common.reports.estimators import estimator_errors
from common.reports.formats import (
    ClaimStub,
    FigureEntry,
    PublishedExperiment,
    Run,
    read_list,
    read_metrics,
    scale_rank,
)
from common.reports.judgements import ClaimRow, Judged
from common.reports.published import Published, published_scales
from common.sources import load_typed, read_content

_VALUES = (Mean, WorstCase, Exact, Measured)
"""Estimates that are values of their metric."""


class _ClaimStubs(RootModel[list[ClaimStub]]):
    pass


@dataclass(frozen=True)
class Picture:
    """A saved figure and where its files lie: in this machine's analysis, or published with a commit."""

    entry: FigureEntry
    folder: Path
    scale: str
    published: bool = False
    commit: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Experiment and name."""
        return self.entry.experiment, self.entry.name

    def file(self, kind: str) -> Path | None:
        """The file of a kind (svg, png, csv), if it is there."""
        name = getattr(self.entry, kind)
        places = (self.folder / name, self.folder / "figures" / name) if name else ()
        return next((place for place in places if place.is_file()), None)


@dataclass(frozen=True)
class PublishedRuns:
    """The published runs of one experiment at one scale."""

    experiment: str
    scale: str
    facts: PublishedExperiment
    code_changed: bool | None


@dataclass(frozen=True)
class Evidence:
    """Everything the site shows of one paper at one scale, read when first asked for."""

    paper_dir: Path
    scale: str
    root: Path

    @property
    def name(self) -> str:
        return self.paper_dir.name

    @property
    def folder(self) -> Path:
        """analysis/<scale>/<paper>."""
        return self.root / "analysis" / self.scale / self.name

    @cached_property
    def paper(self) -> Paper:
        return load_typed(self.paper_dir / "paper.yaml", Paper)

    @cached_property
    def runs(self) -> list[Run]:
        return read_list(self.folder / "runs.json", Run)

    @cached_property
    def verdicts(self) -> list[Verdict]:
        return read_list(self.folder / "verdicts.json", Verdict)

    @cached_property
    def computed(self) -> set[str]:
        """The experiments that have a result on this machine."""
        return {run.experiment for run in self.runs if run.outcome in COMPUTED}

    @cached_property
    def published(self) -> list[Published]:
        """Published evidence, the largest scale first."""
        return published_scales(self.root, self.name)

    @cached_property
    def figures(self) -> list[Picture]:
        """Each figure at the scale that its claims are told at: this machine's, or as published at a larger scale.

        Figures of experiments without a result here are those that were published.
        """
        known = {picture.key: picture for picture in self._drawn_here}
        for key, picture in self._published_figures.items():
            if picture.entry.experiment not in self.computed or scale_rank(picture.scale) > scale_rank(self.scale):
                known[key] = picture
        return list(known.values())

    @cached_property
    def smaller_figures(self) -> list[Picture]:
        """This machine's figures of which others are published at a larger scale."""
        return [
            picture
            for picture in self._drawn_here
            if picture not in self.figures and picture.entry.experiment in self.computed
        ]

    def smaller_of(self, picture: Picture) -> Picture | None:
        """The same figure as this machine drew it at a smaller scale."""
        return next((own for own in self.smaller_figures if own.key == picture.key), None)

    def stem(self, picture: Picture) -> str:
        """The name of a picture's files beside the page, without what they end in."""
        name = f"{picture.entry.experiment}-{picture.entry.name}"
        return f"{picture.scale}-{name}" if picture in self.smaller_figures else name

    @cached_property
    def named_figures(self) -> dict[str, Picture]:
        """The figures by EXPERIMENT/NAME."""
        return {"/".join(picture.key): picture for picture in self.figures}

    @cached_property
    def _drawn_here(self) -> list[Picture]:
        entries = read_list(self.folder / "figures.json", FigureEntry)
        return [Picture(entry, self.folder, self.scale) for entry in entries]

    @cached_property
    def _published_figures(self) -> dict[tuple[str, str], Picture]:
        """By experiment and name, each of the largest scale."""
        found: dict[tuple[str, str], Picture] = {}
        for place in self.published:
            for entry in place.figures:
                facts = place.experiments.get(entry.experiment, PublishedExperiment())
                picture = Picture(entry, place.folder, place.scale, published=True, commit=facts.commit)
                found.setdefault((entry.experiment, entry.name), picture)
        return found

    @cached_property
    def metrics(self) -> dict[str, list[dict[str, Any]]]:
        """One row a run, by experiment, at the scale of its figures: this machine's, or a larger published one."""
        tables: dict[str, list[dict[str, Any]]] = {}
        larger: set[str] = set()
        for place in reversed(self.published):
            tables |= place.metrics
            larger |= set(place.metrics) if scale_rank(place.scale) > scale_rank(self.scale) else set()
        own = self.computed - larger
        return tables | {name: rows for name, rows in self._live_metrics.items() if name in own or name not in tables}

    def rows_of(self, picture: Picture) -> list[dict[str, Any]]:
        """The metrics of the runs that a figure was drawn from, one row a run."""
        places = {place.folder: place.metrics for place in self.published} | {self.folder: self._live_metrics}
        return places.get(picture.folder, {}).get(picture.entry.experiment, [])

    @cached_property
    def _live_metrics(self) -> dict[str, list[dict[str, Any]]]:
        return read_metrics(self.folder)

    @cached_property
    def written(self) -> dict[str, ClaimStub]:
        """What claims.yaml holds, by id."""
        path = self.paper_dir / "claims.yaml"
        return {stub.id: stub for stub in load_typed(path, _ClaimStubs).root} if path.is_file() else {}

    @cached_property
    def rules(self) -> dict[str, Claim]:
        """The rules of claims.yaml by id; a draft that is no rule yet has none."""
        path = self.paper_dir / "claims.yaml"
        found = {}
        for entry in read_content(path) if path.is_file() else []:
            with suppress(ValidationError):
                found[entry["id"]] = Claim.model_validate(entry)
        return found

    @cached_property
    def claims(self) -> list[ClaimRow]:
        """One row a claim, in the order of claims.yaml, then those that only evidence knows."""
        stubs = dict(self.written)
        for name, found in self.judgements.items():
            stubs.setdefault(name, ClaimStub.of(found[0].verdict))
        return [self._row(stub, self.judgements.get(name, [])) for name, stub in stubs.items()]

    @staticmethod
    def _row(stub: ClaimStub, found: list[Judged]) -> ClaimRow:
        live = next((judged for judged in found if not judged.published), None)
        published = [judged for judged in found if judged.published]
        return ClaimRow(stub, live, max(published, key=lambda one: one.weight, default=None))

    @cached_property
    def judgements(self) -> dict[str, list[Judged]]:
        """Every verdict of a claim, by id: this machine's, then what was published, the largest scale first."""
        found: dict[str, list[Judged]] = {}
        for place in (None, *self.published):
            for verdict in place.verdicts if place else self.verdicts:
                judged = self._judged(verdict, self.written.get(verdict.id), place)
                found.setdefault(verdict.id, []).append(judged)
        return found

    def rows(self, judged: Judged) -> list[dict[str, Any]]:
        """The metrics of the runs that a verdict judged, one row a run."""
        tables = self._live_metrics
        if judged.published:
            tables = next(place.metrics for place in self.published if place.scale == judged.scale)
        return tables.get(judged.verdict.experiment or "", [])

    def _judged(self, verdict: Verdict, stub: ClaimStub | None, place: Published | None = None) -> Judged:
        """A verdict of this machine, or one published in `place`, with what stands beside it."""
        experiment = verdict.experiment or ""
        tables = place.metrics if place else self._live_metrics
        errors = estimator_errors(stub.quantity, tables.get(experiment, [])) if stub and stub.quantity else ()
        level = self._level(verdict, tables)
        if verdict.unit is None and stub:
            verdict = replace(verdict, unit=self._unit(stub))
        if place is None:
            here, own = self._codes_here(experiment), self._code(experiment)
            other = own is not None and bool(here) and here != {own}
            return Judged(verdict, verdict.scale or self.scale, errors, level=level, code_changed=other)
        changed = self._code_changed(experiment, place.experiments.get(experiment))
        found = Judged(verdict, place.scale, errors, published=True, code_changed=changed, level=level)
        return replace(found, commit=place.commit_of(verdict))

    def _unit(self, stub: ClaimStub) -> str | None:
        """What paper.yaml says that a claim's numbers are; None where they are no values of one metric."""
        quantity = stub.quantity
        return self.paper.units.get(quantity.metric) if isinstance(quantity, _VALUES) else None

    def _level(self, verdict: Verdict, tables: dict[str, list[dict[str, Any]]]) -> float | None:
        """What a difference is taken from, by the runs that it was read from; a logarithm has no share."""
        rule = self.rules.get(verdict.id)
        if rule is None or verdict.estimate is None or rule.experiment != verdict.experiment:
            return None
        estimate = rule.estimate
        if estimate.kind not in ("paired_difference", "difference_at_equal") or estimate.metric.startswith("log"):
            return None
        import pandas as pd

        from common.claims.parts import reference_level

        rows = pd.DataFrame(tables.get(rule.experiment, []))
        return reference_level(rule, rows, scale=verdict.scale or self.scale)

    def finished(self, judged: Judged) -> str | None:
        """When the last run behind a verdict ended."""
        experiment = judged.verdict.experiment or ""
        if not judged.published:
            return max(
                (run.finished for run in self.runs if run.experiment == experiment and run.finished), default=None
            )
        place = next(place for place in self.published if place.scale == judged.scale)
        return place.experiments.get(experiment, PublishedExperiment()).finished

    @cached_property
    def published_runs(self) -> list[PublishedRuns]:
        """Every experiment that has published runs, the largest scale first."""
        return [
            PublishedRuns(name, place.scale, facts, self._code_changed(name, facts))
            for place in self.published
            for name, facts in place.experiments.items()
        ]

    def _code_changed(self, experiment: str, facts: PublishedExperiment | None) -> bool | None:
        """Whether the code of this checkout, or of this machine's runs, is other than that of the published ones."""
        if facts is None or facts.code is None:
            return None
        here = self._codes_here(experiment)
        there = here if len(here) == 1 else set()
        if own := self._code(experiment):
            there.add(own)
        return there != {facts.code} if there else None

    def _codes_here(self, experiment: str) -> set[str]:
        """Digests of the code that this machine's runs were computed by."""
        return {run.code_digest for run in self.runs if run.experiment == experiment and run.code_digest}

    def _code(self, experiment: str) -> str | None:
        """Digest of an experiment's code in this checkout; None where its source is not there."""
        if self._replication is None or experiment not in self._experiments:
            return None
        return self._replication.code_digest(experiment, "run")

    @cached_property
    def _replication(self) -> Replication | None:
        try:
            found = Replication(self.root, self.name, Sources(self.root))
            return found if found.experiments else None
        except UserError:
            return None

    def claim_page(self, claim: ClaimRow) -> str | None:
        """The page of a claim, seen from that of its paper; None where nobody has built it."""
        page = f"{self.name}/{claim.id}.html"
        return page if (self.root / "reports" / "site" / page).is_file() else None

    @property
    def awaited(self) -> list[str]:
        """The experiments without a result on this machine: what is shown of them was published, or is yet to come."""
        return [name for name in self._experiments if name not in self.computed]

    def reproduced_at(self, claim: ClaimRow) -> str:
        """The scale at which a claim's evidence is computed again; where its experiment is left out there, the next."""
        scale = claim.headline.scale if claim.headline else self.scale
        experiment = self._experiments.get(claim.stub.experiment or "")
        return scale if experiment is None or experiment.runs_at(scale) else experiment.run_from

    @cached_property
    def _experiments(self) -> dict[str, ExperimentConfig]:
        path = self.paper_dir / "config.yaml"
        return dict(load_typed(path, ReplicationConfig).root) if path.is_file() else {}

    def deviation_addresses(self, page: str) -> dict[str, str]:
        """Where each deviation is told, on the page of the paper at `page`; "" on that page itself."""
        return {deviation.id: f"{page}#{deviation.id}" for deviation in self.paper.deviations}

    def deviation_ids(self, experiment: str | None) -> list[str]:
        """The deviations that bear on an experiment."""
        return [
            deviation.id
            for deviation in self.paper.deviations
            if experiment is not None and (not deviation.experiments or experiment in deviation.experiments)
        ]
