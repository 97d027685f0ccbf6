"""Losses that are a mean over what counts, not over examples: ignored targets, class weights.

With wₙ what example n counts (its tokens that are not ignored, or the weights of its classes), the loss of data is

    L = Σ_n wₙ ℓₙ / Σ_n wₙ = 1/N Σ_n ℓ̃ₙ,   ℓ̃ₙ = N wₙ ℓₙ / Σ w

over the whole data set, as language models minimise it: so it is a mean over examples again, of ℓ̃ₙ, and gradient noise
is that of a random example.
"""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import nn
from torch.nn import functional

from common.hessian.losses import IGNORED, Loss

Counter = Callable[[torch.Tensor], torch.Tensor]
"""Targets [n, …] ↦ what each example counts [n]."""


class CountedLoss:
    """Σ_n ℓ̃ₙ of some examples.

    Args:
        loss: of a batch: the mean over what counts.
        count: what each example counts.
        total: N / Σ w over all data.
    """

    def __init__(self, loss: Loss, count: Counter, total: float) -> None:
        self._loss, self._count, self._total = loss, count, total

    def __call__(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        if _is_known(self._loss):
            return _summed(self._loss, outputs, targets) * self._total
        return self._loss(outputs, targets) * self._count(targets).sum().to(outputs) * self._total


def counted_loss(
    loss: Loss,
    measured: Loss,
    outputs: torch.Tensor,
    of_outputs: torch.Tensor,
    targets: Sequence[torch.Tensor],
) -> Loss | None:
    """The loss as a sum over examples, if it is a mean over what counts; None if every example counts alike.

    Args:
        loss: as given; a cross-entropy is known by its kind.
        measured: the loss as a function of the output tensor.
        outputs, of_outputs: outputs and targets at which it is looked at (`looked_at`).
        targets: of all data, by chunk.

    Raises:
        ValueError: nothing counts at all, or an example does not where the loss is not torch's.
    """
    if all(part.is_floating_point() for part in targets):
        return None
    if _is_known(loss):
        if getattr(loss, "reduction", "mean") != "mean":
            return None
        ignored, weight = getattr(loss, "ignore_index", IGNORED), getattr(loss, "weight", None)
        if weight is None and not any(bool((part == ignored).any()) for part in targets):
            return None
        return _whole(loss, lambda part: _counted(part, ignored, weight), targets)
    if not any(bool((part == IGNORED).any()) for part in targets):
        return None
    for counter in _CANDIDATES:
        if _fits(measured, counter, outputs, of_outputs):
            if any(bool((counter(part) == 0).any()) for part in targets):
                raise ValueError("An example has no target that counts: leave it out, or take torch's cross-entropy.")
            return _whole(measured, counter, targets)
    return None


def _whole(loss: Loss, counter: Counter, targets: Iterable[torch.Tensor]) -> CountedLoss:
    counts = [counter(part).double() for part in targets]
    total = float(sum(part.sum() for part in counts))
    if not total > 0:
        raise ValueError("No target counts: all are ignored, or their classes weigh nothing.")
    return CountedLoss(loss, counter, sum(len(part) for part in counts) / total)


def _is_known(loss: Loss) -> bool:
    return loss is functional.cross_entropy or type(loss) in (nn.CrossEntropyLoss, nn.NLLLoss)


def _summed(loss: Loss, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    weight, ignored = getattr(loss, "weight", None), getattr(loss, "ignore_index", IGNORED)
    weight = weight if weight is None else weight.to(outputs)
    if type(loss) is nn.NLLLoss:
        return functional.nll_loss(outputs, targets, weight, ignore_index=ignored, reduction="sum")
    smoothing = getattr(loss, "label_smoothing", 0.0)
    return functional.cross_entropy(
        outputs, targets, weight, ignore_index=ignored, reduction="sum", label_smoothing=smoothing
    )


def _counted(targets: torch.Tensor, ignored: int, weight: torch.Tensor | None) -> torch.Tensor:
    mask = targets != ignored
    each = mask.double() if weight is None else weight.to(targets.device).double()[targets.clamp(min=0)] * mask
    return each.reshape(len(targets), -1).sum(1)


def _plain(targets: torch.Tensor) -> torch.Tensor:
    return _counted(targets, IGNORED, None)


_CANDIDATES: tuple[Counter, ...] = (
    _plain,
    lambda targets: _plain(targets[:, 1:] if targets.ndim > 1 else targets),  # each token foretells the next
    lambda targets: _plain(targets[:, :-1] if targets.ndim > 1 else targets),
)


def _fits(loss: Loss, counter: Counter, outputs: torch.Tensor, targets: torch.Tensor) -> bool:
    """Whether the loss of a batch is the mean of those of its parts, weighted so, however it is parted."""
    source = torch.Generator().manual_seed(0)
    scale = outputs.detach().abs().max().clamp(min=1)
    noise = torch.randn(outputs.shape, generator=source, dtype=outputs.dtype)
    moved = outputs.detach() / scale + noise.to(outputs.device)
    weights = counter(targets)
    with torch.no_grad():
        whole = loss(moved, targets) * weights.sum()
        for k in range(1, len(targets)):
            parts = loss(moved[:k], targets[:k]) * weights[:k].sum() + loss(moved[k:], targets[k:]) * weights[k:].sum()
            if not abs(float(parts - whole)) <= 1e-4 * abs(float(whole)):
                return False
    return len(targets) > 1
