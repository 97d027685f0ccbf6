"""Compiled steps, scalar networks and their kernels, and resuming, against plain autograd and the toolkit."""

import copy
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from common.datasets import Dataset, Split
from common.experiments.seeds import stream_seed
from common.hessian import Problem, alignment
from common.training import Batches
from replications.sgd_stability import alignment as alignment_experiment
from replications.sgd_stability import flat_interpolants, memorising_minimum, size_independence
from replications.sgd_stability.analysis.flat_interpolants import metrics as flat_interpolants_metrics
from replications.sgd_stability.analysis.memorising_minimum import metrics as memorising_minimum_metrics
from replications.sgd_stability.shared.scalar_networks import (
    alignment_factors,
    alignment_of_noise,
    draw_images,
    draw_networks,
    errors_and_kernel,
    parameter_count,
    smallest_alignment,
)

numba = pytest.importorskip("numba")


class Stop(Exception):
    """Ends a run as a kill would."""


class Context:
    """Records, data and checkpoints in memory; raises Stop at the checkpoint `stop_at`."""

    device = torch.device("cpu")
    name = "test"

    def __init__(self, saved: tuple[Any, int] | None = None, rows: Any = (), stop_at: int | None = None) -> None:
        self.saved, self.stop_at = saved, stop_at
        self.rows: list[dict[str, Any]] = list(rows)[: saved[1]] if saved else []
        self.states: list[tuple[Any, int]] = []

    def generator(self, run: Any, stream: str) -> torch.Generator:
        return torch.Generator().manual_seed(stream_seed("test", stream, run.seed, {}))

    def data(self, name: str) -> Dataset:
        source = torch.Generator().manual_seed(0)
        images = torch.randint(0, 256, (60, 1, 4, 4), generator=source, dtype=torch.uint8)
        split = Split("images", images, torch.arange(60) % 10)
        return Dataset(name, "images", 10, "0", split, split)

    def record(self, run: Any, **values: Any) -> None:
        self.rows.append({"run": f"seed={run.seed}", **run.model_dump(), **values})

    def restore(self) -> Any:
        return copy.deepcopy(self.saved[0]) if self.saved else None

    def checkpoint(self, state: Any) -> None:
        self.states.append((copy.deepcopy(state), len(self.rows)))
        if self.stop_at == len(self.states):
            raise Stop

    def progress(self, done: float, total: float) -> None:
        pass

    def diverged(self, run: Any, reason: str) -> None:
        raise AssertionError(reason)


RUNS = {
    "gd": (memorising_minimum, {"method": "gd", "weight_decay": 0.05}),
    "sgd": (memorising_minimum, {"method": "sgd"}),
    "sam": (memorising_minimum, {"method": "sam", "radii": (0.05, 0.1)}),
    "interpolant": (flat_interpolants, {"dimension": 4, "examples": 6, "width": 8, "steps": 400, "fresh_examples": 20}),
    "alignment": (
        alignment_experiment,
        {"examples": 20, "width": 5, "batch_size": 4, "measured": (0, 3, 9), "learning_rate": 0.05},
    ),
    "size": (
        size_independence,
        {"dataset": "mnist", "examples": 20, "width": 5, "longest": 30, "often": 10, "trajectory": 5},
    ),
}
SMALL = {"dimension": 6, "examples": 8, "width": 5, "epochs": 30, "fresh_examples": 20, "evaluations": 6}


@pytest.mark.parametrize("kind", RUNS)
def test_a_run_that_is_stopped_and_started_again_records_the_same_bits(kind: str) -> None:
    module, settings = RUNS[kind]
    if module is memorising_minimum:
        settings = SMALL | settings
    run = module.Parameters(**settings)  # type: ignore[attr-defined]
    whole = Context()
    module.run([run], whole)  # type: ignore[attr-defined]
    first = Context(stop_at=2)
    with pytest.raises(Stop):
        module.run([run], first)  # type: ignore[attr-defined]
    second = Context(first.states[-1], first.rows)
    module.run([run], second)  # type: ignore[attr-defined]
    assert second.rows == whole.rows
    assert len(whole.rows) > 0


def reference_step(weights: tuple[torch.Tensor, ...], inputs: torch.Tensor, targets: torch.Tensor) -> Any:
    outer, inner = (weight.clone().requires_grad_() for weight in weights)
    loss = ((inputs @ inner).relu() @ outer - targets).square().mean()
    return torch.autograd.grad(loss, (outer, inner))


def problem() -> tuple[torch.Tensor, ...]:
    source = torch.Generator().manual_seed(3)
    draw = lambda *shape: torch.randn(*shape, generator=source, dtype=torch.float64)  # noqa: E731
    return draw(5), draw(4, 5), draw(6, 4), draw(6)


def test_compiled_descent_is_gradient_descent_with_weight_decay() -> None:
    from replications.sgd_stability.shared.sequential_training import descend

    outer, inner, inputs, targets = problem()
    expected = (outer.clone(), inner.clone())
    for _ in range(3):
        slopes = reference_step(expected, inputs, targets)
        expected = tuple(w - 0.05 * (g + 0.1 * w) for w, g in zip(expected, slopes, strict=True))
    descend(outer.numpy(), inner.numpy(), inputs.numpy(), targets.numpy(), 0.05, 0.1, 3)
    torch.testing.assert_close((outer, inner), expected)


