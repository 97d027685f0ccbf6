"""All layers of a tiny network on tiny images: what is trained, on what, and through interruptions."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest
import torch
from torch import nn

from common import datasets
from common.datasets.splits import Dataset, Split
from replications.hessian_finetuning import full_fine_tuning
from replications.hessian_finetuning.analysis import full_fine_tuning as analysis
from replications.hessian_finetuning.analysis import full_fine_tuning_text as text_analysis
from replications.hessian_finetuning.full_fine_tuning import Parameters, whole_system
from replications.hessian_finetuning.shared import measured_tuning
from replications.hessian_finetuning.shared.backbones import BACKBONES, Backbone, images
from tests.context import MemoryContext
from tests.unit.replications.resuming import same_when_resumed

ARMS = {
    "sgd": {"lengthening": 2},
    "sgd_half": {},
    "sam": {"method": "sam", "strength": 0.05, "lengthening": 2},
    "nso": {"method": "nso", "strength": 0.01, "lengthening": 2},
}  # fmt: skip


@pytest.fixture(autouse=True)
def _tiny_backbone(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> nn.Sequential:
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())

    monkeypatch.setitem(BACKBONES, "mobilenet_v2", Backbone(build, lambda network, _: network, images, 4 * 4 * 4))
    monkeypatch.setattr(datasets, "files", lambda name: {})


def data() -> Dataset:
    source = torch.Generator().manual_seed(1)

    def split(name: str, count: int) -> Split:
        pixels = torch.randint(0, 256, (count, 3, 8, 8), dtype=torch.uint8, generator=source)
        return Split(name, pixels, torch.arange(count) % 3)

    return Dataset("tiny", "tiny", 3, "", split("tiny/train", 60), split("tiny/test", 30))


def runs(arm: str, seeds: Sequence[int] = (0, 1)) -> list[Parameters]:
    settings: dict[str, Any] = {
        "epochs": 2, "batch_size": 6, "train_examples": 18, "validation_examples": 6, "test_examples": 12, "size": 6,
        "optimiser": "adam", "learning_rate": 0.01, "measurements": 2, "curvature_examples": 9, "curvature_error": 0.3,
    }  # fmt: skip
    return [Parameters(**settings, **ARMS[arm], seed=seed) for seed in seeds]


def tuned(arm: str, seeds: Sequence[int] = (0, 1)) -> list[dict[str, Any]]:
    context = MemoryContext("full_fine_tuning", data=data())
    full_fine_tuning.run(runs(arm, seeds), context)
    return context.rows


def test_every_parameter_is_trained_and_examples_are_the_seeds_own() -> None:
    first, second = (whole_system(run, MemoryContext("full", data=data())) for run in runs("sgd"))
    assert all(parameter.requires_grad for parameter in first.model.parameters())
    assert not first.model.training
    assert [len(part) for part in (first.train, first.validation, first.test)] == [18, 6, 12]
    assert not torch.equal(first.train.examples()[0], second.train.examples()[0])
    seen = torch.cat([first.train.examples()[0], first.validation.examples()[0]]).flatten(1)
    assert len(torch.unique(seen, dim=0)) == 24


def test_what_lies_below_the_cut_stays_and_is_not_counted() -> None:
    run = runs("sgd")[0].model_copy(update={"trained_from": "1"})
    system = whole_system(run, MemoryContext("full", data=data()))
    trained = [name for name, parameter in system.model.named_parameters() if parameter.requires_grad]
    assert trained == ["1.weight", "1.bias", "4.weight", "4.bias"]
    context = MemoryContext("full_fine_tuning", data=data())
    full_fine_tuning.run([run], context)
    assert context.rows[-1]["training_loss"] < context.rows[-1]["first_training_loss"]


def test_arms_take_equal_gradients_and_the_short_one_equal_steps() -> None:
    last = {arm: tuned(arm)[-1] for arm in ARMS}
    assert {arm: row["gradients"] for arm, row in last.items()} == {"sgd": 12, "sgd_half": 6, "sam": 12, "nso": 12}
    assert {arm: row["total_steps"] for arm, row in last.items()} == {"sgd": 12, "sgd_half": 6, "sam": 6, "nso": 6}
    assert {arm: row["sigma"] for arm, row in last.items()} == {"sgd": 0, "sgd_half": 0, "sam": 0, "nso": 0.01}


def test_progress_is_told_in_gradients_and_ends_when_all_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []
    context = MemoryContext("full_fine_tuning", data=data())
    monkeypatch.setattr(context, "progress", lambda done, total: told.append(done / total))
    (run,) = runs("nso", (0,))
    full_fine_tuning.run([run], context)
    training, measuring = run.training_work, run.measuring_work
    assert (training, measuring) == (2 * 2 * 18, 2 * 2 * 9 * (100 + 2 * 40))
    before, after = (
        training / 3,
        (training + measuring) / 2,
    )  # of six steps the second, and the third with a measurement
    assert told[1:3] == pytest.approx([before / (training + measuring), after / (training + measuring)])
    assert told[-1] == 1


def test_a_seed_alone_has_the_numbers_that_it_has_among_others() -> None:
    alone, among = tuned("nso", (1,)), [row for row in tuned("nso") if row["seed"] == 1]
    assert [row["training_loss"] for row in alone] == pytest.approx([row["training_loss"] for row in among], rel=1e-5)
    assert [row["trace"] for row in alone] == pytest.approx([row["trace"] for row in among], rel=1e-3)


def test_resumed_anywhere_it_has_the_same_records() -> None:
    own = runs("sam")
    same_when_resumed(lambda context: full_fine_tuning.run(own, context), times=3, data=data())


@pytest.mark.parametrize("tried", [(0.3, 0.001), (0.001, 0.3)])
def test_each_seed_takes_the_strength_of_its_lowest_validation_loss(
    monkeypatch: pytest.MonkeyPatch, tried: tuple[float, ...]
) -> None:
    """What is measured is what was tried, to the bit; what was not chosen leaves no record."""
    losses: list[float] = []
    choose = measured_tuning.best
    monkeypatch.setattr(
        measured_tuning, "best", lambda strengths, found: losses.extend(found) or choose(strengths, found)
    )
    (run,) = runs("nso", (0,))
    own = [run.model_copy(update={"tried_strengths": tried})]
    context = MemoryContext("full_fine_tuning", data=data())
    full_fine_tuning.run(own, context)
    least = min(losses)
    chosen = tried[losses.index(least)]
    assert [(row["strength"], row["sigma"], row["gradients"]) for row in context.rows] == [
        (chosen, chosen, 6),
        (chosen, chosen, 12),
    ]
    assert context.rows[-1]["validation_loss"] == pytest.approx(least, rel=1e-6)
    same_when_resumed(lambda context: full_fine_tuning.run(own, context), times=4, data=data())


def test_only_a_run_that_halves_its_training_loss_counts_and_the_figure_says_what_was_chosen() -> None:
    def row(arm: str, loss: float, strength: float) -> dict[str, Any]:
        end = {
            "step": 2,
            "total_steps": 2,
            "gradients": 4,
            "sigma": 0.0,
            "strength": strength,
            "first_training_loss": 2.4,
        }
        splits = {f"{split}_{what}": loss for split in ("training", "validation", "test") for what in ("loss", "error")}
        curvature = {f"{prefix}{name}": 3.0 for prefix in ("", "test_") for name in ("trace", "sharpness")}
        errors = {"trace_standard_error": 0.1, "test_trace_standard_error": 0.1}
        own = {"run": arm, "arm": arm, "seed": 0, "system": "image", "dataset": "cifar10", "weights": "mobilenet_v2"}
        return {**own, **end, **splits, **curvature, **errors}

    records = pd.DataFrame([row("sgd", 0.02, 1.0), row("nso", 1.3, 0.01), row("sam", 1.1, 0.003)])
    for metrics in (analysis.metrics, text_analysis.metrics):
        assert metrics(records)["regime_reached"].to_dict() == {"sgd": True, "nso": False, "sam": True}
    said = " ".join(text.get_text() for text in analysis.figures(records)["full"].texts)
    assert "ρ of SAM: 0.003 (1); σ of NSO: 0.01 (1)" in " ".join(said.split())
