"""The same work by other packages; each is optional (the extra `bench`)."""

import copy
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from benchmarks.workloads import Workload

Work = dict[str, Callable[[], Any]]


def batches(work: Workload) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The data in the chunks that every tool takes."""
    return list(zip(work.inputs.split(work.chunk), work.targets.split(work.chunk), strict=True))


def curvlinops(work: Workload, vector: torch.Tensor) -> Work:
    """Products and Hutchinson's trace of curvlinops."""
    try:
        import curvlinops as package
    except ImportError:
        return {}
    options = {"check_deterministic": False}
    arguments = (work.model, nn.CrossEntropyLoss(), list(work.model.parameters()), batches(work))
    hessian = package.HessianLinearOperator(*arguments, **options)
    ggn = package.GGNLinearOperator(*arguments, **options)
    return {
        "curvlinops product": lambda: hessian @ vector,
        "curvlinops GGN": lambda: ggn @ vector,
        "curvlinops 32 probes": lambda: package.hutchinson_trace(hessian, 32),
    }


def pyhessian(work: Workload, vector: torch.Tensor) -> Work:
    """Products of PyHessian: graph of one batch of all data kept, or a loader differentiated anew."""
    try:
        import pyhessian as package
    except ImportError:
        return {}
    products = sys.modules["pyhessian.hessian"].hessian_vector_product
    loss = nn.CrossEntropyLoss()
    single = package.hessian(copy.deepcopy(work.model), loss, data=(work.inputs, work.targets), cuda=False)
    loader = package.hessian(copy.deepcopy(work.model), loss, dataloader=batches(work), cuda=False)
    parts = [part.view_as(p) for part, p in zip(vector.split([p.numel() for p in single.params]), single.params)]  # noqa: B905
    return {
        "PyHessian product": lambda: products(single.gradsH, single.params, parts),
        "PyHessian loader product": lambda: loader.dataloader_hv_product(parts),
        "PyHessian top 5": lambda: single.eigenvalues(maxIter=100, tol=1e-3, top_n=5),
    }


def backpack(work: Workload) -> Work:
    """Gradient norms of examples and GGN diagonals of BackPACK (plain sequential networks)."""
    try:
        from backpack import backpack as within
        from backpack import extend
        from backpack.extensions import BatchL2Grad, DiagGGNExact, DiagGGNMC
    except ImportError:
        return {}
    if work.name not in ("mlp", "cnn"):
        return {}
    model, loss = extend(copy.deepcopy(work.model)), extend(nn.CrossEntropyLoss())

    def run(extension: Any) -> Callable[[], None]:
        def once() -> None:
            for inputs, targets in batches(work):
                with within(extension()):
                    loss(model(inputs), targets).backward()
                for parameter in model.parameters():
                    parameter.grad = None

        return once

    return {
        "BackPACK norms": run(BatchL2Grad),
        "BackPACK exact diagonal": run(DiagGGNExact),
        "BackPACK sampled diagonal": run(DiagGGNMC),
    }


def double_backward(work: Workload, vector: torch.Tensor) -> Callable[[], None]:
    """A Hessian product as it is commonly written: the gradient of each batch recorded anew, and differentiated."""
    parameters = list(work.model.parameters())
    direction = vector.split([parameter.numel() for parameter in parameters])
    shaped = [part.view_as(parameter) for part, parameter in zip(direction, parameters, strict=True)]

    def once() -> None:
        for inputs, targets in batches(work):
            value = functional.cross_entropy(work.model(inputs), targets)
            slopes = torch.autograd.grad(value, parameters, create_graph=True)
            torch.autograd.grad(slopes, parameters, shaped, materialize_grads=True)

    return once


def gradient(work: Workload) -> Callable[[], None]:
    """One gradient over all data: the unit of cost."""
    parameters = list(work.model.parameters())

    def once() -> None:
        for inputs, targets in batches(work):
            torch.autograd.grad(functional.cross_entropy(work.model(inputs), targets), parameters)

    return once
