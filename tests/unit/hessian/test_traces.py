import copy
import math

import pytest
import torch
from torch import nn

from common.hessian import (
    GGN,
    FunctionalHessian,
    Hessian,
    Problem,
    control_variate_trace,
    deflated_trace,
    dense,
    diagonal,
    estimate_ggn_diagonal,
    ggn_diagonal,
    hutchinson_trace,
    trace,
    traces_by_parameter,
)
from common.hessian.estimates import Accuracy, Estimate
from common.hessian.layers import ConvolutionRule
from common.hessian.traces import _shares, exact_ggn_traces
from tests.unit.hessian.networks import data_of, family, matrices_of, problem_of


def test_ggn_trace_and_diagonal_are_exact_whatever_the_layers(case):
    problem, matrices = case
    exact = matrices.ggn.diagonal()
    estimate = trace(problem, "ggn")
    assert estimate.value == pytest.approx(float(exact.sum()), rel=1e-9)
    assert (estimate.standard_error, estimate.converged) == (0.0, True)
    blocks = {name: float(part.sum()) for name, part in zip(problem.names, exact.split(problem.sizes), strict=True)}
    found = {name: estimate.value for name, estimate in traces_by_parameter(problem, "ggn").items()}
    assert found == pytest.approx(blocks, rel=1e-9, abs=1e-12)
    found = problem.flat(diagonal(problem, "ggn").diagonal)
    torch.testing.assert_close(found, exact, rtol=1e-9, atol=1e-12)


def test_hessian_diagonal_is_exact_whatever_the_layers(case):
    problem, matrices = case
    found = diagonal(problem)
    torch.testing.assert_close(problem.flat(found.diagonal), matrices.hessian.diagonal(), rtol=1e-8, atol=1e-10)
    assert found.trace.value == pytest.approx(float(matrices.hessian.trace()), rel=1e-8, abs=1e-9)


def test_networks_called_piecewise_linear_have_equal_diagonals_and_smooth_ones_have_not(case):
    problem, matrices = case
    same = torch.allclose(matrices.hessian.diagonal(), matrices.ggn.diagonal(), rtol=1e-9, atol=1e-12)
    assert problem.structure.piecewise_linear == same


def test_hessian_trace_lies_within_its_error_bar_whatever_the_layers(case):
    problem, matrices = case
    estimate = trace(problem, relative_error=0.1, budget=60, seed=5)
    off = estimate.value - float(matrices.hessian.trace())
    assert abs(off) <= 4.5 * estimate.standard_error + 1e-9 * abs(estimate.value)
    assert estimate.method
    assert estimate.reason


@pytest.mark.parametrize(
    ("name", "of", "method"),
    [
        ("tanh", "hessian", "sample signs"), ("relu", "hessian", "output signs"),
        ("convolutional", "hessian", "sample signs"), ("smooth convolutional", "hessian", "sample signs"),
        ("tokens", "hessian", "sample signs"), ("frozen", "hessian", "sample signs"),
        ("attention", "hessian", "sample signs"), ("tied", "ggn", "output signs"), ("twice", "hessian", "hutchinson"),
        ("tied", "hessian", "sample signs"), ("twice", "hessian", "sample signs"),
        ("attention", "ggn", "hutchinson"),
    ],
)  # fmt: skip
def test_each_method_is_unbiased_with_a_calibrated_standard_error(name, of, method):
    problem, exact = problem_of(name), float(getattr(matrices_of(name), of).trace())
    scores = []
    for seed in range(24):
        estimate = trace(
            problem, of, method=method, relative_error=1e-6, budget=24 if "signs" in method else 40, seed=seed
        )
        scores.append((estimate.value - exact) / estimate.standard_error)
        assert not estimate.converged
    scores = torch.tensor(scores)
    assert scores.abs().max() < 4.5
    assert abs(scores.mean()) < 4.5 / 24**0.5
    assert 0.25 < scores.square().mean() < 2.6


def test_more_draws_are_made_until_the_wanted_error_is_reached_or_the_budget_is_spent(tanh):
    problem, _ = tanh
    reached = trace(problem, relative_error=0.05, budget=10_000)
    assert reached.converged
    assert reached.standard_error <= 0.05 * abs(reached.value)
    spent = trace(problem, relative_error=0.001, budget=30)
    assert not spent.converged
    assert spent.cost <= 31
    assert "budget" in spent.reason


