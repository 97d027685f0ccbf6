"""A loader that is read anew in every pass gives what kept data give; it is refused where it does not repeat itself."""

import itertools
import random
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from common.hessian import GGN, MEASURES, Hessian, Problem, Streamed, diagonal, empirical_ntk, measure, noise_stability
from tests.unit.hessian.networks import COUNT, family

TARGETS = torch.randint(0, 3, (COUNT,), generator=torch.Generator().manual_seed(1))


class Batches:
    """Made anew in every pass; which of them are alive can be told."""

    def __init__(self, inputs: torch.Tensor, size: int = 5) -> None:
        self.inputs, self.size = inputs, size
        self.passes, self.most = 0, 0
        self.alive: list[weakref.ref[torch.Tensor]] = []

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        self.passes += 1
        for start in range(0, COUNT, self.size):
            part = slice(start, start + self.size)
            batch = self.inputs[part].clone(), TARGETS[part].clone()
            self.alive = [known for known in (*self.alive, weakref.ref(batch[0])) if known() is not None]
            self.most = max(self.most, len(self.alive))
            yield batch


def problems(name: str) -> tuple[Problem, Problem, Batches]:
    """Kept and streamed, in the same chunks."""
    model, inputs = family(name)
    batches = Batches(inputs)
    loss = nn.CrossEntropyLoss()
    kept = Problem(model, loss, list(Batches(inputs)), chunk=3)
    return kept, Problem(model, loss, Streamed(batches), chunk=3), batches


@pytest.mark.parametrize("name", ["tanh", "convolutional", "attention", "tied"])
def test_numbers_are_those_of_kept_data_to_the_bit(name: str) -> None:
    kept, streamed, _ = problems(name)
    options: dict[str, Any] = {"relative_error": 0.3, "budget": 20}
    assert streamed.count == kept.count == COUNT
    assert measure(kept, list(MEASURES), **options) == measure(streamed, list(MEASURES), **options)
    vector = torch.linspace(-1, 1, kept.size, dtype=kept.dtype)
    for operator in (Hessian, GGN):
        assert torch.equal(operator(kept) @ vector, operator(streamed, memory_limit=0) @ vector)
    assert torch.equal(empirical_ntk(kept).gram, empirical_ntk(streamed).gram)
    for one, other in zip(diagonal(kept, "ggn").diagonal, diagonal(streamed, "ggn").diagonal, strict=True):
        assert torch.equal(one, other)


def test_kinks_are_looked_at_anew_in_every_pass_and_cost_so() -> None:
    kept, streamed, _ = problems("relu")
    options: dict[str, Any] = {"relative_error": 10, "budget": 20}
    here, there = noise_stability(kept, 0.1, **options).kinks, noise_stability(streamed, 0.1, **options).kinks
    assert here is not None
    assert there is not None
    assert here.value == there.value
    assert (here.cost / here.samples, there.cost / there.samples) == pytest.approx((2 / 3, 5 / 3))


def test_no_more_than_two_batches_are_in_memory() -> None:
    _, streamed, batches = problems("tanh")
    before = batches.passes
    measure(streamed, ["loss", "gradient_norm", "hessian_trace", "ggn_trace", "noise_trace"], relative_error=0.5)
    Hessian(streamed, memory_limit=0) @ torch.ones(streamed.size, dtype=streamed.dtype)
    assert batches.passes > before + 5
    assert batches.most <= 2
    assert [known for known in batches.alive if known() is not None] == []


def test_a_part_of_the_parameters_passes_over_the_same_loader() -> None:
    _, streamed, batches = problems("tanh")
    before = batches.passes
    part = streamed.restricted([streamed.names[0]])
    assert batches.passes <= before + 1
    assert torch.equal(part.gradient(), streamed.gradient()[: part.size])


