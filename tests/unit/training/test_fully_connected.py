"""Batched fully connected networks beside ordinary ones, and their descent."""

import copy
from typing import Any, Literal

import pytest
import torch
from torch import nn

from common.models import FullyConnected, parameter_count
from common.training import (
    DIVERGED,
    STOPPED,
    TRAINING,
    Batches,
    Descent,
    FullyConnectedEnsemble,
    HeavyBall,
    ModuleEnsemble,
    one_hot,
)

SIZES = (12, 9, 7, 4)


def generators(count: int, first: int = 0) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(first + number) for number in range(count)]


def drawn(count: int, sizes: tuple[int, ...] = SIZES, **how: Any) -> FullyConnectedEnsemble:
    return FullyConnectedEnsemble.drawn(sizes, generators(count), **how)


def data(count: int = 30, sizes: tuple[int, ...] = SIZES, dtype: torch.dtype = torch.float64):
    source = torch.Generator().manual_seed(50)
    inputs = torch.randn(count, sizes[0], generator=source, dtype=torch.float64).to(dtype)
    classes = torch.randint(0, sizes[-1], (count,), generator=source)
    return inputs, classes


@pytest.mark.parametrize("loss", ["mse", "cross_entropy"])
@pytest.mark.parametrize("momentum", [None, 0.5])
def test_twenty_steps_together_are_those_of_ordinary_modules_to_1e_10(loss: str, momentum: float | None):
    inputs, classes = data()
    targets = one_hot(classes, 4, torch.float64) if loss == "mse" else classes
    together = drawn(3, loss=loss, dtype=torch.float64)
    alone = [together.module(member) for member in range(3)]
    rates = torch.tensor([0.05, 0.2, 0.5] if momentum is None else [0.1] * 3, dtype=torch.float64)
    optimisers = [
        torch.optim.SGD(m.parameters(), lr=float(r), momentum=momentum or 0) for m, r in zip(alone, rates, strict=True)
    ]
    function = nn.MSELoss() if loss == "mse" else nn.CrossEntropyLoss()
    batches = Batches(30, 5, generators(3, 7))
    optimiser = HeavyBall(together.weights, learning_rate=0.1, momentum=momentum or 0)
    for _ in range(20):
        chosen = batches.next(range(3))
        if momentum is None:
            losses = together.sgd_step(inputs[chosen], targets[chosen], rates)
        else:
            losses = together.losses_and_gradients(inputs[chosen], targets[chosen])
            optimiser.step(together.gradients)
        for member, (model, its) in enumerate(zip(alone, optimisers, strict=True)):
            its.zero_grad()
            expected = function(model(inputs[chosen[member]]), targets[chosen[member]])
            expected.backward()
            its.step()
            assert losses[member].item() == pytest.approx(expected.item(), abs=1e-12)
    rows = torch.stack([nn.utils.parameters_to_vector(model.parameters()).detach() for model in alone])
    torch.testing.assert_close(together.weights, rows, rtol=0, atol=1e-10)


def test_members_in_several_parts_of_the_cache_are_those_of_one_part(monkeypatch: pytest.MonkeyPatch):
    inputs, classes = data()
    whole, parted = drawn(5, dtype=torch.float64), drawn(5, dtype=torch.float64)
    targets = one_hot(classes, 4, torch.float64)
    first = whole.losses_and_gradients(inputs, targets)
    monkeypatch.setattr("common.training.fully_connected.CACHE", 2 * 8 * parameter_count(SIZES))
    assert len(parted._parts()) == 3
    torch.testing.assert_close(parted.losses_and_gradients(inputs, targets), first, rtol=0, atol=1e-14)
    torch.testing.assert_close(parted.gradients, whole.gradients, rtol=0, atol=1e-14)
    torch.testing.assert_close(parted.losses(inputs, targets), first, rtol=0, atol=1e-14)
    torch.testing.assert_close(parted.outputs(inputs)[4], parted.module(4)(inputs).detach(), rtol=0, atol=1e-14)


