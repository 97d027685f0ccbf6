"""Training on tables: the tables themselves, pairs of arms, resuming, members alone and together."""

from typing import Any

import pytest
import torch

from replications.grokking.shared.training import (
    Training,
    TrainingParameters,
    evaluation_steps,
    member_losses,
    split_table,
    table,
    train_and_measure,
)
from tests.context import MemoryContext
from tests.unit.replications.resuming import same_when_resumed

TINY: dict[str, Any] = {
    "modulus": 11,
    "layers": 1,
    "width": 8,
    "heads": 2,
    "batch_size": 24,
    "weight_decay": 1.0,
    "steps": 12,
    "evaluation_interval": 4,
    "window": 4,
    "curvature_times": 2,
    "curvature_pairs": 16,
    "curvature_error": 0.5,
}


def settings(seeds: int = 2, **changes: Any) -> list[TrainingParameters]:
    return [TrainingParameters(**{**TINY, **changes, "seed": seed}) for seed in range(seeds)]


def training(runs: list[TrainingParameters], context: MemoryContext) -> Training:
    return Training(runs, context, [split_table(run, context.generator(run, "split")) for run in runs])


def measured(runs: list[TrainingParameters], kind: str = "evaluation") -> list[dict[str, Any]]:
    """Records of one kind after a training."""
    context = MemoryContext()
    train_and_measure(runs, context)
    return [row for row in context.rows if row["kind"] == kind]


@pytest.mark.parametrize(
    ("operation", "holds"),
    [
        ("add", lambda a, b, c: (a + b) % 11 == c),
        ("subtract", lambda a, b, c: (b + c) % 11 == a),
        ("multiply", lambda a, b, c: (a * b) % 11 == c),
        ("divide", lambda a, b, c: (c * b) % 11 == a),
    ],
)
def test_every_answer_of_the_table_is_right_and_every_pair_stands_once(operation: Any, holds: Any) -> None:
    pairs, answers = table(11, operation)
    assert len(pairs) == (110 if operation == "divide" else 121)
    assert len({tuple(pair) for pair in pairs.tolist()}) == len(pairs)
    assert all(holds(a, b, c) for (a, b), c in zip(pairs.tolist(), answers.tolist(), strict=True))


def test_division_modulo_a_composite_number_is_refused() -> None:
    with pytest.raises(ValueError, match="not prime"):
        table(9, "divide")


def test_training_and_validation_pairs_share_nothing_and_make_up_the_table() -> None:
    run = settings()[0]
    task = split_table(run, MemoryContext().generator(run, "split"))
    both = torch.cat([task.train_pairs, task.validation_pairs]).tolist()
    assert len(task.train_pairs) == 60
    assert len({tuple(pair) for pair in both}) == len(both) == 121


def test_arms_of_a_seed_start_equal_and_see_equal_batches() -> None:
    seen = []
    for changes in ({}, {"rule": "nso"}, {"weight_decay": 0.0}):
        arm = training(settings(**changes), MemoryContext())
        start = [parameter.detach().clone() for parameter in arm.model.parameters()]
        arm._one_step()
        seen.append((start, arm.order))
    for start, order in seen[1:]:
        assert torch.equal(order, seen[0][1])
        assert all(torch.equal(a, b) for a, b in zip(start, seen[0][0], strict=True))


@pytest.mark.parametrize(
    "changes",
    [{}, {"rule": "nso"}, {"rule": "wp_sgd"}, {"rule": "gradient_noise"}, {"averaging": 0.9}],
    ids=["plain", "nso", "wp_sgd", "gradient noise", "averaged"],
)
def test_a_run_resumed_at_any_step_has_the_same_records_and_weights(changes: dict[str, Any]) -> None:
    same_when_resumed(lambda context: train_and_measure(settings(**changes), context), times=3)


