"""What a claim may estimate: every kind of estimate as it stands in `claims.yaml`, with the runs that it reads."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

SEED = "seed"
AxisValue = bool | int | float | str


def _one_value(value: Any) -> Any:
    """The value of an axis; a list of several is refused in words."""
    if value is None or isinstance(value, list | dict):
        raise ValueError(
            "an axis is fixed to one value; list the axis in over to take all of its values, or make several claims"
        )
    return value


Selection = dict[str, Annotated[AxisValue, BeforeValidator(_one_value)]]


def as_list(value: Any) -> Any:
    """One name or one mapping as a list of one."""
    return [value] if isinstance(value, str | dict) else value


Names = Annotated[tuple[str, ...], BeforeValidator(as_list)]
"""One name or a list of names."""


class Strict(BaseModel):
    """A part of a claim: no other fields than these, and no change once it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Estimate(Strict):
    """What all estimates share. `where` keeps the runs with these axis values; `over` are the settings' axes."""

    stochastic: ClassVar[bool] = True
    """Whether n counts seeds; False for a number that has no sampling error."""
    of_numbers: ClassVar[bool] = True
    """Whether every run needs one finite number; False where a curve is read, or a missing time says something."""
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


class TwoArms(_OneMetric):
    """Two arms at the same seeds: `of`, and what it is held against, under the word that `against` names."""

    against: ClassVar[str]

    of: Selection
    pair_by: Literal["seed"] = "seed"

    @property
    def other(self) -> Selection:
        """The arm that `of` is held against."""
        other: Selection = getattr(self, self.against)
        return other

    @model_validator(mode="after")
    def _arms_differ(self) -> TwoArms:
        if not self.of or self.of.keys() != self.other.keys():
            named = [", ".join(sorted(selection)) or "none" for selection in (self.of, self.other)]
            raise ValueError(
                f"of names the axes {named[0]}, {self.against} {named[1]}; both must name the same axes, for example "
                "{arm: a} and {arm: b}"
            )
        if self.of == self.other:
            raise ValueError(f"of and {self.against} name the same runs")
        if shared := self.of.keys() & self.where.keys():
            raise ValueError(f"axis {min(shared)} is in where and in of; keep one of the two")
        return self

    def selections(self) -> tuple[Selection, ...]:
        return ({**self.where, **self.of}, {**self.where, **self.other})


class PairedDifference(TwoArms):
    """Mean over seeds of one arm minus another at the same seed; of a log metric it is a log ratio. Interval: t."""

    against = "minus"
    kind: Literal["paired_difference"]
    minus: Selection


class RatioOfMeans(TwoArms):
    """Mean of one arm over that of another at the same seeds (not the mean of ratios). Interval: Fieller's."""

    against = "to"
    kind: Literal["ratio_of_means"]
    to: Selection


class Earlier(TwoArms):
    """Share of seeds in which one arm comes there before another, of the seeds that decide it.

    The metric is a time. A run without one did not come there within its length and counts as the latest; seeds in
    which both are equal, or neither comes, decide nothing. Interval: Clopper–Pearson, which makes it a sign test.
    """

    of_numbers = False
    against = "than"
    kind: Literal["earlier"]
    than: Selection


class DifferenceAtEqual(TwoArms):
    """One arm minus another where both have come equally far: `metric` at equal `equal`, then over seeds. Interval: t.

    Both columns hold a curve a run, numbers of equal count along its training. Within a run `metric` is interpolated
    in `equal`; the difference is averaged over the range of `equal` through which both arms of a seed come.
    """

    of_numbers = False
    against = "minus"
    kind: Literal["difference_at_equal"]
    equal: str
    minus: Selection

    def variables(self) -> tuple[str, ...]:
        return (self.metric, self.equal)


class WorstCase(_OneMetric):
    """Worst setting within a seed (largest for `below`, smallest for `above`), then t over seeds."""

    kind: Literal["worst_case"]
    over: Names = Field(min_length=1)


class _Association(Estimate):
    relates_settings: ClassVar[bool] = True

    within: Literal["seed"] = "seed"
    given: Names = ()


class _OfTwo(_Association):
    x: str
    y: str

    def variables(self) -> tuple[str, ...]:
        return (self.x, self.y, *self.given)


class Correlation(_OfTwo):
    """Correlation of x and y over the settings within each seed, averaged over seeds; partial with `given`."""

    kind: Literal["correlation"]
    method: Literal["spearman", "pearson"] = "spearman"


class Slope(_OfTwo):
    """Least-squares slope of y on x over the settings within each seed, averaged over seeds."""

    kind: Literal["slope"]


class Pair(Strict):
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


class EveryOne(_OneMetric):
    """Numbers of which none has seeds to spread over: with `over` the claim holds for every setting, the one deepest on
    the wrong side is judged, and seed may be an axis like any other."""

    stochastic: ClassVar[bool] = False


class Exact(EveryOne):
    """A deterministic number, or one computed from published summaries: value ± `tolerance`, no n."""

    kind: Literal["exact"]
    tolerance: float = Field(0.0, ge=0, allow_inf_nan=False)


class Measured(EveryOne):
    """A number that each run knows to a standard error of its own, the metric `error`: value ± 1.96 of it, no n."""

    kind: Literal["measured"]
    error: str

    def variables(self) -> tuple[str, ...]:
        return (self.metric, self.error)


AnyEstimate = Annotated[
    Mean
    | Proportion
    | PairedDifference
    | RatioOfMeans
    | Earlier
    | DifferenceAtEqual
    | WorstCase
    | Correlation
    | Slope
    | DifferenceOfCorrelations
    | Exact
    | Measured,
    Field(discriminator="kind"),
]
