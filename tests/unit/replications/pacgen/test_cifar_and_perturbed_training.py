"""pacGen's sweeps on CIFAR-10 and its training with perturbed weights, on pictures that take no download."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from replications.pacgen import cifar_batch_size, perturbed_training
from replications.pacgen.analysis import cifar_batch_size as cifar_batch_size_analysis
from replications.pacgen.analysis import perturbed_training as perturbed_training_analysis
from replications.pacgen.analysis.perturbed_training import DATA
from replications.pacgen.analysis.perturbed_training import metrics as perturbed_metrics
from tests.context import MemoryContext
from tests.unit.replications.images import random_images
from tests.unit.replications.resuming import same_when_resumed

from .test_toy_and_sweeps import TINY

PICTURES = random_images(3, 32, train=40, test=20)
THIN: dict[str, Any] = {"depth": 10, "widening": 1, "width": 4, "side": 16, "training_images": 24, "test_images": 12,
                        "epochs": 2, "batch_size": 8, "learning_rate": 1e-3}  # fmt: skip
ARMS: dict[str, dict[str, Any]] = {
    "none": {},
    "perturbed": {"method": "perturbed"},
    "isotropic": {"method": "isotropic"},
    "perturbed_tenth": {"method": "perturbed", "gamma_share": 0.1},
    "isotropic_tenth": {"method": "isotropic", "gamma_share": 0.1},
    "perturbed_hundredth": {"method": "perturbed", "gamma_share": 0.01},
    "isotropic_hundredth": {"method": "isotropic", "gamma_share": 0.01},
    "weight_decay": {"weight_decay": 5e-4},
}


@pytest.fixture(scope="module")
def batches() -> pd.DataFrame:
    axes = lambda run: {"batch_size": run.batch_size, "momentum": run.momentum}  # noqa: E731
    context = MemoryContext("cifar_batch_size", data=PICTURES, axes=axes)
    for size, momentum in itertools.product((4, 8), (0.0, 0.5)):
        setting = {**TINY, "test_images": 12, "momentum": momentum, "batch_size": size}
        cifar_batch_size.run([cifar_batch_size.Parameters(**setting, seed=seed) for seed in range(2)], context)
    return pd.DataFrame(context.rows)


def perturbed_run(arm: str, **more: Any) -> MemoryContext:
    context = MemoryContext("perturbed_training", axes=lambda run: {"data": "cifar10", "arm": arm}, data=PICTURES)
    perturbed_training.run([perturbed_training.Parameters(**{**THIN, **ARMS[arm], **more})], context)
    return context


@pytest.fixture(scope="module")
def perturbed() -> pd.DataFrame:
    return pd.DataFrame([{**row, "run": f"{arm} 0"} for arm in ARMS for row in perturbed_run(arm).rows])


def test_the_gap_on_cifar_is_taken_over_the_test_images_of_the_seed(batches: pd.DataFrame) -> None:
    assert np.allclose(batches["test_error"] * 12, (batches["test_error"] * 12).round())


def test_momentum_is_an_arm_with_rises_of_its_own(batches: pd.DataFrame) -> None:
    table = cifar_batch_size_analysis.metrics(batches)
    rises = []
    for momentum in (0.0, 0.5):
        small, large = (table.loc[f"batch_size={size},momentum={momentum},seed=1"] for size in (4, 8))
        assert small["gap_rise"] == pytest.approx(large["gap"] - small["gap"])
        rises.append(small["gap_rise"])
    assert rises[0] != rises[1]


def test_each_momentum_has_its_column_of_panels(batches: pd.DataFrame) -> None:
    drawn = cifar_batch_size_analysis.figures(batches)
    assert set(drawn) == {"fig4", "fig4_matched_loss", "fig4_readings", "fig4_curvature"}
    titles = [axes.get_title("left") for axes in drawn["fig4"].axes[:2]]
    assert titles == ["Fig. 4 · gap and Ψ on CIFAR-10\nmomentum 0", "momentum 0.5"]
    assert len(drawn["fig4"].axes) == 4


@pytest.mark.parametrize("arm", ["none", "perturbed", "isotropic_hundredth"])
def test_a_run_resumed_after_any_epoch_records_what_an_uninterrupted_one_does(arm: str) -> None:
    run = perturbed_training.Parameters(**{**THIN, **ARMS[arm], "epochs": 3})
    same_when_resumed(lambda context: perturbed_training.run([run], context), data=PICTURES)


def test_arms_of_a_seed_start_alike_and_only_perturbed_ones_say_how_far(perturbed: pd.DataFrame) -> None:
    context, models = MemoryContext("perturbed_training", data=PICTURES), []
    for arm in ARMS:
        run = perturbed_training.Parameters(**{**THIN, **ARMS[arm]})
        models.append(perturbed_training._training(run, context, PICTURES.train, 10))
    for other in models[1:]:
        assert torch.equal(models[0].source.get_state(), other.source.get_state())
        for left, right in zip(models[0].model.parameters(), other.model.parameters(), strict=True):
            assert torch.equal(left, right)
    plain = perturbed["arm"].isin(["none", "weight_decay"])
    assert perturbed.loc[plain, "noise_over_weights"].isna().all()
    large, small = (
        perturbed.loc[perturbed["arm"] == arm, "noise_over_weights"].mean()
        for arm in ("perturbed", "perturbed_hundredth")
    )
    assert 50 < large / small < 200  # a hundredth of γ


def test_the_first_step_of_each_arm_is_that_without_perturbation() -> None:
    losses = {
        arm: perturbed_run(arm, batch_size=24, epochs=1).rows[0]["step_loss"]
        for arm in ("none", "perturbed", "isotropic")
    }
    assert losses["none"] == losses["perturbed"] == losses["isotropic"]


def test_accuracies_are_those_of_the_last_epoch_and_the_regime_is_the_unperturbed_arms(perturbed: pd.DataFrame) -> None:
    frame = perturbed.assign(training_accuracy=50.0, test_accuracy=49.0)
    assert not perturbed_metrics(frame)["regime_reached"].any()
    last = (frame["arm"] == "none") & (frame["epoch"] == 2)
    frame.loc[last, "training_accuracy"] = 60.0
    table = perturbed_metrics(frame)
    assert table["regime_reached"].all()
    assert (table["relative_test_accuracy"] == 1).all()
    assert table["training_accuracy"].to_dict() == {f"{arm} 0": 60.0 if arm == "none" else 50.0 for arm in ARMS}


def test_a_training_that_diverges_says_so_and_has_no_accuracy(perturbed: pd.DataFrame) -> None:
    context = perturbed_run("none", learning_rate=1e38, optimiser="sgd", epochs=3)
    assert "not finite" in next(iter(context.divergences.values()))
    lost = pd.DataFrame([{**row, "run": "lost", "seed": 7} for row in context.rows])
    table = perturbed_metrics(pd.concat([perturbed, lost]))
    assert table.loc["lost", ["training_accuracy", "test_accuracy", "regularised_accuracy"]].isna().all()


def test_figure_7_is_drawn_for_the_data_that_is_there(perturbed: pd.DataFrame) -> None:
    drawn = perturbed_training_analysis.figures(perturbed)
    assert set(drawn) == {"fig7", "fig7_differences", "fig7_levels"}
    assert [axes.get_title("left") for axes in drawn["fig7"].axes] == ["Fig. 7 · CIFAR-10", ""]
    both = pd.concat([perturbed, perturbed.assign(data="tiny_imagenet", run=perturbed["run"] + " tiny")])
    assert len(perturbed_training_analysis.figures(both)["fig7"].axes) == 4


def test_the_share_that_the_curvature_decides_is_that_of_the_weights_with_an_open_gate(perturbed: pd.DataFrame) -> None:
    frame = perturbed.assign(open_share=0.5, curvature_share=0.2)
    frame.loc[frame["arm"] == "perturbed", ["open_share", "curvature_share"]] = 0.0
    shares = perturbed_metrics(frame)["curvature_share_of_open"]
    assert shares["perturbed_hundredth 0"] == pytest.approx(0.4)
    assert np.isnan(shares["perturbed 0"])  # no gate is open: nobody decides anything


def test_the_levels_have_a_panel_of_curvature_where_it_decides_something_and_say_so_where_it_does_not(
    perturbed: pd.DataFrame,
) -> None:
    nowhere = perturbed_training_analysis.figures(perturbed.assign(curvature_share=0.0))["fig7_levels"].axes
    assert nowhere[1].get_ylabel().endswith("the curvature\ndecides none of these")
    somewhere = perturbed_training_analysis.figures(perturbed.assign(open_share=0.5, curvature_share=0.1))[
        "fig7_levels"
    ].axes
    assert len(somewhere) == 3
    assert somewhere[2].lines[0].get_ydata() == pytest.approx([20.0, 20.0])


def test_the_levels_are_drawn_for_all_three_data_sets(perturbed: pd.DataFrame) -> None:
    three = pd.concat([perturbed.assign(data=name, run=perturbed["run"] + name) for name in DATA])
    drawn = perturbed_training_analysis.figures(three)["fig7_levels"].axes
    assert [len(axes.lines) for axes in drawn[:3]] == [3, 3, 3]
    assert [axes.get_title("left") for axes in drawn[1:3]] == ["CIFAR-100", "Tiny ImageNet"]
