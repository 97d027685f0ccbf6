"""A system small enough to compute by hand, and one that is small enough to be quick."""

from dataclasses import dataclass, field

import torch
from torch import nn

from common.hessian import Hessian, Problem, dense
from replications.hessian_finetuning.shared.systems import Subset


@dataclass(frozen=True)
class Tiny:
    """Model and splits in memory."""

    model: nn.Module
    train: Subset
    validation: Subset
    test: Subset
    classes: int
    source: dict[str, str] = field(default_factory=lambda: {"dataset": "cifar10", "weights": "mobilenet_v2"})


def one_weight_a_class(weights: tuple[float, float], *, inputs: float = 2.0, count: int = 4) -> Tiny:
    """z = W x for one feature and two classes; all examples are x = `inputs` of class 0."""
    model = nn.Linear(1, 2, bias=False).double()
    with torch.no_grad():
        model.weight.copy_(torch.tensor(weights, dtype=torch.float64)[:, None])
    data = torch.full((count, 1), inputs, dtype=torch.float64), torch.zeros(count, dtype=torch.int64)
    part = Subset(data, torch.arange(count))
    return Tiny(model, part, part, part, 2)


def network(seed: int, *, kind: str = "smooth", count: int = 24) -> Tiny:
    """A network of two layers on points of three classes in four dimensions that overlap."""
    source = torch.Generator().manual_seed(seed)
    layers = {
        "smooth": lambda: [nn.Linear(4, 6), nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 3)],
        "relu": lambda: [nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)],
        "convolutional": lambda: [
            nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 3, 2, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(27, 3),
        ],
    }  # fmt: skip
    model = nn.Sequential(*layers[kind]()).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=source, dtype=torch.float64) / 2)

    def draw() -> Subset:
        labels = torch.randint(0, 3, (count,), generator=source)
        points = torch.randn(count, 4, generator=source, dtype=torch.float64)
        points[:, :3] += nn.functional.one_hot(labels, 3)
        return Subset((points, labels), torch.arange(count))

    return Tiny(model, draw(), draw(), draw(), 3)


def example_hessians(system: Tiny, parameter: str | None = None) -> list[torch.Tensor]:
    """Of the cross-entropy of each training example, dense; by one parameter or by all."""
    inputs, labels = system.train.examples()
    names = None if parameter is None else [parameter]
    return [
        dense(Hessian(Problem(system.model, nn.CrossEntropyLoss(), example, parameters=names)))
        for example in zip(inputs.split(1), labels.split(1), strict=True)
    ]
