"""Section 4.2 and footnote 2: what the measure and the regularised step cost, in arithmetic, and how exact they are."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from common.experiments import Field, RunContext
from common.hessian import Hessian, Problem, trace
from common.models.residual_cifar import ResidualCifar
from common.optim.trace_penalty import TracePenalty, trainable
from common.training.images import ImageBatches
from common.training.residual import cross_entropy

from .shared.convolutional import ConvolutionalParameters, images_of, initialised

Data = tuple[torch.Tensor, torch.Tensor]


class Parameters(ConvolutionalParameters):
    """Settings: the network at its initial weights, and the batch."""

    model: Literal["resnet20", "wrn"] = Field("wrn", description="network", source="our choice, deviation D11")
    probes: int = Field(32, ge=4, description="draws of each estimate of the trace", source="our choice")
    penalty_images: int = Field(
        16, ge=1, unit="images", description="sub-batch of the penalty", source="section 6: open"
    )


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Count floating-point operations of a plain step and of each way to the trace, and the spread of its draws.

    Counted are matrix products and convolutions, forward and backward; elementwise work is not. Seconds, which differ
    from call to call, are in `python -m benchmarks.trace_penalty`.
    """
    for run in runs:
        train, _ = images_of(run, context, "cost")
        batches = ImageBatches(train.inputs, train.targets, augment=False)
        inputs, targets = batches.normalise(train.inputs[: run.batch_size]), train.targets[: run.batch_size]
        data, model = (inputs, targets), _model(run, context)
        plain = _operations(partial(_plain_step, model, data))
        source = context.generator(run, "probes")
        for name, penalty in _penalties(run).items():
            work = _operations(partial(_regularised_step, model, data, penalty, source))
            draws = [float(penalty(model, *data, source)[1].detach()) for _ in range(run.probes)]
            sample = torch.tensor(draws, dtype=torch.float64)
            spread = float(sample.std() / sample.mean())
            context.record(
                run,
                what=name,
                work=work / plain,
                trace=float(sample.mean()),
                spread=spread,
                error=spread / math.sqrt(run.probes),
            )
        _measure(run, context, model.eval(), data, plain)


def _penalties(run: Parameters) -> dict[str, TracePenalty]:
    return {
        "ggn": TracePenalty(),
        "ggn_sub_batch": TracePenalty(examples=run.penalty_images),
        "ggn_weights": TracePenalty(probe="weights"),
        "hessian_weights": TracePenalty(of="hessian", probe="weights"),
    }


def _model(run: Parameters, context: RunContext) -> nn.Module:
    classes = context.data(run.dataset).classes
    if run.model == "wrn":
        return initialised(run, context, classes)
    model = ResidualCifar(20, width=run.width, classes=classes)
    model.initialise(context.generator(run, "init"))
    return model.to(context.device)


def _plain_step(model: nn.Module, data: Data) -> None:
    _differentiate(model, cross_entropy(model, *data))


def _regularised_step(model: nn.Module, data: Data, penalty: TracePenalty, source: torch.Generator) -> None:
    loss, value = penalty(model, *data, source)
    _differentiate(model, loss + 1e-4 * value)


def _differentiate(model: nn.Module, objective: torch.Tensor) -> None:
    torch.autograd.grad(objective, list(trainable(model).values()), materialize_grads=True)


def _operations(work: Callable[[], Any]) -> float:
    with FlopCounterMode(display=False) as counter:
        work()
    return float(counter.get_total_flops())


def _measure(run: Parameters, context: RunContext, model: nn.Module, data: Data, plain: float) -> None:
    """Equation 7 from one mini-batch and one product with the Hessian, as the document proposes."""
    problem = Problem(model, nn.CrossEntropyLoss(), data)
    exact = trace(problem, relative_error=0.02).value
    signs = torch.randint(0, 2, (problem.size,), generator=context.generator(run, "measure")).to(problem.vector())
    work = _operations(lambda: Hessian(problem) @ (2 * signs - 1))
    source = context.generator(run, "draws")
    hessian = Hessian(problem)
    probes = (torch.randint(0, 2, (problem.size,), generator=source).to(signs) * 2 - 1 for _ in range(run.probes))
    drawn = torch.tensor([hessian.quadratic_form(probe) for probe in probes], dtype=torch.float64)
    spread = float(drawn.std()) / exact
    error = spread / math.sqrt(run.probes)
    context.record(run, what="measure", work=work / plain, trace=exact, spread=spread, error=error)