@pytest.mark.parametrize("radius", [0.0, 0.3])
def test_compiled_single_example_steps_are_those_of_sgd_and_sam(radius: float) -> None:
    from replications.sgd_stability.shared.sequential_training import descend_by_examples

    outer, inner, inputs, targets = problem()
    expected = (outer.clone(), inner.clone())
    order = torch.tensor([4, 0, 2, 2, 5])
    for at in order.tolist():
        one = inputs[at : at + 1], targets[at : at + 1]
        slopes = reference_step(expected, *one)
        norm = torch.cat([slope.flatten() for slope in slopes]).norm()
        if radius and norm > 0:
            there = tuple(w + radius * g / norm for w, g in zip(expected, slopes, strict=True))
            slopes = reference_step(there, *one)
        expected = tuple(w - 0.02 * g for w, g in zip(expected, slopes, strict=True))
    descend_by_examples(outer.numpy(), inner.numpy(), inputs.numpy(), targets.numpy(), order.numpy(), 0.02, radius)
    torch.testing.assert_close((outer, inner), expected)


def test_theorem_3_is_judged_only_where_it_says_more_than_the_error_of_nothing() -> None:
    runs = [
        {"run": f"{scale},{seed}", "examples": 4, "start_scale": scale, "seed": seed, "trace": trace,
         "population_error": 0.5 * trace, "target_power": 1.0, "dimension": 4, "path_norm": 1.0,
         "training_error": 0.0, "interpolation": 1e-3}
        for scale, seed, trace in ((0.3, 0, 1.0), (0.3, 1, 1.5), (1.0, 0, 3.0), (1.0, 1, 5.0))
    ]  # fmt: skip
    table = flat_interpolants_metrics(pd.DataFrame(runs))
    assert table["theorem3_ratio"].tolist() == pytest.approx([2.0, 4 / 3, np.nan, np.nan], nan_ok=True)
    assert (table["log_bound_over_target"] > 0).tolist() == [False, False, True, True]
    assert table["log_error_over_bound"].iloc[2] == pytest.approx(np.log(2 / 3))
    beyond = np.log(5 / 3) / 2
    assert table["log_trace_beyond"].tolist()[2:] == pytest.approx([-beyond, beyond])
    assert table["log_population_error_beyond"].groupby([0.3, 0.3, 1.0, 1.0]).sum().tolist() == pytest.approx([0, 0])


def test_methods_take_equally_many_gradients_of_examples() -> None:
    totals = set()
    for method in ("gd", "sgd", "sam"):
        context = Context()
        memorising_minimum.run([memorising_minimum.Parameters(**SMALL, method=method)], context)  # type: ignore[arg-type]
        totals.add(context.rows[-1]["gradients"])
    assert len(totals) == 1


def test_constructions_and_trainings_give_one_row_each() -> None:
    context = Context()
    parameters = memorising_minimum.Parameters(**SMALL, method="constructions", wide_dimension=12)
    memorising_minimum.run([parameters], context)  # type: ignore[arg-type]
    row = memorising_minimum_metrics(pd.DataFrame(context.rows)).iloc[0]
    assert row["regime_reached"]
    assert row["corrected_error"] < 1e-12
    assert row["corrected_over_bound"] == pytest.approx(1) == row["generalising_over_bound_wide"]


@pytest.fixture
def networks() -> tuple[Any, Any]:
    context = Context()
    sources = [torch.Generator().manual_seed(seed) for seed in (1, 2)]
    images = draw_images(context.data("mnist"), "mnist", 12, sources)
    return draw_networks(7, 2, images, sources), images


def test_factors_from_the_closed_form_kernel_are_those_of_the_toolkit(networks: tuple[Any, Any]) -> None:
    ensemble, images = networks
    errors, kernel = errors_and_kernel(ensemble, images)
    found = alignment_factors(errors, kernel)
    for member in range(2):
        data = images.inputs[member].double(), images.targets[member].double()
        expected = alignment(Problem(ensemble.module(member).double(), torch.nn.MSELoss(), data))
        for name in ("alpha", "beta", "mu", "gamma"):
            assert float(getattr(found, name)[member]) == pytest.approx(getattr(expected, name), rel=1e-8)
        assert 2 * float(found.frobenius[member]) == pytest.approx(expected.curvature_norm, rel=1e-8)


def test_projected_images_keep_their_products_and_networks_their_outputs(networks: tuple[Any, Any]) -> None:
    ensemble, images = networks
    pixels = images.inputs @ images.basis.mT
    torch.testing.assert_close(pixels @ pixels.mT, images.inputs @ images.inputs.mT, rtol=1e-4, atol=1e-4)
    identity = images.basis.mT @ images.basis
    torch.testing.assert_close(identity, torch.eye(identity.shape[1]).expand_as(identity), rtol=0, atol=1e-5)
    assert parameter_count(7, 2, 16) == sum((a + 1) * b for a, b in ((16, 7), (7, 7), (7, 1)))
    assert ensemble.sizes == (images.inputs.shape[2], 7, 7, 1)


def test_mu_zero_is_the_least_alignment_of_linearised_sgd(networks: tuple[Any, Any]) -> None:
    ensemble, images = networks
    errors, kernel = errors_and_kernel(ensemble, images)
    picks = Batches(12, 3, [torch.Generator().manual_seed(seed) for seed in (5, 6)], order="independent")
    chosen = torch.stack([picks.next([0, 1]) for _ in range(4)], 1)
    found = smallest_alignment(errors, kernel, 0.01, chosen)
    seen = []
    for step in range(4):
        moved = errors.clone()
        for member in range(2):
            at = chosen[member, step]
            moved[member] -= 0.01 / 3 * kernel[member][:, at] @ errors[member, at]
        errors = moved
        seen.append(alignment_of_noise(errors, kernel))
    torch.testing.assert_close(found, torch.stack(seen).amin(0))
