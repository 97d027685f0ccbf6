"""Second derivatives of the loss in the outputs: the middle factor of the GGN, G = 1/N Σ_n Jₙᵀ Λₙ Jₙ.

Λ is positive semidefinite for the three convex losses known by name; its factor S, Λ = S Sᵀ, is closed form:
cross-entropy Λ = diag p − p pᵀ, S = diag √p − p √pᵀ; squared error Λ = h I; logistic Λ = h diag p(1 − p).
Any other loss is differentiated twice; Λ may then be indefinite and S comes with signs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

IGNORED = -100
"""Torch's value of a target that does not count."""
MOST_LOOKED_AT = 64
"""Examples at which a loss is looked at, at most."""
LARGEST_LOOKED_AT = 2**20
"""Numbers that their outputs may have together; the first few are looked at whatever they have."""
LARGEST_DENSE = 512
"""Outputs an example up to which Λ of an unknown loss is formed."""


class OutputCurvature:
    """Λ of a loss at given outputs. Everything is per example and flat: outputs [n, D]."""

    name = ""
    convex = True

    def has_factor(self, outputs: int) -> bool:
        """Whether S is formed for so many outputs an example."""
        return self.convex or outputs <= LARGEST_DENSE

    def product(self, outputs: torch.Tensor, targets: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
        """Λ v for each row, shape of `outputs`."""
        raise NotImplementedError

    def factor(self, outputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """S [n, D, R] and signs [n, R] with Λ = S diag(signs) Sᵀ; D the flattened outputs."""
        raise NotImplementedError

    def thin_factor(self, outputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The same with as few columns as Λ has rank."""
        return self.factor(outputs, targets)

    def sampled_gradient(self, outputs: torch.Tensor, source: torch.Generator) -> torch.Tensor:
        """Gradient at a target drawn from the model's own distribution: mean 0, covariance Λ (Fisher)."""
        raise ValueError(f"{self.name} is not the negative log-likelihood of a known distribution: no Fisher.")


class CrossEntropy(OutputCurvature):
    """Softmax cross-entropy with class targets (label smoothing leaves Λ as it is)."""

    name = "cross-entropy"

    def product(self, outputs: torch.Tensor, targets: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
        p = outputs.softmax(1)
        weighted = p * vectors
        return weighted - p * weighted.sum(1, keepdim=True)

    def factor(self, outputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        p = outputs.softmax(1)
        root = p.sqrt()
        return torch.diag_embed(root) - p[:, :, None] * root[:, None, :], torch.ones_like(p)

    def thin_factor(self, outputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        # with q = √p of length one, Λ = diag q (I − q qᵀ) diag q; all columns but the last of the reflection that takes
        # q to the last axis are an orthonormal basis beside q
        root = outputs.softmax(1).sqrt()
        normal = root.clone()
        normal[:, -1] += 1.0
        basis = torch.eye(root.shape[1]).to(root) - normal[:, :, None] * (normal / normal[:, -1:])[:, None, :]
        thin = root[:, :, None] * basis[:, :, :-1]
        return thin, torch.ones_like(thin[:, 0])

    def sampled_gradient(self, outputs: torch.Tensor, source: torch.Generator) -> torch.Tensor:
        p = outputs.softmax(1)
        drawn = torch.multinomial(p.cpu(), 1, generator=source).to(p.device)
        return p.scatter_add(1, drawn, -torch.ones_like(p[:, :1]))


@dataclass(frozen=True)
class SquaredError(OutputCurvature):
    """c (f − y)², Λ = h I with h = 2c: the negative log-likelihood of a normal distribution of variance 1/h."""

    mean: bool
    name = "squared error"

    def _h(self, outputs: torch.Tensor) -> float:
        return 2.0 / outputs[0].numel() if self.mean else 2.0

    def product(self, outputs: torch.Tensor, targets: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
        return self._h(outputs) * vectors

    def factor(self, outputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        flat = torch.ones_like(outputs.flatten(1))
        return torch.diag_embed(flat * self._h(outputs) ** 0.5), flat

    def sampled_gradient(self, outputs: torch.Tensor, source: torch.Generator) -> torch.Tensor:
        noise = torch.randn(outputs.shape, generator=source, dtype=outputs.dtype).to(outputs.device)
        return noise * float(self._h(outputs) ** 0.5)


@dataclass(frozen=True)
class Logistic(OutputCurvature):
    """Binary cross-entropy of logits, independent over outputs."""

    mean: bool
    name = "logistic loss"

    def _diagonal(self, outputs: torch.Tensor) -> torch.Tensor:
        p = outputs.sigmoid()
        return p * (1 - p) / (outputs[0].numel() if self.mean else 1)

    def product(self, outputs: torch.Tensor, targets: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
        return self._diagonal(outputs) * vectors

    def factor(self, outputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        diagonal = self._diagonal(outputs).flatten(1)
        return torch.diag_embed(diagonal.sqrt()), torch.ones_like(diagonal)

    def sampled_gradient(self, outputs: torch.Tensor, source: torch.Generator) -> torch.Tensor:
        if self.mean and outputs[0].numel() > 1:
            raise ValueError("The logistic loss averaged over several outputs is not a log-likelihood: no Fisher.")
        p = outputs.sigmoid()
        drawn = torch.rand(p.shape, generator=source, dtype=p.dtype).to(p.device) < p
        return p - drawn.to(p)


@dataclass(frozen=True)
class AnyLoss(OutputCurvature):
    """A loss that is known only as a function; `summed(outputs, targets)` is the sum over examples."""

    summed: Loss
    name = "loss"
    convex = False

    def product(self, outputs: torch.Tensor, targets: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
        variables = outputs.detach().requires_grad_()
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(self.summed(variables, targets), variables, create_graph=True)
            if not slope.requires_grad:
                return torch.zeros_like(vectors)
            (product,) = torch.autograd.grad(slope, variables, grad_outputs=vectors, materialize_grads=True)
        return product

    def factor(self, outputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        flat = outputs.flatten(1)
        if flat.shape[1] > LARGEST_DENSE:
            raise ValueError(f"{flat.shape[1]} outputs an example: too many for the dense Λ of an unknown loss.")
        columns = []
        for index in range(flat.shape[1]):
            unit = torch.zeros_like(flat)
            unit[:, index] = 1.0
            columns.append(self.product(outputs, targets, unit.view_as(outputs)).flatten(1))
        values, vectors = torch.linalg.eigh(torch.stack(columns, dim=2))
        rounding = 16 * values.shape[1] * torch.finfo(values.dtype).eps * values.abs().amax(1, keepdim=True)
        values = torch.where(values.abs() > rounding, values, 0.0)  # else the sign of a zero is that of its rounding
        return vectors * values.abs().sqrt()[:, None, :], values.sign()


def output_curvature(loss: Loss, summed: Loss, outputs: torch.Tensor, targets: torch.Tensor) -> OutputCurvature:
    """The closed form for a loss known by name, else `AnyLoss`.

    Example:
        >>> output_curvature(functional.mse_loss, functional.mse_loss, torch.ones(2, 3), torch.ones(2, 3)).name
        'squared error'
    """
    mean = getattr(loss, "reduction", "mean") == "mean"
    classes = outputs.ndim == 2 and targets.shape == outputs.shape[:1] and not targets.is_floating_point()
    plain = getattr(loss, "weight", None) is None and getattr(loss, "pos_weight", None) is None
    if (loss is functional.cross_entropy or _is(loss, nn.CrossEntropyLoss)) and classes and plain:
        return CrossEntropy()
    if loss is functional.mse_loss or _is(loss, nn.MSELoss):
        return SquaredError(mean)
    if plain and (loss is functional.binary_cross_entropy_with_logits or _is(loss, nn.BCEWithLogitsLoss)):
        return Logistic(mean)
    return AnyLoss(summed)


def _is(loss: Loss, kind: type[nn.Module]) -> bool:
    """Whether a loss computes what this kind does; a subclass may compute something else."""
    return isinstance(loss, kind) and type(loss).forward is kind.forward


def looked_at(
    outputs: torch.Tensor, targets: torch.Tensor, all_targets: Sequence[torch.Tensor], count: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs and targets at which a loss is looked at: targets that differ, from all the data.

    A loss with weights of classes is the mean over examples of one class, and one that ignores targets over those
    without any: the first examples do not tell. What stands in the outputs does not matter here, only their shape.

    Args:
        outputs, targets: of the first examples.
        all_targets: where they are whole numbers, those of all N by chunk; else nothing.
        count: N.

    Example:
        >>> looked_at(torch.zeros(2, 3), torch.tensor([0, 0]), [torch.tensor([0, 0, 0, 2])], 4)[1].tolist()
        [0, 2, 0, 0]
    """
    most = max(len(outputs), min(MOST_LOOKED_AT, LARGEST_LOOKED_AT // outputs[0].numel()))
    alike = [part.to(targets) for part in all_targets if part.shape[1:] == targets.shape[1:]]
    if alike:
        pool = torch.cat(alike)
        flat = pool.reshape(len(pool), -1)
        none = flat == IGNORED
        # of targets with several entries: how many are ignored, and whether the first and the last one are
        kind = 4 * none.sum(1) + 2 * none[:, 0] + none[:, -1] if flat.shape[1] > 1 else flat[:, 0]
        kinds, kind = kind.unique(return_inverse=True)
        place = torch.arange(len(pool), device=pool.device)
        first = torch.full_like(kinds, len(pool)).scatter_reduce(0, kind, place, "amin")
        spread = torch.linspace(0, len(first) - 1, min(most, len(first)), device=pool.device).round().long()
        targets = torch.cat([pool[first[spread]], targets])[:most]
    if count > 1 and len(targets) == 1:
        targets = targets[[0, 0]]
    return outputs[torch.arange(len(targets), device=outputs.device) % len(outputs)], targets


def reduction_of(loss: Loss, outputs: torch.Tensor, targets: torch.Tensor) -> str:
    """'mean' or 'sum' over examples, found out by splitting a batch in two in every way.

    The outputs are brought to unit size and moved at random before, so that neither a loss of zero everywhere nor the
    rounding of a saturated one hides the difference.

    Raises:
        ValueError: it is neither (e.g. class weights, ignored targets, shapes that broadcast, reduction="none").

    Example:
        >>> reduction_of(nn.CrossEntropyLoss(reduction="sum"), torch.zeros(3, 2), torch.tensor([0, 1, 1]))
        'sum'
    """
    count = len(outputs)
    source = torch.Generator().manual_seed(0)
    moved = outputs.detach()
    moved = moved / moved.abs().max().clamp(min=1)
    moved = moved + torch.randn(moved.shape, generator=source, dtype=moved.dtype).to(moved.device)
    with torch.no_grad():
        whole = loss(moved, targets)
        if whole.ndim != 0:
            raise ValueError(f"The loss returns shape {tuple(whole.shape)} for a batch, expected one number.")
        if count == 1:
            return str(getattr(loss, "reduction", "mean"))
        splits = [(k, loss(moved[:k], targets[:k]), loss(moved[k:], targets[k:])) for k in range(1, count)]
    fits = {"mean": True, "sum": True}
    for first, left, right in splits:
        mean, total = (first * left + (count - first) * right) / count, left + right
        scale = max(float(whole.abs()), float(total.abs()), 1e-12)
        fits["mean"] &= abs(float(whole - mean)) <= 1e-4 * scale
        fits["sum"] &= abs(float(whole - total)) <= 1e-4 * scale
    if fits["mean"] == fits["sum"]:
        raise ValueError(
            "The loss of a batch is neither the mean nor the sum over its examples (class weights, ignored "
            "targets and shapes that broadcast do this): pass a loss that is."
        )
    return "mean" if fits["mean"] else "sum"
