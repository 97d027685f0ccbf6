"""The parts of cohen2021edge whose result is known beforehand."""

import math
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import torch
from torch import nn

from common.hessian import Hessian, Problem, dense
from common.models import initialise_uniform
from replications.cohen2021edge import quadratic_model
from replications.cohen2021edge.analysis.cross_entropy_descends import metrics as descent_metrics
from replications.cohen2021edge.analysis.momentum_thresholds import figures as plateau_figures
from replications.cohen2021edge.analysis.momentum_thresholds import metrics as plateau_metrics
from replications.cohen2021edge.analysis.quadratic_model import metrics as expansion_metrics
from replications.cohen2021edge.quadratic_model import quadratic_descent
from replications.cohen2021edge.quadratic_thresholds import growth_rate, threshold
from replications.cohen2021edge.shared.setting import Rule, Setting, stability_factor
from replications.cohen2021edge.shared.training import Training, network


class Context:
    """What `Training` asks of a context, with 12 random images of 3 × 4 × 4."""

    def __init__(self) -> None:
        self.device = torch.device("cpu")
        self.rows: list[dict[str, Any]] = []
        self.of: list[Setting] = []
        self.checkpoints = 0
        source = torch.Generator().manual_seed(5)
        self.images = torch.randint(0, 256, (12, 3, 4, 4), generator=source, dtype=torch.uint8)

    def data(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(train=SimpleNamespace(inputs=self.images, targets=torch.arange(12) % 10))

    def generator(self, run: Setting, stream: str) -> torch.Generator:
        return torch.Generator().manual_seed(run.seed)

    def record(self, run: Setting, **values: Any) -> None:
        self.rows.append({"seed": run.seed, **values})
        self.of.append(run)

    def restore(self) -> None:
        return None

    def progress(self, done: float, total: float) -> None:
        pass

    def checkpoint(self, state: Any) -> None:
        self.checkpoints += 1


@pytest.mark.parametrize("momentum", [0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("rule", ["heavy_ball", "nesterov"])
def test_the_formula_is_where_a_step_of_the_rule_ceases_to_contract(rule: Rule, momentum: float) -> None:
    assert threshold(rule, momentum) == pytest.approx(stability_factor(rule, momentum), rel=1e-9)


def test_thresholds_have_the_values_of_the_paper() -> None:
    assert stability_factor("gradient_descent", 0.0) == 2
    assert stability_factor("heavy_ball", 0.9) == pytest.approx(3.8)
    assert stability_factor("nesterov", 0.9) == pytest.approx(3.8 / 2.8)
    assert Setting(rule="heavy_ball", momentum=0.9, edge=19.0).learning_rate == pytest.approx(0.2)


@pytest.mark.parametrize("curvature", [1.5, 1.9, 2.1])
def test_growth_on_a_quadratic_is_that_of_its_steepest_direction(curvature: float) -> None:
    slopes = torch.tensor([0.9, curvature], dtype=torch.float64)
    found = growth_rate(slopes, torch.ones(2, dtype=torch.float64), "gradient_descent", 0.0, 4000)
    assert found == pytest.approx(math.log(abs(1 - curvature)), abs=1e-3)


@pytest.mark.parametrize(("rule", "momentum"), [("gradient_descent", 0.0), ("heavy_ball", 0.9), ("nesterov", 0.9)])
def test_training_in_the_span_of_the_images_is_training_on_the_images(rule: Rule, momentum: float) -> None:
    context = Context()
    run = Setting(training_images=12, width=6, rule=rule, momentum=momentum, edge=8.0, seed=1)
    training = Training([run], context)  # type: ignore[arg-type]
    images = context.images.double().flatten(1)
    images = ((images - images.mean(0)) / images.std(0)).float()
    targets = training.data[1]
    whole = network(48, 6, 10)
    initialise_uniform(whole, torch.Generator().manual_seed(1))
    optimiser = torch.optim.SGD(whole.parameters(), run.learning_rate, momentum=momentum, nesterov=rule == "nesterov")
    for _ in range(15):
        training.advance(1)
        optimiser.zero_grad()
        nn.functional.mse_loss(whole(images), targets).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    with torch.no_grad():
        loss = float(nn.functional.mse_loss(whole(images), targets))
    assert float(training.ensemble.losses(*training.data)[0]) == pytest.approx(loss, rel=1e-4)
    training.measure()
    exact = torch.linalg.eigvalsh(dense(Hessian(Problem(whole, nn.MSELoss(), (images, targets)))))[-1]
    assert context.rows[-1]["sharpness"] == pytest.approx(float(exact), rel=0.02)
    assert context.rows[-1]["ratio"] == pytest.approx(context.rows[-1]["sharpness"] / 8.0)


def test_training_goes_on_where_it_was_stopped() -> None:
    run = Setting(training_images=12, width=6, rule="heavy_ball", momentum=0.9, edge=8.0, seed=1)
    whole, first, second = (Training([run], Context()) for _ in range(3))  # type: ignore[arg-type]
    whole.advance(8)
    first.advance(5)
    second.restore(first.state())
    second.advance(3)
    assert torch.equal(whole.ensemble.weights, second.ensemble.weights)


def test_the_moments_of_a_seed_share_its_training_and_find_what_each_finds_alone() -> None:
    common: dict[str, Any] = {
        "training_images": 12,
        "width": 6,
        "steps": 8,
        "measure_every": 2,
        "horizon": 3,
        "edge": 0.5,
    }
    moments: list[dict[str, Any]] = [{"start_ratio": 0.01}, {"start_ratio": 0.01, "wait": 4}, {"start_ratio": 1e6}]
    runs = [quadratic_model.Parameters(seed=seed, **common, **moment) for moment in moments for seed in (0, 1)]
    together = Context()
    quadratic_model.run(runs, together)  # type: ignore[arg-type]
    assert together.checkpoints == 4  # of one training, for six runs
    for one in runs:
        alone = Context()
        quadratic_model.run([one], alone)  # type: ignore[arg-type]
        mine = [row for row, run in zip(together.rows, together.of, strict=True) if run is one]
        assert [row for row in mine if row["kind"] == "from_here"] == [
            row for row in alone.rows if row["kind"] == "from_here"
        ]
        along = [(row["step"], row["ratio"]) for row in alone.rows if row["kind"] == "along"]
        assert [(row["step"], row["ratio"]) for row in mine if row["kind"] == "along"][: len(along)] == along
    assert {
        run.start_ratio for row, run in zip(together.rows, together.of, strict=True) if row["kind"] == "from_here"
    } == {0.01}  # type: ignore[attr-defined]


@pytest.mark.parametrize("rate", [0.5, 1.2])
def test_on_a_quadratic_loss_the_model_is_the_loss(rate: float) -> None:
    model = nn.Linear(2, 1, bias=False).double()
    nn.init.ones_(model.weight)
    inputs = torch.tensor([[1.0, 0.0], [0.0, 0.7]], dtype=torch.float64)
    targets = torch.zeros(2, 1, dtype=torch.float64)  # the Hessian is diagonal: 1 and 0.49
    values = list(quadratic_descent(Problem(model, nn.MSELoss(), (inputs, targets)), rate / 0.5, 20))
    expected = [0.5 * ((1 - 2 * rate) ** (2 * k) + 0.49 * (1 - 0.98 * rate) ** (2 * k)) for k in range(21)]
    assert values == pytest.approx(expected, rel=1e-6)
    assert (values[-1] > values[0]) == (rate > 1)


def records(ratios: list[float], **settings: Any) -> pd.DataFrame:
    base = {"run": "r", "kind": "along", "rule": "heavy_ball", "momentum": 0.9, "steps": len(ratios) - 1, **settings}
    losses = [10.0**-k for k in range(len(ratios))]
    return pd.DataFrame(
        [{**base, "step": k, "ratio": r, "loss": v} for k, (r, v) in enumerate(zip(ratios, losses, strict=True))]
    )


def test_a_plateau_counts_from_the_first_time_at_the_edge() -> None:
    row = plateau_metrics(records([0.2, 0.9, 1.1, 0.9, 1.0, 1.0, 1.0])).loc["r"]
    assert row["edge_ratio"] == pytest.approx(1.0)
    assert row["curvature_times_rate"] == pytest.approx(3.8)
    assert (row["came"], row["on_plateau"]) == (1, 1)


@pytest.mark.parametrize("last", [1.0, 0.98])
def test_a_run_that_comes_to_the_edge_late_or_never_counts_as_not_on_the_plateau(last: float) -> None:
    row = plateau_metrics(records([0.2, 0.2, 0.96, 0.97, 0.98, 0.99, last])).loc["r"]
    assert row["edge_ratio"] == pytest.approx((0.96 + 0.97 + 0.98 + 0.99 + last) / 5)
    assert (row["came"], row["on_plateau"]) == (0, 0)
    assert row["regime_reached"]


@pytest.mark.parametrize(("level", "on"), [(1.02, 1), (0.9, 0), (1.2, 0)])
def test_a_run_that_leaves_the_edge_is_not_on_the_plateau(level: float, on: float) -> None:
    row = plateau_metrics(records([0.2, 1.0, *[level] * 30])).loc["r"]
    assert (row["came"], row["on_plateau"]) == (1, on)


def test_a_run_that_was_not_followed_to_its_end_says_nothing_of_a_plateau() -> None:
    assert not plateau_metrics(records([0.2, *[1.0] * 9], steps=20)).loc["r", "regime_reached"]


def test_a_fall_is_measured_from_the_peak() -> None:
    row = descent_metrics(records([0.5, 1.2, 0.12])).loc["r"]
    assert (row["peak_ratio"], row["final_ratio"]) == (1.2, 0.12)
    assert row["log10_fall"] == pytest.approx(-1)
    assert row["regime_reached"]


@pytest.mark.parametrize(
    ("ratios", "height"),
    [
        ([0.5, 1.3, 1.1, 1.2, 0.4], 1.1),
        ([0.5, 9.0, 0.6, 0.7, 0.8, 0.1], 0.6),  # one measurement is not a peak
        ([1.5, 1.4, 1.3, 0.9, 0.8, 0.7], 0.7),  # nor is a height that it began with
    ],
)
def test_a_lasting_peak_is_a_height_of_three_measurements_in_a_row_that_was_risen_to(
    ratios: list[float], height: float
) -> None:
    assert descent_metrics(records(ratios)).loc["r", "lasting_peak_ratio"] == pytest.approx(height)


def test_without_a_measurement_below_the_edge_there_is_no_rise_to_it() -> None:
    assert math.isnan(descent_metrics(records([1.5, 1.4, 1.3, 1.2])).loc["r", "lasting_peak_ratio"])


def test_the_figure_of_thresholds_shows_runs_that_did_not_come_there_as_open_symbols() -> None:
    came, stayed_below = (
        records([0.2, *[1.0] * 9], seed=0, edge=22),
        records([0.2, *[0.9] * 9], run="s", seed=1, edge=22),
    )
    settings = {"training_images": 500, "width": 10}
    axes = plateau_figures(pd.concat([came, stayed_below]).assign(**settings))["thresholds"].axes[0]
    points = {line.get_markerfacecolor(): line.get_ydata() for line in axes.lines if len(line.get_xdata()) == 2}
    assert [float(v) for v in points["none"] if v == v] == pytest.approx([0.9 * 3.8])
    assert "open" in axes.get_legend_handles_labels()[1][-1]


def test_growth_of_model_and_loss_are_taken_over_the_same_start() -> None:
    losses = {"loss": [2.0, 1.5, 0.2], "model_loss": [2.0, 1.0, 200.0]}
    here = pd.DataFrame({"run": "r", "kind": "from_here", "step": [0, 1, 2], "start": 40, **losses})
    row = expansion_metrics(here).loc["r"]
    assert row["log10_model_growth"] == pytest.approx(2)
    assert row["log10_growth"] == pytest.approx(-1)
    assert row["gap"] == pytest.approx(99.9)
    assert not expansion_metrics(records([0.5])).loc["r", "regime_reached"]
