"""The landscape part: batch sizes, lines, slices, bad minima and PAC-Bayes, on data that takes no download."""

import math
from typing import Any

import pandas as pd
import pytest
import torch

from common.datasets import Dataset, Split
from common.experiments.context import OutOfTime
from common.hessian import Problem
from replications.sgd_stability import bad_minimum, large_batch, loss_slices, pac_bayes_theorem, stable_minima
from replications.sgd_stability.analysis.large_batch import metrics as large_batch_metrics
from replications.sgd_stability.analysis.pac_bayes_theorem import metrics as theorem_metrics
from replications.sgd_stability.pac_bayes_flatness import _worst_step
from replications.sgd_stability.shared.batch_size_comparison import training_split
from tests.context import MemoryContext
from tests.unit.replications.sgd_stability.samples import digits


def in_arm(experiment: str, arm: str, **how: Any) -> MemoryContext:
    return MemoryContext(experiment, axes=lambda run: {"arm": arm}, **{"data": digits(), **how})


TINY = {"training_images": 50, "hidden": (8, 8), "epochs": 3, "measured_images": 50, "ascent_steps": 2, "dimensions": 5}


def trained(arm: str, seeds: int = 2, **settings: Any) -> MemoryContext:
    context = in_arm("large_batch", arm)
    runs = [large_batch.Parameters(seed=seed, **{**TINY, "batch_size": 8, **settings}) for seed in range(seeds)]
    large_batch.run(runs, context)
    return context


def test_a_training_that_stops_and_goes_on_ends_with_the_same_bits() -> None:
    whole = trained("small")
    broken = in_arm("large_batch", "small", stop_at=2)
    runs = [large_batch.Parameters(seed=seed, batch_size=8, **TINY) for seed in range(2)]
    with pytest.raises(OutOfTime):
        large_batch.run(runs, broken)
    again = in_arm("large_batch", "small", begun=broken.checkpoints[-1])
    large_batch.run(runs, again)
    assert again.rows == whole.rows
    assert all(
        torch.equal(a.tensors["weights"], b.tensors["weights"])
        for a, b in zip(again.artifacts, whole.artifacts, strict=True)
    )


def test_arms_of_a_seed_start_from_equal_weights_and_an_arm_of_its_own_does_not() -> None:
    small, large = trained("small"), trained("large", batch_size=20)
    again = trained("large_again", batch_size=20, own_streams=True)
    for member in range(2):
        assert torch.equal(small.artifacts[member].tensors["initial"], large.artifacts[member].tensors["initial"])
        assert not torch.equal(small.artifacts[member].tensors["weights"], large.artifacts[member].tensors["weights"])
        assert not torch.equal(again.artifacts[member].tensors["initial"], large.artifacts[member].tensors["initial"])
    assert not torch.equal(small.artifacts[0].tensors["initial"], small.artifacts[1].tensors["initial"])


def test_random_labels_are_the_same_at_every_look_and_not_the_true_ones() -> None:
    run, data = large_batch.Parameters(labels="shuffled", **TINY), digits()
    first, second = (training_split(run, data) for _ in range(2))
    true = training_split(large_batch.Parameters(**TINY), data)
    assert torch.equal(first.targets, second.targets)
    assert torch.equal(first.inputs, true.inputs)
    assert float((first.targets != true.targets).float().mean()) > 0.5


def test_a_run_is_measured_where_it_first_passes_the_crossing_loss() -> None:
    context = trained("small", seeds=1, epochs=60, crossing_loss=1.0, learning_rate=0.01)
    crossing, end = context.rows
    assert (crossing["kind"], end["kind"]) == ("crossing", "end")
    assert end["measured_loss"] < crossing["measured_loss"] <= 1.0
    assert "sharpness_0.0005" in end
    assert "sharpness_0.0005" not in crossing
    never = trained("small", seeds=1, epochs=60, crossing_loss=0.0, learning_rate=0.01)
    assert [row["kind"] for row in never.rows] == ["end"]


def test_untrained_networks_are_outside_the_regime_and_a_missing_crossing_has_no_number() -> None:
    context = trained("small", seeds=1)
    table = large_batch_metrics(pd.DataFrame(context.rows)).iloc[0]
    assert not table["regime_reached"]
    assert math.isnan(table["crossing_log10_sharpness"])
    row = context.rows[-1]
    assert table["log10_sharpness"] == pytest.approx(math.log10(max(row["sharpness_0.001"], 1e-8)))


def test_the_landscape_has_the_curvatures_and_slopes_it_says() -> None:
    places = torch.tensor([0.0, math.pi, 0.7], dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(stable_minima.landscape(places, 0.5).sum(), places, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), places)
    assert torch.allclose(first.detach(), stable_minima.slope(places.detach(), 0.5))
    assert second[:2].tolist() == pytest.approx(stable_minima.curvatures(0.5))


