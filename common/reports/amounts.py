"""What was measured, as a sentence says it: "lower by 11.1 points (2.8 to 19.3 at 95 %, five seeds)"."""

import math

from common.claims.schema import Accept
from common.claims.verdicts import CONTRADICTED, Verdict
from common.reports.drawing import accepted_text
from common.reports.judgements import ClaimRow
from common.reports.text import number

ROUNDING = 1e-12
"""What is not larger is said to be zero: no measure here resolves it."""

NEARLY = 1e-4
"""What is smaller, and far smaller than what the rule asks, is said to be nearly zero, without its power of ten."""

_COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_LOGARITHMS = {"natural logarithm": math.e, "orders of magnitude": 10.0, "powers of ten": 10.0, "powers of two": 2.0}
_WITHOUT_SCALE = (None, "nats")
"""Units in which a reader cannot tell much from little."""

MENTIONED = 0.005
"""A smaller share of the other arm's value is said by the amount alone."""

_DIFFERENCES = ("paired_difference", "difference_at_equal")
_SHARES = ("proportion", "earlier")


def measured_text(claim: ClaimRow) -> str:
    """What the headline's verdict measured, with its interval and n; nothing where it measured nothing.

    A difference says which arm is lower; where its unit is a logarithm, it is the ratio of the arms.
    """
    verdict, kind = claim.shown, _kind(claim)
    if verdict.estimate is None or kind not in _DIFFERENCES:
        return _with_region(_amount(verdict, kind), verdict)
    if abs(verdict.estimate) <= ROUNDING:
        return "no difference"
    low, high = verdict.interval or (None, None)
    straddles = low is not None and high is not None and low < -ROUNDING and high > ROUNDING
    word = "lower" if verdict.estimate < 0 else "higher"
    if straddles and _base(verdict) is None:
        ends = sorted([(abs(low or 0), "lower"), (high or 0, "higher")], key=lambda end: end[1] == word)
        between = " to ".join(f"{_said(value)} {side}" for value, side in ends)
        beside = f" ({between}{_of_seeds(verdict)})"
        if _is_nearly_zero(verdict):
            return f"nearly no difference{beside}"
        return f"{word} by {_with_share(f'{_said(abs(verdict.estimate))}{_unit(verdict)}{beside}', claim)}"
    return f"{word} by {amount_text(claim)}"


def _with_region(amount: str, verdict: Verdict) -> str:
    """A bare number, without seeds or an interval, with what the rule asks of it: "0.661 (asked: below 1)".

    A number that three digits do not tell from an end of the region stays bare.
    """
    if not amount or amount.endswith(")") or not verdict.accept:
        return amount
    if not _is_nearly_zero(verdict) and _said(verdict.estimate) in map(_said, Accept(**verdict.accept).ends):
        return amount
    return f"{amount} (asked: {accepted_text(verdict.accept)})"


def only_too_small(verdict: Verdict) -> str:
    """What is contradicted where the interval reaches into the accepted region: an effect large enough to count."""
    effect, boundary = verdict.smallest_effect, Accept(**verdict.accept).boundary if verdict.accept else None
    if verdict.verdict != CONTRADICTED or verdict.interval is None or effect is None or boundary is None:
        return ""
    low, high = verdict.interval
    if Accept(**verdict.accept).excludes(-math.inf if low is None else low, math.inf if high is None else high):
        return ""
    base = _base(verdict)
    size = f"{_said(effect)}{_unit(verdict)}" if base is None else f"a factor of {_said(base**effect)}"
    side = "the direction" if boundary == 0 else f"on which side of {_said(boundary)} it lies"
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


def _base(verdict: Verdict) -> float | None:
    return _LOGARITHMS.get(verdict.unit or "")


def _unit(verdict: Verdict) -> str:
    return f" {verdict.unit}" if verdict.unit else ""


def _amount(verdict: Verdict, kind: str) -> str:
    if verdict.estimate is None:
        return ""
    estimate, (low, high) = verdict.estimate, verdict.interval or (None, None)
    if kind in _DIFFERENCES and estimate < 0:
        estimate, low, high = -estimate, None if high is None else -high, None if low is None else -low
    base = _base(verdict) if kind in _DIFFERENCES else None
    said = "nearly 0" if _is_nearly_zero(verdict) else _said(estimate)
    if base:
        estimate, low, high = base**estimate, None if low is None else base**low, None if high is None else base**high
        amount = f"a factor of {_said(estimate) if _said(estimate) != '1' else f'{estimate:.2f}'}"
    elif kind in _SHARES:
        amount, low, high = _share(verdict), _percent(low), _percent(high)
    else:
        amount = f"{said}{' times' if kind == 'ratio_of_means' else _unit(verdict)}"
    if verdict.interval is None or (verdict.n is None and _said(low) == _said(high)):
        return amount
    if kind in _SHARES:
        return f"{amount} ({_said(low)} to {_said(high)} % at {100 * verdict.confidence:g} %)"
    bottom, top = "−∞" if low is None else _said(low), "∞" if high is None else _said(high)
    return f"{amount} ({bottom} to {top}{_of_seeds(verdict)})"


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
