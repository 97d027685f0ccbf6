"""Gradients and traces against theory, and arms that are what their names say."""

from pathlib import Path

import pandas as pd
import pytest
import torch
import yaml

from common.hessian import Hessian, Problem, dense
from replications.grokking import gradient_variance, late_grokking, matrix_sensing, modular_addition, operations
from replications.grokking.analysis import gradient_variance as gradient_variance_analysis
from tests.context import MemoryContext
from tests.unit.replications.resuming import same_when_resumed


def test_every_arm_that_is_named_for_a_rule_takes_it() -> None:
    config = yaml.safe_load(Path(modular_addition.__file__).with_name("config.yaml").read_text())
    for name, module in {
        "modular_addition": modular_addition,
        "operations": operations,
        "matrix_sensing": matrix_sensing,
    }.items():
        for arm, changes in config[name]["grid"]["arm"].items():
            settings = module.Parameters(**changes)
            expected = next((rule for rule in ("nso", "wp_sgd") if arm.endswith(rule)), "plain")
            assert settings.rule == expected, (name, arm)


def test_arms_with_a_long_delay_have_the_strength_of_their_names_and_differ_in_one_thing() -> None:
    config = yaml.safe_load(Path(late_grokking.__file__).with_name("config.yaml").read_text())["late_grokking"]
    arms = config["grid"]["arm"]
    reference = arms["large_decay"]
    for arm, changes in arms.items():
        settings = late_grokking.Parameters(**{**config["base"], **changes})
        kind, _, strength = arm.rpartition("_")
        if kind in ("nso", "wp_sgd"):
            assert (settings.rule, settings.noise_scale) == (kind, float(strength))
            assert settings.draws == (2 if kind == "wp_sgd" else 1)
            continue
        if not arm.endswith("decay") and arm != "none":
            apart = {name for name in {**changes, **reference} if changes.get(name) != reference.get(name)}
            assert len(apart - {"noise_scale", "lengthening"}) == 1, arm


def test_noise_on_a_quartic_has_the_variance_of_theory() -> None:
    context = MemoryContext("gradient_variance")
    for seed in range(2):
        gradient_variance._quartic(gradient_variance.Parameters(quartic_size=50, draws=6, seed=seed), context)
    table = gradient_variance_analysis.metrics(pd.DataFrame(context.rows))
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
    runs = [matrix_sensing.Parameters(rule="nso", steps=20, records=5, seed=seed) for seed in range(2)]
    same_when_resumed(lambda context: matrix_sensing.run(runs, context), times=3)
