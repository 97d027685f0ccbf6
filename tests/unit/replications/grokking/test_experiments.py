"""Metrics on curves with known answers, figures from few records, claims that fit the metrics."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

from common.claims.checking import check
from common.claims.schema import load_claims
from common.hessian import Hessian, Problem, dense
from replications.grokking import (
    controls,
    gradient_variance,
    matrix_sensing,
    modular_addition,
    noise_scale,
    operations,
    update_step,
)
from replications.grokking.analysis import gradient_variance as gradient_variance_analysis
from replications.grokking.analysis.modular_addition import metrics as arm_metrics
from replications.grokking.analysis.shared.accuracies import thinned
from replications.grokking.analysis.shared.grokked_runs import run_metrics
from tests.unit.replications.grokking.context import Context
from tests.unit.replications.grokking.shared.test_training import TINY


def curve(accuracies: list[float], arm: str = "large_decay", seed: int = 0, **more: Any) -> pd.DataFrame:
    """Evaluations every 10 steps with these validation accuracies; training is learnt at the second one."""
    steps = 10 * np.arange(len(accuracies))
    frame = pd.DataFrame({"step": steps, "validation_accuracy": accuracies, "gradients": 2.0 * steps})
    frame["training_accuracy"] = np.where(steps >= 10, 1.0, 0.5)
    settings = {"steps": int(steps[-1]), "lengthening": 1, "evaluation_interval": 10, "window": 30, **more}
    return frame.assign(kind="evaluation", run=f"{arm},{seed}", arm=arm, seed=seed, trace=np.nan, **settings)


def with_curvature(frame: pd.DataFrame, rows: list[tuple[int, float]], loss: float = 1.0) -> pd.DataFrame:
    first = frame.iloc[:1].assign(kind="curvature")
    extra = [
        first.assign(
            step=step, trace=value, validation_trace=value, sharpness=value,
            trace_standard_error=0.1 * value, validation_trace_standard_error=0.1 * value, curvature_loss=loss,
        )
        for step, value in rows
    ]  # fmt: skip
    return pd.concat([frame, *extra], ignore_index=True)


SPIKY = [0.0, 0.2, 0.5, 0.99, 0.9, 1.0, 0.9, 1.0, 1.0]


def test_time_to_grok_delay_fluctuation_and_drops_of_a_known_curve() -> None:
    row = run_metrics(curve(SPIKY)).iloc[0]
    assert (row["time_to_grok"], row["gradients_to_grok"], row["delay"]) == (30, 60, 20)
    assert row["fluctuation"] == pytest.approx(100 * np.std([0.99, 0.9, 1.0, 0.9], ddof=1))
    assert row["drops"] == 2
    assert row["late_fluctuation"] == pytest.approx(100 * np.std([1.0, 0.9, 1.0, 1.0], ddof=1))
    assert row["share_to_grok"] == pytest.approx(30 / 80)


def test_a_run_that_never_groks_has_no_time_and_no_fluctuation() -> None:
    row = run_metrics(curve([0.1] * 6)).iloc[0]
    assert np.isnan(row["time_to_grok"])
    assert np.isnan(row["fluctuation"])
    assert row["share_to_grok"] == 1


def test_a_window_that_does_not_fit_has_no_fluctuation() -> None:
    assert np.isnan(run_metrics(curve([0.1, 0.2, 0.3, 0.4, 0.99, 1.0])).iloc[0]["fluctuation"])


def test_curvature_is_averaged_over_the_last_third_as_logarithms() -> None:
    rows = with_curvature(curve(SPIKY), [(10, 1e9), (60, 10.0), (80, 1000.0)])
    row = run_metrics(rows).iloc[0]
    assert row["log_trace"] == pytest.approx(2)
    assert row["log_trace_standard_error"] == pytest.approx(0.1 / np.sqrt(2) / np.log(10))


def test_curvature_per_nat_does_not_see_a_change_in_proportion_to_the_loss() -> None:
    calm, spike = (
        run_metrics(with_curvature(curve(SPIKY), [(60, scale), (80, scale)], loss=scale / 4)).iloc[0]
        for scale in (0.01, 100.0)
    )
    assert spike["log_trace"] - calm["log_trace"] == pytest.approx(4)
    for name in ("log_trace_per_nat", "log_sharpness_per_nat"):
        assert calm[name] == pytest.approx(spike[name]) == pytest.approx(np.log10(4))
    fitted = run_metrics(with_curvature(curve(SPIKY), [(80, 1.0)], loss=0.0)).iloc[0]
    assert np.isnan(fitted["log_trace_per_nat"])


def test_arms_without_decay_are_censored_until_ten_times_the_time_to_grok() -> None:
    short = pd.concat([curve(SPIKY), curve([0.1] * 9, arm="none")])
    assert arm_metrics(short)["regime_reached"].tolist() == [True, False]
    long = pd.concat([curve(SPIKY), curve([0.1] * 31, arm="none")])
    assert arm_metrics(long)["regime_reached"].tolist() == [True, True]
    most_never = pd.concat([curve(SPIKY), *(curve([0.1] * 9, seed=k) for k in (1, 2)), curve([0.1] * 31, arm="none")])
    assert not arm_metrics(most_never)["regime_reached"].iloc[-1]
    nobody = pd.concat([curve([0.1] * 9), curve([0.1] * 31, arm="none")])
    assert arm_metrics(nobody)["regime_reached"].tolist() == [True, False]  # not grokking is a result; length unknown


def test_thinned_curves_keep_their_ends_and_extremes() -> None:
    steps = np.arange(1, 5001)
    values = np.ones(5000)
    values[3210] = 0.2
    at, kept = thinned(steps, values)
    assert len(at) < 250
    assert kept.min() == 0.2
    assert (at[0], at[-1]) == (1, 5000)


def records(module: Any, arms: dict[str, dict[str, Any]], axis: str, seeds: int = 2, **given: Any) -> pd.DataFrame:
    rows = []
    for arm, changes in arms.items():
        context = Context(module.__name__, **given)
        runs = [module.Parameters(**{**changes, "seed": seed}) for seed in range(seeds)]
        module.run(runs, context)
        rows += [{**row, axis: arm, "run": f"{arm},{row['seed']}"} for row in context.rows]
    return pd.DataFrame(rows)


def all_records() -> dict[str, pd.DataFrame]:
    train = {**TINY, "curvature_times": 1}
    network = {"network": None}
    context = Context("modular_addition")
    modular_addition.run([modular_addition.Parameters(**{**train, "steps": 2})], context)
    network["network"] = context.kept[0][1]
    sizes = {name: TINY[name] for name in ("modulus", "layers", "width", "heads")}
    variance = {**sizes, "pairs": 40, "draws": 6, "smooth_width": 6, "quartic_size": 50}
    tables = {
        "modular_addition": records(
            modular_addition, {"none": {**train, "weight_decay": 0.0}, "large_decay": train}, "arm"
        ),
        "noise_scale": records(noise_scale, {"0": train, "0.003": {**train, "rule": "nso"}}, "sigma"),
        "controls": records(
            controls, {"true_answers": train, "shuffled_answers": {**train, "answers": "shuffled"}}, "arm"
        ),
        "gradient_variance": records(gradient_variance, {"all": variance}, "arm", needed=network),
        "matrix_sensing": records(
            matrix_sensing,
            {rule: {"rule": rule, "steps": 40, "records": 4} for rule in ("plain", "nso", "wp_sgd")},
            "rule",
        ),
        "update_step": records(update_step, {rule: {"rule": rule} for rule in ("plain", "nso", "wp_sgd")}, "rule", 1),
    }
    both = [
        records(operations, {"large_decay": {**train, "operation": name}}, "arm").assign(
            run=lambda rows, name=name: name + "," + rows["run"]
        )
        for name in ("add", "divide")
    ]
    return {**tables, "operations": pd.concat(both)}


MODULES = {
    "modular_addition": modular_addition,
    "operations": operations,
    "noise_scale": noise_scale,
    "controls": controls,
    "gradient_variance": gradient_variance,
    "matrix_sensing": matrix_sensing,
    "update_step": update_step,
}
ANALYSES = {name: import_module(f"replications.grokking.analysis.{name}") for name in MODULES}


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    return all_records()


@pytest.mark.parametrize("name", list(MODULES))
def test_metrics_and_figures_come_from_the_records(name: str, tables: dict[str, pd.DataFrame]) -> None:
    table = ANALYSES[name].metrics(tables[name])
    assert set(table.index) == set(tables[name]["run"])
    assert "regime_reached" in table
    for figure in ANALYSES[name].figures(tables[name]).values():
        assert figure.axes


def test_every_claim_reads_metrics_that_exist(tables: dict[str, pd.DataFrame]) -> None:
    folder = Path(modular_addition.__file__).parent
    grids = {
        name: {axis: list(range(values)) if isinstance(values, int) else list(values) for axis, values in grid.items()}
        for name, grid in (
            (name, experiment["grid"])
            for name, experiment in yaml.safe_load((folder / "config.yaml").read_text()).items()
        )
    }
    for claim in load_claims(folder / "claims.yaml"):
        names = list(ANALYSES[claim.experiment].metrics(tables[claim.experiment]).columns)
        check(claim, names, grids[claim.experiment], experiments=list(MODULES))


def test_every_arm_that_is_named_for_a_rule_takes_it() -> None:
    config = yaml.safe_load(Path(modular_addition.__file__).with_name("config.yaml").read_text())
    for name in ("modular_addition", "operations", "matrix_sensing"):
        for arm, changes in config[name]["grid"]["arm"].items():
            settings = MODULES[name].Parameters(**changes)
            expected = next((rule for rule in ("nso", "wp_sgd") if arm.endswith(rule)), "plain")
            assert settings.rule == expected, (name, arm)


def test_noise_on_a_quartic_has_the_variance_of_theory(tables: dict[str, pd.DataFrame]) -> None:
    table = gradient_variance_analysis.metrics(tables["gradient_variance"])
    assert table["slope_quartic_nso"].mean() == pytest.approx(4, abs=0.1)
    assert table["slope_quartic_wp_sgd"].mean() == pytest.approx(2, abs=0.1)


def test_the_trace_of_matrix_sensing_is_that_of_the_dense_hessian() -> None:
    run = matrix_sensing.Parameters(size=4, measurements=6)
    problems = matrix_sensing.draw_problems([run], Context("x"))

    class Factor(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = torch.nn.Parameter(torch.randn(4, 4, dtype=torch.float64))

        def forward(self, matrices: torch.Tensor) -> torch.Tensor:
            return torch.einsum("nij,ij->n", matrices, self.weights @ self.weights.T)

    model = Factor()
    data = problems.matrices[0], problems.answers[0]
    hessian = dense(Hessian(Problem(model, lambda out, target: (out - target).square().mean() / 2, data)))
    weights = model.weights.detach()[None]
    assert float(problems.traces(weights)) == pytest.approx(float(hessian.trace()), rel=1e-9)


def test_a_resumed_matrix_sensing_has_the_same_records() -> None:
    def runs() -> list[Any]:
        return [matrix_sensing.Parameters(rule="nso", steps=20, records=5, seed=seed) for seed in range(2)]

    whole = Context("x")
    matrix_sensing.run(runs(), whole)
    state, rows = whole.states[9]
    resumed = Context("x", saved=state)
    matrix_sensing.run(runs(), resumed)
    assert whole.rows[:rows] + resumed.rows == whole.rows
