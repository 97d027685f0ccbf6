"""Second oracles: curvlinops and BackPACK (the extra `bench`) give the same matrices, diagonals and norms."""

import curvlinops
import torch
from backpack import backpack, extend
from backpack.extensions import BatchL2Grad, DiagGGNExact
from torch import nn

from common.hessian import GGN, EmpiricalFisher, Hessian, Problem, dense, diagonal, per_sample_gradient_norms


def pictures() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 3, 3, stride=2), nn.Sigmoid(), nn.Conv2d(3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(8, 4)
    ).double()
    return model, torch.randn(12, 1, 6, 6).double(), torch.randint(0, 4, (12,))


def test_matrices_are_those_of_curvlinops():
    model, x, y = pictures()
    problem = Problem(model, nn.CrossEntropyLoss(), (x, y), chunk=4)
    data = [(x[:4], y[:4]), (x[4:8], y[4:8]), (x[8:], y[8:])]
    unit = torch.eye(problem.size).double()
    for ours, theirs in (
        (Hessian, curvlinops.HessianLinearOperator),
        (GGN, curvlinops.GGNLinearOperator),
        (EmpiricalFisher, curvlinops.EFLinearOperator),
    ):
        operator = theirs(model, nn.CrossEntropyLoss(), list(model.parameters()), data)
        torch.testing.assert_close(dense(ours(problem)), operator @ unit, rtol=1e-7, atol=1e-9)


def test_diagonals_and_norms_are_those_of_backpack():
    model, x, y = pictures()
    problem = Problem(model, nn.CrossEntropyLoss(), (x, y), chunk=5)
    extended, loss = extend(model), extend(nn.CrossEntropyLoss())
    with backpack(DiagGGNExact(), BatchL2Grad()):
        loss(extended(x), y).backward()
    for found, parameter in zip(diagonal(problem, "ggn").diagonal, model.parameters(), strict=True):
        torch.testing.assert_close(found, parameter.diag_ggn_exact, rtol=1e-9, atol=1e-12)
    squares = sum(parameter.batch_l2 for parameter in model.parameters()) * len(x) ** 2
    torch.testing.assert_close(per_sample_gradient_norms(problem).square(), squares, rtol=1e-9, atol=1e-12)
