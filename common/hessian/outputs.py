"""Outputs that are not one tensor [n, …]: a number an example [n]; a dict, a tuple, a dataclass, a `ModelOutput`.

What is measured is the loss, so the tensors that count are those that the loss reads: found out once, by
differentiating it by all of them. They become the one output of the network; what the loss gets is put together again
around them.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from common.hessian.losses import Loss

Path = tuple[Any, ...]


def _tensors(value: Any, path: Path = ()) -> Iterator[tuple[Path, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _tensors(part, (*path, key))
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _tensors(getattr(value, field.name), (*path, field.name))
    elif isinstance(value, tuple | list):
        for place, part in enumerate(value):
            yield from _tensors(part, (*path, place))


def _rebuilt(value: Any, tensors: Mapping[Path, torch.Tensor], path: Path = ()) -> Any:
    """The same structure around these tensors; None in the place of all else but numbers and words."""
    if isinstance(value, torch.Tensor) or path in tensors:
        return tensors.get(path)
    if isinstance(value, Mapping):
        parts = {key: _rebuilt(part, tensors, (*path, key)) for key, part in value.items()}
        return type(value)(**parts) if dataclasses.is_dataclass(value) else parts
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.init]
        changed = {name: _rebuilt(getattr(value, name), tensors, (*path, name)) for name in names}
        return dataclasses.replace(value, **changed)
    if isinstance(value, tuple | list):
        items = [_rebuilt(part, tensors, (*path, place)) for place, part in enumerate(value)]
        return value._make(items) if hasattr(value, "_make") else type(value)(items)
    return value if isinstance(value, int | float | str | bool) else None


class Numbers:
    """One number an example: outputs [n], which are those of a network with one output [n, 1].

    Args:
        loss: takes outputs [n].
    """

    def __init__(self, loss: Loss) -> None:
        self._loss = loss

    def tensor(self, outputs: torch.Tensor) -> torch.Tensor:
        """The outputs [n, 1]; of `squeeze()`, which leaves nothing of a single example, too."""
        return outputs.reshape(-1, 1)

    def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The loss of outputs [n, 1]."""
        return self._loss(outputs.squeeze(1), targets)


class Layout:
    """Which tensors of a model's outputs its loss reads, and how both are put together.

    Args:
        loss: takes what the model returns.
        outputs: of a few examples.
        targets: theirs.

    Raises:
        ValueError: the loss reads none, or one of another length, or one without a derivative.
    """

    def __init__(self, loss: Loss, outputs: Any, targets: torch.Tensor) -> None:
        self._loss = loss
        found = {path: tensor.detach() for path, tensor in _tensors(outputs)}
        leaves = {path: t.clone().requires_grad_() for path, t in found.items() if t.is_floating_point()}
        if not leaves:
            raise ValueError("The model returns no tensor.")
        with torch.enable_grad():
            value = loss(_rebuilt(outputs, {**found, **leaves}), targets)
            slopes = torch.autograd.grad(value.sum(), list(leaves.values()), allow_unused=True)
        self._paths = [path for path, slope in zip(leaves, slopes, strict=True) if slope is not None]
        self._shapes = [found[path].shape[1:] for path in self._paths]
        if not self._paths or any(len(found[path]) != len(targets) for path in self._paths):
            raise ValueError("The loss must read tensors of the outputs whose first axis runs over the examples.")
        self._template = _rebuilt(outputs, {path: found[path][:0] for path in self._paths})
        try:
            again = self.loss(self.tensor(outputs), targets)
        except (TypeError, AttributeError) as error:
            raise ValueError("The loss reads something of the outputs that is no differentiable tensor.") from error
        if not torch.allclose(again, value.detach(), equal_nan=True):
            raise ValueError("The loss reads something of the outputs that is no differentiable tensor.")

    def tensor(self, outputs: Any) -> torch.Tensor:
        """What the loss reads [n, …]: the one tensor as it is, several flattened side by side [n, D]."""
        parts = dict(_tensors(outputs))
        if len(self._paths) == 1 and self._shapes[0]:
            return parts[self._paths[0]]
        wide = [parts[path].reshape(-1, shape.numel()) for path, shape in zip(self._paths, self._shapes, strict=True)]
        return torch.cat(wide, dim=1)

    def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The loss of that tensor."""
        if len(self._paths) == 1 and self._shapes[0]:
            parts = [outputs]
        else:
            widths = outputs.split([shape.numel() for shape in self._shapes], dim=1)
            parts = [part.reshape(-1, *shape) for part, shape in zip(widths, self._shapes, strict=True)]
        return self._loss(_rebuilt(self._template, dict(zip(self._paths, parts, strict=True))), targets)
