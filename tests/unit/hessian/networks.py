"""Small float64 networks of every family, and dense matrices made by other means than the toolkit's."""

from dataclasses import dataclass
from functools import cache

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from common.hessian import Problem
from common.hessian.kinks import closed_form_kinks

COUNT = 11


class Positions(nn.Module):
    """A transformer layer with torch's attention and a positional table added by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 4)
        self.positions = nn.Parameter(torch.randn(3, 4) * 0.3)
        self.layer = nn.TransformerEncoderLayer(4, 2, 5, dropout=0.0, batch_first=True, activation="gelu")
        self.output = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.output(self.layer(self.table(x) + self.positions).mean(1))


class Tied(nn.Module):
    """The readout shares its weight with the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.hidden, self.readout = nn.Embedding(3, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.readout.weight = self.table.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.readout(torch.tanh(self.hidden(self.table(x % 3)).sum(1)))


class Functional(nn.Module):
    """Kinks by function, in place; a weight used by hand beside its layer; a skip connection in place."""

    def __init__(self, by_hand: bool = False) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 3)
        self.by_hand = by_hand

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = functional.relu_(self.first(x))
        beside = self.second(hidden)
        beside += hidden
        hidden = functional.relu_(beside)
        if self.by_hand:
            hidden = hidden + functional.linear(hidden, self.second.weight)
        return self.third(hidden)


