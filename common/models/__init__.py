"""Networks of the replicated papers."""

from common.models.fully_connected import FullyConnected, parameter_count, rescale
from common.models.initialisation import initialise_uniform
from common.models.layered_transformer import LayeredTransformer
from common.models.mnist_convnet import MnistConvNet
from common.models.modular_transformer import ModularTransformer
from common.models.residual_cifar import ResidualCifar
from common.models.shallow_cifar import ShallowCifar
from common.models.small_vgg import SmallVGG

__all__ = [
    "FullyConnected",
    "LayeredTransformer",
    "MnistConvNet",
    "ModularTransformer",
    "ResidualCifar",
    "ShallowCifar",
    "SmallVGG",
    "initialise_uniform",
    "parameter_count",
    "rescale",
]
