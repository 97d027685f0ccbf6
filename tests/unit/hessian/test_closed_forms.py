"""Against formulas that no automatic differentiation made."""

import pytest
import torch
from torch import nn

from common.hessian import Hessian, Problem, dense, sharpness, trace


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_linear_regression():
    x, y = normal(20, 3), normal(20, 1, seed=1)
    problem = Problem(nn.Linear(3, 1).double(), nn.MSELoss(), (x, y), chunk=6)
    extended = torch.cat([x, torch.ones(20, 1).double()], dim=1)
    torch.testing.assert_close(dense(Hessian(problem)), 2 * extended.T @ extended / 20)
    assert trace(problem).value == pytest.approx(2 * float((x.square().sum(1) + 1).mean()))


def test_softmax_regression():
    x = normal(30, 4)
    x[10:] *= 3  # uneven in every chunking
    problem = Problem(nn.Linear(4, 5).double(), nn.CrossEntropyLoss(), (x, torch.arange(30) % 5), chunk=11)
    p = problem.model(x).softmax(1).detach()
    exact = ((x.square().sum(1) + 1) * (1 - p.square().sum(1))).mean()
    assert trace(problem).value == pytest.approx(float(exact), rel=1e-10)


def test_logistic_regression():
    x = normal(15, 3)
    problem = Problem(nn.Linear(3, 1, bias=False).double(), nn.BCEWithLogitsLoss(), (x, (normal(15, 1) > 0).double()))
    p = problem.model(x).sigmoid().detach()
    exact = x.T @ (p * (1 - p) * x) / 15
    torch.testing.assert_close(dense(Hessian(problem)), exact)
    assert sharpness(problem).estimate.value == pytest.approx(float(torch.linalg.eigvalsh(exact)[-1]), rel=1e-3)


class Product(nn.Module):
    """f = x a w: the loss is (aw − 1)²/2 at x = y = 1."""

    def __init__(self, a: float, w: float) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.tensor(a, dtype=torch.float64))
        self.w = nn.Parameter(torch.tensor(w, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.a * self.w


def test_scalar_product_network():
    a, w = 1.5, 0.4
    one = torch.ones(1, 1).double()
    problem = Problem(Product(a, w), lambda o, t: ((o - t) ** 2).mean() / 2, (one, one))
    exact = torch.tensor([[w * w, 2 * a * w - 1], [2 * a * w - 1, a * a]]).double()
    torch.testing.assert_close(dense(Hessian(problem)), exact)


def test_deep_linear_network():
    a, b = normal(3, 2), normal(1, 3, seed=1)
    model = nn.Sequential(nn.Linear(2, 3, bias=False), nn.Linear(3, 1, bias=False)).double()
    with torch.no_grad():
        model[0].weight.copy_(a), model[1].weight.copy_(b)
    x, y = normal(12, 2, seed=2), normal(12, 1, seed=3)
    exact = 2 * (b.square().sum() * x.square().sum(1) + (x @ a.T).square().sum(1)).mean()
    problem = Problem(model, nn.MSELoss(), (x, y))
    assert problem.structure.piecewise_linear
    assert trace(problem).value == pytest.approx(float(exact), rel=1e-10)
