"""The loss beside its quadratic expansion."""

from typing import Any

import pytest
import torch
from torch import nn

from common.hessian import Problem
from replications.cohen2021edge import quadratic_model
from replications.cohen2021edge.quadratic_model import quadratic_descent
from tests.unit.replications.cohen2021edge.samples import image_context


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
    together = image_context()
    quadratic_model.run(runs, together)
    assert len(together.checkpoints) == 4  # of one training, for six runs
    for one in runs:
        alone = image_context()
        quadratic_model.run([one], alone)
        mine = [row for row in together.rows if row["run"] == together.run_of(one).name]
        assert [row for row in mine if row["kind"] == "from_here"] == [
            row for row in alone.rows if row["kind"] == "from_here"
        ]
        along = [(row["step"], row["ratio"]) for row in alone.rows if row["kind"] == "along"]
        assert [(row["step"], row["ratio"]) for row in mine if row["kind"] == "along"][: len(along)] == along
    assert {row["start_ratio"] for row in together.rows if row["kind"] == "from_here"} == {0.01}


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
