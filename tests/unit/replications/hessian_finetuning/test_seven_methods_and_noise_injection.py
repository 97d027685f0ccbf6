"""Figs. 2 and 3 on tiny networks: records, metrics, figures, claims, resuming; the measure against dense Hessians."""

import copy
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from torch import nn

from common.claims.checking import check
from common.claims.schema import load_claims
from common.hessian import Hessian, Problem, dense
from replications.hessian_finetuning import noise_injection, seven_methods
from replications.hessian_finetuning.analysis import noise_injection as noise_injection_analysis
from replications.hessian_finetuning.analysis import seven_methods as seven_methods_analysis
from replications.hessian_finetuning.analysis.seven_methods import MEASURES, selected, within_seed_correlations
from replications.hessian_finetuning.analysis.seven_methods import metrics as seven_metrics
from replications.hessian_finetuning.shared import fine_tuning
from replications.hessian_finetuning.shared.layer_measures import layer_measures
from replications.hessian_finetuning.shared.methods import METHODS
from tests.unit.replications.grokking.context import Context

from .tiny import network

FOLDER = Path(seven_methods.__file__).parent
SEVEN = ("sgd", "early_stopping", "weight_decay", "label_smoothing", "mixup", "distance", "sam")
TINY: dict[str, Any] = {"epochs": 2, "batch_size": 6, "train_examples": 24, "optimiser": "adam", "learning_rate": 0.05}
ARMS = {
    "sgd": {}, "sgd_twice": {"lengthening": 2}, "wp_sgd": {"method": "wp_sgd", "lengthening": 2},
    "nso": {"method": "nso", "lengthening": 2},
}  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def _tiny_systems() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (fine_tuning, seven_methods):
            patch.setattr(module, "load_systems", lambda name, runs, context: [network(run.seed) for run in runs])
        yield


def seven_runs(strengths: tuple[int, ...] = (1, 2, 3)) -> list[seven_methods.Parameters]:
    values = (0.9, 0.6, 0.3, 0.1)
    return [
        seven_methods.Parameters(**TINY, method=method, strengths=values, strength=strength, seed=seed)
        for method in SEVEN
        for strength in strengths
        for seed in range(2)
    ]


def noise_runs(arm: str) -> list[noise_injection.Parameters]:
    more = {"measurements": 2, "curvature_examples": 12, "curvature_error": 0.3}
    return [noise_injection.Parameters(**{**TINY, **more, **ARMS[arm]}, seed=seed) for seed in range(2)]


@pytest.fixture(scope="module")
def seven() -> pd.DataFrame:
    context = Context("seven_methods")
    seven_methods.run(seven_runs(), context)
    rows = pd.DataFrame(context.rows)
    return rows.assign(run=rows["method"] + "," + rows["strength"].astype(str) + "," + rows["seed"].astype(str))


@pytest.fixture(scope="module")
def noise() -> pd.DataFrame:
    tables = []
    for arm in ARMS:
        context = Context("noise_injection")
        noise_injection.run(noise_runs(arm), context)
        rows = pd.DataFrame(context.rows)
        tables.append(rows.assign(arm=arm, run=arm + "," + rows["seed"].astype(str)))
    return pd.concat(tables, ignore_index=True)


def test_seven_methods_give_a_row_a_run_and_their_figures(seven: pd.DataFrame) -> None:
    table = seven_methods_analysis.metrics(seven)
    assert len(table) == len(seven) == 7 * 3 * 2
    assert np.isfinite(table.drop(columns="regime_reached").to_numpy(dtype=float)).all()
    names = set(seven_methods_analysis.figures(seven))
    assert names == {"fig2", "fig2_methods", "fig2_correlations"}


def test_a_method_changes_what_is_trained(seven: pd.DataFrame) -> None:
    assert seven.groupby("seed")["training_loss"].nunique().min() >= 18


def test_noise_injection_gives_the_curve_of_every_run_and_its_figures(noise: pd.DataFrame) -> None:
    assert (noise.groupby("run").size() == 2).all()
    table = noise_injection_analysis.metrics(noise)
    assert set(table.index) == set(noise["run"])
    assert set(noise_injection_analysis.figures(noise)) == {"fig3", "fig3_validation"}


def test_arms_of_equal_compute_spend_equal_gradients(noise: pd.DataFrame) -> None:
    spent = noise_injection_analysis.metrics(noise).groupby(noise.groupby("run")["arm"].first())["gradients"].unique()
    assert {arm: list(values) for arm, values in spent.items()} == {
        "sgd": [8], "sgd_twice": [16], "wp_sgd": [16], "nso": [16],
    }  # fmt: skip


def test_every_claim_reads_metrics_and_axes_that_exist(seven: pd.DataFrame, noise: pd.DataFrame) -> None:
    config = yaml.safe_load((FOLDER / "config.yaml").read_text())
    tables = {
        "seven_methods": seven_methods_analysis.metrics(seven),
        "noise_injection": noise_injection_analysis.metrics(noise),
    }
    claims = [claim for claim in load_claims(FOLDER / "claims.yaml") if claim.experiment in tables]
    assert len(claims) > 20
    for claim in claims:
        grid = config[claim.experiment]["grid"]
        axes = {name: list(range(values)) if isinstance(values, int) else list(values) for name, values in grid.items()}
        check(claim, list(tables[claim.experiment].columns), axes, experiments=list(tables))


