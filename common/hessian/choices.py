"""What a measure may be asked for by name; another name is an error, not the default."""

from collections.abc import Iterable
from typing import Literal

Of = Literal["hessian", "ggn"]


def one_of(value: str, allowed: Iterable[str], what: str) -> None:
    """
    Raises:
        ValueError: `value` is none of the allowed names.

    Example:
        >>> one_of("fisher", ("hessian", "ggn"), "matrix")
        Traceback (most recent call last):
        ValueError: There is no matrix 'fisher' here: choose one of hessian, ggn.
    """
    names = list(allowed)
    if value not in names:
        raise ValueError(f"There is no {what} {value!r} here: choose one of {', '.join(names)}.")