def test_of_few_parameters_the_trace_is_exact_where_draws_would_cost_more(tanh):
    problem, matrices = tanh
    exact, products = float(matrices.hessian.trace()), 2 * problem.size + 1
    found = trace(problem, relative_error=1e-4, budget=products + 1)
    assert found.value == pytest.approx(exact, rel=1e-9)
    assert (found.standard_error, found.converged, "P products" in found.method) == (0.0, True, True)
    assert found.cost <= 2 * products + 8
    assert "P products" not in trace(problem, relative_error=1e-4, budget=products - 1).method
    assert "P products" not in trace(problem, relative_error=0.3, budget=products + 1).method
    assert "P products" not in trace(problem, relative_error=1e-4, budget=products + 1, method="hutchinson").method


def test_negative_trace_is_measured_as_one():
    torch.manual_seed(0)
    problem = Problem(nn.Linear(3, 1), lambda o, t: -((o - t) ** 2).mean(), (torch.randn(9, 3), torch.randn(9, 1)))
    exact = trace(problem)
    assert exact.value < -2
    sampled = hutchinson_trace(Hessian(problem), relative_error=0.02, budget=4000)
    assert abs(sampled.value - exact.value) < 4 * sampled.standard_error
    assert sampled.converged


def test_method_that_does_not_hold_for_a_network_is_refused_with_the_reason(tanh):
    for method, reason in (("exact", "Tanh"), ("output signs", "Tanh")):
        with pytest.raises(ValueError, match=reason):
            trace(tanh[0], method=method)
    model, inputs = family("no rule")
    targets = torch.zeros(len(inputs), dtype=torch.int64)
    by_hand = Problem(model, nn.CrossEntropyLoss(), (inputs, targets), parameters=["scale", "convolution.weight"])
    with pytest.raises(ValueError, match="known rule"):
        trace(by_hand, method="sample signs")


def test_exact_trace_is_the_same_with_all_columns_together(case):
    problem, matrices = case
    for loss in (nn.CrossEntropyLoss(), nn.CrossEntropyLoss(reduction="sum"), lambda o, t: o.sin().sum(1).mean()):
        asked = Problem(problem.model, loss, data_of(problem), chunk=5)
        together, _ = exact_ggn_traces(asked, together=True)
        one_by_one, _ = exact_ggn_traces(asked)
        assert together == pytest.approx(one_by_one, rel=1e-10, abs=1e-12)
    assert trace(problem, "ggn", method="exact").value == pytest.approx(float(matrices.ggn.trace()), rel=1e-9)


def test_convolutions_of_few_and_of_many_positions_have_the_norms_of_their_gradients():
    source = torch.Generator().manual_seed(0)
    for channels, side in ((1, 9), (16, 3)):
        layer = nn.Conv2d(channels, 4, 3, stride=2, padding=1).double()
        a = torch.randn(5, channels, side, side, generator=source, dtype=torch.float64)
        d = torch.randn(5, 3, *layer(a).shape[1:], generator=source, dtype=torch.float64)
        sign = torch.randn(5, 3, generator=source, dtype=torch.float64).sign()
        found = ConvolutionRule.summed_norms(layer, a, d.unbind(1), sign)
        for name in ("weight", "bias"):
            squares = [
                ConvolutionRule.gradients(layer, a, some)[name].flatten(1).square().sum(1) for some in d.unbind(1)
            ]
            torch.testing.assert_close(found[name], (torch.stack(squares, 1) * sign).sum())


def test_sum_of_two_parts_that_nearly_cancel_is_drawn_on_while_budget_is_left():
    problem = problem_of("attention")
    exact = float(matrices_of("attention").hessian.trace())
    for seed in range(3):
        estimate = trace(problem, relative_error=0.03, budget=20_000, seed=seed, method="sample signs")
        assert estimate.method == "sample signs + Hutchinson"
        assert estimate.converged
        assert estimate.standard_error <= 1.5 * 0.03 * abs(estimate.value)
        assert abs(estimate.value - exact) < 4.5 * estimate.standard_error


def test_shares_of_two_parts_reach_the_wanted_error_within_the_budget():
    cheap = Estimate(5.0, 0.5, samples=100, passes=100, cost=10.0)
    dear = Estimate(-4.0, 2.0, samples=10, passes=10, cost=20.0)
    first, second = _shares(cheap, dear, Accuracy(0.1, 100_000.0))
    assert math.hypot(first.absolute_error, second.absolute_error) < 0.1
    costs = [
        part.cost * (part.standard_error / of.absolute_error) ** 2 for part, of in ((cheap, first), (dear, second))
    ]
    alike = [part.cost * 2 * (part.standard_error / 0.098) ** 2 for part in (cheap, dear)]
    assert sum(costs) < sum(alike)
    assert first.budget + second.budget < 100_000
    tight = _shares(cheap, dear, Accuracy(0.1, 50.0))
    assert tight[0].budget + tight[1].budget == pytest.approx(50)


