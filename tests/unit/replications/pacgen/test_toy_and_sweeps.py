"""pacGen's own pieces on data that takes no download: sweeps, toy, metrics, figures, claims."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from replications.pacgen import batch_size, controls, toy_landscape
from replications.pacgen.analysis import controls as controls_analysis
from replications.pacgen.analysis import toy_landscape as toy_landscape_analysis
from replications.pacgen.shared.measures import _mean_squares
from replications.pacgen.shared.sweep import _Training
from replications.pacgen.shared.sweep_setting import prepare
from tests.context import MemoryContext
from tests.unit.replications.images import random_images
from tests.unit.replications.resuming import same_when_resumed

IMAGES = random_images(1, 28)
TINY = {
    "training_images": 40,
    "batch_size": 8,
    "epochs": 2,
    "evaluation_epochs": (1, 2),
    "curvature_images": 20,
    "rho_images": 16,
    "rho_batches": 2,
    "rho_draws": 2,
    "fixed_batch_size": 4,
}
ROUNDING = 1e-9
"""More than the last places of a sum of some thousand nats."""

CROSSING = {"epochs": 14, "evaluation_epochs": (0.5, 14), "crossing_losses": (2.225, 2.195), "learning_rate": 0.05}


@pytest.fixture(scope="module")
def sweep() -> pd.DataFrame:
    context = MemoryContext("batch_size", data=IMAGES)
    for size in (4, 8):
        batch_size.run([batch_size.Parameters(**{**TINY, "batch_size": size, "seed": s}) for s in range(2)], context)
    return pd.DataFrame(context.rows)


@pytest.fixture(scope="module")
def toy() -> pd.DataFrame:
    small = {"grid_points": 41, "landscape_points": 11, "label_points": 12, "fresh_examples": 200}
    context = MemoryContext("toy_landscape")
    toy_landscape.run([toy_landscape.Parameters(seed=s, **small) for s in range(2)], context)
    return pd.DataFrame(context.rows)


def training(**setting: Any) -> _Training:
    context = MemoryContext("batch_size", data=IMAGES)
    runs = [batch_size.Parameters(**{**TINY, **setting, "seed": s}) for s in range(2)]
    return _Training(runs, context, [prepare(run, context) for run in runs])


def test_arms_of_a_seed_start_from_equal_weights_on_equal_images_in_equal_order():
    one, other = training(batch_size=4), training(batch_size=8, learning_rate=0.01)
    assert torch.equal(one.ensemble.weights, other.ensemble.weights)
    for left, right in zip(one.tasks, other.tasks, strict=True):
        assert torch.equal(left.images, right.images)
        assert torch.equal(left.batches.get_state(), right.batches.get_state())
    assert not torch.equal(one.ensemble.weights[0], one.ensemble.weights[1])
    assert not torch.equal(one.tasks[0].images, one.tasks[1].images)


def test_a_run_resumed_after_any_epoch_records_what_an_uninterrupted_one_does():
    runs = [batch_size.Parameters(**{**TINY, **CROSSING, "seed": s}) for s in (0, 1)]
    whole = same_when_resumed(lambda context: batch_size.run(runs, context), data=IMAGES)
    assert {row["kind"] for row in whole.rows} == {"epoch", "crossing", "check"}


def test_a_rate_that_falls_is_constant_before_and_nearly_zero_at_the_last_step():
    plain, falling = training(), training(decay_from=0.5)
    steps = falling.steps_per_epoch
    plain.one_epoch()
    falling.one_epoch()
    assert torch.equal(plain.ensemble.weights, falling.ensemble.weights)
    plain.one_epoch()
    falling.one_epoch()
    assert not torch.equal(plain.ensemble.weights, falling.ensemble.weights)
    assert falling.optimiser.learning_rate == pytest.approx(plain.optimiser.learning_rate / steps)


def test_measuring_does_not_disturb_training():
    quiet, noisy = training(evaluation_epochs=(2,)), training(evaluation_epochs=(0.2, 0.4, 1, 2))
    for run in (quiet, noisy):
        run.one_epoch()
    assert torch.equal(quiet.ensemble.weights, noisy.ensemble.weights)


def test_the_gap_is_taken_over_the_whole_test_set_and_the_whole_training_set(sweep):
    run = training()
    run.one_epoch()
    row = run.context.rows[0]
    member, task, test = run.ensemble.members[0], run.tasks[0], IMAGES.test
    with torch.no_grad():
        losses = [
            float(torch.nn.functional.cross_entropy(member((images / 255 - 0.1307) / 0.3081), targets))
            for images, targets in ((test.inputs, test.targets), (task.images, task.targets))
        ]
    assert row["gap"] == pytest.approx(losses[0] - losses[1], rel=1e-4)
    assert (sweep["gap"] == sweep["test_loss"] - sweep["training_loss"]).all()


def test_readings_of_psi_are_ordered_as_equation_24_demands(sweep):
    for suffix in ("", "_corrected", "_fixed_batch", "_hessian"):
        assert (sweep[f"psi{suffix}_no_rho"] >= sweep["psi_floor"] - ROUNDING).all()
        assert (sweep[f"psi{suffix}_norm_rho"] >= sweep[f"psi{suffix}_no_rho"]).all()
        assert (sweep[f"psi{suffix}"] >= sweep[f"psi{suffix}_norm_rho"]).all()
    above_floor = sweep["psi"] > sweep["psi_floor"] + ROUNDING
    assert ((sweep["share"] > 0) == above_floor).all()
    assert (sweep["rho_spread"] > 0).all()


def test_everything_is_measured_where_the_training_loss_first_passes_a_level():
    run = batch_size.Parameters(**{**TINY, **CROSSING})
    context = MemoryContext("batch_size", data=IMAGES)
    batch_size.run([run], context)
    rows = pd.DataFrame(context.rows)
    assert rows["kind"].tolist() == ["epoch", "crossing", "crossing", "check", "epoch"]
    crossings = rows[rows["kind"] == "crossing"]
    assert crossings["training_loss"].iloc[0] <= 2.225 < rows["training_loss"].iloc[0]
    assert crossings["training_loss"].iloc[1] <= 2.195
    assert crossings[["gap", "psi", "hessian_trace"]].notna().all(axis=None)
    closing = rows[rows["kind"] == "check"].iloc[0]
    assert closing["epoch"] == run.epochs - 1
    assert np.isnan(closing["gap"])


def test_at_one_mini_batch_size_settings_with_equal_weights_have_equal_rho_and_psi():
    measured = []
    for size in (4, 8):
        run = training(batch_size=size)
        run.average.update(torch.ones_like(run.average.average))
        run.scratch.weights.copy_(run.ensemble.weights[:1])
        errors = run.scratch.evaluate(lambda _, task=run.tasks[0]: iter([(task.images.float(), task.targets)]))
        measured.append(run._everything(0, errors))
    small, large = measured
    for name in ("rho_fixed_batch", "psi_fixed_batch", "rho_hessian", "psi_hessian", "hessian_trace"):
        assert small[name] == large[name]
    assert small["rho"] == small["rho_fixed_batch"]
    assert small["rho"] != large["rho"]


@pytest.mark.parametrize("sizes", [(16, 8), (8, 16), (16, 12), (16, 16), (8, 100)])
def test_squared_gradients_behind_rho_average_equally_many_mini_batches_in_every_setting(sizes):
    run = training()  # of 40 images: the third mini-batch of 16 starts again
    task, ensemble = run.tasks[0], run.ensemble
    found = _mean_squares(ensemble, task, sizes, 3)
    for size, squares in zip((min(size, 40) for size in sizes), found, strict=True):
        expected = torch.zeros_like(squares)
        for number in range(3):
            chosen = torch.arange(number * size, (number + 1) * size) % 40
            ensemble.losses_and_gradients([(task.standardise(task.images[chosen]), task.targets[chosen])] * 2)
            expected += ensemble.gradients.square() / 3
        torch.testing.assert_close(squares, expected)


def test_a_diverged_seed_is_reported_and_leaves_the_others_as_they_were():
    together = training()
    alone = training()
    together.tasks[0].images[:] = 0
    together.ensemble.weights[0] = float("nan")
    for run in (together, alone):
        run.one_epoch()
    ((diverged, reason),) = together.context.divergences.items()
    assert diverged == together.context.run_of(together.runs[0]).name
    assert "not finite at step 1" in reason
    assert torch.equal(together.ensemble.weights[1], alone.ensemble.weights[1])
    assert [row["seed"] for row in together.context.rows] == [1]


def test_control_arms_differ_in_what_they_say_and_in_nothing_else():
    arms = {"true_labels": {}, "true_labels_again": {"own_streams": True}, "shuffled_labels": {"labels": "shuffled"}}
    runs = {name: controls.Parameters(**TINY, **overrides) for name, overrides in arms.items()}
    names = {id(run): name for name, run in runs.items()}
    context = MemoryContext("controls", data=IMAGES, axes=lambda run: {"arm": names[id(run)]})
    tasks = {name: controls._prepare(run, context) for name, run in runs.items()}
    true, again, shuffled = tasks.values()
    assert torch.equal(true.images, shuffled.images)
    assert torch.equal(true.init.get_state(), shuffled.init.get_state())
    assert not torch.equal(true.targets, shuffled.targets)
    assert torch.equal(true.targets.sort().values, shuffled.targets.sort().values)
    assert not torch.equal(true.images, again.images)
    assert not torch.equal(true.init.get_state(), again.init.get_state())
    for run in runs.values():
        controls.run([run], context)
    records = pd.DataFrame(context.rows)
    assert list(controls_analysis.metrics(records).index) == [f"arm={name},seed=0" for name in arms]


def test_local_lipschitz_constant_of_a_cubic_is_exact():
    def cubic(w: torch.Tensor) -> torch.Tensor:
        return w[:, 0] ** 3 + 2 * w[:, 1] ** 3

    points = torch.tensor([[0.3, -1.0]], dtype=torch.float64)
    hessians = torch.diag_embed(torch.tensor([[6 * 0.3, -12.0]], dtype=torch.float64))
    rho = toy_landscape.local_lipschitz(cubic, points, hessians, torch.full((1, 2), 0.2, dtype=torch.float64))
    assert float(rho) == pytest.approx(12.0)


def test_a_straight_boundary_has_no_complexity_and_one_that_lines_cross_twice_has(monkeypatch):
    shapes = {0.0: lambda p: p[:, 0] > 0.3 * p[:, 1], 1.0: lambda p: p.norm(dim=1) > 0.5}
    monkeypatch.setattr(
        toy_landscape,
        "predicted_labels",
        lambda weights, points: torch.stack([shapes[float(w)](points) for w in weights[:, 0]]),
    )
    corners = torch.tensor([[-1.0, -1.0], [1.0, 1.0]], dtype=torch.float64)
    chords = toy_landscape.random_chords(corners, 400, torch.Generator().manual_seed(0))
    assert float(chords.abs().max()) <= 1.2
    straight, disc = toy_landscape.boundary_complexity(torch.tensor([[0.0], [1.0]]), chords).tolist()
    assert straight == 0
    ends = chords[:, [0, -1]].norm(dim=2) > 0.5
    inside = (chords.norm(dim=2) <= 0.5).any(1)
    assert disc == pytest.approx(float((ends.all(1) & inside).double().mean()))
    assert disc > 0.05


def test_psi_of_the_toy_cuts_off_the_sum_of_curvature_and_rho_not_the_curvature():
    def bent(w: torch.Tensor) -> torch.Tensor:
        return -200 * w[:, 0].square() + 100 * w[:, 0] ** 3 + 300 * w[:, 1].square()

    point = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    run = toy_landscape.Parameters()
    score = toy_landscape.score_points(bent, point, run)
    kappa = run.gamma * point.abs() + run.epsilon
    inside = torch.tensor([[-400.0, 600.0]]) + score["rho"] * 2**0.5 * kappa
    assert float(score["rho"]) == pytest.approx(600.0)
    expected = ((point.abs() + kappa) * torch.maximum(inside.clamp(min=0).sqrt(), 1 / kappa)).log().sum()
    assert float(score["psi"]) == pytest.approx(float(expected))


def test_the_pair_is_the_global_minimum_and_a_flatter_one(toy):
    table = toy_landscape_analysis.metrics(toy)
    assert table["regime_reached"].all()
    assert (table["sharpness_sharp"] >= 2 * table["sharpness_flat"]).all()
    assert (table["loss_flat"] - table["loss_sharp"] <= 0.15).all()
    assert (table["loss_flat"] < np.log(2)).all()
    assert table["gap_difference"].tolist() == pytest.approx(
        (table["population_loss_difference"] - table["loss_difference"]).tolist()
    )
    assert (table["loss_sharp"] < table["loss_flat"]).all()
    difference = table["population_loss_flat"] < table["population_loss_sharp"]
    assert (table["flat_is_better_on_fresh_data"] == difference).all()
    assert (table["bound_tight_flat"] <= table["bound_flat"] + 1e-12).all()


def test_figure_1_is_drawn_for_the_first_seed_and_the_comparison_for_all(toy):
    drawn = toy_landscape_analysis.figures(toy)
    assert set(drawn) == {"fig1a", "fig1_map", "fig1b", "fig1c", "fig1d", "fig1_fresh_data"}
    assert "of 2" in drawn["fig1_fresh_data"].axes[0].get_title("left")
    only_second = toy[toy["seed"] == 1]
    assert set(toy_landscape_analysis.figures(only_second)) == {"fig1_fresh_data"}
