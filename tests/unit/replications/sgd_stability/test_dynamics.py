"""The experiments behind Figs. 4, 11, 14 to 17 and 19."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from common.datasets import Dataset, Split
from replications.sgd_stability import (
    controls,
    edge_of_stability,
    escape,
    gd_against_sgd,
    gd_minimum,
    selection_diagram,
    toy_escape,
)
from replications.sgd_stability.analysis import edge_of_stability as edge_of_stability_analysis
from replications.sgd_stability.analysis.edge_of_stability import metrics as edge_metrics
from replications.sgd_stability.analysis.escape import metrics as escape_metrics
from replications.sgd_stability.analysis.selection_diagram import metrics as selection_metrics
from replications.sgd_stability.analysis.toy_escape import metrics as toy_metrics
from replications.sgd_stability.controls import _rescale
from replications.sgd_stability.shared import layered_hessians
from replications.sgd_stability.shared.layered_hessians import LayeredHessians
from tests.context import Artifact, Checkpoint, MemoryContext
from tests.unit.replications.sgd_stability.samples import generator, regression


def dark_images() -> Dataset:
    source = generator(3)

    def split(part: str, count: int) -> Split:
        images = torch.randint(0, 256, (count, 1, 28, 28), generator=source, dtype=torch.uint8)
        images *= torch.rand(images.shape, generator=source) < 0.1  # as dark as digits
        return Split(f"digits/{part}", images, torch.randint(0, 10, (count,), generator=source))

    return Dataset("digits", "random images", 10, "none", split("train", 60), split("test", 30))


def digits_context(*, needed: Sequence[Artifact] = (), begun: Checkpoint | None = None) -> MemoryContext:
    return MemoryContext(data=dark_images(), needed=needed, begun=begun)


def records(experiment: Any, context: MemoryContext | None = None, seeds: int = 2, **setting: Any) -> pd.DataFrame:
    context = context or digits_context()
    experiment.run([experiment.Parameters(seed=seed, **setting) for seed in range(seeds)], context)
    return pd.DataFrame(context.rows)


# Experiments


def test_sgd_leaves_the_toys_minimum_without_the_halves_only_and_gd_never():
    setting = {"trajectories": 50, "steps": 300, "draws": 400}
    free, halved, full = (
        toy_metrics(records(toy_escape, **setting, **how))
        for how in ({}, {"half": True}, {"method": "gd"})
    )  # fmt: skip
    assert (free["all_escape"] == 1).all()
    assert (halved["none_escapes"] == 1).all()
    assert (full["none_escapes"] == 1).all()
    assert free["second_ratio"].between(0.9, 1.1).all()
    assert free["worst_z"].max() < 6


def test_multipliers_of_the_toy_are_exact_for_the_full_batch():
    table = records(toy_escape, trajectories=2, steps=2, draws=30, examples=8, batch_sizes=(8,))
    table = table[table["kind"] == "multiplier"]
    np.testing.assert_allclose(table["second"], table["second_predicted"], atol=1e-12)
    np.testing.assert_allclose(table["first"], table["first_predicted"], atol=1e-12)


TINY = {"training_images": 10, "test_images": 20, "width": 12, "stopping_loss": 0.02}


def test_an_edge_run_records_the_sharpness_that_the_toolkit_finds_and_its_end():
    table = records(edge_of_stability, **TINY, learning_rate=0.3, longest_time=300, measure_every=15)
    end = table[table["kind"] == "end"].set_index("seed")
    assert (end["loss"] <= 0.02).all()
    last = table[table["kind"] == "along"].groupby("seed").last()
    np.testing.assert_allclose(last["sharpness"], end["sharpness"], rtol=0.03)
    found = edge_metrics(table)
    assert found["regime_reached"].all()
    assert set(edge_of_stability_analysis.figures(table.assign(panel="fashion_mnist", standing="in its regime"))) == {
        "fig14",
        "table1",
    }


def test_a_run_that_diverges_is_reported_and_has_no_solution():
    context = digits_context()
    table = records(
        edge_of_stability, context, seeds=1, **TINY, learning_rate=50.0, longest_time=3000, measure_every=500
    )
    assert len(context.divergences) == 1
    found = edge_metrics(table).iloc[0]
    assert np.isnan(found["final_ratio"])
    assert not found["regime_reached"]


def test_selection_measures_each_minimum_against_its_own_bounds():
    sgd = records(selection_diagram, **TINY, learning_rate=0.3, batch_size=4, longest_time=1000, check_every=10)
    found = selection_metrics(sgd)
    assert found["regime_reached"].all()
    bound = (4 * 9 / 6) ** 0.5 / 0.3
    np.testing.assert_allclose(found["non_uniformity_ratio"], found["non_uniformity"] / bound)
    np.testing.assert_allclose(found["sharpness_ratio"], found["sharpness"] * 0.15)
    full = records(selection_diagram, **TINY, learning_rate=0.3, batch_size=10, longest_time=1000)
    assert selection_metrics(full)["non_uniformity_ratio"].isna().all()
    np.testing.assert_allclose(full["criterion"], full["sharpness"] * 0.15, rtol=0.15)


def test_escape_starts_where_gradient_descent_ended_and_its_bound_holds_at_every_state():
    parity = {"training_images": 12, "test_images": 20, "width": 12}
    start = digits_context()
    records(gd_minimum, start, **parity, stopping_loss=1e-6)
    setting = {"trajectories": 30, "steps": 8, "longest": 200, **parity}
    for batch_size in (1, 4):
        table = records(escape, digits_context(needed=start.artifacts), batch_size=batch_size, **setting)
        assert (table[(table["kind"] == "losses") & (table["step"] == 0)]["mean"] <= 1.001e-6).all()
        found = escape_metrics(table)
        assert (found["theorem_ratio"] >= 1 - 1e-9).all()
        assert found["regime_reached"].all()
        first = table[table["kind"] == "averages"].groupby("seed").first()
        np.testing.assert_allclose(first["median_mu"], first["smallest_mu"])  # all start at one point


def test_the_gradient_penalty_is_that_of_automatic_differentiation():
    context = digits_context()
    runs = [gd_against_sgd.Parameters(dataset="mnist", network="fully_connected", width=6, training_images=20,
                                      batch_size=8, full_batch=True, penalty=0.7, difference=1e-6)]  # fmt: skip
    training = gd_against_sgd._Training(runs, context)
    training.networks.weights = training.networks.weights.double()
    training.networks.gradients = training.networks.gradients.double()
    training.inputs = training.inputs.double()
    chosen = torch.tensor([[3, 1, 7, 9, 12, 0, 2, 5]])
    found = training._penalised(chosen)[0]
    model = training.networks.module(0).double()
    parameters = list(model.parameters())
    loss = nn.functional.cross_entropy(model(training.inputs[0, chosen[0]]), training.targets[0, chosen[0]])
    slope = torch.autograd.grad(loss, parameters, create_graph=True)
    total = loss + 0.35 * sum(part.square().sum() for part in slope)
    expected = torch.cat([part.flatten() for part in torch.autograd.grad(total, parameters)])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-7)


def test_arms_of_the_table_take_the_steps_that_they_promise_and_clipping_shortens_the_first():
    small = {"dataset": "mnist", "network": "fully_connected", "width": 6, "training_images": 20, "batch_size": 5,
             "epochs": 2, "record_times": 1}  # fmt: skip
    steps = {
        "sgd": ({}, 8), "epochs": ({"full_batch": True}, 2),
        "ten": ({"full_batch": True, "step_budget": "ten_epochs"}, 20),
        "same": ({"full_batch": True, "step_budget": "sgd_steps"}, 8),
    }  # fmt: skip
    for arm, expected in steps.values():
        assert records(gd_against_sgd, **small, **arm)["step"].eq(expected).all()
    run = gd_against_sgd.Parameters(**small, full_batch=True, clip=1e-3, learning_rate=1.0)
    training = gd_against_sgd._Training([run], digits_context())
    before = training.networks.weights.clone()
    training.advance()
    assert float((training.networks.weights - before).norm()) == pytest.approx(1e-3, rel=1e-3)


def test_rescaled_neurons_are_sharper_and_compute_the_same():
    model, inputs, targets = regression((7, 6, 3), 11)
    before, first = model(inputs).detach(), LayeredHessians(model, inputs, targets)
    _rescale(model, 4.0)
    torch.testing.assert_close(model(inputs).detach(), before, rtol=0, atol=1e-12)
    after = LayeredHessians(model, inputs, targets)
    values = [layered_hessians.largest_eigenvalue(each, generator(), 1e-3).value for each in (first, after)]
    assert values[1] > 1.5 * values[0]


def test_only_the_arm_with_own_streams_differs_among_the_controls():
    plain, again = (
        records(controls, **TINY, hidden_layers=1, batch_size=4, own_streams=own) for own in (False, True)
    )  # fmt: skip
    repeated = records(controls, **TINY, hidden_layers=1, batch_size=4)
    assert plain["sharpness"].tolist() == repeated["sharpness"].tolist()
    assert (plain["sharpness"] != again["sharpness"]).all()


PARITY = {"training_images": 12, "test_images": 20, "width": 12}
LOOPS: dict[str, tuple[Any, dict[str, Any]]] = {
    "edge_of_stability": (edge_of_stability, {**TINY, "learning_rate": 0.3, "longest_time": 90, "measure_every": 15}),
    "selection_diagram": (selection_diagram, {**TINY, "stopping_loss": 1e-9, "learning_rate": 0.3, "batch_size": 4,
                                              "longest_time": 450}),
    "gd_minimum": (gd_minimum, {**PARITY, "stopping_loss": 1e-20, "learning_rate": 0.002, "longest": 2500}),
    "escape": (escape, {**PARITY, "batch_size": 1, "learning_rate": 0.02, "trajectories": 5, "steps": 4,
                        "longest": 2100, "stopping_loss": 1e-20}),
    "controls": (controls, {**TINY, "stopping_loss": 1e-9, "hidden_layers": 1, "batch_size": 4, "longest": 1500}),
    "gd_against_sgd": (gd_against_sgd, {"dataset": "mnist", "network": "fully_connected", "width": 6, "epochs": 4,
                                        "training_images": 20, "batch_size": 5, "record_times": 4}),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_a_run_continued_from_any_checkpoint_ends_with_the_same_records(name: str):
    experiment, setting = LOOPS[name]
    start = digits_context()
    if name == "escape":
        records(gd_minimum, start, **PARITY, stopping_loss=1e-6)
    whole = digits_context(needed=start.artifacts)
    records(experiment, whole, **setting)
    assert len(whole.checkpoints) >= 2
    for begun in whole.checkpoints[:: max(1, len(whole.checkpoints) // 3)]:
        later = digits_context(needed=start.artifacts, begun=begun)
        records(experiment, later, **setting)
        assert later.rows == whole.rows
