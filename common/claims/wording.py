"""A claim's rule in words."""

from collections.abc import Mapping
from typing import Any

from common.claims import estimates
from common.claims.estimates import AnyEstimate, Correlation, DifferenceOfCorrelations, Estimate, Slope
from common.claims.schema import Accept, Claim, FormerRule

_IN_THE_RULE = frozenset({"estimate", "accept", "smallest_effect", "may_miss_regime"})


def rule_text(claim: Claim) -> str:
    """What is estimated and which values bear the claim out, for example
    "paired difference of fluctuation, large_decay_nso minus large_decay, below 0".
    """
    text = f"{_estimate_text(claim.estimate, claim.accept)}, {accept_text(claim.accept)}"
    if claim.smallest_effect is not None:
        text += f" (smallest effect that counts: {number(claim.smallest_effect)})"
    if claim.may_miss_regime:
        text += f"; at most {claim.may_miss_regime} seeds outside their regime are left out"
    return text


def quantity_text(claim: Claim) -> str:
    """What is estimated: the rule without its region."""
    return _estimate_text(claim.estimate, claim.accept)


def former_text(former: FormerRule, claim: Claim) -> str:
    """What `claim` was before an amendment: its rule if that read otherwise, and each other field that changed."""
    others = former.model_dump(mode="json", include=former.model_fields_set - _IN_THE_RULE)
    if "statement" in others:
        others["statement"] = f"“{others['statement']}”"
    if "size" in others:
        others["size"] = (
            f"{number(former.size.reported)} to a factor of {number(former.size.factor)}" if former.size else "none"
        )
    rule = [] if former.model_fields_set.isdisjoint(_IN_THE_RULE) else [rule_text(claim)]
    return "; ".join([*rule, *(f"{name.replace('_', ' ')} {value}" for name, value in others.items())])


def accept_text(accept: Accept) -> str:
    """The accepted region: "below 0", "above 0.5", "between 0.9 and 1.1", "within 1e−06 of 1"."""
    low, high = accept.ends
    if accept.within is not None:
        if number(low) == number(high):
            return f"within {number((high - low) / 2)} of {number((low + high) / 2)}"
        return f"between {number(low)} and {number(high)}"
    return f"above {number(low)}" if accept.below is None else f"below {number(high)}"


def number(value: float) -> str:
    """Three significant digits."""
    return f"{value:.3g}".replace("-", "−")


def interval_text(low: float, high: float) -> str:
    """The interval as "[low, high]"."""
    return f"[{number(low)}, {number(high)}]"


def _estimate_text(estimate: AnyEstimate, accept: Accept) -> str:
    over = ", ".join(estimate.over)
    averaged = f", averaged over {over}" if over else ""
    match estimate:
        case estimates.Mean():
            return f"mean of {estimate.metric}" + (f" over {over}" if over else "") + _where(estimate)
        case estimates.Proportion():
            every = f" at every {over}" if over else ""
            return f"share of seeds with {estimate.metric} = 1{every}{_where(estimate)}"
        case estimates.PairedDifference():
            arms = f"{_arm(estimate.of)} minus {_arm(estimate.minus)}"
            return f"paired difference of {estimate.metric}, {arms}{averaged}{_where(estimate)}"
        case estimates.RatioOfMeans():
            arms = f"{_arm(estimate.of)} to {_arm(estimate.to)}"
            return f"ratio of mean {estimate.metric}, {arms}{averaged}{_where(estimate)}"
        case estimates.Earlier():
            arms = f"{_arm(estimate.of)} comes before {_arm(estimate.than)}"
            order = f", by the order over {over}" if over else ""
            return f"share of seeds in which, by {estimate.metric}, {arms}{order}{_where(estimate)}"
        case estimates.DifferenceAtEqual():
            arms = f"{_arm(estimate.of)} minus {_arm(estimate.minus)}"
            return f"difference of {estimate.metric} at equal {estimate.equal}, {arms}{averaged}{_where(estimate)}"
        case estimates.WorstCase():
            side = "largest" if accept.below is not None else "smallest"
            return f"{side} {estimate.metric} over {over} within a seed{_where(estimate)}"
        case estimates.Correlation():
            return f"{_method(estimate)} of {estimate.x} and {estimate.y}{_settings(estimate)}"
        case estimates.Slope():
            return f"slope of {estimate.y} on {estimate.x}{_settings(estimate)}"
        case estimates.DifferenceOfCorrelations():
            of, minus = estimate.of, estimate.minus
            pairs = f"{of.x} and {of.y} minus that of {minus.x} and {minus.y}"
            return f"{_method(estimate)} of {pairs}{_settings(estimate)}"
        case estimates.Exact():
            every = f" at every {over}" if over else ""
            tolerance = f" to within {number(estimate.tolerance)}" if estimate.tolerance else ""
            return f"value of {estimate.metric}{every}{_where(estimate)}{tolerance}"
        case estimates.Measured():
            every = f" at every {over}" if over else ""
            return f"value of {estimate.metric}{every}{_where(estimate)} to 1.96 {estimate.error}"


def _method(estimate: Correlation | DifferenceOfCorrelations) -> str:
    partial = "partial " if estimate.given else ""
    return f"{estimate.method.capitalize()} {partial}correlation"


def _settings(estimate: Correlation | Slope | DifferenceOfCorrelations) -> str:
    given = f" given {', '.join(estimate.given)}" if estimate.given else ""
    over = f" over {', '.join(estimate.over)}" if estimate.over else ""
    return f"{given}{over} within each seed{_where(estimate)}"


def _where(estimate: Estimate) -> str:
    return f" at {pairs_text(estimate.where)}" if estimate.where else ""


def _arm(selection: Mapping[str, Any]) -> str:
    values = list(selection.values())
    return values[0] if len(values) == 1 and isinstance(values[0], str) else pairs_text(selection)


def pairs_text(selection: Mapping[str, Any]) -> str:
    """Axis values as "batch_size=64, arm=none"."""
    return ", ".join(f"{axis}={value}" for axis, value in selection.items())
