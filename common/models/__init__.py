"""Networks of the replicated papers."""

from common.models.all_convolutional import AllConvolutional
from common.models.bert import BERT_BASE, MINILM_L6, bert, load_bert
from common.models.fully_connected import FullyConnected, parameter_count, rescale
from common.models.graph_networks import GraphNetwork
from common.models.imagenet_resnet import load_resnet34, resnet34
from common.models.initialisation import initialise_uniform
from common.models.layered_transformer import LayeredTransformer
from common.models.mnist_convnet import MnistConvNet
from common.models.mnist_perceptron import MnistPerceptron
from common.models.mobilenet import mobilenet_v2
from common.models.modular_transformer import ModularTransformer
from common.models.preactivation_resnet import PreactivationResNet
from common.models.residual_cifar import ResidualCifar
from common.models.shallow_cifar import ShallowCifar
from common.models.small_vgg import SmallVGG
from common.models.wide_resnet import WideResNet

__all__ = [
    "BERT_BASE",
    "MINILM_L6",
    "AllConvolutional",
    "FullyConnected",
    "GraphNetwork",
    "LayeredTransformer",
    "MnistConvNet",
    "MnistPerceptron",
    "ModularTransformer",
    "PreactivationResNet",
    "ResidualCifar",
    "ShallowCifar",
    "SmallVGG",
    "WideResNet",
    "bert",
    "initialise_uniform",
    "load_bert",
    "load_resnet34",
    "mobilenet_v2",
    "parameter_count",
    "rescale",
    "resnet34",
]
