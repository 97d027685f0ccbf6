"""What was measured, as a sentence says it: "lower by 11.1 points (2.8 to 19.3 at 95 %, five seeds)"."""

import math
from typing import Any

from common.claims.schema import Accept
from common.claims.verdicts import CONTRADICTED, Verdict
from common.reports.drawing import accepted_text
from common.reports.judgements import ClaimRow
from common.reports.text import number
from common.reports.units import Writing

ROUNDING = 1e-12
"""What is not larger is said to be zero: no measure here resolves it."""

NEARLY = 1e-4
"""What is smaller, and far smaller than what the rule asks, is said to be nearly zero, without its power of ten."""

_COUNTS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_WITHOUT_SCALE = (None, "nats")
"""Units in which a reader cannot tell much from little."""

MENTIONED = 0.005
"""A smaller share of the other arm's value is said by the amount alone."""

_DIFFERENCES = ("paired_difference", "difference_at_equal", "difference_of_correlations")
_SHARES = ("proportion", "earlier")
_AT_EVERY = ("exact", "measured", "worst_case")


def measured_text(claim: ClaimRow) -> str:
    """What the headline's verdict measured, with its interval and n; nothing where it measured nothing.

    A difference says which arm is lower; where its unit is a logarithm, it is the ratio of the arms. What is no
    difference says what its rule asks.
    """
    verdict, kind = claim.shown, _kind(claim)
    if verdict.estimate is None or kind not in _DIFFERENCES:
        return _with_name(_with_region(_amount(verdict, kind), verdict, kind), claim)
    low, high = verdict.interval or (None, None)
    straddles = low is not None and high is not None and low < -ROUNDING and high > ROUNDING
    word, writing = "lower" if verdict.estimate < 0 else "higher", _writing(verdict)
    with_ends = straddles and writing.base is None
    if abs(verdict.estimate) <= ROUNDING and not with_ends:
        return "no difference"
    if with_ends:
        ends = sorted([(abs(low or 0), "lower"), (high or 0, "higher")], key=lambda end: end[1] == word)
        between = " to ".join(f"{_said(writing.number(value))}{writing.sign} {side}" for value, side in ends)
        beside = f" ({between}{_of_seeds(verdict)})"
        if abs(verdict.estimate) <= ROUNDING:
            return f"no difference in the mean{beside}"
        if _is_nearly_zero(verdict):
            return f"nearly no difference{beside}"
        size = writing.around(_said(writing.number(abs(verdict.estimate))))
        return f"{word} by {_with_share(f'{size}{beside}', claim)}"
    return f"{word} by {amount_text(claim)}"


def _with_region(amount: str, verdict: Verdict, kind: str) -> str:
    """An amount with what the rule asks of it: "0.661 (asked: below 1)".

    Left out where three digits do not tell it from an end of the region, and where an interval shows it: beside a
    boundary of 0 the sign does, of a share or a ratio the statement.
    """
    if not amount or not verdict.accept or kind in _SHARES:
        return amount
    accept, writing = Accept(**verdict.accept), _writing(verdict)
    if not _is_nearly_zero(verdict) and _said(verdict.estimate) in map(_said, accept.ends):
        return amount
    asked = f"asked: {accepted_text(_written(verdict.accept, writing))}{writing.sign}"
    if not amount.endswith(")"):
        return f"{amount} ({asked})"
    no_effect = 1.0 if kind == "ratio_of_means" else 0.0
    if writing.base is None and accept.boundary == no_effect:
        return amount
    return f"{amount[:-1]}; {asked})"


def _written(accept: dict[str, Any], writing: Writing) -> dict[str, Any]:
    """A region in the numbers that are written."""
    return {side: _each(end, writing) for side, end in accept.items() if end is not None}


def _each(end: Any, writing: Writing) -> Any:
    return [writing.number(one) for one in end] if isinstance(end, list | tuple) else writing.number(end)


def _with_name(amount: str, claim: ClaimRow) -> str:
    """An amount with what it is where neither unit nor statement says it, and whether it is the worst case."""
    quantity = claim.stub.quantity
    if not amount or quantity is None:
        return amount
    if claim.shown.unit is None and quantity.kind == "slope":
        return f"slope {amount}"
    if claim.shown.unit is None and quantity.kind == "correlation":
        method = f"{'partial ' * bool(quantity.given)}{'rank ' * (quantity.method == 'spearman')}"
        return f"{method}correlation {amount}"
    return f"at worst {amount}" if quantity.kind in _AT_EVERY and quantity.over else amount


