"""What a tensor that was restored and never moved does on a machine without a GPU."""

import pytest
import torch

from common.workflow.rehearsed_context import OnHost


def restored(*values: float) -> torch.Tensor:
    return torch.tensor(values).as_subclass(OnHost)


def test_what_is_moved_or_copied_is_on_the_device() -> None:
    weights = torch.nn.Parameter(torch.zeros(2))
    with torch.no_grad():
        weights.copy_(restored(1.0, 2.0))
    moved = restored(1.0, 2.0).to("cpu")
    assert type(moved) is torch.Tensor
    assert (weights + moved).tolist() == [2.0, 4.0]


def test_what_is_made_of_restored_tensors_alone_stays_on_the_host() -> None:
    product = (restored(1.0, 2.0).clone() * restored(3.0, 4.0)).detach() * 2
    assert isinstance(product, OnHost)
    assert product.sum().item() == 22.0
    assert isinstance(product.to(torch.float64), OnHost)


def test_both_together_are_refused_with_the_operation() -> None:
    with pytest.raises(RuntimeError, match=r"still on the host in mul\(\)"):
        restored(1.0, 2.0) * torch.ones(2)
    assert (restored(1.0, 2.0) * torch.tensor(2.0)).tolist() == [2.0, 4.0]  # a number goes anywhere


def test_a_device_takes_indices_from_the_host_and_the_host_none_from_a_device() -> None:
    data, order = torch.ones(3), torch.tensor([2, 0])
    chosen = data[order.as_subclass(OnHost)]
    assert (chosen * torch.ones(2)).tolist() == [1.0, 1.0]
    assert isinstance(data.as_subclass(OnHost)[order.as_subclass(OnHost)], OnHost)
    assert isinstance(data.as_subclass(OnHost)[order[0]], OnHost)  # a number goes anywhere
    with pytest.raises(RuntimeError, match=r"still on the host in __getitem__\(\)"):
        data.as_subclass(OnHost)[order]


def test_an_optimiser_moves_what_it_loads() -> None:
    weights = torch.nn.Parameter(torch.ones(2))
    steps = torch.optim.AdamW([weights])
    weights.sum().backward()
    steps.step()
    state = steps.state_dict()
    state["state"] = {0: {name: value.as_subclass(OnHost) for name, value in state["state"][0].items()}}
    steps.load_state_dict(state)
    steps.step()


def test_generators_take_their_state_from_the_host() -> None:
    source = torch.Generator().manual_seed(1)
    state = source.get_state().as_subclass(OnHost)
    first = torch.rand(3, generator=source)
    source.set_state(state)
    assert torch.equal(torch.rand(3, generator=source), first)
