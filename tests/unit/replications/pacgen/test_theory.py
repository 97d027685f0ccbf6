"""pacGen's illustration, trade-off, reparametrisation and bounds, on small cases with known answers."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from common.hessian import dense_hessian
from replications.pacgen import (
    perturbation_tradeoff,
    reparametrisation,
    sharpness_illustration,
    toy_bounds,
    two_layer_network,
)
from replications.pacgen.analysis import perturbation_tradeoff as perturbation_tradeoff_analysis
from replications.pacgen.analysis import reparametrisation as reparametrisation_analysis
from replications.pacgen.analysis import sharpness_illustration as sharpness_illustration_analysis
from replications.pacgen.analysis import toy_bounds as toy_bounds_analysis
from replications.pacgen.shared.two_layer_curvature import Curvature
from tests.context import Artifact, MemoryContext
from tests.unit.replications.images import random_images
from tests.unit.replications.pacgen.samples import small_problem
from tests.unit.replications.resuming import same_when_resumed

IMAGES = random_images(1, 6)
TRAINING = {"training_images": 40, "width": 4, "batch_size": 8, "epochs": 2}


@pytest.fixture(scope="module")
def networks() -> list[Artifact]:
    context = MemoryContext("two_layer_network", data=IMAGES)
    two_layer_network.run([two_layer_network.Parameters(**TRAINING, seed=s) for s in range(2)], context)
    return context.artifacts


@pytest.fixture(scope="module")
def rescaled(networks: list[Artifact]) -> pd.DataFrame:
    axes = lambda run: {"alpha": run.alpha}  # noqa: E731
    context = MemoryContext("reparametrisation", data=IMAGES, needed=networks, axes=axes)
    for alpha in (0.3, 1.0, 3.0):
        settings = {**TRAINING, "alpha": alpha, "curvature_images": 30}
        reparametrisation.run([reparametrisation.Parameters(**settings, seed=s) for s in range(2)], context)
    return pd.DataFrame(context.rows)


@pytest.fixture(scope="module")
def toy_records() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Trade-off and bounds of two mixtures."""
    context = MemoryContext("perturbation_tradeoff")
    runs = [perturbation_tradeoff.Parameters(seed=s, levels=7, zooms=3, grid_points=41) for s in range(2)]
    perturbation_tradeoff.run(runs, context)
    bounds = MemoryContext("toy_bounds", needed=context.artifacts)
    toy_bounds.run([toy_bounds.Parameters(seed=s, fresh_examples=200, draws=4) for s in range(2)], bounds)
    return pd.DataFrame(context.rows), pd.DataFrame(bounds.rows)


def test_rescaling_keeps_the_function_and_obeys_equation_23():
    problem, weights = small_problem()
    other = problem.sizes.rescale(weights, 3.0)
    torch.testing.assert_close(problem.logits(other), problem.logits(weights))
    vectors = torch.randn(weights.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    error = reparametrisation.equation_23_error(Curvature(problem), problem.sizes, weights, vectors, 3.0)
    assert float(error.max()) < 1e-12
    _, _, before = dense_hessian(lambda w: problem.losses(w).mean(1), weights)
    _, _, after = dense_hessian(lambda w: problem.losses(w).mean(1), other)
    inverse = problem.sizes.rescale(torch.ones_like(weights), 1 / 3.0)
    torch.testing.assert_close(after, inverse[:, :, None] * before * inverse[:, None])


def test_training_resumed_after_any_epoch_ends_with_the_same_bits():
    runs = [two_layer_network.Parameters(**{**TRAINING, "epochs": 3}, seed=s) for s in range(2)]
    same_when_resumed(lambda context: two_layer_network.run(runs, context), data=IMAGES)


def test_without_the_runs_that_all_are_compared_to_the_figure_of_ratios_says_so(rescaled: pd.DataFrame) -> None:
    records = rescaled[rescaled["alpha"] == 3].assign(scale="laptop")
    drawn = reparametrisation_analysis.figures(records)["reparametrisation"]
    assert any("No run at α = 1" in text.get_text() for text in drawn.axes[0].texts)


def test_changes_are_measured_against_alpha_1_of_the_same_seed(rescaled):
    table = reparametrisation_analysis.metrics(rescaled)
    assert (table.loc[["alpha=1.0,seed=0", "alpha=1.0,seed=1"], "psi_change"] == 0).all()
    raw = rescaled.set_index("run")
    ratio = raw.loc["alpha=3.0,seed=1", "trace"] / raw.loc["alpha=1.0,seed=1", "trace"]
    assert table.loc["alpha=3.0,seed=1", "trace_ratio"] == pytest.approx(ratio)
    assert (table["function_change"] < 1e-9).all()
    assert (table["psi_bare_change"] < 1e-12).all()
    per_weight = raw["psi_bare"] / raw["parameters"]
    np.testing.assert_allclose(per_weight, math.log(1.1 / 0.1))


def test_inequalities_of_the_paper_hold_on_the_toy_and_its_optimum_is_found(toy_records):
    table = perturbation_tradeoff_analysis.metrics(toy_records[0])
    assert table["regime_reached"].all()
    assert (table["slack_9"] > -1e-9).all()
    assert (table["slack_lemma9"] > -1e-9).all()
    assert (table["loosened_distance"] < 0.1).all()
    for name in ("bound", "exact"):
        assert (table[f"{name}_excess"] > -1e-3).all()
    assert (table["sharpness_growth"] > 0).all()
    assert (table["complexity_fall"] > 0).all()


def test_a_mixture_hunt_that_finds_nothing_is_settled_and_out_of_the_regime(toy_records):
    context = MemoryContext("perturbation_tradeoff")
    run = perturbation_tradeoff.Parameters(seed=7, most_mixtures=1, flatter_by=1e9, grid_points=41)
    perturbation_tradeoff.run([run], context)
    bounds = MemoryContext("toy_bounds", needed=context.artifacts)
    toy_bounds.run([toy_bounds.Parameters(seed=7)], bounds)
    for analysis, found, records in (
        (perturbation_tradeoff_analysis, context, toy_records[0]),
        (toy_bounds_analysis, bounds, toy_records[1]),
    ):
        assert [row["kind"] for row in found.rows] == ["none"]
        alone = pd.DataFrame(found.rows)
        assert not analysis.metrics(pd.concat([records, alone])).loc[alone["run"], "regime_reached"].any()
        assert not analysis.metrics(alone)["regime_reached"].any()
        assert analysis.figures(alone)


def test_sharpness_is_the_rise_where_inequality_5_is_an_equality():
    context = MemoryContext("sharpness_illustration")
    runs = [sharpness_illustration.Parameters(curvature=h, points=11) for h in (0.5, 2.0)]
    sharpness_illustration.run(runs, context)
    table = sharpness_illustration_analysis.metrics(pd.DataFrame(context.rows))
    assert (table["sharpness_error"] < 1e-3).all()
    assert sharpness_illustration.sharpness_term(2.0, 0.0, 0.5) == pytest.approx(2 * 0.25 / 6)