def test_scalar_outputs_and_no_hidden_layer_work():
    inputs = torch.randn(6, 12, generator=torch.Generator().manual_seed(1))
    for sizes in ((12, 1), (12, 5, 1)):
        ensemble = drawn(2, sizes)
        targets = torch.ones(6, 1)
        losses = ensemble.losses_and_gradients(inputs, targets)
        model = ensemble.module(1)
        expected = nn.MSELoss()(model(inputs), targets)
        gradient = torch.cat([g.flatten() for g in torch.autograd.grad(expected, list(model.parameters()))])
        torch.testing.assert_close(losses[1], expected.detach())
        torch.testing.assert_close(ensemble.gradients[1], gradient)


def test_a_drawn_member_depends_on_its_generator_alone():
    three, one = drawn(3), FullyConnectedEnsemble.drawn(SIZES, generators(1, 2))
    assert torch.equal(three.weights[2], one.weights[0])


def test_wrong_rows_sizes_and_losses_are_refused():
    with pytest.raises(ValueError, match="rows of 5 parameters"):
        FullyConnectedEnsemble((4, 1), torch.zeros(2, 6))
    with pytest.raises(ValueError, match="neither"):
        FullyConnectedEnsemble((4, 1), torch.zeros(2, 5), loss="hinge")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="1 to 4"):
        Batches(4, 5, generators(1))


def descent(ensemble: FullyConnectedEnsemble, stochastic: bool, **how: Any) -> Descent:
    inputs, classes = data(dtype=ensemble.weights.dtype)
    order = Batches(30, 5, generators(len(ensemble), 20), order="independent") if stochastic else None
    given = {"learning_rates": 0.3, "batches": order, "check_every": 10, **how}
    return Descent(ensemble, inputs, one_hot(classes, 4, ensemble.weights.dtype), **given)


@pytest.mark.parametrize("stochastic", [False, True])
def test_each_member_stops_by_itself_and_its_weights_freeze(stochastic: bool):
    together = descent(drawn(4), stochastic, stopping_loss=0.11)
    ends: dict[int, torch.Tensor] = {}
    for _ in range(60):
        together.advance(20)
        for member in range(4):
            if together.status[member] == STOPPED:
                frozen = ends.setdefault(member, together.ensemble.weights[member].clone())
                assert torch.equal(frozen, together.ensemble.weights[member])
    assert len(ends) == 4
    assert len(set(together.steps.tolist())) > 1, "the members should end at different steps for this to test anything"
    inputs, classes = data(dtype=torch.float32)
    losses = together.ensemble.losses(inputs, one_hot(classes, 4)).double()
    torch.testing.assert_close(losses, together.losses, rtol=1e-6, atol=0)
    assert bool((losses <= 0.11).all())
    before = together.steps.clone()
    together.advance(5)
    assert torch.equal(before, together.steps)


@pytest.mark.parametrize("stochastic", [False, True])
def test_a_member_that_diverges_leaves_the_others_alone(stochastic: bool):
    healthy = descent(drawn(3), stochastic)
    one_bad = descent(drawn(3), stochastic, learning_rates=[0.3, 300.0, 0.3])
    for each in (healthy, one_bad):
        each.advance(60)
    assert one_bad.status.tolist() == [TRAINING, DIVERGED, TRAINING]
    assert one_bad.steps[1] < 60 == int(one_bad.steps[0])
    torch.testing.assert_close(one_bad.ensemble.weights[[0, 2]], healthy.ensemble.weights[[0, 2]], rtol=0, atol=1e-6)


@pytest.mark.parametrize("stochastic", [False, True])
def test_a_descent_continued_from_its_state_ends_with_the_same_bits(stochastic: bool):
    through, broken = (descent(drawn(4), stochastic, stopping_loss=0.12) for _ in range(2))
    for _ in range(10):
        through.advance(20)
    for _ in range(5):
        broken.advance(20)
    later = descent(
        FullyConnectedEnsemble(SIZES, torch.zeros_like(broken.ensemble.weights)), stochastic, stopping_loss=0.12
    )
    later.restore(copy.deepcopy(broken.state()))
    for _ in range(5):
        later.advance(20)
    for name in ("steps", "losses", "status"):
        assert torch.equal(getattr(through, name), getattr(later, name))
    assert torch.equal(through.ensemble.weights, later.ensemble.weights)