def test_the_grid_gives_each_method_strengths_that_it_takes() -> None:
    grid = yaml.safe_load((FOLDER / "config.yaml").read_text())["seven_methods"]["grid"]["method"]
    assert tuple(grid) == SEVEN
    for name, settings in grid.items():
        assert settings["method"] == name
        assert [METHODS[name](strength).strength for strength in settings["strengths"]] == settings["strengths"]


def test_seven_methods_resumed_anywhere_have_the_same_records() -> None:
    runs = seven_runs((1, 2))
    whole = Context("seven_methods")
    seven_methods.run(runs, whole)
    for state, rows in whole.states[3 :: len(whole.states) // 3]:
        resumed = Context("seven_methods", saved=copy.deepcopy(state))
        seven_methods.run(runs, resumed)
        assert whole.rows[:rows] + resumed.rows == whole.rows


def test_noise_injection_resumed_anywhere_has_the_same_records() -> None:
    whole = Context("noise_injection")
    noise_injection.run(noise_runs("nso"), whole)
    for state, rows in whole.states[:-1:3]:
        resumed = Context("noise_injection", saved=copy.deepcopy(state))
        noise_injection.run(noise_runs("nso"), resumed)
        assert whole.rows[:rows] + resumed.rows == whole.rows


def test_a_run_that_leaves_the_numbers_is_reported_and_the_others_are_recorded() -> None:
    runs = [
        seven_methods.Parameters(**{**TINY, "learning_rate": 1e200}, strengths=(1, 1, 1, 1), seed=k) for k in (0, 1)
    ]
    context = Context("seven_methods")
    seven_methods.run(runs, context)
    assert [seed for seed, _ in context.gone] == [0, 1]
    assert context.rows == []


def test_the_measure_is_that_of_dense_hessians() -> None:
    system, start = network(0, count=6), start_of(network(5).model)
    found = layer_measures(system.model, start, system.train, system.test)
    inputs, labels = system.train
    losses = nn.functional.cross_entropy(system.model(inputs), labels, reduction="none")
    expected = 0.0
    for name in ("0.weight", "3.weight"):
        move = (dict(system.model.named_parameters())[name] - start[name]).detach().flatten()
        forms = []
        for n in range(6):
            alone = Problem(
                system.model, nn.CrossEntropyLoss(), (inputs[n : n + 1], labels[n : n + 1]), parameters=[name]
            )
            forms.append(float(move @ dense(Hessian(alone)) @ move))
        expected += math.sqrt(float(losses.detach().max()) * max(forms) / 6)
    assert found["measure"] == pytest.approx(expected, rel=1e-9)
    assert found["curvature"] * found["root_largest_loss"] == pytest.approx(found["measure"], rel=1e-9)


def test_norms_are_those_of_singular_values() -> None:
    system, start = network(0), start_of(network(5).model)
    found = layer_measures(system.model, start, system.train, system.test)
    matrices = [dict(system.model.named_parameters())[name].detach() for name in ("0.weight", "3.weight")]
    largest = [float(torch.linalg.svdvals(matrix)[0]) for matrix in matrices]
    ratios = sum(float(matrix.square().sum()) / top**2 for matrix, top in zip(matrices, largest, strict=True))
    assert found["norm_product"] == pytest.approx(math.prod(largest) * math.sqrt(ratios / 24), rel=1e-9)
    assert found["weight_norm"] == pytest.approx(float(torch.cat([m.flatten() for m in matrices]).norm()), rel=1e-9)


def start_of(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def planted() -> pd.DataFrame:
    """Settings of one seed whose gap is the measure, and falls with the distance."""
    rows = pd.DataFrame({"measure": [0.1, 0.2, 0.3, 0.4], "training_loss": 0.5, "first_training_loss": 1.0})
    for name in MEASURES:
        rows[name] = -rows["measure"] if name == "distance" else rows["measure"]
    rows["test_loss"] = rows["training_loss"] + rows["measure"]
    errors = {
        "training_error": 0.1,
        "test_error": 0.3,
        "validation_error": 0.3,
        "validation_loss": [3.0, 1.0, 2.0, 4.0],
    }
    axes = {"system": "image", "method": "sgd", "strength": [1, 2, 3, 4], "seed": 0, "classes": 2, "run": list("abcd")}
    return rows.assign(**errors, **axes)


def test_gaps_selection_and_correlations_of_planted_records() -> None:
    records = planted()
    table = seven_metrics(records).join(records.set_index("run")[["system", "method", "strength", "seed"]])
    assert table["loss_gap"].tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert table["error_gap"].tolist() == pytest.approx([20] * 4)
    assert table["vacuity"].tolist() == pytest.approx([(0.5 + m) / math.log(2) for m in (0.1, 0.2, 0.3, 0.4)])
    assert selected(table).index.tolist() == ["b"]
    found = within_seed_correlations(table).set_index("measure")["correlation"]
    assert found["measure"] == pytest.approx(1)
    assert found["distance"] == pytest.approx(-1)


def test_a_fine_tuning_that_raised_the_training_loss_has_not_reached_its_regime() -> None:
    records = planted().assign(first_training_loss=[1.0, 0.4, 1.0, 1.0])
    assert seven_metrics(records)["regime_reached"].tolist() == [True, False, True, True]
