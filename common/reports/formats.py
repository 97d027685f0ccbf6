"""What the site reads: the JSON files of an analysis, as types."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from common.claims.estimates import AnyEstimate
from common.claims.metric_rows import rows_of
from common.claims.schema import Dispute
from common.claims.verdicts import Verdict
from common.errors import UserError
from common.experiments.scales import SCALES
from common.files import read_json

Item = TypeVar("Item")


class _Record(BaseModel):
    """Written by the analysis, which may say more than the site shows."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Source(_Record):
    """Where a claim stands in its document, and the number reported there, if any."""

    document: str | None = None
    locator: str | None = None
    reported: Any = None


class Prediction(_Record):
    """What a run was predicted to take, without looking at recorded runs."""

    seconds: float
    interval: tuple[float, float]
    basis: str


class Run(_Record):
    """How one run ended."""

    experiment: str
    run: str
    outcome: str
    axes: dict[str, Any] = {}
    reason: str | None = None
    seconds: float | None = None
    predicted: Prediction | None = None
    peak_memory_mb: float | None = None
    device: str | None = None
    finished: str | None = None
    commit: str | None = None
    dirty: bool | None = None
    code_digest: str | None = None
    accepted: list[dict[str, str]] = []
    data: dict[str, str | None] = {}
    versions: dict[str, str | None] = {}


class FigureEntry(_Record):
    """A drawn figure and its files, named relative to the analysis folder or to its `figures/`."""

    experiment: str
    name: str
    title: str = ""
    svg: str | None = None
    png: str | None = None
    csv: str | None = None
    problem: str | None = None


class PublishedExperiment(_Record):
    """Provenance of the published runs of one experiment, put together.

    Attributes:
        commit: that holds their source.
        rules_at: from which they were computed, where that was another, because their source was committed afterwards.
    """

    commit: str | None = None
    rules_at: str | None = None
    runs: int | None = None
    devices: list[str] = []
    versions: dict[str, str | None] = {}
    code: str | None = None
    accepted: list[dict[str, str]] = []
    data: dict[str, str | None] = {}
    finished: str | None = None
    seconds: float | None = None
    peak_memory_mb: float | None = None


class PublishedProvenance(_Record):
    """provenance.json of published evidence."""

    scale: str | None = None
    experiments: dict[str, PublishedExperiment] = {}


class ClaimStub(_Record):
    """What a claim is called before it is judged, and what it estimates (claims.yaml)."""

    id: str
    statement: str
    polarity: str = "claim"
    nature: str = "empirical"
    experiment: str | None = None
    source: Source = Field(default=Source())
    decidable_from: str | None = None
    amended: list[dict[str, Any]] = []
    disputed: Dispute | None = None
    quantity: AnyEstimate | None = Field(default=None, validation_alias="estimate")

    @classmethod
    def of(cls, verdict: Verdict) -> "ClaimStub":
        """The claim that a verdict is about."""
        return cls.model_validate({name: value for name, value in vars(verdict).items() if name != "estimate"})

    def unjudged(self, reason: str) -> Verdict:
        """The verdict "not run" on this claim."""
        return Verdict(**self.model_dump(exclude={"quantity", "disputed"}), reason=reason)


def read_list(path: Path, kind: type[Item]) -> list[Item]:
    """The entries of a JSON list, or nothing if there is no file.

    Raises:
        UserError: the file is not JSON, or an entry is not of `kind`; names the file and the entry.
    """
    entries: list[Item] = read_as(path, list[kind], [])  # type: ignore[valid-type]
    return entries


def read_as(path: Path, kind: Any, default: Any) -> Any:
    """A JSON file as `kind`, or `default` if there is no file.

    Raises:
        UserError: the file is not JSON, or not of `kind`; names the file and the entry.
    """
    if not path.is_file():
        return default
    try:
        return TypeAdapter(kind).validate_python(read_json(path))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = f"entry {'.'.join(str(part) for part in first['loc'])}: " if first["loc"] else ""
        message = f"{path}: {where}{first['msg']}; delete the file to have it written again."
        raise UserError(message) from error


def read_metrics(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of `metrics.json` in a folder by experiment, or nothing if there is no file."""
    kind = dict[str, list[dict[str, Any]] | dict[str, list[Any]]]
    return rows_of(read_as(folder / "metrics.json", kind, {}))


def by_experiment(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs by experiment, in the order in which they come first."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.experiment, []).append(run)
    return groups


def cost(runs: Sequence[Run]) -> tuple[float | None, float | None]:
    """Seconds of runs in all and their highest memory in MB; None where no run says it."""
    seconds = [run.seconds for run in runs if run.seconds is not None]
    memory = (run.peak_memory_mb for run in runs if run.peak_memory_mb is not None)
    return sum(seconds) if seconds else None, max(memory, default=None)


def scale_rank(scale: str | None) -> int:
    """The place of a scale from small to large; an unknown one is below all."""
    return SCALES.index(scale) if scale in SCALES else -1
