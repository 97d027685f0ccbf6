"""The whole table of measures over the zoo, against dense matrices made by plain loops over single examples."""

import math
import sys
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from common.hessian import MEASURES, Problem, diagonal, measure, per_sample_gradient_norms
from common.hessian.chunks import take
from tests.unit.hessian.zoo import COUNT, ZOO, Case, made

MOST = 24
"""Parameters that are looked at."""


def chosen(model: nn.Module) -> list[str]:
    """Some small parameters and the smallest weight matrix, of all places in the network."""
    known = [(name, p) for name, p in model.named_parameters() if p.numel() <= MOST]
    matrices = sorted((p.numel(), name) for name, p in known if p.ndim > 1)
    sizes = {name: p.numel() for name, p in known}
    names, left = [], MOST
    order = torch.randperm(len(known), generator=torch.Generator().manual_seed(4)).tolist()
    for name in [name for _, name in matrices[:1]] + [known[place][0] for place in order]:
        size = sizes[name]
        if name not in names and size <= left:
            names.append(name)
            left -= size
    return [name for name, _ in model.named_parameters() if name in names]


def unfused(v: torch.Tensor, g: torch.Tensor, dim: int = 0) -> torch.Tensor:
    assert dim == 0
    return g * v / v.flatten(1).norm(dim=1).view(g.shape)


def exactly(case: Case, names: list[str]) -> dict[str, Any]:
    """The measures from Hessians, Jacobians and gradients of the examples."""
    model = case.oracle if case.oracle is not None else case.model
    inner = getattr(case.model, "_orig_mod", case.model)
    known = dict(inner.named_parameters())
    parameters = [known[name] for name in names]
    loss = case.plain or case.loss
    weights = torch.tensor([case.counts(target) for target in case.targets], dtype=torch.float64)
    weights = weights * COUNT / weights.sum()
    hessians, gradients, ggns, value = [], [], [], 0.0

    def flat(tensors: Any) -> torch.Tensor:
        return torch.cat([t.reshape(-1) for t in tensors])

    def derivative(number: torch.Tensor, by: Any, graph: bool = False) -> torch.Tensor:
        if not number.requires_grad:
            return torch.zeros(sum(t.numel() for t in by), dtype=torch.float64)
        return flat(torch.autograd.grad(number, by, retain_graph=True, create_graph=graph, materialize_grads=True))

    for n, weight in enumerate(weights):
        one = take(case.inputs, slice(n, n + 1))
        with sdpa_kernel(SDPBackend.MATH):
            found = model(**one) if isinstance(one, dict) else model(*one) if isinstance(one, tuple) else model(one)
        outputs = case.read(found)
        target = case.targets[n : n + 1]
        free = outputs.detach().requires_grad_()
        number = weight * loss(outputs, target) if weight else 0 * outputs.sum()
        slope = derivative(number, parameters, graph=True)
        hessians.append(torch.stack([derivative(entry, parameters) for entry in slope]))
        gradients.append(slope.detach())
        jacobian = torch.stack([derivative(entry, parameters) for entry in outputs.flatten()])
        bend = derivative(weight * loss(free, target) if weight else 0 * free.sum(), [free], graph=True)
        middle = torch.stack([derivative(entry, [free]) for entry in bend])
        ggns.append(jacobian.T @ middle @ jacobian)
        value += float(number.detach()) / COUNT
    each, g = torch.stack(hessians), torch.stack(gradients)
    hessian, ggn, mean = each.mean(0), torch.stack(ggns).mean(0), g.mean(0)
    noise = g.T @ g / COUNT - torch.outer(mean, mean)
    spread = (each @ each).mean(0) - hessian @ hessian
    eigenvalues, w = torch.linalg.eigvalsh(hessian), flat([parameter.detach() for parameter in parameters])
    return {
        "loss": value, "gradient_norm": float(mean.norm()), "hessian_trace": float(hessian.trace()),
        "ggn_trace": float(ggn.trace()), "sharpness": float(eigenvalues.max()), "hessian_norm": float(hessian.norm()),
        "adaptive_sharpness": float(torch.linalg.eigvalsh(w[:, None] * hessian * w).max()),
        "ggn_norm": float(ggn.norm()), "noise_trace": float(noise.trace()),
        "noise_along_curvature": float((noise @ ggn).trace()),
        "non_uniformity": math.sqrt(max(float(torch.linalg.eigvalsh(spread).max()), 0.0)),
        "norms": g.norm(dim=1), "ggn_diagonal": ggn.diagonal(), "scale": float(eigenvalues.abs().max()),
    }  # fmt: skip


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.filterwarnings("ignore")
def test_every_measure_of_every_network_is_that_of_dense_matrices(name, monkeypatch):
    case = made(name)
    names = chosen(getattr(case.model, "_orig_mod", case.model))
    problem = Problem(case.model, case.loss, (case.inputs, case.targets), parameters=names)
    rows = measure(problem, list(MEASURES), relative_error=0.05, budget=30)
    norms, ggn_diagonal = per_sample_gradient_norms(problem), diagonal(problem, "ggn")
    monkeypatch.setattr(torch, "_weight_norm", unfused)
    monkeypatch.setattr(sys.modules["torch.nn.utils.weight_norm"], "_weight_norm", unfused)
    right, tolerance = exactly(case, names), 1e-5 if case.rough else 1e-8
    torch.testing.assert_close(norms, right["norms"], rtol=tolerance, atol=1e-10)
    torch.testing.assert_close(
        problem.flat(ggn_diagonal.diagonal),
        right["ggn_diagonal"],
        rtol=10 * tolerance,
        atol=1e-8 if case.rough else 1e-10,
    )
    for row in rows:
        assert row.estimate is not None, row.problem
        allowed = (
            6 * row.estimate.standard_error
            + row.estimate.bound
            + 10 * tolerance * (abs(right[row.name]) + right["scale"])
        )
        if row.name == "non_uniformity":
            allowed += 1e-6 + 100 * tolerance
        assert abs(row.estimate.value - right[row.name]) <= allowed, (str(row), right[row.name])
    assert problem.verified.cost < 9
