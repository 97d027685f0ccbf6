"""config.yaml: base parameters, grid, scales, needs and resources of each experiment of a replication."""

import keyword
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, RootModel, model_validator

from common.experiments.scales import SCALES, Scale

Axis = int | list[Any] | dict[str, dict[str, Any]]
"""An integer (0 … n-1), a list of values, or labels with the parameters that each sets."""

NAME = re.compile(r"[A-Za-z0-9._-]+")
"""Values of axes, as they stand in the names of runs."""
_WORDS = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
"""Single underscores only: two of them join replication and experiment in the names of the Snakefile's rules."""
RESERVED = ("all", "analyse", "data", "gather", "index", "page", "small")
"""Rules of the Snakefile, beside which each replication is one, and the jobs of several experiments."""
NAMES_ARE = (
    "take lower-case words and digits joined by single underscores, a letter first, no Python keyword, and none of "
    f"{', '.join(RESERVED)}"
)
MOST_RUNS = 100_000
"""Runs that the grid of an experiment may have at a scale."""


def is_name(text: str) -> bool:
    """Whether `text` can name a replication or an experiment: a folder, a module and a word of commands."""
    return bool(_WORDS.fullmatch(text)) and not keyword.iskeyword(text) and text not in RESERVED


def axis_text(value: Any) -> str:
    """How a value of an axis stands in a run's name."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def axis_points(name: str, axis: Axis) -> list[tuple[Any, dict[str, Any]]]:
    """(value or label, parameters it sets) for each point of an axis."""
    if isinstance(axis, int):
        return [(value, {name: value}) for value in range(axis)]
    if isinstance(axis, dict):
        return list(axis.items())
    return [(value, {name: value}) for value in axis]


def _checked_grid(grid: dict[str, Axis]) -> dict[str, Axis]:
    for name, axis in grid.items():
        if isinstance(axis, int) and axis > MOST_RUNS:
            raise ValueError(f"axis {name!r} has {axis:,} values; an experiment may have {MOST_RUNS:,} runs at most")
        points = axis_points(name, axis)
        if not points:
            raise ValueError(f"axis {name!r} has no values")
        texts = [axis_text(value) for value, _ in points]
        for text in texts:
            if not NAME.fullmatch(text):
                raise ValueError(
                    f"axis {name!r} has the value {text!r}: characters outside A-Z a-z 0-9 . _ - need a label "
                    f"({name}: {{some_label: {{…}}}})"
                )
        if len(set(texts)) < len(texts):
            raise ValueError(f"axis {name!r} has a value twice: {', '.join(texts)}")
    return grid


Grid = Annotated[dict[str, Axis], AfterValidator(_checked_grid)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Need(_Strict):
    """An artifact of another experiment of the same paper that a run starts from."""

    experiment: str
    where: dict[str, Any] = {}
    match: list[str] = []


class Resources(_Strict):
    """What a job asks of the machine; `per_job` is the chunk of each named axis that one job takes.

    `minutes` is about how long the whole experiment takes on one core, `runtime` the limit of a job on a cluster.
    """

    cpus: int = Field(1, ge=1)
    gpus: int = Field(0, ge=0)
    runtime: int = Field(60, ge=1, description="minutes")
    minutes: float | None = Field(None, gt=0)
    mem_mb: int = Field(4000, ge=1)
    per_job: dict[str, int] | None = None


class Rehearsal(_Strict):
    """What `replicate rehearse` changes of a run, at whatever scale, and nothing else.

    `lengths` stand in the place of longer ones (0 being all): numbers of steps, epochs, probes; they take time, not
    memory. `sizes` and `batches` name parameters with what they are divided by: those that data and those that the
    memory of a step grow with. Memory is counted at two sizes and carried on to the real one. `alike` names axes along
    which runs do the same work with other numbers, `inverse` axes along which a call becomes shorter in proportion: its
    length is given in η × steps.
    """

    lengths: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    batches: dict[str, int] = {}
    alike: list[str] = []
    inverse: list[str] = []

    @model_validator(mode="after")
    def _one_divisor_each(self) -> "Rehearsal":
        for key, divisors in (("sizes", self.sizes), ("batches", self.batches)):
            if len(set(divisors.values())) > 1:
                raise ValueError(f"{key} are divided by one number, all of them")
        return self


class ScaleSettings(BaseModel):
    """What a scale changes: grid entries and, as any other key, parameters."""

    model_config = ConfigDict(extra="allow", frozen=True)

    grid: Grid = {}
    zip: list[list[str]] | None = None
    exclude: list[dict[str, Any]] | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters that this scale sets."""
        return dict(self.model_extra or {})


class ExperimentConfig(_Strict):
    """One experiment of config.yaml.

    `together` names the axes whose runs one call of `run()` gets at once; runs of a call agree on all others.
    `run_from` is the smallest scale, beside smoke, at which the experiment is run: below it a small version would cost
    time and decide nothing.
    """

    base: dict[str, Any] = {}
    grid: Grid = {}
    zip: list[list[str]] = []
    exclude: list[dict[str, Any]] = []
    needs: dict[str, Need] = {}
    together: list[str] = []
    run_from: Scale = "smoke"
    rehearsal: Rehearsal = Rehearsal()
    scales: dict[Scale, ScaleSettings] = {}
    resources: dict[Scale, Resources] = {}

    @model_validator(mode="after")
    def _names_are_axes(self) -> "ExperimentConfig":
        axes = set(self.grid).union(*(settings.grid for settings in self.scales.values()))
        chunked = [("per_job", resources.per_job or {}) for resources in self.resources.values()]
        zipped = [axis for pair in self.zip for axis in pair]
        for key, names in (("together", self.together), ("zip", zipped), *chunked):
            for name in names:
                if name not in axes:
                    raise ValueError(f"{key} names {name!r}, which is no axis of the grid ({_listed(axes)})")
        return self

    @model_validator(mode="after")
    def _says_nothing_of_scales_left_out(self) -> "ExperimentConfig":
        for key, scales in (("scales", self.scales), ("resources", self.resources)):
            for scale in scales:
                if not self.runs_at(scale):
                    raise ValueError(f"{key} has {scale}, at which the experiment has no run: {self.left_out}")
        return self

    def runs_at(self, scale: str) -> bool:
        """Whether there are runs at `scale`: at smoke scale always, so that everything is tested."""
        return scale == "smoke" or SCALES.index(scale) >= SCALES.index(self.run_from)

    @property
    def left_out(self) -> str:
        """Why a scale below `run_from` has no runs."""
        return f"it is run from {self.run_from} scale on"

    def settings(self, scale: str) -> ScaleSettings:
        """What `scale` changes (nothing where config.yaml does not name it)."""
        return self.scales.get(scale, ScaleSettings())  # type: ignore[call-overload,no-any-return]

    def resources_at(self, scale: str) -> Resources:
        """Resources of a job at `scale`."""
        return self.resources.get(scale, Resources())  # type: ignore[call-overload,no-any-return]


def _experiment_name(text: str) -> str:
    if not is_name(text):
        raise ValueError(f"{text!r} cannot name an experiment: {NAMES_ARE}")
    return text


class ReplicationConfig(RootModel[dict[Annotated[str, AfterValidator(_experiment_name)], ExperimentConfig]]):
    """The whole config.yaml, by experiment."""


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "there are none"