def test_small_steps_end_at_both_minima_and_large_ones_at_the_flat_one() -> None:
    context = MemoryContext("stable_minima")
    runs = [stable_minima.Parameters(learning_rate=eta, starts=60) for eta in (0.05, 1.5)]
    stable_minima.run(runs, context)
    small, large = (row for row in context.rows if row["kind"] == "ends")
    assert small["share_sharp"] > 0.2
    assert small["share_sharp"] + small["share_flat"] == pytest.approx(1)
    assert large["share_flat"] == 1


def test_false_points_lead_to_a_minimum_that_fits_as_well_and_is_worse() -> None:
    ends = {}
    for planted in (False, True):
        context = in_arm("bad_minimum", str(planted))
        settings: dict[str, Any] = {"hidden": (40, 40), "planting_steps": 600, "planting_rate": 0.005}
        rate = 0.001 if planted else 0.05
        run = bad_minimum.Parameters(planted=planted, learning_rate=rate, stopping_loss=0.01, **settings)
        bad_minimum.run([run], context)
        ends[planted] = context.rows[0]
    assert all(row["training_loss"] <= 0.01 for row in ends.values())
    assert ends[True]["test_loss"] > 5 * ends[False]["test_loss"]


def test_a_planted_descent_that_stops_and_goes_on_ends_with_the_same_bits() -> None:
    run = bad_minimum.Parameters(planted=True, hidden=(10,), planting_steps=50, steps=2000, stopping_loss=1e-9)
    whole = in_arm("bad_minimum", "planted")
    bad_minimum.run([run], whole)
    broken = in_arm("bad_minimum", "planted", stop_at=2)
    with pytest.raises(OutOfTime):
        bad_minimum.run([run], broken)
    again = in_arm("bad_minimum", "planted", begun=broken.checkpoints[-1])
    bad_minimum.run([run], again)
    assert again.rows == whole.rows


def test_the_theorem_on_guessers_fails_seldom_and_its_chernoff_line_only_holds_as_an_upper_bound() -> None:
    context = MemoryContext("pac_bayes_theorem")
    run = pac_bayes_theorem.Parameters(samples=300)
    pac_bayes_theorem.run([run], context)
    found = theorem_metrics(pd.DataFrame(context.rows)).iloc[0]
    assert found["worst_maurer"] <= found["worst_optimistic"] <= 0.1
    assert found["no_divergence_failure"] > 0.2
    assert found["moment"] > 0 > found["moment_with_divergence"]
    assert 0 < found["chernoff_ratio"] < 1
    assert found["finite_gap"] < 1e-8
    assert found["gaussian_gap"] < 1e-8


def test_the_worst_step_of_a_ball_lies_on_its_border_and_beats_random_ones() -> None:
    network = torch.nn.Linear(4, 3)
    inputs, targets = torch.randn(20, 4, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 3
    problem = Problem(network, torch.nn.CrossEntropyLoss(), (inputs, targets))
    at, source = problem.vector(), torch.Generator().manual_seed(1)
    start = torch.randn(15, generator=source)
    step = _worst_step(problem, start, 0.5, 20)
    assert float(step.norm()) == pytest.approx(0.5, rel=1e-4)

    def loss(move: torch.Tensor) -> float:
        with problem.at(at + move):
            return problem.loss()

    others = torch.randn(200, 15, generator=source)
    best = max(loss(0.5 * other / other.norm()) for other in others)
    assert loss(step) > best > problem.loss()


def test_a_residual_network_that_stops_and_goes_on_gives_the_same_slice() -> None:
    generator = torch.Generator().manual_seed(5)
    images = torch.randint(0, 256, (24, 3, 8, 8), generator=generator, dtype=torch.uint8)
    split = Split("pictures/train", images, torch.randint(0, 10, (24,), generator=generator))
    settings = {"side": 8, "depth": 8, "width": 2, "batch_size": 8, "epochs": 3, "points": 5, "slice_images": 16}
    run = loss_slices.Parameters(training_images=20, **settings)

    pictures = Dataset("pictures", "random pictures", 10, "none", split, split)
    whole = in_arm("loss_slices", "with", data=pictures)
    broken = in_arm("loss_slices", "with", data=pictures, stop_at=2)
    loss_slices.run([run], whole)
    with pytest.raises(OutOfTime):
        loss_slices.run([run], broken)
    again = in_arm("loss_slices", "with", data=pictures, begun=broken.checkpoints[-1])
    loss_slices.run([run], again)
    assert again.rows == whole.rows
    middle = next(row for row in whole.rows if row["kind"] == "slice" and row["a"] == row["b"] == 0)
    assert math.isfinite(middle["loss"])
    assert sum(row["kind"] == "slice" for row in whole.rows) == 25
