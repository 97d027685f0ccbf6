"""A claim as it stands in `claims.yaml`: what is stated, what is estimated, and which values would bear it out."""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, FiniteFloat, PrivateAttr, RootModel, field_validator, model_validator

from common.claims.estimates import AnyEstimate, Strict, WorstCase, as_list
from common.errors import UserError
from common.experiments.scales import Scale
from common.sources import line_in, load_typed

Polarity = Literal["claim", "control", "our_finding"]
"""Who says it, whatever came out: the document, nobody (it tests the pipeline), or we."""

Nature = Literal["empirical", "theorem", "printed"]
"""Whether the world may disagree, mathematics is checked by numbers, or what the document prints is added up."""

DECIDING = ("experiment", "estimate", "accept", "smallest_effect", "may_miss_regime", "decidable_from", "polarity")
"""The fields that make a rule. The others can change without another verdict."""


IN_WORDS = frozenset({"settings", "metrics", "id"})
"""What an amendment keeps for its readers alone (`FormerRule`): it makes no other claim."""


class Accept(Strict):
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


class Source(Strict):
    """Where the document says it, and the number that it reports, if any."""

    document: str
    locator: str
    reported: int | float | str | None = None


class Size(Strict):
    """The effect's size as the document reports it; ours is judged beside the direction, "within a factor".

    Attributes:
        origin: no effect, from which both sizes are measured (1 for a ratio).
        factor: how many times smaller or larger still counts as of that size.
        standard_error: of the reported effect, where the document gives it: then ours is also held against the
            interval in which it predicts a replication (Patil, Peng and Leek 2016).
    """

    reported: FiniteFloat
    origin: FiniteFloat = 0.0
    factor: float = Field(2.0, gt=1, allow_inf_nan=False)
    standard_error: float | None = Field(None, gt=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _is_an_effect(self) -> Size:
        if self.reported == self.origin:
            raise ValueError("the reported effect is none: it equals origin")
        return self


class FormerRule(Strict):
    """What an amendment replaced: the fields that had other values, None where the field was absent.

    `settings` says in words which grid the experiment had, `metrics` how its numbers were made of the records, the
    regime included. Alone they have no verdict: the runs here, and their numbers, are of the present ones, on which
    a former rule is judged, too. `id` is the name under which the claim was published before.
    """

    id: str | None = None
    statement: str | None = Field(None, min_length=1)
    nature: Nature | None = None
    experiment: str | None = None
    estimate: AnyEstimate | None = None
    accept: Accept | None = None
    smallest_effect: float | None = None
    may_miss_regime: int = 0
    decidable_from: Scale | None = None
    polarity: Polarity | None = None
    size: Size | None = None
    settings: str | None = None
    metrics: str | None = None

    @property
    def decides(self) -> bool:
        """Whether its verdict on the same runs may be another than that of the rule that followed."""
        return not self.model_fields_set.isdisjoint(DECIDING)

    @property
    def bears_on_runs(self) -> bool:
        """Whether there is anything to say of the same runs: not where words alone were others."""
        return self.decides or bool(self.settings or self.metrics)


class Amendment(Strict):
    """A rule that was changed after its runs, and why.

    Attributes:
        former: what the claim was before, which is shown, and judged beside the present rule if it decides otherwise;
            None where the claim is new, or where only the metric's code changed.
        seen: by scale, the seeds whose results had been looked at. Once five others are there, they alone decide.
    """

    date: datetime.date
    reason: str = Field(min_length=1)
    former: FormerRule | None = None
    seen: dict[Scale, tuple[int, ...]] = Field(default_factory=dict)


class Dispute(Strict):
    """Somebody says that a verdict or its rule is wrong, and why; it stands beside the claim until it is settled."""

    url: str = Field(pattern=r"^https?://\S+$")
    since: datetime.date


class Claim(Strict):
    """A statement with the rule that decides it, written down before the result.

    Attributes:
        may_miss_regime: how many seeds may have a run outside its regime. So few are left out and counted, where the
            claim speaks of runs that came to it (solutions, which a network whose outputs stay constant never is);
            with more of them, and of every other claim with one, nothing is decided.
    """

    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    statement: str = Field(min_length=1)
    polarity: Polarity = "claim"
    nature: Nature
    source: Source
    experiment: str
    estimate: AnyEstimate
    accept: Accept
    smallest_effect: float | None = Field(None, gt=0, allow_inf_nan=False)
    may_miss_regime: int = Field(0, ge=0)
    size: Size | None = None
    decidable_from: Scale = "laptop"
    unit: str | None = None
    amended: Annotated[tuple[Amendment, ...], BeforeValidator(as_list)] = ()
    disputed: Dispute | None = None
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

    @field_validator("may_miss_regime")
    @classmethod
    def _is_of_seeds(cls, most: int, info: Any) -> int:
        estimate = info.data.get("estimate")
        if most and estimate is not None and not estimate.stochastic:
            raise ValueError(
                "may_miss_regime goes with estimates over seeds; what is said of every run leaves none out"
            )
        return most

    def seen(self, scale: str) -> frozenset[int]:
        """Seeds of a scale that had been looked at before the rule took its present form."""
        return frozenset(
            seed for amendment in self.amended for of, seeds in amendment.seen.items() if of == scale for seed in seeds
        )

    def former(self) -> list[tuple[Amendment, Claim]]:
        """Each amendment with the claim as it was before, oldest first."""
        past, later = [], self
        for amendment in reversed(self.amended):
            if former := amendment.former:
                before = {name: getattr(former, name) for name in former.model_fields_set - IN_WORDS}
                later = later.model_copy(update={**before, "amended": ()})
                later._origin = self._origin
            past.append((amendment, later))
        return past[::-1]

    @property
    def place(self) -> str:
        """How an error names the claim: file and line, if it came from a file, and id."""
        if self._origin is None:
            return f"claim {self.id}"
        path, index = self._origin
        return f"{path}:{line_in(path, (index,))}: claim {self.id}"


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
            line, before = line_in(path, (index,)), line_in(path, (first[claim.id],))
            raise UserError(f"{path}:{line}: claim {claim.id} is already defined in line {before}; rename one.")
        first[claim.id] = index
        claim._origin = path, index
    return claims