@pytest.mark.parametrize(
    ("name", "of", "method"),
    [
        ("tanh", "hessian", "monte carlo"), ("tanh", "ggn", "monte carlo"), ("convolutional", "ggn", "monte carlo"),
        ("tokens", "ggn", "monte carlo"), ("tanh", "hessian", "control variate"),
        ("tied", "hessian", "control variate"),
    ],
)  # fmt: skip
def test_monte_carlo_diagonals_lie_within_their_errors(name, of, method):
    problem, exact = problem_of(name), getattr(matrices_of(name), of).diagonal()
    found = diagonal(problem, of, method=method, draws=100)
    errors = problem.flat(found.standard_errors)
    z = (problem.flat(found.diagonal) - exact) / errors.clamp(min=1e-12)
    z = z[errors > 1e-12]
    assert z.abs().max() < 5.5
    assert z.square().mean() < 2.5
    assert abs(found.trace.value - float(exact.sum())) < 4.5 * found.trace.standard_error


class Scaled(nn.Module):
    """Outputs times a number."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.factor * x


def unknown_loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return (outputs - targets).square().sum(1).add(1).log().mean()


def test_ggn_of_an_unknown_loss_with_more_outputs_than_its_curvature_is_formed_for(monkeypatch):
    """Exactly from products with Λ, which is indefinite here, and by output signs, which is then what is taken."""
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 6)).double()
    problem = Problem(model, unknown_loss, (torch.randn(9, 3).double(), 2 * torch.randn(9, 6).double()), chunk=4)
    exact = dense(GGN(problem)).diagonal()
    sampled = diagonal(problem, "ggn", method="monte carlo", draws=400)
    z = (problem.flat(sampled.diagonal) - exact) / problem.flat(sampled.standard_errors)
    assert z.abs().max() < 4.5
    monkeypatch.setattr("common.hessian.losses.LARGEST_DENSE", 5)
    assert trace(problem, "ggn", method="exact").value == pytest.approx(float(exact.sum()), rel=1e-9)
    torch.testing.assert_close(problem.flat(diagonal(problem, "ggn").diagonal), exact, rtol=1e-9, atol=1e-12)
    scores = []
    for seed in range(24):
        found = trace(problem, "ggn", relative_error=0.1, budget=2000, seed=seed)
        scores.append((found.value - float(exact.sum())) / found.standard_error)
        assert (found.method, found.converged) == ("output signs", True)
    assert torch.tensor(scores).abs().max() < 4
    assert 0.25 < torch.tensor(scores).square().mean() < 2.6


def scores_of(estimate, exact: float, seeds: int = 24) -> torch.Tensor:
    found = [estimate(seed) for seed in range(seeds)]
    return torch.tensor([(one.value - exact) / one.standard_error for one in found], dtype=torch.float64)


@pytest.mark.parametrize(
    ("name", "many_outputs", "deflate"),
    [
        ("tokens", False, 0),
        ("tied", False, 0),
        ("tied", True, 0),
        ("smooth convolutional", True, 0),
        ("tied", False, 6),
    ],
)
def test_control_variate_is_unbiased_with_a_calibrated_error(name, many_outputs, deflate, monkeypatch):
    if many_outputs:
        monkeypatch.setattr("common.hessian.traces.EXACT_UP_TO", 0.0)
    problem, exact = problem_of(name), float(matrices_of(name).hessian.trace())
    found = control_variate_trace(problem, relative_error=0.6, budget=600, deflate=deflate)
    assert ("output signs" in found.method, found.converged) == (many_outputs, True), found
    options = {"relative_error": 1e-6, "budget": 60, "deflate": deflate}
    scores = scores_of(lambda seed: control_variate_trace(problem, seed=seed, **options), exact)
    assert scores.abs().max() < 4.5
    assert abs(scores.mean()) < 4.5 / 24**0.5
    assert 0.25 < scores.square().mean() < 2.6


def test_control_variate_draws_less_where_the_examples_are_fitted(tanh):
    """It draws nothing where the network is piecewise linear; with one hidden layer the draws are all alike."""
    inputs, _targets = data_of(tanh[0])
    sure = nn.Sequential(copy.deepcopy(tanh[0].model), Scaled(20.0))
    fit = Problem(sure, nn.CrossEntropyLoss(), (inputs, sure(inputs).argmax(1)))
    exact = float(dense(Hessian(fit)).trace())
    assert control_variate_trace(fit, relative_error=1e-6, budget=40).value == pytest.approx(exact, rel=1e-9)
    deep = problem_of("tokens")
    plain = hutchinson_trace(Hessian(deep), relative_error=1e-6, budget=100)
    beside = hutchinson_trace(FunctionalHessian(deep), relative_error=1e-6, budget=100)
    assert beside.standard_error < plain.standard_error
    assert control_variate_trace(problem_of("relu")).standard_error == 0


def test_deflation_leaves_only_what_is_outside_of_its_space_to_chance(tanh):
    problem, matrices = tanh
    operator, exact = Hessian(problem), float(matrices.hessian.trace())
    assert deflated_trace(operator, problem.size, budget=400).value == pytest.approx(exact, rel=1e-9)
    scores = scores_of(lambda seed: deflated_trace(operator, 8, relative_error=1e-9, budget=100, seed=seed), exact)
    assert scores.abs().max() < 4.5
    assert 0.25 < scores.square().mean() < 2.6
    found = deflated_trace(operator, 12, relative_error=1e-9, budget=200)
    plain = hutchinson_trace(operator, relative_error=1e-9, budget=200)
    assert found.standard_error < plain.standard_error
    assert found.cost == pytest.approx(plain.cost, abs=2)
    with pytest.raises(ValueError, match="-1 dimensions"):
        deflated_trace(operator, -1)


def test_diagonals_for_a_model_and_inputs_alone_are_those_of_the_cross_entropy():
    """From probes, too: unbiased, and with the standard error of the trace that they report."""
    problem, exact = problem_of("relu"), matrices_of("relu").ggn.diagonal()
    inputs, source = data_of(problem)[0], torch.Generator().manual_seed(1)
    found = problem.flat(ggn_diagonal(problem.model, inputs, chunk=3))
    torch.testing.assert_close(found, exact, rtol=1e-9, atol=1e-12)
    scores, draws = [], []
    for _ in range(200):
        found = estimate_ggn_diagonal(problem.model, inputs, probes=8, generator=source, chunk=3)
        scores.append((found.trace.value - float(exact.sum())) / found.trace.standard_error)
        draws.append(problem.flat(found.diagonal))
        assert float(draws[-1].sum()) == pytest.approx(found.trace.value, rel=1e-12)
    assert found.trace.samples == 8 * len(inputs)
    scores, draws = torch.tensor(scores), torch.stack(draws)
    assert abs(float(scores.mean())) < 4 / 200**0.5
    assert 0.85 < float(scores.std()) < 1.25
    assert bool(((draws.mean(0) - exact).abs() <= 5 * draws.std(0) / 200**0.5 + 1e-12).all())


def test_one_probe_has_no_standard_error_and_is_refused():
    with pytest.raises(ValueError, match="1 probes"):
        estimate_ggn_diagonal(nn.Linear(2, 3), torch.ones(4, 2), probes=1, generator=torch.Generator())


def test_exact_traces_of_many_outputs_do_not_depend_on_their_order_in_memory():
    """Scores of tokens, [n, classes, positions], are often a transposed tensor; 520 are more than Λ is formed for."""

    class Scores(nn.Module):
        def __init__(self, contiguous: bool) -> None:
            super().__init__()
            self.layer, self.contiguous = layer, contiguous

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scores = self.layer(x).view(len(x), 13, 40).transpose(1, 2)
            return scores.contiguous() if self.contiguous else scores

    torch.manual_seed(0)
    layer = nn.Linear(2, 520).double()
    data = torch.randn(3, 2, dtype=torch.float64), torch.randint(0, 40, (3, 13))
    found, expected = (Problem(Scores(of), nn.CrossEntropyLoss(), data) for of in (False, True))
    value = trace(expected, "ggn", method="exact").value
    assert value == pytest.approx(float(dense(GGN(expected)).trace()), rel=1e-9)
    assert trace(found, "ggn", method="exact").value == pytest.approx(value, rel=1e-9)
    torch.testing.assert_close(
        found.flat(diagonal(found, "ggn").diagonal), expected.flat(diagonal(expected, "ggn").diagonal)
    )
