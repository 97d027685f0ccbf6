"""Each method against a step that is computed by hand; all of them resumed, paired, alone and together."""

import copy
import math
from typing import Any

import pytest
import torch

from replications.hessian_finetuning.shared.fine_tuning import FineTuning, cross_entropy
from replications.hessian_finetuning.shared.methods import METHODS, EarlyStopping, Mixup
from replications.hessian_finetuning.shared.methods.mixup import beta
from tests.unit.replications.hessian_finetuning.tiny import network, one_weight_a_class

RATE = 0.1
STRENGTHS = {
    "sgd": 0.5, "early_stopping": 0.5, "weight_decay": 0.1, "label_smoothing": 0.2, "mixup": 0.5, "distance": 0.02,
    "sam": 0.3, "wp_sgd": 0.1, "nso": 0.1,
}  # fmt: skip


def tuning(
    systems: list[Any], name: str, strength: float | None = None, *, seeds: list[int] | None = None, **changes: Any
) -> FineTuning:
    members = range(len(systems)) if seeds is None else seeds
    settings = {
        "learning_rate": RATE,
        "momentum": 0.9,
        "optimiser": "adam",
        "batch_size": 4,
        "budget": 8,
        "looks": 4,
        **changes,
    }
    return FineTuning(
        systems,
        METHODS[name](STRENGTHS[name] if strength is None else strength),
        **settings,
        batches=[torch.Generator().manual_seed(member) for member in members],
        noise=[torch.Generator().manual_seed(100 + member) for member in members],
    )


def slope(weights: torch.Tensor) -> torch.Tensor:
    """∇L of z = W x at x = 2: (p − y) x with p = softmax(2 W) and y = (1, 0)."""
    return 2 * ((2 * weights).softmax(0) - torch.tensor([1.0, 0.0], dtype=torch.float64))


def one_step(name: str, strength: float, weights: tuple[float, float] = (0.0, 0.0)) -> tuple[list[float], list[float]]:
    """The gradient that Adam was given in the first step, and the weights after it; its first step has length RATE."""
    run = tuning([one_weight_a_class(weights)], name, strength)
    run.advance()
    after = run.weights["weight"]
    assert after.grad is not None
    return after.grad.flatten().tolist(), after.detach().flatten().tolist()


def near(*values: float) -> Any:
    return pytest.approx(list(values), rel=1e-6)  # Adam adds 1e-8 to the root of the mean square


def test_sgd_steps_by_the_strength_times_the_usual_rate() -> None:
    # p = (½, ½), ∇L = (p − y) x = (−1, 1)
    assert one_step("sgd", 1.0) == (near(-1, 1), near(0.1, -0.1))
    assert one_step("sgd", 0.25) == (near(-1, 1), near(0.025, -0.025))


def test_weight_decay_shrinks_the_weights_beside_the_step() -> None:
    expected = [0.5 * (1 - RATE * 0.3) + RATE, -0.5 * (1 - RATE * 0.3) - RATE]
    gradient = slope(torch.tensor([0.5, -0.5], dtype=torch.float64)).tolist()
    assert one_step("weight_decay", 0.3, (0.5, -0.5)) == (near(*gradient), near(*expected))


def test_label_smoothing_trains_on_softened_targets() -> None:
    # y = 0.8 (1, 0) + 0.2 (½, ½) = (0.9, 0.1); ∇L = (½ − 0.9, ½ − 0.1) · 2
    assert one_step("label_smoothing", 0.2)[0] == near(-0.8, 0.8)


def test_distance_regularisation_projects_onto_the_ball_around_the_start() -> None:
    # the step of Adam has length 0.1 √2
    assert one_step("distance", 0.05)[1] == near(0.05 / math.sqrt(2), -0.05 / math.sqrt(2))
    assert one_step("distance", 0.2)[1] == near(0.1, -0.1)


def test_distance_regularisation_is_of_each_member_and_each_layer_and_leaves_vectors_free() -> None:
    systems = [network(0), network(1)]
    run = tuning(systems, "distance", 0.02, learning_rate=1.0)
    run.advance()
    for name, tensor in run.weights.items():
        lengths = (tensor - run.start[name]).detach().flatten(1).norm(dim=1)
        if tensor.ndim == 3:
            assert lengths.tolist() == near(0.02, 0.02), name
        else:
            assert (lengths > 0.02).all(), name


def test_sam_takes_the_gradient_uphill() -> None:
    weights = torch.tensor([0.5, -0.5], dtype=torch.float64)
    gradient = slope(weights)
    uphill = slope(weights + 0.3 * gradient / gradient.norm())
    assert one_step("sam", 0.3, (0.5, -0.5))[0] == near(*uphill.tolist())


def test_noise_on_two_sides_and_on_one() -> None:
    weights = torch.tensor([0.5, -0.5], dtype=torch.float64)
    source = torch.Generator().manual_seed(100)
    first, second = (0.1 * torch.randn(2, generator=source, dtype=torch.float64) for _ in range(2))
    both = (slope(weights + first) + slope(weights - first)) / 2
    assert one_step("nso", 0.1, (0.5, -0.5))[0] == near(*both.tolist())
    one = (slope(weights + first) + slope(weights + second)) / 2
    assert one_step("wp_sgd", 0.1, (0.5, -0.5))[0] == near(*one.tolist())


