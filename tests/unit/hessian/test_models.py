"""The toolkit on a small instance of every family of `common.models`, against dense float64 matrices."""

import importlib
import inspect
import pkgutil

import pytest
import torch
from torch import nn

import common.models
from common.hessian import GGN, Hessian, Problem, diagonal, per_sample_gradient_norms, trace
from common.models.all_convolutional import AllConvolutional
from common.models.bert import BertSize, bert
from common.models.fully_connected import FullyConnected
from common.models.graph_networks import GraphNetwork, initial_weights, normalised_adjacency, weight_shapes
from common.models.imagenet_resnet import BasicBlock, Stem
from common.models.layered_transformer import LayeredTransformer
from common.models.mnist_convnet import MnistConvNet
from common.models.mnist_perceptron import MnistPerceptron
from common.models.mobilenet import InvertedResidual, MeanOverPositions
from common.models.modular_transformer import ModularTransformer
from common.models.preactivation_resnet import PreactivationResNet
from common.models.residual_cifar import ResidualCifar
from common.models.shallow_cifar import ShallowCifar
from common.models.small_vgg import SmallVGG
from common.models.wide_resnet import WideResNet
from tests.unit.hessian.networks import dense_matrices

COUNT, MOST = 3, 260
FEWER = {"ShallowCifar": 70, "SmallVGG": 40, "MnistPerceptron": 130}
"""Parameters that are looked at in networks whose passes take long."""
SMOOTH = {"MPNN", "ModularTransformer", "LayeredTransformer", "Bert"}
"""Families that are not piecewise linear in each parameter."""


def pictures(channels: int, side: int) -> torch.Tensor:
    return torch.randn(COUNT, channels, side, side, dtype=torch.float64)


def graphs() -> tuple[torch.Tensor, ...]:
    """Three graphs of up to four nodes with labels 0, 1 or 2."""
    mask = torch.tensor([[True] * 4, [True] * 3 + [False], [True] * 4])
    edges = torch.triu(torch.randint(0, 2, (COUNT, 4, 4)), 1).double()
    adjacency = (edges + edges.mT) * (mask[:, :, None] & mask[:, None])
    return torch.randint(0, 3, (COUNT, 4)), normalised_adjacency(adjacency, mask), mask


def graph_network(kind: str) -> nn.Module:
    shapes = weight_shapes(kind, 3, 4, 2, 3)
    return GraphNetwork(kind, initial_weights(shapes, torch.Generator().manual_seed(0)), 3)


def encoder() -> nn.Module:
    """Two layers, of which the last attends from the first position alone, and a head."""
    size = BertSize(layers=2, width=4, heads=2, inner=5, vocabulary=5, positions=4)
    return nn.Sequential(*bert(size), nn.Linear(4, 3))


def texts() -> torch.Tensor:
    """Tokens, mask and segments of three texts of four, three and two tokens."""
    mask = (torch.arange(4) < torch.tensor([[4], [3], [2]])).long()
    return torch.stack([torch.randint(0, 5, (COUNT, 4)), mask, torch.randint(0, 2, (COUNT, 4))], dim=1)


