"""What each output pixel of a convolution sees."""

import torch
from torch import nn
from torch.nn import functional


def unfold(layer: nn.Conv2d, images: torch.Tensor) -> torch.Tensor:
    """The part of the image that each output pixel sees, [n, weights of an output channel, output pixels].

    One strided copy; `functional.unfold` gives the same and takes two to eight times as long on a CPU.
    """
    vertical, horizontal = (int(margin) for margin in layer.padding)  # numbers: `rule_of` refuses texts
    if layer.kernel_size == (1, 1) and layer.stride == (1, 1) and not vertical and not horizontal:
        return images.flatten(2)
    images = functional.pad(images, (horizontal, horizontal, vertical, vertical)).contiguous()
    (kernel_y, kernel_x), (stride_y, stride_x), (gap_y, gap_x) = layer.kernel_size, layer.stride, layer.dilation
    rows, columns = output_size(layer, images, padded=True)
    example, channel, row, column = images.stride()
    windows = images.as_strided(
        (*images.shape[:2], kernel_y, kernel_x, rows, columns),
        (example, channel, row * gap_y, column * gap_x, row * stride_y, column * stride_x),
    )
    return windows.reshape(len(images), -1, rows * columns)


def output_size(layer: nn.Conv2d, images: torch.Tensor, padded: bool = False) -> tuple[int, int]:
    """Rows and columns of the layer's output; `padded` if the images have their margins already."""

    def length(axis: int) -> int:
        margins = 0 if padded else 2 * int(layer.padding[axis])
        sees = layer.dilation[axis] * (layer.kernel_size[axis] - 1) + 1
        return (images.shape[2 + axis] + margins - sees) // layer.stride[axis] + 1

    return length(0), length(1)
