"""The trace penalty against the exact trace and its gradient, through batch normalisation."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from common.hessian import Problem, trace
from common.optim import trace_penalty
from common.optim.trace_penalty import TracePenalty

EXAMPLES, CLASSES = 2, 3
ESTIMATORS = pytest.mark.parametrize(("of", "probe"), [("ggn", "outputs"), ("ggn", "weights"), ("hessian", "weights")])


def network() -> nn.Sequential:
    torch.manual_seed(0)
    layers = (nn.Conv2d(1, 2, 3, bias=False), nn.BatchNorm2d(2), nn.Tanh(), nn.Flatten(), nn.Linear(8, CLASSES))
    return nn.Sequential(*layers).double()


def data(count: int = EXAMPLES) -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.Generator().manual_seed(1)
    return torch.randn(count, 1, 4, 4, generator=source).double(), torch.arange(count) % CLASSES


def exact_trace(model: nn.Module, inputs: torch.Tensor) -> float:
    """Tr JᵀΛJ/N by one backward pass for each output, batch statistics included."""
    logits = model(inputs)
    parameters = list(model.parameters())
    rows = [
        torch.cat([g.flatten() for g in torch.autograd.grad(logit, parameters, retain_graph=True)])
        for logit in logits.flatten()
    ]
    jacobian = torch.stack(rows).view(len(inputs), CLASSES, -1)
    shares = logits.detach().softmax(1)
    middle = torch.diag_embed(shares) - shares[:, :, None] * shares[:, None, :]
    return float(torch.einsum("ncp,ncd,ndp->", jacobian, middle, jacobian)) / len(inputs)


def slopes_by_differences(model: nn.Module, value: Callable[[], float], step: float = 1e-5) -> torch.Tensor:
    found = []
    for parameter in model.parameters():
        flat = parameter.data.view(-1)
        for place in range(len(flat)):
            before = flat[place].item()
            flat[place] = before + step
            above = value()
            flat[place] = before - step
            found.append((above - value()) / (2 * step))
            flat[place] = before
    return torch.tensor(found, dtype=torch.float64)


def slopes(model: nn.Module, value: torch.Tensor) -> torch.Tensor:
    parts = torch.autograd.grad(value, list(model.parameters()), materialize_grads=True)
    return torch.cat([part.flatten() for part in parts])


@pytest.fixture
def every_sign(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Each call of the penalty gets the next of all sign patterns of the outputs."""
    patterns = list(itertools.product((-1.0, 1.0), repeat=EXAMPLES * CLASSES))
    left = iter(patterns)
    monkeypatch.setattr(trace_penalty, "_signs", lambda shape, _, like: torch.tensor(next(left)).to(like).view(shape))
    yield len(patterns)
    assert next(left, None) is None


def test_the_mean_over_all_output_signs_is_the_exact_trace_and_its_gradient_through_batch_statistics(
    every_sign: int,
) -> None:
    model, (inputs, targets) = network(), data()
    values = [TracePenalty()(model, inputs, targets, torch.Generator())[1] for _ in range(every_sign)]
    mean = torch.stack(values).mean()
    assert float(mean.detach()) == pytest.approx(exact_trace(model, inputs), rel=1e-12)
    expected = slopes_by_differences(model, lambda: exact_trace(model, inputs))
    assert torch.allclose(slopes(model, mean), expected, rtol=1e-6, atol=1e-7)


@ESTIMATORS
def test_a_draw_is_differentiated_right_through_batch_normalisation(of: Any, probe: Any) -> None:
    model, (inputs, targets) = network(), data(4)
    penalty = TracePenalty(of, probe)

    def draw() -> torch.Tensor:
        return penalty(model, inputs, targets, torch.Generator().manual_seed(3))[1]

    expected = slopes_by_differences(model, lambda: float(draw().detach()))
    assert float(expected.abs().max()) > 0.1
    assert torch.allclose(slopes(model, draw()), expected, rtol=1e-5, atol=1e-6)


@ESTIMATORS
def test_every_estimator_is_unbiased_in_evaluation_mode(of: Any, probe: Any) -> None:
    model, (inputs, targets) = network().eval(), data(8)
    exact = trace(Problem(model, nn.CrossEntropyLoss(), (inputs, targets)), of, method="auto", relative_error=1e-3)
    source, penalty = torch.Generator().manual_seed(5), TracePenalty(of, probe)
    draws = torch.tensor([float(penalty(model, inputs, targets, source)[1].detach()) for _ in range(400)])
    error = float((draws.var() / len(draws) + exact.error**2).sqrt())
    assert abs(float(draws.mean()) - exact.value) < 4.5 * error


def test_more_draws_and_larger_sub_batches_have_less_variance() -> None:
    model, (inputs, targets) = network().eval(), data(32)
    source = torch.Generator().manual_seed(6)

    def spread(penalty: TracePenalty) -> float:
        draws = [float(penalty(model, inputs, targets, source)[1].detach()) for _ in range(300)]
        return float(torch.tensor(draws).var())

    one, four, part = (spread(penalty) for penalty in (TracePenalty(), TracePenalty(draws=4), TracePenalty(examples=4)))
    assert 0.15 < four / one < 0.4
    assert part > one


@pytest.mark.parametrize("penalty", [TracePenalty(examples=3), TracePenalty(probe="weights"), TracePenalty()])
def test_the_loss_is_that_of_the_whole_batch_and_running_statistics_see_it_once(penalty: TracePenalty) -> None:
    plain, penalised, (inputs, targets) = network(), network(), data(6)
    expected = functional.cross_entropy(plain(inputs), targets)
    assert torch.equal(penalty(penalised, inputs, targets, torch.Generator())[0], expected)
    for name, buffer in plain.named_buffers():
        assert torch.equal(buffer, dict(penalised.named_buffers())[name]), name
    assert "forward" not in vars(penalised[1])
    assert penalised[1].track_running_stats


def test_what_cannot_be_estimated_is_refused() -> None:
    with pytest.raises(ValueError, match="probes of the weights"):
        TracePenalty("hessian", "outputs")
    with pytest.raises(ValueError, match="1 or more"):
        TracePenalty(draws=0)
