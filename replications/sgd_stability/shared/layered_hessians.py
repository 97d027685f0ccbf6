"""Products with the Hessian of every example of a fully connected ReLU network, at the cost of a few gradients.

The Hessian Hₙ of one example times a vector is, in the weights of a layer, a sum of two outer products of vectors of
that example (derivative by the layer's outputs, the layer's inputs, and how both change along the vector). Kept in
this form it takes no more memory than the activations, and Hₙ(Hₙ v) for all examples is two further passes, where
products by automatic differentiation (`common.hessian.SampleHessians`) hold P numbers an example.
"""

from dataclasses import dataclass

import torch

from common.hessian.estimates import Estimate
from common.hessian.lanczos import Product, lanczos
from common.hessian.ntk import EmpiricalNTK
from common.models import FullyConnected


@dataclass(frozen=True)
class _Change:
    """How inputs of the layers and derivatives by their outputs change along a vector, lists of [n, ·]."""

    inputs: list[torch.Tensor]
    slopes: list[torch.Tensor]


class LayeredHessians:
    """Products with H = mean Hₙ and 1/N Σ Hₙ² for `squared_error`.

    Attributes:
        errors: outputs less targets [n, outputs].
        size: P.
        count: N.

    Example:
        >>> model = FullyConnected((1, 1))
        >>> with torch.no_grad():
        ...     model.layers[0].weight.fill_(0.0), model.layers[0].bias.fill_(0.0)
        (Parameter containing:
        tensor([[0.]], requires_grad=True), Parameter containing:
        tensor([0.], requires_grad=True))
        >>> hessians = LayeredHessians(model, torch.tensor([[1.0], [2.0]]), torch.zeros(2, 1))
        >>> mean, second = hessians.moments(torch.tensor([1.0, 0.0]))
        >>> mean.tolist(), second.tolist()
        ([5.0, 3.0], [44.0, 24.0])
    """

    def __init__(self, model: FullyConnected, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        """Take `inputs` [n, features] and `targets` [n, outputs] in the model's type."""
        with torch.no_grad():
            self._weights = [layer.weight.detach() for layer in model.layers]  # type: ignore[operator]
            biases = [layer.bias.detach() for layer in model.layers]  # type: ignore[operator]
            self._inputs = [inputs]
            self._active: list[torch.Tensor] = []
            for number, (weight, bias) in enumerate(zip(self._weights, biases, strict=True)):
                values = torch.addmm(bias, self._inputs[-1], weight.mT)
                if number + 1 < len(self._weights):
                    self._active.append((values > 0).to(values))
                    self._inputs.append(values * self._active[-1])
            self._scale = 2 / targets.shape[1]
            self.errors = values - targets
            slopes = [self._scale * self.errors]
            for weight, active in zip(self._weights[:0:-1], reversed(self._active), strict=True):
                slopes.insert(0, (slopes[0] @ weight) * active)
            self._slopes = slopes
        self.size = sum(weight.numel() + len(weight) for weight in self._weights)
        self.count = len(inputs)

    @torch.no_grad()
    def hessian(self, vector: torch.Tensor) -> torch.Tensor:
        """H v [P]."""
        return self._flat(self._along(vector)) / self.count

    @torch.no_grad()
    def moments(self, vector: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """H v and 1/N Σ Hₙ² v, both [P]."""
        once = self._along(vector)
        return self._flat(once) / self.count, self._flat(self._along_products(once)) / self.count

    def covariance(self, vector: torch.Tensor) -> torch.Tensor:
        """Σ_H v [P], Σ_H = 1/N Σ Hₙ² − H²."""
        first, second = self.moments(vector)
        return second - self.hessian(first)

    @torch.no_grad()
    def kernel(self) -> torch.Tensor:
        """J Jᵀ [N·D, N·D] of the Jacobian of all outputs; row n·D + d is output d of example n.

        Layer by layer (inputs · inputs + 1) times (derivatives · derivatives), so that J is never formed.
        """
        outputs = len(self._weights[-1])
        slopes = torch.eye(outputs).to(self._inputs[0]).expand(self.count, outputs, outputs)
        gram = torch.zeros(self.count * outputs, self.count * outputs).to(slopes)
        blocks = gram.view(self.count, outputs, self.count, outputs)
        for number in range(len(self._weights) - 1, -1, -1):
            flat = slopes.reshape(self.count * outputs, -1)
            values = self._inputs[number] @ self._inputs[number].mT + 1
            blocks += (flat @ flat.mT).view_as(blocks) * values[:, None, :, None]
            if number:
                slopes = (slopes @ self._weights[number]) * self._active[number - 1][:, None, :]
        return gram

    def ntk(self) -> EmpiricalNTK:
        """`kernel` with residuals and loss, as `common.hessian.empirical_ntk` makes it."""
        outputs = self.errors.shape[1]
        factor = self._scale**0.5 * torch.eye(outputs).to(self.errors)
        return EmpiricalNTK(
            gram=self.kernel(),
            factor=factor.expand(self.count, outputs, outputs),
            residuals=self._slopes[-1],
            loss=float(self.errors.square().mean()),
            scale=1 / self.count,
            cost=1.0,
        )

    def _along(self, vector: torch.Tensor) -> _Change:
        """The change of every example along one vector for all."""
        parts = []
        start = 0
        for weight in self._weights:
            end = start + weight.numel()
            parts.append((vector[start:end].view_as(weight), vector[end : end + len(weight)]))
            start = end + len(weight)
        direct = [torch.addmm(bias, x, weight.mT) for x, (weight, bias) in zip(self._inputs, parts, strict=True)]
        through = [slope @ weight for slope, (weight, _) in zip(self._slopes, parts, strict=True)]
        return self._change(direct, through)

    def _along_products(self, change: _Change) -> _Change:
        """The change of each example n along its own Hₙ v, given as `change`."""
        direct, through = [], []
        for x, slope, dx, dslope in zip(self._inputs, self._slopes, change.inputs, change.slopes, strict=True):
            direct.append(dslope * (1 + _dots(x, x)) + slope * _dots(dx, x))
            through.append(_dots(slope, dslope) * x + _dots(slope, slope) * dx)
        return self._change(direct, through)

    def _change(self, direct: list[torch.Tensor], through: list[torch.Tensor]) -> _Change:
        """From what a change of weights does to each layer itself to the change of all inputs and derivatives.

        Args:
            direct: (change of the layer's weights) · inputs + change of biases, [n, out] of each layer.
            through: derivatives by the layer's outputs · (change of its weights), [n, in] of each layer.
        """
        inputs = [torch.zeros_like(self._inputs[0])]
        outputs = direct[0]
        for number, active in enumerate(self._active):
            inputs.append(outputs * active)
            outputs = torch.addmm(direct[number + 1], inputs[-1], self._weights[number + 1].mT)
        slopes = [self._scale * outputs]
        for number in range(len(self._active) - 1, -1, -1):
            before = torch.addmm(through[number + 1], slopes[0], self._weights[number + 1])
            slopes.insert(0, before * self._active[number])
        return _Change(inputs, slopes)

    def _flat(self, change: _Change) -> torch.Tensor:
        """Σ_n of the examples' products, [P]."""
        parts = []
        for x, slope, dx, dslope in zip(self._inputs, self._slopes, change.inputs, change.slopes, strict=True):
            parts += [(dslope.mT @ x + slope.mT @ dx).flatten(), dslope.sum(0)]
        return torch.cat(parts)


def _dots(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Products of the examples' vectors, [n, 1]."""
    return (left * right).sum(1, keepdim=True)


def non_uniformity(hessians: LayeredHessians, generator: torch.Generator, relative_error: float) -> Estimate:
    """s = √λ₁(Σ_H); the same number as `common.hessian.non_uniformity`."""
    found = _largest(hessians, hessians.covariance, generator, 2 * relative_error, "covariance of the Hessians")
    root = max(found.value, 0.0) ** 0.5
    return Estimate(
        root,
        0.0,
        passes=found.passes,
        bound=found.bound / (2 * root) if root else found.bound**0.5,
        converged=found.converged,
        method=found.method,
    )


def criterion_ratio(
    gram: torch.Tensor,
    outputs: int,
    *,
    learning_rate: float,
    batch_size: int,
    generator: torch.Generator,
    relative_error: float,
) -> Estimate:
    """max_v η vᵀ(H² + c Σ_H)v / (2 vᵀHv), c = (N − B)/(B(N − 1)): at most 1 where the full criterion holds.

    The criterion λ_max{(I − ηH)² + η² c Σ_H} ≤ 1 says (H² + cΣ_H)η ≤ 2H; with more parameters than outputs its
    left side is never below 1, because of the directions without curvature, so that it tells nothing of how near the
    bound is. At an interpolating minimum Hₙ = (2/D) JₙᵀJₙ, and with u = Jv (all of its values are taken when the
    kernel K = JJᵀ has full rank) the ratio is η/D times the largest eigenvalue of c diag(Kₙₙ) + (1 − c) K/N.

    Args:
        gram: K [N·D, N·D] of N examples with D outputs.
        outputs: D.
    """
    rows = len(gram)
    count = rows // outputs
    noise = (count - batch_size) / (batch_size * max(1, count - 1))
    own = gram.view(count, outputs, count, outputs).diagonal(dim1=0, dim2=2).permute(2, 0, 1)

    def product(vector: torch.Tensor) -> torch.Tensor:
        within = (own @ vector.view(count, outputs, 1)).flatten()
        return (noise * within + (1 - noise) * (gram @ vector) / count) * (learning_rate / outputs)

    start = torch.randn(rows, generator=generator).to(gram)
    found = lanczos(product, start, 1, which="largest", relative_error=relative_error, products=min(150, rows))
    return Estimate(
        float(found.values[0]),
        bound=float(found.errors[0]),
        passes=found.products,
        converged=found.converged,
        method="Lanczos, empirical NTK",
    )


def largest_eigenvalue(hessians: LayeredHessians, generator: torch.Generator, relative_error: float) -> Estimate:
    """λ₁(H)."""
    return _largest(hessians, hessians.hessian, generator, relative_error, "Hessian")


def _largest(
    hessians: LayeredHessians, product: Product, generator: torch.Generator, relative_error: float, name: str
) -> Estimate:
    start = torch.randn(hessians.size, generator=generator).to(hessians._weights[0])
    found = lanczos(product, start, 1, which="largest", relative_error=relative_error, products=150)
    return Estimate(
        float(found.values[0]),
        bound=float(found.errors[0]),
        passes=found.products,
        converged=found.converged,
        method=f"Lanczos, {name}",
    )
