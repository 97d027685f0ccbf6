"""Structure of noise, weighted norms, rescaling and memorising networks, on small cases with known answers."""

import math
from functools import partial

import pandas as pd
import pytest
import torch

from common.hessian import GGN, Problem, dense
from replications.sgd_stability import alignment_propositions, noise_structure, rescaling, weighted_norm
from replications.sgd_stability.analysis import alignment_propositions as alignment_propositions_analysis
from replications.sgd_stability.analysis.noise_structure import metrics as noise_structure_metrics
from replications.sgd_stability.analysis.rescaling import _log_fall
from replications.sgd_stability.analysis.rescaling import metrics as rescaling_metrics
from replications.sgd_stability.analysis.weighted_norm import metrics as weighted_norm_metrics
from replications.sgd_stability.shared.memorising_networks import (
    corrected_memorising,
    generalising,
    hessian_trace,
    least_trace,
    parity_problem,
    printed_memorising,
    violating_pairs,
)
from replications.sgd_stability.shared.noise_thresholds import (
    critical_scale,
    geometry_aware_load,
    isotropic_load,
    mean_losses,
    simulated_losses,
)
from replications.sgd_stability.shared.two_layer_relu import Network, sphere


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


class Context:
    """Records in memory."""

    name = "test"

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []

    def generator(self, run: object, stream: str) -> torch.Generator:
        return generator(run.seed + len(stream))  # type: ignore[attr-defined]

    def stream_seed(self, run: object, stream: str) -> int:
        return int(run.seed + len(stream))  # type: ignore[attr-defined]

    def record(self, run: object, **values: object) -> None:
        self.rows.append({"run": f"seed={run.seed}", **run.model_dump(), **values})  # type: ignore[attr-defined]

    def progress(self, done: float, total: float) -> None:
        pass


def test_thresholds_are_where_the_largest_multiplier_of_the_second_moments_is_one() -> None:
    values = torch.tensor([2.0, 1.0, 0.3, 0.1], dtype=torch.float64)
    parameters, batch = 9, 2
    for name, load in (("geometry", geometry_aware_load), ("flat", partial(isotropic_load, parameters=parameters))):
        steps = float(critical_scale(values[None], load, batch)) * values
        noise = steps if name == "geometry" else steps.sum() / parameters * torch.ones(4, dtype=torch.float64)
        moments = torch.diag((1 - steps) ** 2) + noise[:, None] * steps / batch
        assert float(torch.linalg.eigvals(moments).abs().max()) == pytest.approx(1, abs=1e-9)


def test_the_recursion_is_the_mean_of_simulated_losses() -> None:
    steps, start = torch.tensor([0.5, 0.2, 0.1], dtype=torch.float64), normal(3)
    predicted = mean_losses(steps[None], steps[None], start[None], 1.0, 4)[0]
    found = simulated_losses(steps, steps, start, 1.0, 4, 40_000, generator(1))
    error = found.std(0) / 200
    assert (((found.mean(0) - predicted).abs()) <= 4 * error + 1e-12).all()
    assert float(predicted[0]) == pytest.approx(float((steps * start**2).sum() / 2))


def test_the_lectures_conditions_are_necessary_and_attained_where_every_step_is_one() -> None:
    run = noise_structure.Parameters(parameters=20, examples=8, batch_size=2, trajectories=200)
    context = Context()
    noise_structure.run([run], context)  # type: ignore[arg-type]
    table = noise_structure_metrics(pd.DataFrame(context.rows)).iloc[0]
    assert 0 < table["geometry_condition"] <= 1
    assert 0 < table["isotropic_condition"] <= 1
    flat = torch.ones(1, 5, dtype=torch.float64)
    assert float(critical_scale(flat, geometry_aware_load, 5)) == pytest.approx(1)  # η‖H‖_F = √5 = √B


def test_gradients_and_outputs_of_two_layer_networks_are_those_of_autograd() -> None:
    outer, inner, inputs = normal(4), normal(4, 3, seed=1), normal(6, 3, seed=2)

    def outputs(outer: torch.Tensor, inner: torch.Tensor) -> torch.Tensor:
        return (inputs @ inner.T).relu() @ outer

    variables = (outer.requires_grad_(), inner.requires_grad_())
    rows = [torch.autograd.grad(outputs(*variables)[i], variables) for i in range(6)]
    expected = torch.stack([torch.cat([part.flatten() for part in row]) for row in rows])
    outer, inner = outer.detach(), inner.detach()
    network = Network(outer, inner)
    torch.testing.assert_close(network.gradients(inputs), expected)
    torch.testing.assert_close(network.rescaled(3.0).outputs(inputs), outputs(outer, inner))
    torch.testing.assert_close(network.outputs(inputs), outputs(outer, inner))


def test_the_mean_trace_is_half_the_squared_weighted_norm() -> None:
    network = Network(normal(5), normal(5, 6, seed=1))
    norms = network.gradients(sphere((40_000, 6), generator(2))).square().sum(1)
    error = float(norms.std() / 200)
    assert float(norms.mean()) == pytest.approx(float(network.squared_norm(6)) / 2, abs=4 * error)


def test_a_neuron_without_curvature_is_found_at_n_equal_d_and_none_at_many_examples() -> None:
    inputs = sphere((6, 6), generator())
    assert weighted_norm.least_curved_neuron(inputs, 2, 10, generator(1))["ratio"] == 0
    many = weighted_norm.least_curved_neuron(sphere((600, 6), generator()), 2, 50, generator(1))
    assert 0.2 < many["ratio"] < 0.5