class Halved(nn.Module):
    """Groups, one-dimensional convolutions and a scale by hand: no rule is known for them."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.scale, self.output = (
            nn.Conv1d(2, 4, 2, groups=2),
            nn.Parameter(torch.ones(4, 1)),
            nn.Linear(8, 3),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.output((self.convolution(x.view(-1, 2, 3)[..., :3]) * self.scale).sigmoid().flatten(1))


def family(name: str) -> tuple[nn.Module, torch.Tensor]:
    """A network and inputs for it."""
    torch.manual_seed(3)
    vectors, tokens = torch.randn(COUNT, 4), torch.randint(0, 4, (COUNT, 3))
    tokens[:, 1] = tokens[:, 0]  # a token that is repeated within each example
    pictures = torch.randn(COUNT, 2, 6, 5)
    twice = nn.Linear(4, 4)
    frozen = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    frozen[0].weight.requires_grad_(False)
    convolutions = nn.Sequential(
        nn.Conv2d(2, 3, (3, 2), stride=(1, 2), padding=(1, 0)),
        nn.BatchNorm2d(3),
        nn.ReLU(inplace=True),
        nn.Conv2d(3, 4, 1, bias=False),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(12, 3),
    )
    convolutions[1].running_mean.normal_(), convolutions[1].running_var.uniform_(0.5, 2)
    families: dict[str, tuple[nn.Module, torch.Tensor]] = {
        "linear": (nn.Linear(4, 3), vectors),
        "tanh": (nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3, bias=False)), vectors),
        "relu": (nn.Sequential(nn.Linear(4, 5), nn.ReLU(inplace=True), nn.Linear(5, 3)), vectors),
        "convolutional": (convolutions, pictures),
        "smooth convolutional": (
            nn.Sequential(
                nn.Conv2d(2, 3, 3, dilation=(1, 2)), nn.GroupNorm(3, 3), nn.SiLU(), nn.Flatten(), nn.Linear(12, 3)
            ),
            pictures,
        ),
        "deep convolutional": (
            nn.Sequential(
                nn.Conv2d(2, 2, 3, padding=1),
                nn.Tanh(),
                nn.Conv2d(2, 2, 3, padding=1),
                nn.ReLU(inplace=True),
                nn.Conv2d(2, 2, 2),
                nn.SiLU(),
                nn.MaxPool2d(2),
                nn.Conv2d(2, 3, (2, 1)),
                nn.Flatten(),
                nn.Linear(6, 3),
            ),
            pictures,
        ),
        "tokens": (
            nn.Sequential(
                nn.Embedding(4, 3, padding_idx=2),
                nn.LayerNorm(3),
                nn.Linear(3, 4),
                nn.GELU(),
                nn.RMSNorm(4),
                nn.Flatten(),
                nn.Linear(12, 3),
            ),
            tokens,
        ),
        "attention": (Positions(), tokens),
        "tied": (Tied(), tokens),
        "twice": (nn.Sequential(twice, nn.Tanh(), twice, nn.Linear(4, 3)), vectors),
        "frozen": (frozen, vectors),
        "functional": (Functional(), vectors),
        "weight by hand": (Functional(by_hand=True), vectors),
        "no rule": (Halved(), torch.randn(COUNT, 6)),
    }
    model, inputs = families[name]
    for parameter in model.parameters():  # no symmetric starting points
        with torch.no_grad():
            parameter += 0.1 * torch.randn_like(parameter)
    return model.double().eval(), inputs.double() if inputs.is_floating_point() else inputs


FAMILIES = [
    "linear", "tanh", "relu", "convolutional", "smooth convolutional", "deep convolutional",
    "tokens", "attention", "tied", "twice",
    "frozen", "functional", "weight by hand", "no rule",
]  # fmt: skip


@cache
def problem_of(name: str) -> Problem:
    """Cross-entropy of a family, made once, in chunks of 4, so that the last one is uneven."""
    model, inputs = family(name)
    targets = torch.randint(0, 3, (COUNT,), generator=torch.Generator().manual_seed(1))
    return Problem(model, nn.CrossEntropyLoss(), (inputs, targets), chunk=4)


@dataclass(frozen=True)
class Dense:
    """H, G, and the gradients of the examples [N, P], by differentiating functions of the flat vector of parameters.

    Backward over backward: `torch.func.hessian` (forward over backward, mapped) is wrong through LayerNorm in torch
    2.13, which finite differences show.
    """

    hessian: torch.Tensor
    ggn: torch.Tensor
    gradients: torch.Tensor
    hessians: torch.Tensor


def dense_matrices(model: nn.Module, inputs: torch.Tensor | tuple, targets: torch.Tensor, loss) -> Dense:
    """For the parameters that require a gradient; `loss` a mean over examples, inputs a tensor or several."""
    unique = {name: p for name, p in model.named_parameters() if p.requires_grad}
    places = {
        f"{prefix}.{own}" if prefix else own: next(n for n, q in unique.items() if q is p)
        for prefix, module in model.named_modules()
        for own, p in module.named_parameters(recurse=False)
        if p.requires_grad
    }
    sizes = [p.numel() for p in unique.values()]
    at = torch.cat([p.detach().reshape(-1) for p in unique.values()])

    def outputs(vector: torch.Tensor, x: tuple[torch.Tensor, ...]) -> torch.Tensor:
        parts = dict(zip(unique, vector.split(sizes), strict=True))
        tensors = {place: parts[name].view_as(unique[name]) for place, name in places.items()}
        return functional_call(model, tensors, x, tie_weights=False)

    hessians, ggns, gradients = [], [], []
    with sdpa_kernel(SDPBackend.MATH):
        several = inputs if isinstance(inputs, tuple) else (inputs,)
        examples = zip(*(tensor.split(1) for tensor in several), strict=True)
        for x, y in zip(examples, targets.split(1), strict=True):
            hessians.append(torch.autograd.functional.hessian(lambda v: loss(outputs(v, x), y), at))  # noqa: B023
            gradients.append(torch.autograd.functional.jacobian(lambda v: loss(outputs(v, x), y), at))  # noqa: B023
            jacobian = torch.autograd.functional.jacobian(lambda v: outputs(v, x).flatten(), at)  # noqa: B023
            here = outputs(at, x).detach()
            middle = torch.autograd.functional.hessian(lambda o: loss(o.view_as(here), y), here.flatten())  # noqa: B023
            ggns.append(jacobian.T @ middle @ jacobian)
    return Dense(
        torch.stack(hessians).mean(0), torch.stack(ggns).mean(0), torch.stack(gradients), torch.stack(hessians)
    )


def data_of(problem: Problem) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets of all examples."""
    return torch.cat([c.inputs for c in problem.chunks]), torch.cat([c.targets for c in problem.chunks])


@cache
def matrices_of(name: str) -> Dense:
    """Of `problem_of(name)`."""
    problem = problem_of(name)
    return dense_matrices(problem.model, *data_of(problem), problem.loss_function)


def kinks_of_two_layers(problem: Problem, sigma: float) -> float:
    """The kink term of linear, ReLU, linear in closed form."""
    first, _, second = problem.model
    inputs, targets = data_of(problem)
    z = first(inputs).detach()
    deviation = sigma * (inputs.square().sum(1, keepdim=True) + 1).sqrt()
    delta = problem.output_gradient(problem.outputs(inputs), targets) @ second.weight.detach()
    return float((delta * closed_form_kinks(z, deviation.expand_as(z))).sum() / len(inputs))