def only_too_small(verdict: Verdict) -> str:
    """What is contradicted where the interval reaches into the accepted region: an effect large enough to count."""
    effect, boundary = verdict.smallest_effect, Accept(**verdict.accept).boundary if verdict.accept else None
    if verdict.verdict != CONTRADICTED or verdict.interval is None or effect is None or boundary is None:
        return ""
    low, high = verdict.interval
    if Accept(**verdict.accept).excludes(-math.inf if low is None else low, math.inf if high is None else high):
        return ""
    writing = Writing.of(verdict.unit, effect)
    size = writing.around(_said(writing.number(effect)))
    side = "the direction" if boundary == 0 else f"on which side of {_said(writing.number(boundary))} it lies"
    return f"the interval leaves {side} open, but excludes an effect of {size}, the smallest that counts"


def amount_text(claim: ClaimRow) -> str:
    """The same without the direction of a difference, which the sentence around it says: "11.1 points (2.8 to …)"."""
    return _with_share(_amount(claim.shown, _kind(claim)), claim)


def _with_share(amount: str, claim: ClaimRow) -> str:
    """An amount with what share of the other arm's value it is, where its unit has no scale of its own."""
    verdict, level = claim.shown, claim.headline.level if claim.headline else None
    if not level or verdict.estimate is None or verdict.unit not in _WITHOUT_SCALE:
        return amount
    share = abs(verdict.estimate) / level
    if share < MENTIONED:
        return amount
    said = f"{_said(round(100 * share))} %" if share < 2 else f"{_said(float(f'{share:.2g}'))} times"
    beside = f"{said} {'of ' if share < 2 else ''}the other arm's {_said(level)}"
    return f"{amount[:-1]}; {beside})" if amount.endswith(")") else f"{amount} ({beside})"


def _kind(claim: ClaimRow) -> str:
    return claim.stub.quantity.kind if claim.stub.quantity else ""


def _writing(verdict: Verdict) -> Writing:
    return Writing.of(verdict.unit, verdict.estimate)


def _amount(verdict: Verdict, kind: str) -> str:
    if verdict.estimate is None:
        return ""
    estimate, (low, high) = verdict.estimate, verdict.interval or (None, None)
    if kind in _DIFFERENCES and estimate < 0:
        estimate, low, high = -estimate, None if high is None else -high, None if low is None else -low
    if kind in _SHARES:
        said, sign = _share(verdict), " %"
        bottom, top = _said(_percent(low)), _said(_percent(high))
    else:
        writing = _writing(verdict)
        first, sign = _said(writing.number(estimate)), writing.sign
        if writing.base:
            first = first if first != "1" else f"{writing.number(estimate):.2f}"
        elif _is_nearly_zero(verdict):
            first = "nearly 0"
        said = f"{first} times" if kind == "ratio_of_means" else writing.around(first)
        bottom = "−∞" if low is None else _said(writing.number(low))
        top = "∞" if high is None else _said(writing.number(high))
    if verdict.interval is None or (verdict.n is None and _said(low) == _said(high)):
        return said
    seeds = f" at {100 * verdict.confidence:g} %" if kind in _SHARES else _of_seeds(verdict)
    return f"{said} ({bottom} to {top}{sign}{seeds})"


def _share(verdict: Verdict) -> str:
    """ "nine of ten seeds", where the share is one of all seeds; else per cent of those that decide."""
    count = (verdict.estimate or 0) * (verdict.n or 0)
    if verdict.n is None or abs(count - round(count)) > 1e-6:
        return f"{_said(_percent(verdict.estimate))} % of the seeds that decide"
    return f"{_word(round(count))} of {_word(verdict.n)} seeds"


def _of_seeds(verdict: Verdict) -> str:
    n = verdict.n
    if n is None:
        return ""
    return f" at {100 * verdict.confidence:g} %, {_word(n)} seed{'s' * (n != 1)}"


def _word(count: int) -> str:
    return _COUNTS[count] if count < len(_COUNTS) else str(count)


def _percent(value: float | None) -> float | None:
    return None if value is None else round(100 * value)


def _said(value: float | None) -> str:
    if value is None or isinstance(value, int):
        return number(value)
    return "0" if abs(value) <= ROUNDING else number(float(f"{value:.3g}"))


def _is_nearly_zero(verdict: Verdict) -> bool:
    """Whether an estimate differs from zero by less than a hundredth of what its rule asks."""
    value, ends = abs(verdict.estimate or 0), Accept(**verdict.accept).ends if verdict.accept else ()
    asked = [abs(end) for end in ends if end and math.isfinite(end)]
    return ROUNDING < value < NEARLY and bool(asked) and value < min(asked) / 100
