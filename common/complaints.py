"""What PyTorch says of shapes and types that do not fit, with whose they are."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from common.memory import shortage


@contextmanager
def explained(sentence: Callable[[], str]) -> Iterator[None]:
    """Within: an error of an operation becomes a ValueError of this sentence and the first of its own.

    Memory that does not suffice stays what it is.

    Raises:
        ValueError: shapes, types or indices that do not fit, from the error itself.
    """
    try:
        yield
    except (RuntimeError, TypeError, IndexError) as error:
        if shortage(error):
            raise
        said = " ".join(str(error).split()).split(". ")[0].rstrip(".")
        kind = "" if type(error) is RuntimeError else f"{type(error).__name__}: "
        raise ValueError(f"{sentence()}: {kind}{said}.") from error


def shapes(tensors: Any) -> str:
    """Shape and type of a tensor, or of each of a tuple or a dict of them.

    Example:
        >>> import torch
        >>> shapes({"ids": torch.zeros(8, 3), "mask": torch.ones(8, dtype=torch.bool)})
        'ids [8, 3] of float32, mask [8] of bool'
    """
    if isinstance(tensors, dict):
        return ", ".join(f"{name} {shapes(tensor)}" for name, tensor in tensors.items())
    if isinstance(tensors, tuple | list):
        return ", ".join(map(shapes, tensors))
    kind = str(tensors.dtype).removeprefix("torch.")
    return f"{list(tensors.shape)} of {kind}"
