"""Figure 1: how many parameters the listed image networks have, added up from their layers."""

import itertools
from collections.abc import Sequence

from common.experiments import ExperimentParameters, Field, RunContext

ZHANG = "Zhang et al. 2017, Figure 3 and Appendix A"
Layers = list[tuple[int, int, int, int]]
"""Of each layer: inputs, outputs, places of its kernel, and further numbers an output (bias, or scale and shift)."""


class Parameters(ExperimentParameters):
    """Settings of a run; the grid varies the network."""

    network: str = Field("mlp_1x512", description="a row of Fig. 1", source="the lecture, Fig. 1")


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Add up the parameters of each network."""
    for run in runs:
        context.record(run, parameters=count(NETWORKS[run.network]))


def count(layers: Layers) -> int:
    """Parameters of all layers.

    Example:
        >>> count([(784, 10, 1, 1)])
        7850
    """
    return sum(outputs * (inputs * places + own) for inputs, outputs, places, own in layers)


def _dense(*sizes: int) -> Layers:
    return [(inputs, outputs, 1, 1) for inputs, outputs in itertools.pairwise(sizes)]


def _small_inception() -> Layers:
    """Inception of Zhang et al. 2017 for CIFAR-10: one number an output channel beside the kernels."""
    layers: Layers = [(3, 96, 9, 1)]
    inputs = 96
    for ones, threes in ((32, 32), (32, 48), (0, 80), (112, 48), (96, 64), (80, 80), (48, 96), (0, 96), (176, 160)):
        layers += [(inputs, ones, 1, 1), (inputs, threes, 9, 1)]
        inputs = ones + threes if ones else inputs + threes  # without 1×1 a pooling of the inputs stands beside
    return [*layers, (inputs, 176, 1, 1), (inputs, 160, 9, 1), *_dense(336, 10)]


def _inception_v4(classes: int) -> Layers:
    """Inception-v4 of Szegedy et al. 2016: every convolution has scale and shift of its normalisation, and no bias."""
    stem = [(3, 32, 9), (32, 32, 9), (32, 64, 9), (64, 96, 9), (160, 64, 1), (64, 96, 9), (160, 64, 1)]
    stem += [(64, 64, 7), (64, 64, 7), (64, 96, 9), (192, 192, 9)]
    a = [(384, 96, 1), (384, 64, 1), (64, 96, 9), (384, 64, 1), (64, 96, 9), (96, 96, 9), (384, 96, 1)]
    a_to_b = [(384, 384, 9), (384, 192, 1), (192, 224, 9), (224, 256, 9)]
    b = [(1024, 384, 1), (1024, 192, 1), (192, 224, 7), (224, 256, 7), (1024, 192, 1), (192, 192, 7), (192, 224, 7)]
    b += [(224, 224, 7), (224, 256, 7), (1024, 128, 1)]
    b_to_c = [(1024, 192, 1), (192, 192, 9), (1024, 256, 1), (256, 256, 7), (256, 320, 7), (320, 320, 9)]
    c = [(1536, 256, 1), (1536, 384, 1), (384, 256, 3), (384, 256, 3), (1536, 384, 1), (384, 448, 3), (448, 512, 3)]
    c += [(512, 256, 3), (512, 256, 3), (1536, 256, 1)]
    return [(*each, 2) for each in stem + 4 * a + a_to_b + 7 * b + b_to_c + 3 * c] + _dense(1536, classes)


def _resnet(blocks: Sequence[int], *, bottleneck: bool) -> Layers:
    """A residual network of He et al. 2016 for ImageNet: normalised convolutions without bias, one linear layer."""
    layers: Layers = [(3, 64, 49, 2)]
    inputs = 64
    for stage, number in enumerate(blocks):
        width = 64 * 2**stage
        outputs = 4 * width if bottleneck else width
        for _ in range(number):
            inner = [(inputs, width, 1, 2), (width, width, 9, 2), (width, outputs, 1, 2)]
            layers += inner if bottleneck else [(inputs, width, 9, 2), (width, width, 9, 2)]
            layers += [(inputs, outputs, 1, 2)] if inputs != outputs else []
            inputs = outputs
    return layers + _dense(inputs, 1000)


def _vgg(convolutions: Sequence[int]) -> Layers:
    """A network of Simonyan and Zisserman 2015 with so many 3×3 convolutions in its five stages."""
    stages = zip((64, 128, 256, 512, 512), convolutions, strict=True)
    widths = [width for width, number in stages for _ in range(number)]
    layers = [(inputs, outputs, 9, 1) for inputs, outputs in zip([3, *widths], widths, strict=False)]
    return layers + _dense(7 * 7 * 512, 4096, 4096, 1000)


NETWORKS: dict[str, Layers] = {
    # CIFAR-10, crops of 28 × 28 (Zhang et al. 2017)
    "inception": _small_inception(),
    "alexnet": [(3, 64, 25, 1), (64, 64, 25, 1), *_dense(7 * 7 * 64, 384, 192, 10)],
    "mlp_1x512": _dense(3 * 28 * 28, 512, 10),
    # ImageNet; the printed Inception V4 has a class for the background beside the thousand
    "inception_v4": _inception_v4(1001),
    "imagenet_alexnet": [
        (3, 64, 121, 1), (64, 192, 25, 1), (192, 384, 9, 1), (384, 256, 9, 1), (256, 256, 9, 1),
        *_dense(6 * 6 * 256, 4096, 4096, 1000),
    ],
    "resnet18": _resnet((2, 2, 2, 2), bottleneck=False),
    "resnet152": _resnet((3, 8, 36, 3), bottleneck=True),
    "vgg11": _vgg((1, 1, 2, 2, 2)),
    "vgg19": _vgg((2, 2, 4, 4, 4)),
}  # fmt: skip
