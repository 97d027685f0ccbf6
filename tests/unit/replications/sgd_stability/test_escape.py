"""From a minimum of gradient descent: Figs. 11 and 19, and Theorem 4."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from replications.sgd_stability import escape, gd_minimum
from replications.sgd_stability.analysis.escape import figures
from replications.sgd_stability.analysis.escape import metrics as escape_metrics
from replications.sgd_stability.analysis.gd_minimum import metrics as minimum_metrics
from tests.unit.replications.sgd_stability.samples import PARITY, digits_context, records

SETTING = {"trajectories": 30, "steps": 24, "shortest": 100, "longest": 200, **PARITY}


@pytest.fixture(scope="module")
def start() -> list:
    context = digits_context()
    records(gd_minimum, context, **PARITY)
    return context.artifacts


def test_escape_starts_where_gradient_descent_ended_and_its_bound_holds_at_every_state(start: list) -> None:
    for batch_size in (1, 4, 12):
        table = records(escape, digits_context(start), batch_size=batch_size, **SETTING)
        assert (table[(table["kind"] == "losses") & (table["step"] == 0)]["mean"] <= 1.1e-8).all()
        found = escape_metrics(table)
        assert (found["theorem_margin"] >= -1e-9).all()
        first = table[table["kind"] == "averages"].groupby("seed").first()
        np.testing.assert_allclose(first["median_mu"], first["smallest_mu"])  # all start at one point


def test_gradient_descent_goes_on_with_the_learning_rate_of_sgd_and_knows_its_margin() -> None:
    changed, plain = (
        records(gd_minimum, finding_rate=0.02, learning_rate=rate, finding_loss=1e-3, stopping_loss=1e-6, **PARITY)
        for rate in (0.01, 0.02)
    )
    assert changed["stopped"].all()
    assert (changed["steps_to_find"] == plain["steps_to_find"]).all()
    assert (changed["steps"] > 1.5 * plain["steps"]).all()
    assert minimum_metrics(changed)["edge_ratio"].tolist() == (changed["sharpness"] * 0.01 / 2).tolist()
    alone = records(gd_minimum, finding_rate=0.02, learning_rate=0.02, finding_loss=1e-6, stopping_loss=1e-6, **PARITY)
    assert (alone["steps"] == 0).all()
    assert (alone["steps_to_find"] == plain["steps_to_find"] + plain["steps"]).all()


def test_losses_follow_each_of_the_first_steps_and_one_trajectory_stands_for_full_batches(start: list) -> None:
    table = records(escape, digits_context(start), batch_size=12, **SETTING)
    losses = table[table["kind"] == "losses"]
    assert sorted(losses["step"].unique()) == [*range(17), 20, 24]
    assert "path0" in losses
    assert "path1" not in losses


def test_the_mean_of_many_trajectories_is_the_expectation_of_the_linearised_model(start: list) -> None:
    table = records(escape, digits_context(start), batch_size=6, learning_rate=0.03, **{**SETTING, "trajectories": 900})
    losses = table[(table["kind"] == "losses") & (table["step"] > 0)]
    np.testing.assert_allclose(losses["linear_mean"], losses["expected"], rtol=0.02)
    plain = records(escape, digits_context(start), batch_size=12, learning_rate=0.03, **SETTING)
    without_noise = plain[(plain["kind"] == "losses") & (plain["step"] > 0)]["expected"]
    assert (np.abs(losses["expected"].to_numpy() / without_noise.to_numpy() - 1) > 0.02).any()


def test_a_trajectory_that_diverges_is_counted_and_stays_infinite(start: list) -> None:
    table = records(escape, digits_context(start), batch_size=1, learning_rate=5.0, **SETTING)
    losses = table[table["kind"] == "losses"].sort_values(["seed", "step"])
    assert (losses.groupby("seed")["trajectories_diverged"].diff().dropna() >= 0).all()
    last = losses.groupby("seed").last()
    assert (last["trajectories_diverged"] == 30).all()
    assert losses[losses["step"] == 24][["mean", "median", "path0"]].isna().all().all()
    found = escape_metrics(table)
    assert (found[["diverged_share", "any_diverged", "lost"]] == 1).all().all()
    assert (found[["settled", "halved"]] == 0).all().all()
    assert found["sharpness_after"].isna().all()


def test_the_course_is_measured_two_times_an_octave_and_a_stable_start_is_kept(start: list) -> None:
    table = records(escape, digits_context(start), batch_size=12, learning_rate=0.002, **SETTING)
    course = table[(table["kind"] == "course") & (table["seed"] == 0)]
    assert course["step"].tolist()[:-1] == [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 100]
    assert 100 < course["step"].iloc[-1] <= 150  # it has its low loss already, and stops at the next check
    assert course["loss"].is_monotonic_decreasing
    assert escape_metrics(table)["sharpness_after"].tolist() == pytest.approx([1, 1], rel=0.02)


def test_every_figure_is_drawn_with_what_diverged_and_what_stays(start: list) -> None:
    runs = itertools.product((1, 4, 12), (0.02,))
    tables = [records(escape, digits_context(start), batch_size=b, learning_rate=r, **SETTING) for b, r in runs]
    drawn = figures(pd.concat(tables, ignore_index=True))
    assert set(drawn) == {"fig19", "exponents", "conditions", "fig11", "fig11_minima"}
    assert drawn["fig11"].axes[2].get_title("left").startswith("B = n = 12 (GD)")
    titles = [axes.get_title("left") for axes in drawn["fig19"].axes]
    assert any("of 30 diverged" in title for title in titles)
    assert any("of 1 diverged" in title for title in titles)


def test_full_batches_of_the_escape_are_steps_of_gradient_descent(start: list) -> None:
    table = records(escape, digits_context(start), seeds=1, batch_size=12, learning_rate=0.01, **SETTING)
    weights = start[0].tensors["weights"].clone().requires_grad_()
    data = digits_context().data("mnist").train
    images = data.inputs[:12].flatten(1).float() / 255
    targets = (data.targets[:12] % 2 * 2 - 1).float()
    sizes, found = (784, 12, 12, 1), []
    for _ in range(9):
        values, place = images, 0
        for number, (a, b) in enumerate(itertools.pairwise(sizes)):
            matrix, bias = weights[place : place + a * b].view(b, a), weights[place + a * b : place + a * b + b]
            values, place = values @ matrix.T + bias, place + a * b + b
            values = values.relu() if number < 2 else values
        loss = (values[:, 0] - targets).square().mean()
        found.append(loss.item())
        weights = (weights - 0.01 * torch.autograd.grad(loss, weights)[0]).detach().requires_grad_()
    expected = table[(table["kind"] == "losses") & (table["step"] <= 8)]["mean"]
    np.testing.assert_allclose(expected, found, rtol=1e-2)