def test_path_norm_inequality_is_strict_as_drawn_and_an_equality_when_balanced() -> None:
    found = weighted_norm.path_slack(Network(normal(5), normal(5, 4, seed=1)), 4.0)
    assert found["slack"] > 1e-3
    assert abs(found["balanced_slack"]) < 1e-12


def test_weighted_norm_gives_one_row_with_every_measure() -> None:
    context = Context()
    weighted_norm.run([weighted_norm.Parameters(dimension=6, width=4, restarts=2, descents=10)], context)  # type: ignore[arg-type]
    row = weighted_norm_metrics(pd.DataFrame(context.rows)).iloc[0]
    assert 0 < row["trace_smallest"] < row["trace_largest"]
    assert row["worst_neuron_at_d"] == 0
    assert row["rooted_growth"] == pytest.approx(10)


def test_memorising_constructions_interpolate_and_attain_the_least_trace_as_stated() -> None:
    inputs, targets = parity_problem(100, 30, generator(3))
    assert len(torch.unique(inputs, dim=0)) == 100
    corrected = corrected_memorising(inputs, targets)
    torch.testing.assert_close(corrected.outputs(inputs), targets)
    assert least_trace(inputs, targets) == pytest.approx(4 * math.sqrt(31))
    assert hessian_trace(corrected, inputs) == pytest.approx(4 * math.sqrt(31))
    four = generalising(30, 31**0.25)
    torch.testing.assert_close(four.outputs(inputs), targets)
    assert hessian_trace(four, inputs) == pytest.approx(4 * math.sqrt(31))
    assert hessian_trace(generalising(30, 901**0.25), inputs) == pytest.approx(62.1, abs=0.05)


def test_the_printed_memorising_network_fails_exactly_where_pairs_violate_it() -> None:
    for dimension in (30, 100):
        inputs, targets = parity_problem(100, dimension, generator(5))
        network = printed_memorising(inputs, targets)
        fails = float((network.outputs(inputs) - targets).abs().max()) > 1e-9
        assert fails == (violating_pairs(inputs) > 0) == (dimension == 30)
    assert hessian_trace(network, inputs) == pytest.approx(58.08, abs=0.01)


def test_the_trace_is_that_of_the_ggn() -> None:
    inputs, targets = parity_problem(10, 5, generator())
    outer, inner = normal(4), normal(4, 6, seed=1)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 4, bias=False), torch.nn.ReLU(), torch.nn.Linear(4, 1, bias=False)
    ).double()
    model[0].weight.data, model[2].weight.data = inner.clone(), outer[None].clone()
    problem = Problem(model, torch.nn.MSELoss(), (inputs, targets[:, None]))
    expected = float(dense(GGN(problem)).trace())
    assert hessian_trace(Network(outer, inner), inputs) == pytest.approx(expected)


@pytest.mark.parametrize("model", ["product", "relu", "tanh"])
def test_rescaling_reaches_an_interpolating_minimum_and_recovers_its_curvature(model: str) -> None:
    run = rescaling.Parameters(model=model, factors=(0.1, 1.0, 10.0), draws=32, radii=(1e-4, 1e-3, 1e-2), seed=1)
    context = Context()
    rescaling.run([run], context)  # type: ignore[arg-type]
    row = rescaling_metrics(pd.DataFrame(context.rows)).iloc[0]
    assert row["regime_reached"]
    assert row["largest_recovered"] == pytest.approx(1, abs=0.01)
    if model == "product":
        assert row["toy_error"] < 1e-12
        assert row["log_growth"] == pytest.approx(math.log(100.01 / 2))
        assert row["trace_order"] == pytest.approx(2, abs=0.01)
        assert row["largest_order"] == pytest.approx(1, abs=0.02)
    if model == "relu":
        assert row["log_growth"] > 2
        assert row["function_change"] < 1e-10


def test_linear_networks_have_the_alignment_that_gaussian_moments_give() -> None:
    run = alignment_propositions.Parameters(dimension=3, examples=200_000, targets=4)
    found = alignment_propositions.linear_alignment(run, generator(), generator(1))
    assert found["formula_error"] < 0.03
    assert found["mu_formula_smallest"] >= 1


def test_no_direction_of_random_features_has_less_alignment_than_the_eigenvalue_says() -> None:
    run = alignment_propositions.Parameters(model="random_features", dimension=4, examples=2000, features=20)
    found = alignment_propositions.random_feature_alignment(run, generator(), generator(1))
    assert 0 < found["mu_smallest"] <= found["mu_typical"]


def test_random_features_count_where_there_are_as_many_examples_as_proposition_2_asks_for() -> None:
    rows = [
        {"run": f"{model},{d}", "model": model, "dimension": d, "seed": 0, "examples": examples, "mu_smallest": 0.2}
        for model, d, examples in (
            ("linear", 16, 40_000),
            ("random_features", 8, 8**5),
            ("random_features", 8, 8**5 - 1),
            ("random_features", 16, 400_000),
        )
    ]
    table = alignment_propositions_analysis.metrics(pd.DataFrame(rows))
    assert table["regime_reached"].tolist() == [True, True, False, False]
    assert table["mu_times_dimension"].iloc[1] == pytest.approx(1.6)


def test_the_least_trace_over_all_rescalings_is_that_of_the_balanced_pair() -> None:
    factors = (0.01, 1.0, 100.0)
    trace = pd.DataFrame([[3 * c**2 + 5 / c**2 for c in factors]], columns=factors)
    assert _log_fall(trace).iloc[0] == pytest.approx(math.log(2 * math.sqrt(15) / 8))
