"""The gradient of the penalised loss of a fully connected network, over all mini-batches of an epoch at once.

The penalty is that of Geiping et al. 2022, whose table Fig. 4 quotes: the mean over mini-batches B of
L_B + (α/2) ‖∇L_B‖², with H_B g_B from a difference of gradients.
"""

import torch

from common.training import FullyConnectedEnsemble


@torch.no_grad()
def penalised_gradient(
    network: FullyConnectedEnsemble, inputs: torch.Tensor, targets: torch.Tensor, *, penalty: float, difference: float
) -> torch.Tensor:
    """Mean over batches of ∇(L_B + (α/2) ‖∇L_B‖²) = g_B + α H_B g_B, for cross-entropy [parameters].

    H_B g_B is (∇L_B(θ + c g_B) − g_B)/c with c ‖g_B‖ = `difference`. No g_B is formed: on a layer it is a product DᵀA
    of derivatives D [B, out] by its outputs and its inputs A [B, in], so that outputs are moved by c (A'Aᵀ + 1) D and
    derivatives by c D'DᵀA, where A' and D' are of the moved network.

    Args:
        network: one member, trained on cross-entropy.
        inputs: [batches, B, features].
        targets: classes [batches, B].
        penalty: α.
        difference: length of the step from θ.
    """
    layers = [(weight[0], bias[0]) for weight, bias in network.layers(network.weights)]
    last = len(layers) - 1
    first = inputs @ layers[0][0].mT + layers[0][1]
    products = inputs @ inputs.mT + 1  # with the 1 of the bias

    values = [inputs, first.relu() if last else first]
    for number, (weight, bias) in enumerate(layers[1:], start=1):
        made = values[-1] @ weight.mT + bias
        values.append(made.relu_() if number < last else made)
    slopes = [_slope(values.pop(), targets)]
    for number in range(last, 0, -1):
        slopes.insert(0, (slopes[0] @ layers[number][0]) * (values[number] > 0))

    grams = [products, *(a @ a.mT + 1 for a in values[1:])]
    squares = torch.stack([(gram * (d @ d.mT)).sum((1, 2)) for gram, d in zip(grams, slopes, strict=True)]).sum(0)
    lengths = squares.clamp(min=0).sqrt()[:, None, None]
    steps = difference / lengths.where(lengths > 0, 1.0)

    moved = [inputs, first + steps * (products @ slopes[0])]
    for number, (weight, bias) in enumerate(layers[1:], start=1):
        before = moved[-1].relu_()
        made = before @ weight.mT + bias
        moved.append(made + steps * ((before @ values[number].mT + 1) @ slopes[number]))
    beside = [_slope(moved.pop(), targets)]
    for number in range(last, 0, -1):
        back = beside[0] @ layers[number][0] + steps * ((beside[0] @ slopes[number].mT) @ values[number])
        beside.insert(0, back * (moved[number] > 0))

    shares = penalty / steps
    slopes, beside = [(1 - shares) * d for d in slopes], [shares * d for d in beside]
    rows = [(slopes[0] + beside[0]).flatten(0, 1).mT @ inputs.flatten(0, 1)]
    for a, d, moved_a, moved_d in zip(values[1:], slopes[1:], moved[1:], beside[1:], strict=True):
        rows.append(d.flatten(0, 1).mT @ a.flatten(0, 1) + moved_d.flatten(0, 1).mT @ moved_a.flatten(0, 1))
    biases = [(d + moved_d).sum((0, 1)) for d, moved_d in zip(slopes, beside, strict=True)]
    return torch.cat([part.flatten() for pair in zip(rows, biases, strict=True) for part in pair]) / len(inputs)


def _slope(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Derivative of the mean cross-entropy of each batch by the outputs [batches, B, classes]."""
    shares = outputs.softmax(2)
    shares.scatter_add_(2, targets[..., None], shares.new_full((1, 1, 1), -1.0).expand(*targets.shape, 1))
    return shares.div_(targets.shape[1])
