"""Metrics and figures from few records, claims that fit the metrics, gradients and traces against theory."""

from importlib import import_module
from pathlib import Path
from typing import Any

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
from tests.context import MemoryContext
from tests.unit.replications.grokking.shared.test_training import TINY


def records(module: Any, arms: dict[str, dict[str, Any]], axis: str, seeds: int = 2, **given: Any) -> pd.DataFrame:
    rows = []
    for arm, changes in arms.items():
        context = MemoryContext(module.__name__, **given)
        runs = [module.Parameters(**{**changes, "seed": seed}) for seed in range(seeds)]
        module.run(runs, context)
        rows += [{**row, axis: arm, "run": f"{arm},{row['seed']}"} for row in context.rows]
    return pd.DataFrame(rows)


def all_records() -> dict[str, pd.DataFrame]:
    train = {**TINY, "curvature_times": 1}
    context = MemoryContext("modular_addition")
    modular_addition.run([modular_addition.Parameters(**{**train, "steps": 2})], context)
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
        "gradient_variance": records(gradient_variance, {"all": variance}, "arm", needed=context.artifacts, match=()),
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
    problems = matrix_sensing.draw_problems([run], MemoryContext())

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

    whole = MemoryContext()
    matrix_sensing.run(runs(), whole)
    resumed = MemoryContext(begun=whole.checkpoints[9])
    matrix_sensing.run(runs(), resumed)
    assert resumed.rows == whole.rows
