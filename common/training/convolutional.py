"""Several networks `MnistConvNet` trained by one forward and backward pass over all, written out for a CPU."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from common.models import MnistConvNet
from common.training.ensembles import Batch, Ensemble

KERNEL, PATCH = 5, 6
"""Pixels a side of a kernel, and of what the four places see of which pooling takes the largest."""
Layer = tuple[torch.Tensor, torch.Tensor]


class ConvolutionalEnsemble(Ensemble):
    """An `Ensemble` of `MnistConvNet` whose gradients are a few products over all members, without autograd.

    Images come last in every array, [members, features, images]: each layer is weights times features, and what
    pooling compares lies in planes; `_PooledConvolution` says how a convolution becomes one product. On MNIST five
    members are 1.6 times as fast as one by one at 12 images a batch, 1.2 times at 64 (`benchmarks/ensembles.py`).

    Losses, gradients and the choice among equal maxima (the first) are those of PyTorch, to rounding; a member's
    numbers depend on its own row and batch alone. Evaluation goes member by member.
    """

    def __init__(self, members: Sequence[MnistConvNet]) -> None:
        super().__init__(members)
        self._passes: dict[torch.Size, _Passes] = {}

    @torch.no_grad()
    def losses_and_gradients(self, batches: Sequence[Batch]) -> torch.Tensor:
        """Mean cross-entropy [members] of each member on its own (inputs, targets); fills `gradients`.

        Raises:
            ValueError: batches of different sizes, or not one for each member.
        """
        inputs, targets = zip(*batches, strict=True)
        shape = inputs[0].shape
        if len(batches) != len(self.members) or any(other.shape != shape for other in inputs):
            raise ValueError("one batch a member is needed, all of one size.")
        if shape not in self._passes:
            self._passes[shape] = _Passes(self.weights, shape)
        passes = self._passes[shape]
        logits = passes.forward(self._layers(self.weights), inputs)
        losses, slope = _cross_entropy(logits, torch.stack(targets))
        passes.backward(self._layers(self.gradients), slope)
        return losses

    def _layers(self, rows: torch.Tensor) -> list[Layer]:
        """Views of `rows`: weight [members, out, in], for convolutions [members, out, 5, 5, in], and bias of each."""
        parts = rows.split([shape.numel() for shape in self.shapes], dim=1)
        views = [
            part.unflatten(1, (shape[0], *shape[2:], *shape[1:2]))
            for shape, part in zip(self.shapes, parts, strict=True)
        ]
        return list(zip(views[::2], views[1::2], strict=True))


class _Passes:
    """Forward and backward pass over batches of one size, in arrays that are used again and again.

    Args:
        weights: [members, parameters], of the type and on the device of everything.
        shape: of a member's batch, [images, channels, side, side].
    """

    def __init__(self, weights: torch.Tensor, shape: Sequence[int]) -> None:
        members, (images, channels, side, _) = len(weights), shape
        self.inputs = weights.new_empty(members, channels, side, side, images)
        halves = self.inputs.unflatten(3, (-1, 2)).transpose(3, 4)
        self.first = _PooledConvolution(halves, 10, halves=True)
        self.second = _PooledConvolution(self.first.outputs, 20)
        self.features = self.second.outputs.flatten(1, 3)
        self.hidden, self.logits = weights.new_empty(members, 50, images), weights.new_empty(members, 10, images)

    def forward(self, layers: Sequence[Layer], batches: Sequence[torch.Tensor]) -> torch.Tensor:
        """Logits [members, 10, images]; they are valid until the next pass."""
        self.layers = layers
        for place, images in zip(self.inputs, batches, strict=True):
            place.copy_(images.permute(1, 2, 3, 0))
        first, second, (hidden, hidden_bias), (output, output_bias) = layers
        self.first.forward(*first)
        self.second.forward(*second)
        torch.baddbmm(hidden_bias[..., None], hidden, self.features, out=self.hidden).clamp_min_(0)
        return torch.baddbmm(output_bias[..., None], output, self.hidden, out=self.logits)

    def backward(self, gradients: Sequence[Layer], slope: torch.Tensor) -> None:
        """Fill `gradients` for the derivative by the logits, [members, 10, images]."""
        first, second, hidden, output = gradients
        output[0].baddbmm_(slope, self.hidden.mT, beta=0)
        torch.sum(slope, 2, out=output[1])
        slope = torch.bmm(self.layers[3][0].mT, slope)
        _where_positive(slope, self.hidden, slope)
        hidden[0].baddbmm_(slope, self.features.mT, beta=0)
        torch.sum(slope, 2, out=hidden[1])
        torch.bmm(self.layers[2][0].mT, slope, out=self.second.slope.flatten(1, 3))
        self.second.backward(*second)
        self.second.backward_inputs(self.first.slope)
        self.first.backward(*first)


class _PooledConvolution:
    """Values x ↦ relu(max-pooling of 2×2 (5×5 convolution of x) + bias) for all members, and the backward pass.

    The four places of which pooling takes the largest see 6×6 pixels together. So patches of 6×6 are unfolded, a
    quarter as many as places, and multiplied by the kernel in each of its four positions within 6×6, zeros around
    it: 36/25 of the arithmetic of a convolution, 36/100 of its patches, and matrices of shapes whose products run at
    the speed of large ones. The four products lie in four planes, so that pooling is a maximum of planes.

    Columns of `inputs` are split into even and odd ones, so that what a patch's pixel is in neighbouring patches lies
    together: [members, channels, rows, 2, columns/2, images].

    Attributes:
        outputs, slope: values and the derivative by them, [members, outputs, rows, columns, images], with `halves`
            split as the inputs are.

    Args:
        inputs: where the inputs will lie.
        outputs: channels of the outputs.
    """

    def __init__(self, inputs: torch.Tensor, outputs: int, *, halves: bool = False) -> None:
        members, channels, side, *_, images = inputs.shape
        self.pooled = (side - KERNEL + 1) // 2
        unfolded = inputs.unfold(2, PATCH, 2).unfold(4, PATCH // 2, 1).permute((0, 6, 7, 3, 1, 2, 4, 5))
        columns: tuple[int, ...] = (self.pooled,)
        if halves:
            unfolded = unfolded.unflatten(6, (-1, 2)).transpose(6, 7)
            columns = (2, self.pooled // 2)
        self.unfolded = unfolded  # members, row, column/2, parity of the column, channel | row, column(s), image
        self.patches = inputs.new_empty(unfolded.shape)
        self.kernels = inputs.new_zeros((members, 2, 2, outputs, PATCH, PATCH, channels))
        self.kernel_slopes = torch.empty_like(self.kernels)
        planes = inputs.new_empty((members, 2, 2, outputs, self.pooled, *columns, images))
        self.left, self.right = planes.unbind(1)
        self.rows = inputs.new_empty(self.left.shape)
        self.upper, self.lower = self.rows.unbind(1)
        self.outputs, self.slope = inputs.new_empty(self.upper.shape), inputs.new_empty(self.upper.shape)
        self.patch_matrix = self.patches.view(members, PATCH * PATCH * channels, -1)
        self.plane_matrix, self.kernel_matrix, self.kernel_slope_matrix = (
            array.view(members, 4 * outputs, -1) for array in (planes, self.kernels, self.kernel_slopes)
        )

    def forward(self, weight: torch.Tensor, bias: torch.Tensor) -> None:
        """Fill `outputs` for weight [members, outputs, 5, 5, channels] and bias [members, outputs]."""
        self.patches.copy_(self.unfolded)
        for kernels in _positions(self.kernels):
            kernels.copy_(weight)
        torch.bmm(self.kernel_matrix, self.patch_matrix, out=self.plane_matrix)
        torch.maximum(self.left, self.right, out=self.rows)
        torch.maximum(self.upper, self.lower, out=self.outputs)
        self.outputs.flatten(2).add_(bias[..., None]).clamp_min_(0)

    def backward(self, weight: torch.Tensor, bias: torch.Tensor) -> None:
        """Fill the gradients by weight and bias for `slope`, which is lost as the planes are."""
        _where_positive(self.slope, self.outputs, self.slope)
        torch.sum(self.slope.flatten(2), 2, out=bias)
        _share(self.slope, self.upper, self.lower)
        _share(self.rows, self.left, self.right)
        torch.bmm(self.plane_matrix, self.patch_matrix.mT, out=self.kernel_slope_matrix)
        first, *others = _positions(self.kernel_slopes)
        weight.copy_(first)
        for slopes in others:
            weight.add_(slopes)

    def backward_inputs(self, slope: torch.Tensor) -> None:
        """Fill `slope` with the derivative by the inputs, after `backward`; the patches are lost."""
        torch.bmm(self.kernel_matrix.mT, self.plane_matrix, out=self.patch_matrix)
        pairs = slope.zero_().unflatten(2, (-1, 2))  # members, channel, row/2, parity, parity, column/2, image
        parts = self.patches.unflatten(1, (-1, 2)).permute((0, 1, 3, 5, 6, 2, 4, 7, 8))
        for i in range(PATCH // 2):
            for j in range(PATCH // 2):
                pairs[:, :, i : i + self.pooled, :, :, j : j + self.pooled] += parts[:, i, j]


def _positions(kernels: torch.Tensor) -> list[torch.Tensor]:
    """The four 5×5 within the 6×6 of `kernels` [members, 2 to the right, 2 down, outputs, 6, 6, channels]."""
    return [kernels[:, x, y, :, y : y + KERNEL, x : x + KERNEL] for x in (0, 1) for y in (0, 1)]


def _share(slope: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> None:
    """Put the derivative by max(first, second) in the place of the larger, the first of equals, and 0 in the other."""
    _where_positive(slope, second.sub_(first), second)
    torch.sub(slope, second, out=first)


def _where_positive(values: torch.Tensor, sign: torch.Tensor, out: torch.Tensor) -> None:
    """`values` where `sign` is positive, otherwise 0, into `out`."""
    torch.ops.aten.threshold_backward.grad_input(values, sign, 0, grad_input=out)


def _cross_entropy(logits: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Losses [members] for classes [members, images], and their derivative by the logits [members, 10, images]."""
    places = targets[:, None]
    logarithms = logits.log_softmax(1)
    losses = -logarithms.gather(1, places).mean((1, 2))
    shares = logarithms.exp_().scatter_add_(1, places, logarithms.new_full((1, 1, 1), -1.0).expand(places.shape))
    return losses, shares.div_(targets.shape[1])
