"""A claim as it stands in `claims.yaml`: what is stated, what is estimated, and which values would bear it out."""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    PrivateAttr,
    RootModel,
    field_validator,
    model_validator,
)

from common.errors import UserError
from common.experiments.scales import Scale
from common.sources import line_of, load_typed, read_yaml

SEED = "seed"
AxisValue = bool | int | float | str
Selection = dict[str, AxisValue]


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_as_list)]
"""One name or a list of names."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Accept(_Strict):
    """The accepted region: all values below a number, all above one, or a closed range."""

    below: FiniteFloat | None = None
    above: FiniteFloat | None = None
    within: tuple[FiniteFloat, FiniteFloat] | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Accept:
        if sum(bound is not None for bound in (self.below, self.above, self.within)) != 1:
            raise ValueError("give exactly one of below, above, within; a conjunction is several claims")
        if self.within is not None and self.within[0] > self.within[1]:
            raise ValueError(f"within runs from {self.within[0]:g} down to {self.within[1]:g}; put the smaller first")
        return self

    def contains(self, low: float, high: float) -> bool:
        """Whether the whole interval lies in the region (the ends of `within` belong to it)."""
        start, end = self.ends
        if self.within is not None:
            return start <= low and high <= end
        return low > start if self.below is None else high < end

    def excludes(self, low: float, high: float) -> bool:
        """Whether the whole interval lies outside the region."""
        start, end = self.ends
        if self.within is not None:
            return high < start or low > end
        return high <= start if self.below is None else low >= end

    @property
    def ends(self) -> tuple[float, float]:
        """Where the region begins and ends, infinite where it is open."""
        if self.within is not None:
            return self.within
        return -math.inf if self.above is None else self.above, math.inf if self.below is None else self.below

    @property
    def boundary(self) -> float | None:
        """The one boundary of `below` or `above`; None for `within`."""
        return self.below if self.below is not None else self.above


class Estimate(_Strict):
    """What all estimates share. `where` keeps the runs with these axis values; `over` are the settings' axes."""

    stochastic: ClassVar[bool] = True
    """Whether n counts seeds; False for a number that has no sampling error."""
    relates_settings: ClassVar[bool] = False
    """Whether the settings are a sample too, as in a correlation over them."""

    where: Selection = Field(default_factory=dict)
    over: Names = ()

    @model_validator(mode="after")
    def _axes_named_once(self) -> Estimate:
        for selection in self.selections():
            for axis in selection:
                if axis in self.over:
                    raise ValueError(f"axis {axis} is fixed to one value and also in over; keep one of the two")
        for selection in self.selections() if self.stochastic else ():
            if SEED in selection or SEED in self.over:
                raise ValueError("n counts seeds: seed may be neither fixed nor in over, except in an exact claim")
        return self

    def selections(self) -> tuple[Selection, ...]:
        """The axis values of each arm: one arm, or two where arms are compared."""
        return (self.where,)

    def variables(self) -> tuple[str, ...]:
        """The metrics (or, for x, y and given, axes) that the estimate reads."""
        raise NotImplementedError


class _OneMetric(Estimate):
    metric: str

    def variables(self) -> tuple[str, ...]:
        return (self.metric,)


class Mean(_OneMetric):
    """Mean over seeds; with `over`, of the mean over these settings within a seed. Interval: t."""

    kind: Literal["mean"]


class Proportion(_OneMetric):
    """Share of seeds whose 0/1 metric is 1 (with `over`: in every setting). Interval: Clopper–Pearson."""

    kind: Literal["proportion"]


class PairedDifference(_OneMetric):
    """Mean over seeds of one arm minus another at the same seed; of a log metric it is a log ratio. Interval: t."""

    kind: Literal["paired_difference"]
    of: Selection
    minus: Selection
    pair_by: Literal["seed"] = "seed"

    @model_validator(mode="after")
    def _arms_differ(self) -> PairedDifference:
        if not self.of or self.of.keys() != self.minus.keys():
            raise ValueError("of and minus must name the same axes, for example {arm: a} and {arm: b}")
        if self.of == self.minus:
            raise ValueError("of and minus name the same runs")
        if shared := self.of.keys() & self.where.keys():
            raise ValueError(f"axis {min(shared)} is in where and in of; keep one of the two")
        return self

    def selections(self) -> tuple[Selection, ...]:
        return ({**self.where, **self.of}, {**self.where, **self.minus})


class WorstCase(_OneMetric):
    """Worst setting within a seed (largest for `below`, smallest for `above`), then t over seeds."""

    kind: Literal["worst_case"]
    over: Names = Field(min_length=1)