def test_the_mean_of_the_weights_is_kept_and_measured_while_training_goes_on_without_it() -> None:
    plain, averaged = (training(settings(1, averaging=decay), MemoryContext()) for decay in (0.0, 0.75))
    expected: list[torch.Tensor] = []
    for step in range(4):
        plain._one_step()
        averaged._one_step()
        now = [parameter.detach().clone() for parameter in plain.model.parameters()]
        expected = now if step == 0 else [0.75 * a + 0.25 * b for a, b in zip(expected, now, strict=True)]
    for mine, other, mean, wanted in zip(
        averaged.model.parameters(), plain.model.parameters(), averaged.judged.parameters(), expected, strict=True
    ):
        assert torch.equal(mine, other)
        torch.testing.assert_close(mean.detach(), wanted)
    assert averaged._evaluation()[0]["training_loss"] != plain._evaluation()[0]["training_loss"]


def test_a_larger_floor_of_adam_takes_smaller_steps() -> None:
    moved = []
    for floor in (1e-8, 1.0):
        arm = training(settings(1, epsilon=floor, weight_decay=0.0), MemoryContext())
        before = arm.model.output.detach().clone()
        arm._one_step()
        moved.append(float((arm.model.output.detach() - before).norm()))
    assert moved[1] < 0.1 * moved[0]


def test_without_times_nothing_is_measured_of_the_curvature() -> None:
    assert measured(settings(1, curvature_times=0), "curvature") == []


@pytest.mark.parametrize("rule", ["plain", "nso"])
def test_a_seed_alone_gives_what_it_gives_among_others(rule: str) -> None:
    torch.set_default_dtype(torch.float64)
    try:
        together, alone = measured(settings(rule=rule)), measured(settings(rule=rule)[1:])
    finally:
        torch.set_default_dtype(torch.float32)
    mine = [row for row in together if row["seed"] == 1]
    for name in ("training_loss", "validation_loss", "validation_accuracy"):
        assert [row[name] for row in mine] == pytest.approx([row[name] for row in alone], rel=1e-10)


def test_every_training_pair_is_taken_once_an_epoch() -> None:
    both = training(settings(), MemoryContext())
    for _ in range(both.steps_per_epoch):
        both._one_step()
    assert torch.equal(both.order.sort(dim=1).values, torch.arange(60).expand(2, -1))
    sizes = {part.shape[1] for part in both.order.tensor_split(both.steps_per_epoch, dim=1)}
    assert sizes == {20}


def test_two_gradients_a_step_are_counted_and_an_arm_can_be_lengthened() -> None:
    looks = measured(settings(1, rule="wp_sgd", draws=2, lengthening=2))
    assert (looks[-1]["step"], looks[-1]["gradients"]) == (24, 48)


def test_curvature_is_measured_at_even_times_with_its_error() -> None:
    rows = measured(settings(1), "curvature")
    assert [row["step"] for row in rows] == [6, 12]
    assert all(row["trace_standard_error"] > 0 and row["sharpness"] > 0 for row in rows)


def test_a_member_that_leaves_the_numbers_is_reported_and_the_other_goes_on() -> None:
    runs, context = settings(), MemoryContext()
    both = training(runs, context)
    with torch.no_grad():
        both.model.output[0] = float("nan")
    both.train()
    assert list(context.divergences) == [context.run_of(runs[0]).name]
    assert {row["seed"] for row in context.rows} == {1}


def test_evaluations_are_dense_at_first_and_then_on_an_even_grid() -> None:
    assert sorted(evaluation_steps(60, 25)) == [0, 1, 2, 5, 10, 20, 25, 50, 60]


def test_losses_are_means_over_each_members_own_examples() -> None:
    logits, answers = torch.randn(2, 5, 3), torch.randint(0, 3, (2, 5))
    expected = torch.stack([torch.nn.functional.cross_entropy(*pair) for pair in zip(logits, answers, strict=True)])
    torch.testing.assert_close(member_losses(logits, answers), expected)