class Noisy(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Each example is augmented by whatever generator the function draws from."""

    def __init__(self, draw: Callable[[], float]) -> None:
        self.draw = draw

    def __len__(self) -> int:
        return 7

    def __getitem__(self, place: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.full((4,), place + self.draw()), torch.tensor(place % 3)


def from_torch() -> float:
    return float(torch.rand(()))


@pytest.mark.parametrize("draw", [from_torch, random.random])
def test_shuffling_and_augmentation_repeat_themselves_and_leave_the_callers_generators_alone(draw) -> None:
    loader, model, loss = DataLoader(Noisy(draw), batch_size=3, shuffle=True), nn.Linear(4, 3), nn.CrossEntropyLoss()
    torch.manual_seed(7), random.seed(7)
    wanted = float(torch.rand(())), random.random()
    torch.manual_seed(7), random.seed(7)
    problem = Problem(model, loss, Streamed(loader))
    assert problem.loss() == problem.loss()
    assert (float(torch.rand(())), random.random()) == wanted
    assert Problem(model, loss, Streamed(loader, seed=1)).loss() != problem.loss()


class Changing:
    """A loader that changes from some pass on."""

    def __init__(self, change: str, since: int) -> None:
        self.change, self.since, self.passes = change, since, 0
        self.inputs = torch.arange(24.0).view(6, 4)

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        self.passes += 1
        inputs, targets, ends = self.inputs.clone(), torch.tensor([0, 1, 2, 0, 1, 2]), [0, 3, 6]
        if self.passes >= self.since:
            if self.change == "order":
                inputs, targets = inputs[[0, 1, 2, 3, 5, 4]], targets[[0, 1, 2, 3, 5, 4]]
            elif self.change == "inputs":
                inputs[4] += 1e-6
            elif self.change == "targets":
                targets[5] = 0
            else:
                ends = {"fewer": [0, 3], "more": [0, 3, 6, 6], "sizes": [0, 2, 6]}[self.change]
        for start, end in itertools.pairwise(ends):
            yield inputs[start:end], targets[start:end]


DIFFERENCES = {
    "order": "has another example at place 4: the order must not change.",
    "inputs": "has other inputs of example 4: random augmentation must repeat itself.",
    "targets": "has another target of example 5.",
    "fewer": "ended after 1 batches, the first after 2.",
    "more": "goes on after 2 batches, the first ended there.",
    "sizes": "has 2 examples in batch 0, the first had 3.",
}


@pytest.mark.parametrize("change", DIFFERENCES)
def test_a_loader_that_changes_is_refused_and_told_what_differs(change: str) -> None:
    problem = Problem(nn.Linear(4, 3), nn.CrossEntropyLoss(), Streamed(Changing(change, since=5)), chunk=2)
    problem.loss()
    with pytest.raises(ValueError, match="The loader does not repeat itself: pass 5") as found:
        problem.loss()
    assert str(found.value).endswith(DIFFERENCES[change])


def test_what_cannot_be_streamed_is_refused_at_once() -> None:
    pair = torch.ones(2, 4), torch.tensor([0, 1])
    with pytest.raises(ValueError, match="only once"):
        Streamed(iter([pair]))
    for batch in (pair, {"input": pair[0], "labels": pair[1]}):
        with pytest.raises(ValueError, match="expected a loader"):
            Streamed(batch)
    with pytest.raises(ValueError, match="no example"):
        Problem(nn.Linear(4, 3), nn.CrossEntropyLoss(), Streamed([]))
    with pytest.raises(ValueError, match="2 inputs and 1 targets"):
        Problem(nn.Linear(4, 3), nn.CrossEntropyLoss(), Streamed([(pair[0], pair[1][:1])]))
    own = DataLoader(
        TensorDataset(torch.rand(40, 4), torch.zeros(40).long()), 4, shuffle=True, generator=torch.Generator()
    )
    with pytest.raises(ValueError, match="order must not change"):
        Problem(nn.Linear(4, 3), nn.CrossEntropyLoss(), Streamed(own))