NETWORKS = {
    "FullyConnected": lambda: (FullyConnected((4, 5, 5, 3)), torch.randn(COUNT, 4).double()),
    "MnistPerceptron": lambda: (MnistPerceptron(), pictures(1, 28)),
    "MnistConvNet": lambda: (MnistConvNet(), pictures(1, 28)),
    "SmallVGG": lambda: (SmallVGG(), pictures(3, 32)),
    "ShallowCifar": lambda: (ShallowCifar(classes=2), pictures(3, 32)),
    "AllConvolutional": lambda: (AllConvolutional(width=2, classes=3), pictures(3, 12)),
    "ResidualCifar": lambda: (ResidualCifar(8, width=2, classes=3), pictures(3, 8)),
    "PreactivationResNet": lambda: (PreactivationResNet(11, width=2, classes=3), pictures(3, 8)),
    "WideResNet": lambda: (WideResNet(10, 1, classes=3, base=2), pictures(3, 8)),
    "ModularTransformer": lambda: (ModularTransformer(5, layers=1, width=4, heads=2), torch.randint(0, 5, (COUNT, 2))),
    "LayeredTransformer": lambda: (
        LayeredTransformer(ModularTransformer(5, layers=1, width=4, heads=2).initialise([torch.Generator()]), 0),
        torch.randint(0, 5, (COUNT, 2)),
    ),
    "Bert": lambda: (encoder(), texts()),
    "MobileNetV2": lambda: (
        nn.Sequential(InvertedResidual(3, 3, 1, 2), InvertedResidual(3, 4, 2, 1), MeanOverPositions(), nn.Linear(4, 2)),
        pictures(3, 6),
    ),
    "ResNet": lambda: (
        nn.Sequential(Stem(), BasicBlock(64, 3, stride=2), MeanOverPositions(), nn.Linear(3, 2)),
        pictures(3, 12),
    ),
    "GCN": lambda: (graph_network("gcn"), graphs()),
    "MPNN": lambda: (graph_network("mpnn"), graphs()),
}
"""A small instance of each family and inputs for it."""


def build(name: str) -> tuple[nn.Module, object]:
    """In float64; of large networks only small parameters, from the first on, require a gradient."""
    torch.manual_seed(1)
    model, inputs = NETWORKS[name]()
    model = model.double().eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(std=0.1), module.running_var.uniform_(0.5, 2)
    total = 0
    for parameter in model.parameters():
        with torch.no_grad():
            parameter += 0.05 * torch.randn_like(parameter)
        total += parameter.numel()
        if total > FEWER.get(name, MOST):
            parameter.requires_grad_(False)
            total -= parameter.numel()
    return model, inputs


@pytest.mark.parametrize("name", NETWORKS)
def test_curvature_of_every_family_of_networks_is_that_of_the_dense_matrices(name):
    model, inputs = build(name)
    targets, loss = torch.randint(0, 2, (COUNT,)), nn.CrossEntropyLoss()
    problem = Problem(model, loss, (inputs, targets), chunk=2)
    matrices = dense_matrices(model, inputs, targets, loss)
    hessian, ggn = matrices.hessian, matrices.ggn
    largest = float(hessian.abs().max())
    assert largest > 1e-6
    close = {"rtol": 1e-8, "atol": 1e-8 * largest}
    vectors = torch.randn(problem.size, 3, dtype=torch.float64)
    torch.testing.assert_close(Hessian(problem) @ vectors, hessian @ vectors, **close)
    torch.testing.assert_close(GGN(problem) @ vectors, ggn @ vectors, **close)
    torch.testing.assert_close(per_sample_gradient_norms(problem), matrices.gradients.norm(dim=1), **close)
    torch.testing.assert_close(problem.flat(diagonal(problem, "ggn").diagonal), ggn.diagonal(), **close)
    assert trace(problem, "ggn").value == pytest.approx(float(ggn.trace()), rel=1e-8)
    assert problem.structure.piecewise_linear == (name not in SMOOTH)
    if name not in SMOOTH:
        assert trace(problem).value == pytest.approx(float(hessian.trace()), rel=1e-8)


def test_no_family_of_networks_is_left_out():
    found = set()
    for module in pkgutil.iter_modules(common.models.__path__):
        for name, thing in vars(importlib.import_module(f"common.models.{module.name}")).items():
            ours = inspect.isclass(thing) and issubclass(thing, nn.Module) and thing.__module__.startswith("common.")
            if ours and not name.startswith("_"):
                found.add(thing)
    tested = {type(part) for name in NETWORKS for part in build(name)[0].modules()}
    missing = {kind for kind in found if not any(issubclass(part, kind) for part in tested)}
    assert not missing, f"add a small instance of {missing} to NETWORKS"
