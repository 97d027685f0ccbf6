"""Convolutions of single pixels as what they are: a linear layer at each position."""

from typing import TypeVar

from torch import Tensor, nn

Network = TypeVar("Network", bound=nn.Module)


class AtEachPosition(nn.Module):
    """A linear layer of the channels at each position: [n, channels, height, width] to [n, out, height, width].

    The norms of its gradients of single examples follow from products over positions, without the gradients
    themselves, which are as large as the layer.

    Example:
        >>> import torch
        >>> convolution = nn.Conv2d(3, 2, 1)
        >>> images = torch.ones(1, 3, 4, 5)
        >>> torch.allclose(AtEachPosition(convolution)(images), convolution(images))
        True
    """

    def __init__(self, convolution: nn.Conv2d) -> None:
        """The layer with the weights of a convolution for which `pointwise` holds."""
        super().__init__()
        biased = convolution.bias is not None
        kind = {"device": convolution.weight.device, "dtype": convolution.weight.dtype}
        self.linear = nn.Linear(convolution.in_channels, convolution.out_channels, bias=biased, **kind)
        values = {
            name: tensor.flatten(1) if name == "weight" else tensor for name, tensor in convolution.state_dict().items()
        }
        self.linear.load_state_dict(values)

    def forward(self, maps: Tensor) -> Tensor:
        """[n, out, height, width]."""
        values: Tensor = self.linear(maps.permute(0, 2, 3, 1).contiguous())
        return values.permute(0, 3, 1, 2)


def with_linear_layers(model: Network) -> Network:
    """`model`, in which such layers stand in place of all convolutions of single pixels (in place).

    Example:
        >>> [type(layer).__name__ for layer in with_linear_layers(nn.Sequential(nn.Conv2d(3, 2, 1), nn.ReLU()))]
        ['AtEachPosition', 'ReLU']
    """
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if isinstance(child, nn.Conv2d) and pointwise(child):
                setattr(parent, name, AtEachPosition(child))
    return model


def pointwise(layer: nn.Conv2d) -> bool:
    """Whether each output depends on the channels of one pixel, at its own position, and on all of them.

    Example:
        >>> pointwise(nn.Conv2d(3, 2, 1)), pointwise(nn.Conv2d(3, 2, 1, stride=2))
        (True, False)
    """
    return (layer.kernel_size, layer.stride, layer.padding, layer.groups) == ((1, 1), (1, 1), (0, 0), 1)