def test_members_may_have_their_own_examples():
    inputs, classes = data()
    own = torch.stack([inputs, inputs.flip(0)])
    targets = one_hot(torch.stack([classes, classes.flip(0)]), 4, torch.float64)
    ensemble = drawn(2, dtype=torch.float64)
    apart = ensemble.members([1])
    for each, x, y in ((ensemble, own, targets), (apart, own[1], targets[1])):
        Descent(each, x, y, learning_rates=0.1).advance(5)
    torch.testing.assert_close(apart.weights[0], ensemble.weights[1], rtol=0, atol=1e-14)
    batched = Descent(ensemble, own, targets, learning_rates=0.1, batches=Batches(30, 4, generators(2)))
    before = ensemble.losses(own, targets)
    batched.advance(200)
    assert bool((ensemble.losses(own, targets) < before).all())


@pytest.mark.parametrize("order", ["epochs", "independent"])
def test_batches_hold_distinct_examples_and_do_not_depend_on_other_members(order: Any):
    two, one = Batches(10, 3, generators(2), order=order), Batches(10, 3, generators(1, 1), order=order)
    for _ in range(200):
        of_both = two.next([0, 1])
        assert torch.equal(of_both[1], one.next([0])[0])
        assert all(len(set(row.tolist())) == 3 for row in of_both)


def test_epochs_visit_every_example_once_and_independent_batches_each_equally_often():
    batches = Batches(12, 4, generators(1))
    orders = set()
    for _ in range(40):
        epoch = torch.cat([batches.next([0])[0] for _ in range(3)])
        assert sorted(epoch.tolist()) == list(range(12))
        orders.add(tuple(epoch.tolist()))
    assert len(orders) == 40
    free = Batches(12, 4, generators(1), order="independent")
    counts = torch.bincount(torch.cat([free.next([0])[0] for _ in range(3000)]), minlength=12)
    z = (counts - 1000) / (3000 * (1 / 3) * (2 / 3)) ** 0.5
    assert z.abs().max() < 4.5


@pytest.mark.parametrize("stochastic", [False, True])
def test_networks_one_after_the_other_descend_like_the_batched_ones(stochastic: bool):
    batched = drawn(3, dtype=torch.float64)
    in_turn = ModuleEnsemble.drawn(lambda: FullyConnected(SIZES), generators(3), dtype=torch.float64)
    assert torch.equal(batched.weights, in_turn.weights)
    for ensemble in (batched, in_turn):
        descent(ensemble, stochastic).advance(30)
    torch.testing.assert_close(batched.weights, in_turn.weights, rtol=0, atol=1e-12)
    inputs, _ = data()
    torch.testing.assert_close(batched.outputs(inputs), in_turn.outputs(inputs), rtol=0, atol=1e-12)
    torch.testing.assert_close(in_turn.module(2)(inputs).detach(), in_turn.outputs(inputs)[2], rtol=0, atol=1e-14)


@pytest.mark.parametrize("loss", ["mse", "cross_entropy"])
@pytest.mark.parametrize("shared", [False, True])
def test_chunks_give_the_losses_and_gradients_of_all_examples(loss: Literal["mse", "cross_entropy"], shared: bool):
    inputs = torch.randn(*(() if shared else (3,)), 11, SIZES[0], generator=torch.Generator().manual_seed(1)).double()
    classes = torch.arange(11) % SIZES[-1]
    targets = torch.eye(SIZES[-1], dtype=torch.float64)[classes] if loss == "mse" else classes
    targets = targets if shared else targets.expand(3, *targets.shape)
    whole = ModuleEnsemble.drawn(lambda: FullyConnected(SIZES), generators(3), loss=loss, dtype=torch.float64)
    parts = ModuleEnsemble(whole.make, whole.weights, loss=loss, chunk=4)
    for found in (parts, parts.members([0, 1, 2])):
        torch.testing.assert_close(
            found.losses_and_gradients(inputs, targets), whole.losses_and_gradients(inputs, targets)
        )
        torch.testing.assert_close(found.losses(inputs, targets), whole.losses(inputs, targets))
        torch.testing.assert_close(found.gradients, whole.gradients, rtol=0, atol=1e-14)
    assert parts.members([1]).chunk == 4
