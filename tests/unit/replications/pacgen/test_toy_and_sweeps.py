"""pacGen's own pieces on data that takes no download: sweeps, toy, metrics, figures, claims."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from common.claims.checking import check
from common.claims.schema import load_claims
from common.datasets import Dataset, Split
from common.experiments.seeds import stream_seed
from common.hessian import dense_hessian
from replications.pacgen import batch_size, controls, learning_rate, toy_landscape
from replications.pacgen.analysis import batch_size as batch_size_analysis
from replications.pacgen.analysis import controls as controls_analysis
from replications.pacgen.analysis import learning_rate as learning_rate_analysis
from replications.pacgen.analysis import toy_landscape as toy_landscape_analysis
from replications.pacgen.analysis.shared.sweep_metrics import sweep_metrics
from replications.pacgen.shared.measures import _mean_squares, _median
from replications.pacgen.shared.minima import Minima, find_minima
from replications.pacgen.shared.pair_search import PairSearch, _is_global, _what_is_missing, flat_partner
from replications.pacgen.shared.sweep import _Training, prepare, standardise
from replications.pacgen.shared.toy_network import cross_entropy, draw_mixture, logit_difference

FOLDER = Path(toy_landscape.__file__).parent
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


def digits(train: int = 60, test: int = 30) -> Dataset:
    generator = torch.Generator().manual_seed(0)

    def split(name: str, count: int) -> Split:
        images = torch.randint(0, 256, (count, 1, 28, 28), generator=generator, dtype=torch.uint8)
        return Split(f"digits/{name}", images, torch.randint(0, 10, (count,), generator=generator))

    return Dataset("digits", "random images", 10, "none", split("train", train), split("test", test))


class Context:
    """Records and checkpoints in memory; streams as the framework derives them."""

    def __init__(self, experiment: str, arms: dict[int, dict[str, Any]] | None = None, saved: Any = None) -> None:
        self.device = torch.device("cpu")
        self.experiment, self.arms, self.saved = experiment, arms or {}, saved
        self.rows: list[dict[str, Any]] = []
        self.states: list[tuple[Any, int]] = []
        self.gone: list[Any] = []

    def stream_seed(self, run: Any, stream: str) -> int:
        axes = self.arms.get(id(run), {"setting": run.model_dump_json(exclude={"seed"})})
        return stream_seed(self.experiment, stream, run.seed, axes)

    def generator(self, run: Any, stream: str) -> torch.Generator:
        return torch.Generator().manual_seed(self.stream_seed(run, stream))

    def record(self, run: Any, **values: Any) -> None:
        self.rows.append({**run.model_dump(), **values})

    def restore(self) -> Any:
        return self.saved

    def checkpoint(self, state: Any) -> None:
        self.states.append((copy.deepcopy(state), len(self.rows)))

    def diverged(self, run: Any, reason: str) -> None:
        self.gone.append((run, reason))

    def progress(self, done: float, total: float, message: str = "") -> None:
        pass

    def data(self, name: str) -> Dataset:
        return digits()


def sweep_records(experiment: Any, axis: str, values: list[Any], seeds: int = 2, **more: Any) -> pd.DataFrame:
    rows = []
    for value in values:
        context = Context(experiment.__name__)
        experiment.run(
            [experiment.Parameters(**{**TINY, **more, axis: value, "seed": s}) for s in range(seeds)], context
        )
        rows += [{**row, "run": f"{axis}={value},seed={row['seed']}"} for row in context.rows]
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def sweep() -> pd.DataFrame:
    return sweep_records(batch_size, "batch_size", [4, 8])


@pytest.fixture(scope="module")
def toy() -> pd.DataFrame:
    runs = [
        toy_landscape.Parameters(seed=s, grid_points=41, landscape_points=11, label_points=12, fresh_examples=200)
        for s in range(2)
    ]
    rows = []
    for run in runs:
        context = Context("toy_landscape")
        toy_landscape.run([run], context)
        rows += [{**row, "run": f"seed={run.seed}"} for row in context.rows]
    return pd.DataFrame(rows)


def training(**setting: Any) -> _Training:
    context = Context("batch_size")
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
    straight = Context("batch_size")
    batch_size.run(runs, straight)
    assert len(straight.states) == CROSSING["epochs"]
    assert {row["kind"] for row in straight.rows} == {"epoch", "crossing", "check"}
    for state, done in straight.states:
        resumed = Context("batch_size", saved=state)
        batch_size.run(runs, resumed)
        assert straight.rows[:done] + resumed.rows == straight.rows


def test_measuring_does_not_disturb_training():
    quiet, noisy = training(evaluation_epochs=(2,)), training(evaluation_epochs=(0.2, 0.4, 1, 2))
    for run in (quiet, noisy):
        run.one_epoch()
    assert torch.equal(quiet.ensemble.weights, noisy.ensemble.weights)


def test_the_gap_is_taken_over_the_whole_test_set_and_the_whole_training_set(sweep):
    run = training()
    run.one_epoch()
    row = run.context.rows[0]
    member, task, test = run.ensemble.members[0], run.tasks[0], digits().test
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
    context = Context("batch_size")
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
    found = _mean_squares(ensemble, task, sizes, 3, standardise)
    for size, squares in zip((min(size, 40) for size in sizes), found, strict=True):
        expected = torch.zeros_like(squares)
        for number in range(3):
            chosen = torch.arange(number * size, (number + 1) * size) % 40
            ensemble.losses_and_gradients([(standardise(task.images[chosen]), task.targets[chosen])] * 2)
            expected += ensemble.gradients.square() / 3
        torch.testing.assert_close(squares, expected)


def test_the_median_of_two_draws_lies_between_them():
    assert float(_median(torch.tensor([1.0, 3.0]))) == 2.0
    assert float(_median(torch.tensor([5.0, 1.0, 2.0]))) == 2.0


def test_a_diverged_seed_is_reported_and_leaves_the_others_as_they_were():
    together = training()
    alone = training()
    together.tasks[0].images[:] = 0
    together.ensemble.weights[0] = float("nan")
    for run in (together, alone):
        run.one_epoch()
    ((gone, reason),) = together.context.gone
    assert gone is together.runs[0]
    assert "not finite at step 1" in reason
    assert torch.equal(together.ensemble.weights[1], alone.ensemble.weights[1])
    assert [row["seed"] for row in together.context.rows] == [1]


def curve(run: str, seed: int, batch: int, losses: list[float], gaps: list[float]) -> list[dict[str, Any]]:
    constant = {"kind": "epoch", "test_loss": 0.0, "training_error": 0.0, "test_error": 0.0, "hessian_trace": 1.0}
    constant |= {"hessian_trace_error": 0.1, "mean_squared_gradient": 1.0, "rho": 1.0, "rho_fixed_batch": 1.0}
    constant |= {"psi_fixed_batch": 1.0, "psi_no_rho": 1.0, "dataset": "mnist", "momentum": 0.0}
    return [
        {
            "run": run,
            "seed": seed,
            "batch_size": batch,
            "epoch": k,
            "step": k,
            "training_loss": a,
            "gap": b,
            "psi": 2 * b,
        }
        | constant
        for k, (a, b) in enumerate(zip(losses, gaps, strict=True), start=1)
    ]


def test_matched_measures_are_interpolated_where_the_loss_first_passes_the_one_common_level():
    rows = curve("a", 0, 8, [1.0, 0.1, 0.04, 0.01, 0.01], [0.0, 0.2, 0.3, 0.5, 0.5])
    rows += curve("b", 0, 16, [1.0, 0.05, 0.3, 0.01, 0.01], [0.0, 0.1, 0.4, 0.5, 0.6])
    table = sweep_metrics(pd.DataFrame(rows), "batch_size")
    share = np.log(0.1 / 0.05) / np.log(0.1 / 0.04)
    assert table.loc["a", "matched_gap"] == pytest.approx(0.2 + share * 0.1)
    assert table.loc["a", "matched_psi"] == pytest.approx(2 * table.loc["a", "matched_gap"])
    assert table.loc["b", "matched_gap"] == pytest.approx(0.1)
    assert table["gap"].to_dict() == {"a": 0.5, "b": 0.6}
    assert table["regime_reached"].all()
    assert table.loc["a", "log_training_loss"] == pytest.approx(-2)
    assert table.columns.is_unique


def test_a_check_of_the_loss_alone_counts_for_the_regime_and_not_for_the_measures():
    rows = curve("a", 0, 8, [1.0, 0.03, 0.02, 0.01], [0.0, 0.2, np.nan, 0.3])
    rows[2]["kind"] = "check"
    rows += curve("b", 0, 16, [1.0, 0.03, 0.04, 0.01], [0.0, 0.2, np.nan, 0.3])
    rows[-2]["kind"] = "check"
    table = sweep_metrics(pd.DataFrame(rows), "batch_size")
    assert table["regime_reached"].to_dict() == {"a": True, "b": False}
    assert table["matched_gap"].notna().all()
    assert table["gap"].to_dict() == {"a": 0.3, "b": 0.3}


def test_a_rise_is_the_largest_minus_the_smallest_setting_of_the_same_seed():
    rows = []
    for seed, gaps in enumerate([(0.1, 0.9, 0.4), (0.3, 0.2, 0.1)]):
        for batch, gap in zip((8, 16, 32), gaps, strict=True):
            rows += curve(f"{seed}-{batch}", seed, batch, [1.0, 0.04, 0.01, 0.01], [0.0, gap, gap, gap])
    table = sweep_metrics(pd.DataFrame(rows[:-4]), "batch_size")  # the largest setting of the second seed is missing
    assert table.loc[["0-8", "0-16", "0-32"], "gap_rise"].tolist() == pytest.approx([0.3] * 3)
    assert table.loc[["1-8", "1-16"], "gap_rise"].isna().all()
    table = sweep_metrics(pd.DataFrame(rows), "batch_size")
    assert table.loc["1-16", "gap_rise"] == pytest.approx(-0.2)
    assert table.loc["1-16", "matched_gap_rise"] == pytest.approx(-0.2 * np.log(20) / np.log(25))


def test_runs_that_were_never_fitted_end_in_a_spike_or_end_early_have_not_reached_the_regime():
    rows = curve("never", 0, 8, [1.0, 0.3, 0.1, 0.1], [0.0, 0.0, 0.0, 0.1])
    rows += curve("spike", 0, 16, [1.0, 0.04, 0.01, 1.1], [0.0, 0.2, 0.3, 0.3])
    rows += curve("early", 0, 32, [1.0, 0.04, 0.01], [0.0, 0.1, 0.1])
    table = sweep_metrics(pd.DataFrame(rows), "batch_size")
    assert not table["regime_reached"].any()
    assert np.isnan(table.loc["early", "gap"])
    assert np.isnan(table.loc["never", "matched_gap"])
    assert table.loc["spike", "matched_gap"] == pytest.approx(0.2 * np.log(20) / np.log(25))


def test_sweep_figures_are_drawn_from_records_alone(sweep):
    assert set(batch_size_analysis.figures(sweep)) == {"fig3", "fig3_matched_loss", "fig3_readings", "fig3_curvature"}
    drawn = batch_size_analysis.figures(sweep)["fig3"]
    assert [axes.get_ylabel() for axes in drawn.axes] == ["test loss − training loss (nats)", "Ψ (thousand nats)"]


def test_control_arms_differ_in_what_they_say_and_in_nothing_else():
    arms = {"true_labels": {}, "true_labels_again": {"own_streams": True}, "shuffled_labels": {"labels": "shuffled"}}
    runs = {name: controls.Parameters(**TINY, **overrides) for name, overrides in arms.items()}
    context = Context("controls", arms={id(run): {"arm": name} for name, run in runs.items()})
    tasks = {name: controls._prepare(run, context) for name, run in runs.items()}
    true, again, shuffled = tasks.values()
    assert torch.equal(true.images, shuffled.images)
    assert torch.equal(true.init.get_state(), shuffled.init.get_state())
    assert not torch.equal(true.targets, shuffled.targets)
    assert torch.equal(true.targets.sort().values, shuffled.targets.sort().values)
    assert not torch.equal(true.images, again.images)
    assert not torch.equal(true.init.get_state(), again.init.get_state())
    rows = []
    for name, run in runs.items():
        controls.run([run], context)
        rows += [{**row, "arm": name, "run": name} for row in context.rows]
        context.rows = []
    assert list(controls_analysis.metrics(pd.DataFrame(rows)).index) == list(arms)
    assert set(controls_analysis.figures(pd.DataFrame(rows))) == {"controls"}


def test_toy_network_is_five_layers_of_one_matrix():
    weights, points = torch.tensor([[0.7, -1.3]], dtype=torch.float64), torch.randn(4, 2, dtype=torch.float64)
    matrix = torch.tensor([[0.7, -1.3], [1.3, 0.7]], dtype=torch.float64)
    hidden = points
    for _ in range(4):
        hidden = (hidden @ matrix.T).sigmoid()
    logits = hidden @ matrix.T
    torch.testing.assert_close(logit_difference(weights, points)[0], logits[:, 1] - logits[:, 0])
    labels = torch.tensor([0, 1, 1, 0])
    expected = torch.nn.functional.cross_entropy(logits, labels)
    torch.testing.assert_close(cross_entropy(points, labels.bool())(weights)[0], expected)


def test_the_derivatives_that_the_toy_knows_are_those_of_autograd():
    mixture, points = draw_mixture(
        torch.Generator().manual_seed(3), spread=2.0, width=0.7, label_by="coordinate", examples=50
    )
    loss = cross_entropy(points, mixture.labels(points))
    weights = 4 * torch.randn(30, 2, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    for own, expected in zip(loss.derivatives(weights), dense_hessian(loss, weights), strict=True):
        torch.testing.assert_close(own, expected, rtol=0, atol=1e-13)
    assert torch.equal(loss.derivatives(weights)[0], loss(weights))  # a step is compared with the value before it


@pytest.mark.parametrize("label_by", ["coordinate", "density"])
def test_the_median_splits_the_training_sample_in_halves(label_by):
    mixture, points = draw_mixture(
        torch.Generator().manual_seed(0), spread=2.0, width=0.7, label_by=label_by, examples=100
    )
    assert int(mixture.labels(points).sum()) == 50


def test_all_minima_of_a_known_function_are_found_once_in_order_of_their_value():
    def function(w: torch.Tensor) -> torch.Tensor:
        return (w[:, 0].square() - 4).square() / 10 + w[:, 0] / 10 + 3 * w[:, 1].square()

    minima = find_minima(function, half_width=5.0, count=41)
    assert len(minima.points) == 2
    assert float(minima.points[0, 0]) < -1.9
    assert float(minima.points[1, 0]) > 1.9
    assert bool((minima.points[:, 1].abs() < 1e-8).all())
    torch.testing.assert_close(minima.sharpness, torch.full((2,), 6.0, dtype=torch.float64))


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


def pairs_of(losses: list[float], sharpness: list[float]) -> Minima:
    hessians = torch.diag_embed(torch.tensor(sharpness, dtype=torch.float64)[:, None].expand(-1, 2))
    return Minima(torch.zeros(len(losses), 2), torch.tensor(losses, dtype=torch.float64), hessians)


@pytest.mark.parametrize(
    ("losses", "sharpness", "expected"),
    [
        ([0.30, 0.35, 0.36], [2.0, 1.5, 0.9], 2),
        ([0.30], [2.0], "single_minimum"),
        ([0.30, 0.35], [2.0, 1.5], "none_flatter"),
        ([0.30, 0.55], [2.0, 0.5], "flat_too_high"),
        ([0.60, 0.70], [2.0, 0.5], "flat_guesses"),
    ],
)
def test_the_flat_partner_is_much_flatter_slightly_higher_and_no_guess(losses, sharpness, expected):
    minima = pairs_of(losses, sharpness)
    if isinstance(expected, int):
        assert flat_partner(minima) == expected
    else:
        assert flat_partner(minima) is None
        assert _what_is_missing(minima, 2.0, 0.15) == expected


def test_a_minimum_that_the_border_undercuts_is_not_global():
    def tilted(w: torch.Tensor) -> torch.Tensor:
        return (w[:, 0].square() - 4).square() / 10 + 3 * w[:, 1].square() - 0.5 * (w[:, 0] - 4.9).clamp(min=0) * 1000

    search = PairSearch(half_width=5.0, check_points=101)
    minima = find_minima(tilted, half_width=5.0, count=41)
    assert float(minima.losses[0]) == pytest.approx(0.0, abs=1e-9)
    assert not _is_global(tilted, minima, search)
    assert _is_global(tilted, minima, PairSearch(half_width=4.5, check_points=101))


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


def test_a_mixture_hunt_that_finds_nothing_has_not_reached_the_regime():
    rows = [{"run": "seed=0", "seed": 0, "kind": "none", "mixtures_rejected": 5, "rejected_none_flatter": 5}]
    rows += [
        {**rows[0], "run": "seed=1", "kind": "pair", **{f"{n}_{w}": 1.0 for n in PAIRED for w in ("sharp", "flat")}}
    ]
    table = toy_landscape_analysis.metrics(pd.DataFrame(rows))
    assert table["regime_reached"].to_dict() == {"seed=0": False, "seed=1": True}
    assert np.isnan(table.loc["seed=0", "psi_difference"])
    assert table.loc["seed=0", "rejected_none_flatter"] == 5
    assert np.isnan(table.loc["seed=0", "flat_is_better_on_fresh_data"])


PAIRED = ("psi", "bound", "population_loss", "training_error", "boundary_complexity", "loss")


def test_figure_1_is_drawn_for_the_first_seed_and_the_comparison_for_all(toy):
    drawn = toy_landscape_analysis.figures(toy)
    assert set(drawn) == {"fig1a", "fig1_map", "fig1b", "fig1c", "fig1d", "fig1_fresh_data"}
    assert "of 2" in drawn["fig1_fresh_data"].axes[0].get_title("left")
    only_second = toy[toy["seed"] == 1]
    assert set(toy_landscape_analysis.figures(only_second)) == {"fig1_fresh_data"}


def test_every_claim_names_metrics_and_axes_that_exist(sweep, toy):
    small_rates = sweep_records(learning_rate, "learning_rate", [0.1, 0.05], seeds=1)
    control = sweep.assign(arm="true_labels")
    tables = {
        "toy_landscape": toy_landscape_analysis.metrics(toy),
        "batch_size": batch_size_analysis.metrics(sweep),
        "learning_rate": learning_rate_analysis.metrics(small_rates),
        "controls": controls_analysis.metrics(control),
    }
    axes = {
        "toy_landscape": ["seed"],
        "batch_size": ["batch_size", "seed"],
        "learning_rate": ["learning_rate", "seed"],
        "controls": ["arm", "seed"],
    }
    claims = [claim for claim in load_claims(FOLDER / "claims.yaml") if claim.experiment in tables]
    assert {claim.experiment for claim in claims} == set(tables)
    for claim in claims:
        check(claim, list(tables[claim.experiment].columns), axes[claim.experiment], experiments=list(tables))
