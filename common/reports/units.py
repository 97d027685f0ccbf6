"""How numbers of a unit are written in a sentence: logarithms as factors, shares in per cent."""

import math
from dataclasses import dataclass

_LOGARITHMS = {"natural logarithm": math.e, "orders of magnitude": 10.0, "powers of ten": 10.0, "powers of two": 2.0}

MOST_IN_PER_CENT = 2.0
"""A larger multiple is said as such: "3.2 times the bound"."""


@dataclass(frozen=True)
class Writing:
    """One way to write all numbers of a verdict.

    Attributes:
        base: of the logarithms that the numbers are; they are written as factors.
        per_cent: whether they are shares.
        before, after: what stands around the first number.
    """

    base: float | None = None
    per_cent: bool = False
    before: str = ""
    after: str = ""

    @classmethod
    def of(cls, unit: str | None, estimate: float | None = None) -> "Writing":
        """The writing of a unit; a share that `estimate` makes a large multiple is written as one."""
        logarithm, _, each = (unit or "").partition(" a ")
        if base := _LOGARITHMS.get(logarithm):
            return cls(base=base, before="a factor of ", after=f" a {each}" if each else "")
        if unit and (unit == "share" or unit.startswith("of ")):
            whole = unit.removeprefix("of ")
            if abs(estimate or 0.0) < MOST_IN_PER_CENT:
                return cls(per_cent=True, after=f" % {unit}" if unit != "share" else " %")
            return cls(after=f" times {whole}")
        if unit and unit.startswith("order in "):
            return cls(before="order ", after=unit.removeprefix("order"))
        return cls(after=f" {unit}" if unit else "")

    @property
    def sign(self) -> str:
        """What stands after each further number."""
        return " %" if self.per_cent else ""

    def number(self, value: float) -> float:
        """The number that is written for a value."""
        if self.base is None:
            return 100 * value if self.per_cent else value
        try:
            return float(self.base**value)
        except OverflowError:
            return math.inf

    def around(self, said: str) -> str:
        """The first number in its place: "a factor of 2", "3.91 % of the bound", "1.03 times 2/η"."""
        if said == "1" and self.after.startswith(" times the "):
            return f"equal to {self.after.removeprefix(' times ')} to three digits"
        return f"{self.before}{said}{self.after}"
