"""Fully connected networks with one output on two-class images: data, members, and the kernel of their Jacobian.

Training and everything measured here depend on an image only through its products with other training images, so that
images are replaced by their coordinates in the span of the training images and first-layer weights are projected onto
it. Nothing is lost: gradient descent never leaves the span, and what lies outside multiplies zeros.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from common.datasets import Dataset
from common.training import FullyConnectedEnsemble


class Images(NamedTuple):
    """Coordinates [k, n, r] of the training images, targets ±1 [k, n, 1], and the basis [k, D, r] of their span."""

    inputs: torch.Tensor
    targets: torch.Tensor
    basis: torch.Tensor


def two_class_targets(labels: torch.Tensor, name: str) -> torch.Tensor:
    """±1 [n]: even or odd digit on MNIST and its like, first or second class else; 0 marks images that are not used."""
    if name == "cifar10":
        return torch.where(labels < 2, 1.0 - 2.0 * labels, 0.0)
    return 1.0 - 2.0 * (labels % 2)


def draw_images(data: Dataset, name: str, examples: int, generators: Sequence[torch.Generator]) -> Images:
    """`examples` training images a generator, bytes/255, in coordinates of their span; float32.

    Raises:
        ValueError: more images are asked for than there are.
    """
    targets = two_class_targets(data.train.targets.long(), name)
    usable = torch.nonzero(targets).flatten()
    if examples > len(usable):
        raise ValueError(f"{name} has {len(usable)} images of the two classes, {examples} are asked for.")
    parts = []
    for generator in generators:
        chosen = usable[torch.randperm(len(usable), generator=generator)[:examples]]
        pixels = data.train.inputs[chosen].flatten(1).double() / 255
        basis, triangle = torch.linalg.qr(pixels.T)
        parts.append((triangle.T.float(), targets[chosen, None].float(), basis.float()))
    return Images(*(torch.stack(part) for part in zip(*parts, strict=True)))


def draw_networks(
    width: int, depth: int, images: Images, generators: Sequence[torch.Generator]
) -> FullyConnectedEnsemble:
    """One network a generator, PyTorch's default initial weights, its first layer projected onto the images' span."""
    features, rank = images.basis.shape[1:]
    hidden = (width,) * depth
    full = FullyConnectedEnsemble.drawn((features, *hidden, 1), generators)
    rows = []
    for member in range(len(full)):
        (first, bias), *others = full.layers(full.weights[member : member + 1])
        pieces = [(first[0] @ images.basis[member]).flatten(), bias[0]]
        pieces += [part.flatten() for layer in others for part in layer]
        rows.append(torch.cat(pieces))
    return FullyConnectedEnsemble((rank, *hidden, 1), torch.stack(rows))


def parameter_count(width: int, depth: int, features: int) -> int:
    """Parameters of the network before projection."""
    return (features + 1) * width + (depth - 1) * (width + 1) * width + width + 1


@torch.no_grad()
def errors_and_kernel(ensemble: FullyConnectedEnsemble, images: Images) -> tuple[torch.Tensor, torch.Tensor]:
    """e = f − y [k, n] and K = J Jᵀ [k, n, n], float64, of all members.

    With A the inputs of a layer and D the derivatives of the output by what the layer gives, a layer adds
    (A Aᵀ + 1) ∘ D Dᵀ, the 1 for its bias.
    """
    layers = [(weight.double(), bias.double()) for weight, bias in ensemble.layers(ensemble.weights)]
    values = [images.inputs.double()]
    for weight, bias in layers[:-1]:
        values.append((values[-1] @ weight.mT + bias[:, None]).relu())
    weight, bias = layers[-1]
    errors = (values[-1] @ weight.mT + bias[:, None])[..., 0] - images.targets[..., 0].double()
    slope = torch.ones_like(errors)[..., None]
    kernel = torch.zeros(len(errors), errors.shape[1], errors.shape[1], dtype=torch.float64)
    for number in range(len(layers) - 1, -1, -1):
        kernel += (values[number] @ values[number].mT + 1) * (slope @ slope.mT)
        if number:
            slope = (slope @ layers[number][0]) * (values[number] > 0)
    return errors, kernel


@torch.no_grad()
def smallest_alignment(
    errors: torch.Tensor, kernel: torch.Tensor, learning_rate: float, batches: torch.Tensor
) -> torch.Tensor:
    """The least μ [k] along linearised SGD from e [k, n]: e ← e − (η/B) K[:, I] e_I for batches I [k, steps, B].

    This is Theorem 3's μ₀: at interpolation itself μ is 0/0.
    """
    smallest = torch.full((len(errors),), torch.inf, dtype=torch.float64)
    size = batches.shape[2]
    for step in range(batches.shape[1]):
        chosen = batches[:, step]
        columns = kernel.gather(2, chosen[:, None].expand(-1, kernel.shape[1], -1))
        picked = errors.gather(1, chosen)
        errors = errors - learning_rate / size * (columns @ picked[..., None])[..., 0]
        errors = errors / errors.norm(dim=1, keepdim=True)
        smallest = torch.minimum(smallest, alignment_of_noise(errors, kernel))
    return smallest


def alignment_of_noise(errors: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
    """μ = Tr(ΣG)/(2L ‖G‖²_F) [k] of e [k, n] and K [k, n, n]."""
    count = kernel.shape[-1]
    along = kernel.square().sum(-1) / count
    slope = (kernel @ errors[..., None])[..., 0] / count
    crossing = (errors.square() * along).mean(-1) - slope.square().mean(-1)
    return crossing / (errors.square().mean(-1) * along.mean(-1))


class Factors(NamedTuple):
    """Alignment factors of each member [k] (Wu 2025, eqs. 7 to 9), G's norms, and how uneven errors and gradients are.

    `frobenius`, `largest`: ‖G‖_F and λ₁ of G, for the loss ½ mean e². `uneven_errors`, `uneven_gradients`: standard
    deviation over mean of e_i² and of ‖g_i‖²_G.
    """

    alpha: torch.Tensor
    beta: torch.Tensor
    mu: torch.Tensor
    gamma: torch.Tensor
    frobenius: torch.Tensor
    uneven_errors: torch.Tensor
    uneven_gradients: torch.Tensor


def alignment_factors(errors: torch.Tensor, kernel: torch.Tensor) -> Factors:
    """The factors from e [k, n] and K [k, n, n] alone; `common.hessian.alignment` does one network at a time.

    With N = diag(e) (K/n) diag(e), centred, Tr Σ² = ‖N‖²_F; Tr(ΣG) is the mean of e_i² ‖g_i‖²_G less ∇Lᵀ G ∇L.
    """
    count = kernel.shape[-1]
    along = kernel.square().sum(-1) / count  # ‖g_i‖²_G
    norm = (along.mean(-1)).sqrt()
    noise = kernel * errors[..., None] * errors[..., None, :] / count
    noise = noise - noise.mean(-1, keepdim=True)
    noise = noise - noise.mean(-2, keepdim=True)
    size = noise.square().sum((-2, -1)).sqrt()
    twice_loss = errors.square().mean(-1)
    mu = alignment_of_noise(errors, kernel)
    return Factors(
        alpha=mu * twice_loss * norm / size,
        beta=size / (twice_loss * norm),
        mu=mu,
        gamma=along.amin(-1) / along.mean(-1),
        frobenius=norm,
        uneven_errors=_unevenness(errors.square()),
        uneven_gradients=_unevenness(along),
    )


def _unevenness(values: torch.Tensor) -> torch.Tensor:
    return values.std(-1) / values.mean(-1)