class _Association(Estimate):
    relates_settings: ClassVar[bool] = True

    within: Literal["seed"] = "seed"
    given: Names = ()


class Correlation(_Association):
    """Correlation of x and y over the settings within each seed, averaged over seeds; partial with `given`."""

    kind: Literal["correlation"]
    x: str
    y: str
    method: Literal["spearman", "pearson"] = "spearman"

    def variables(self) -> tuple[str, ...]:
        return (self.x, self.y, *self.given)


class Slope(_Association):
    """Least-squares slope of y on x over the settings within each seed, averaged over seeds."""

    kind: Literal["slope"]
    x: str
    y: str

    def variables(self) -> tuple[str, ...]:
        return (self.x, self.y, *self.given)


class Pair(_Strict):
    """Two metrics or axes whose correlation is taken."""

    x: str
    y: str


class DifferenceOfCorrelations(_Association):
    """Correlation of one pair minus that of another over the same settings and seeds."""

    kind: Literal["difference_of_correlations"]
    of: Pair
    minus: Pair
    method: Literal["spearman", "pearson"] = "spearman"

    @model_validator(mode="after")
    def _pairs_differ(self) -> DifferenceOfCorrelations:
        if {self.of.x, self.of.y} == {self.minus.x, self.minus.y}:
            raise ValueError("of and minus name the same pair")
        return self

    def variables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.of.x, self.of.y, self.minus.x, self.minus.y, *self.given)))


class Exact(_OneMetric):
    """A deterministic number, or one computed from published summaries: value ± `tolerance`, no n.

    With `over` the claim holds for every setting (the one deepest on the wrong side is judged); here seed may be an
    axis like any other.
    """

    stochastic: ClassVar[bool] = False

    kind: Literal["exact"]
    tolerance: float = Field(0.0, ge=0, allow_inf_nan=False)


AnyEstimate = Annotated[
    Mean | Proportion | PairedDifference | WorstCase | Correlation | Slope | DifferenceOfCorrelations | Exact,
    Field(discriminator="kind"),
]


class Source(_Strict):
    """Where the document says it, and the number that it reports, if any."""

    document: str
    locator: str
    reported: int | float | str | None = None


class Amendment(_Strict):
    """A rule that was changed after its runs, and why."""

    date: datetime.date
    reason: str = Field(min_length=1)


class Claim(_Strict):
    """A statement with the rule that decides it, written down before the result."""

    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    statement: str = Field(min_length=1)
    polarity: Literal["claim", "control", "our_finding"] = "claim"
    source: Source
    experiment: str
    estimate: AnyEstimate
    accept: Accept
    smallest_effect: float | None = Field(None, gt=0, allow_inf_nan=False)
    decidable_from: Scale = "laptop"
    unit: str | None = None
    amended: Amendment | None = None
    _origin: tuple[Path, int] | None = PrivateAttr(None)

    @field_validator("accept")
    @classmethod
    def _has_one_boundary(cls, accept: Accept, info: Any) -> Accept:
        if accept.within is not None and isinstance(info.data.get("estimate"), WorstCase):
            raise ValueError("a worst case needs below or above: which side is the worst? Two sides are two claims")
        return accept

    @field_validator("smallest_effect")
    @classmethod
    def _effect_needs_boundary(cls, effect: float | None, info: Any) -> float | None:
        accept = info.data.get("accept")
        if effect is not None and accept is not None and accept.boundary is None:
            raise ValueError("an effect is measured from one boundary: it goes with below or above, not with within")
        return effect

    @property
    def place(self) -> str:
        """How an error names the claim: file and line, if it came from a file, and id."""
        if self._origin is None:
            return f"claim {self.id}"
        path, index = self._origin
        return f"{path}:{line_of(read_yaml(path)[1], (index,))}: claim {self.id}"


class _ClaimsFile(RootModel[list[Claim]]):
    pass


def load_claims(path: Path) -> list[Claim]:
    """The claims of a `claims.yaml`, in its order.

    Raises:
        UserError: the file is missing, is not YAML, or a claim breaks the schema or repeats an id; names the line.
    """
    claims = load_typed(path, _ClaimsFile).root
    first: dict[str, int] = {}
    for index, claim in enumerate(claims):
        if claim.id in first:
            _, node = read_yaml(path)
            line, before = line_of(node, (index,)), line_of(node, (first[claim.id],))
            raise UserError(f"{path}:{line}: claim {claim.id} is already defined in line {before}; rename one.")
        first[claim.id] = index
        claim._origin = path, index
    return claims