def test_mixup_mixes_inputs_and_labels_with_one_share_a_member() -> None:
    inputs = torch.arange(8.0).view(2, 4, 1)
    targets = torch.eye(4).expand(2, 4, 4)
    sources = [torch.Generator().manual_seed(5 + member) for member in range(2)]
    mixed, labels = Mixup(0.5).batch(inputs, targets, sources)
    assert not torch.equal(mixed[0], inputs[0])
    for member in range(2):  # with one-hot rows the mixed labels tell what was mixed
        expected = labels[member] @ inputs[member]
        assert torch.allclose(mixed[member], expected)
        assert torch.allclose(labels[member].sum(1), torch.ones(4))
        parts = labels[member][labels[member] > 0].unique()
        assert len({round(float(part), 5) for part in parts} - {1.0}) <= 2


@pytest.mark.parametrize("a", [0.2, 1.0])
def test_the_share_of_mixup_has_the_moments_of_the_beta_distribution(a: float) -> None:
    source = torch.Generator().manual_seed(0)
    draws = torch.tensor([beta(a, source) for _ in range(4000)])
    variance = 1 / (4 * (2 * a + 1))
    assert abs(float(draws.mean()) - 0.5) < 4 * math.sqrt(variance / 4000)
    assert float(draws.var()) == pytest.approx(variance, rel=0.08)


def test_mixup_refuses_an_a_that_its_sampler_does_not_serve() -> None:
    with pytest.raises(ValueError, match=r"\(0, 1\]"):
        Mixup(2.0)


def test_early_stopping_ends_with_each_members_best_weights() -> None:
    method, weights = EarlyStopping(1.0), {"w": torch.zeros(2, 3)}
    for value, losses in enumerate(([3.0, 1.0], [2.0, 2.0], [4.0, 3.0])):
        weights["w"].fill_(value)
        method.observe(weights, torch.tensor(losses))
    method.finish(weights)
    assert weights["w"].tolist() == [[1.0] * 3, [0.0] * 3]


def test_early_stopping_uses_its_share_of_the_budget_and_looks_at_validation() -> None:
    run = tuning([network(0)], "early_stopping", 0.5)
    losses = []
    while run.step < run.total:
        run.advance()
        losses.append(float(run.evaluate("validation").loss))
    assert run.total == 4
    assert float(run.evaluate("validation").loss) <= min(losses) + 1e-12


@pytest.mark.parametrize("name", METHODS)
def test_every_method_spends_the_same_budget(name: str) -> None:
    run = tuning([network(0)], name, 1.0 if name == "early_stopping" else None)
    while run.step < run.total:
        run.advance()
    assert run.rule.gradient_evaluations == 8


@pytest.mark.parametrize("name", METHODS)
def test_a_member_alone_gives_what_it_gives_among_others(name: str) -> None:
    both = tuning([network(0), network(1)], name)
    alone = tuning([network(1)], name, seeds=[1])
    for _ in range(3):
        both.advance()
        alone.advance()
    for key, tensor in alone.weights.items():
        assert torch.allclose(tensor[0], both.weights[key][1], rtol=1e-10, atol=1e-12), key


@pytest.mark.parametrize("name", METHODS)
def test_a_run_resumed_at_any_step_ends_with_the_same_weights(name: str) -> None:
    whole = tuning([network(0), network(1)], name)
    states = [copy.deepcopy(whole.state())]
    while whole.step < whole.total:
        whole.advance()
        states.append(copy.deepcopy(whole.state()))
    for state in states[1:-1]:
        resumed = tuning([network(0), network(1)], name)
        resumed.restore(state)
        while resumed.step < resumed.total:
            resumed.advance()
        assert all(torch.equal(resumed.weights[key], whole.weights[key]) for key in whole.weights)


def test_methods_of_a_seed_start_equal_and_see_the_same_batches() -> None:
    drawn = []
    for name in METHODS:
        run = tuning([network(0)], name)
        drawn.append(run.batches.next([0]))
        assert all(torch.equal(run.start[key][0], tensor) for key, tensor in network(0).model.named_parameters())
    assert all(torch.equal(drawn[0], other) for other in drawn)


def test_the_loss_is_that_of_pytorch() -> None:
    logits, labels = torch.randn(2, 5, 3), torch.randint(0, 3, (2, 5))
    mine = cross_entropy(logits, torch.nn.functional.one_hot(labels, 3).float())
    theirs = [torch.nn.functional.cross_entropy(z, y) for z, y in zip(logits, labels, strict=True)]
    assert mine.tolist() == pytest.approx([float(loss) for loss in theirs])


def test_by_thirds_the_rate_is_divided_by_ten_after_each_third_of_the_whole_budget() -> None:
    rates = {}
    for name, strength in (("sgd", 1.0), ("early_stopping", 0.5)):
        run = tuning([network(0)], name, strength, budget=9, schedule="thirds")
        rates[name] = []
        while run.step < run.total:
            run.advance()
            rates[name].append(run.descent.param_groups[0]["lr"])
    assert rates["sgd"] == pytest.approx([RATE] * 3 + [RATE / 10] * 3 + [RATE / 100] * 3)
    assert rates["early_stopping"] == pytest.approx(rates["sgd"][:4])  # stopped early, not cooled early
