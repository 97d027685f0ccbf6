"""Figs. 2 and 3 on tiny networks: records, metrics, resuming."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from replications.hessian_finetuning import noise_injection, seven_methods
from replications.hessian_finetuning.analysis import noise_injection as noise_injection_analysis
from replications.hessian_finetuning.analysis import seven_methods as seven_methods_analysis
from replications.hessian_finetuning.shared import fine_tuning
from replications.hessian_finetuning.shared.methods import METHODS
from tests.context import MemoryContext
from tests.unit.replications.resuming import same_when_resumed

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
        for module in (fine_tuning, seven_methods, noise_injection):
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


def noise_runs(arm: str, **changes: Any) -> list[noise_injection.Parameters]:
    more = {"measurements": 2, "curvature_examples": 12, "curvature_error": 0.3, **changes}
    return [noise_injection.Parameters(**{**TINY, **more, **ARMS[arm]}, seed=seed) for seed in range(2)]


@pytest.fixture(scope="module")
def seven() -> pd.DataFrame:
    context = MemoryContext("seven_methods")
    seven_methods.run(seven_runs(), context)
    rows = pd.DataFrame(context.rows)
    return rows.assign(run=rows["method"] + "," + rows["strength"].astype(str) + "," + rows["seed"].astype(str))


@pytest.fixture(scope="module")
def noise() -> pd.DataFrame:
    tables = []
    for arm in ARMS:
        context = MemoryContext("noise_injection")
        noise_injection.run(noise_runs(arm), context)
        rows = pd.DataFrame(context.rows)
        tables.append(rows.assign(arm=arm, run=arm + "," + rows["seed"].astype(str)))
    return pd.concat(tables, ignore_index=True)


def test_seven_methods_give_a_row_a_run(seven: pd.DataFrame) -> None:
    table = seven_methods_analysis.metrics(seven)
    assert len(table) == len(seven) == 7 * 3 * 2
    assert np.isfinite(table.drop(columns="regime_reached").to_numpy(dtype=float)).all()


def test_a_method_changes_what_is_trained(seven: pd.DataFrame) -> None:
    assert seven.groupby("seed")["training_loss"].nunique().min() >= 18


def test_noise_injection_gives_the_curve_of_every_run(noise: pd.DataFrame) -> None:
    assert (noise.groupby("run").size() == 2).all()


def test_arms_of_equal_compute_spend_equal_gradients(noise: pd.DataFrame) -> None:
    spent = noise_injection_analysis.metrics(noise).groupby(noise.groupby("run")["arm"].first())["gradients"].unique()
    assert {arm: list(values) for arm, values in spent.items()} == {
        "sgd": [8],
        "sgd_twice": [16],
        "wp_sgd": [16],
        "nso": [16],
    }


def test_the_grid_gives_each_method_strengths_that_it_takes() -> None:
    experiment = yaml.safe_load((FOLDER / "config.yaml").read_text())["seven_methods"]
    for grid in (experiment["grid"], experiment["scales"]["workstation"]["grid"]):
        assert tuple(grid["method"]) == SEVEN
        for name, settings in grid["method"].items():
            assert settings["method"] == name
            assert [METHODS[name](strength).strength for strength in settings["strengths"]] == settings["strengths"]


def test_seven_methods_resumed_anywhere_have_the_same_records() -> None:
    runs = seven_runs((1, 2))
    same_when_resumed(lambda context: seven_methods.run(runs, context), times=3)


@pytest.mark.parametrize("tried", [(), (0.01, 0.3)])
def test_noise_injection_resumed_anywhere_has_the_same_records(tried: tuple[float, ...]) -> None:
    runs = noise_runs("nso", tried_scales=tried)
    same_when_resumed(lambda context: noise_injection.run(runs, context), times=3)


def test_of_several_scales_that_of_the_lowest_validation_loss_is_measured() -> None:
    rows = {}
    for tried in ((0.01,), (3.0,), (3.0, 0.01)):
        context = MemoryContext("noise_injection")
        noise_injection.run(noise_runs("nso", tried_scales=tried), context)
        rows[tried] = pd.DataFrame(context.rows)
    last = {tried: table.groupby("seed")["validation_loss"].last() for tried, table in rows.items()}
    assert last[(0.01,)].mean() < last[(3.0,)].mean()
    assert set(rows[(3.0, 0.01)]["sigma"]) == {0.01}
    assert last[(3.0, 0.01)].mean() < last[(3.0,)].mean()


def test_a_run_that_leaves_the_numbers_is_reported_and_the_others_are_recorded() -> None:
    runs = [
        seven_methods.Parameters(**{**TINY, "learning_rate": 1e200}, strengths=(1, 1, 1, 1), seed=k) for k in (0, 1)
    ]
    context = MemoryContext("seven_methods")
    seven_methods.run(runs, context)
    assert list(context.divergences) == [context.run_of(run).name for run in runs]
    assert context.rows == []
