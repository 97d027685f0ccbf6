"""What a GPU refuses, and what it holds, is told on a machine without one."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import nn

from common.workflow.pretended_gpu import GPU, PretendedGpu

REFUSED = "on the host and on the GPU"


@pytest.fixture
def gpu() -> Iterator[PretendedGpu]:
    with PretendedGpu() as pretended:
        yield pretended


def there(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, device=GPU)


MIXED: dict[str, Callable[[], object]] = {
    "numbers made without a device": lambda: there(3) * torch.ones(3),
    "a list made without a device": lambda: there(2) + torch.tensor([1.0, 2.0]),
    "draws on the host": lambda: there(2) + torch.randn(2, generator=torch.Generator()),
    "a network on the host": lambda: nn.Linear(2, 3)(there(4, 2)),
    "a matrix of the host": lambda: there(2, 2) @ torch.eye(2),
    "inside of a vectorised function": lambda: torch.func.vmap(lambda row: row * torch.ones(3))(there(2, 3)),
    "a list of both": lambda: torch.cat([there(2), torch.zeros(2)]),
    "indices of the GPU into the host": lambda: torch.ones(3)[there(1).long()],
    "a number of the GPU with the host": lambda: torch.ones(3) * there(3).sum(),
    "a copy of the host": lambda: there(2) * there(2).cpu(),
    "what numpy hands over": lambda: there(2) + torch.from_numpy(np.ones(2, dtype=np.float32)),
    "a sparse matrix of the host": lambda: torch.eye(2).to_sparse() @ there(2, 1),
    "one in rows": lambda: torch.eye(2).to_sparse_csr() @ there(2, 1),
    "what was made where another tensor lies": lambda: there(2) * torch.zeros(2, device=torch.ones(2).device),
}


@pytest.mark.parametrize("name", MIXED)
def test_operations_of_tensors_here_and_there_are_refused(name: str, gpu: PretendedGpu) -> None:
    with pytest.raises(RuntimeError, match=REFUSED):
        MIXED[name]()


def of_the_host() -> torch.Generator:
    return torch.Generator().manual_seed(0)


DRAWN: dict[str, Callable[[], object]] = {
    "made there": lambda: torch.randn(4, generator=of_the_host(), device=GPU),
    "an order made there": lambda: torch.randperm(4, generator=of_the_host(), device=GPU),
    "filled there": lambda: there(3).normal_(generator=of_the_host()),
    "with chances that lie there": lambda: torch.bernoulli(there(3), generator=of_the_host()),
}


@pytest.mark.parametrize("name", DRAWN)
def test_draws_on_the_gpu_by_a_generator_of_the_host_are_refused(name: str, gpu: PretendedGpu) -> None:
    with pytest.raises(RuntimeError, match="generator of the host"):
        DRAWN[name]()


def test_what_a_gpu_takes_passes(gpu: PretendedGpu) -> None:
    assert (there(2) * torch.tensor(2.0)).tolist() == [2.0, 2.0]  # a number of the host goes anywhere
    assert there(3)[torch.tensor([2, 0])].tolist() == [1.0, 1.0]  # and indices do
    assert (there(2) + torch.ones(2).to(GPU)).tolist() == [2.0, 2.0]
    assert (there(2) + torch.zeros(2, device=there(2).device)).tolist() == [1.0, 1.0]
    assert (there(2) + there(2).new_zeros(2) + torch.zeros_like(there(2))).tolist() == [1.0, 1.0]
    assert torch.func.vmap(lambda row: row * row.new_ones(3))(there(2, 3)).sum().item() == 6.0
    assert (there(2) + torch.zeros_like(torch.ones(2), device=GPU)).tolist() == [1.0, 1.0]
    assert (torch.eye(2).to_sparse().to(GPU) @ there(2, 1)).tolist() == [[1.0], [1.0]]
    assert (torch.randn(2, generator=of_the_host()).to(GPU) * there(2)).shape == (2,)
    assert (torch.from_numpy(np.ones(2)).to(GPU) * there(2)).tolist() == [1.0, 1.0]
    target = there(2)
    target.copy_(torch.zeros(2))
    assert (target + there(2)).tolist() == [1.0, 1.0]


def test_a_network_that_is_moved_learns_with_an_optimiser_there(gpu: PretendedGpu) -> None:
    network = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).to(GPU)
    steps = torch.optim.Adam(network.parameters())
    for _ in range(2):
        steps.zero_grad()
        network(there(4, 2)).square().sum().backward()
        steps.step()
    assert {gpu.place(parameter) for parameter in network.parameters()} == {"gpu"}


def test_another_layout_or_type_lies_where_it_lay(gpu: PretendedGpu) -> None:
    network = nn.Conv2d(3, 4, 3).to(GPU).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    assert {gpu.place(parameter) for parameter in network.parameters()} == {"gpu"}
    assert gpu.place(there(2).double()) == gpu.place(there(2).to(torch.float64, copy=True)) == "gpu"
    assert gpu.place(torch.ones(2).half()) == "host"
    assert {gpu.place(parameter) for parameter in nn.Linear(1, 1).to(there(2)).parameters()} == {"gpu"}


def test_devices_differ_and_numpy_reads_the_host_alone(gpu: PretendedGpu) -> None:
    assert there(1).device == GPU != torch.ones(1).device
    assert (there(2) + 1).cpu().numpy().tolist() == [2.0, 2.0]
    with pytest.raises(TypeError, match="move it to the host"):
        there(2).numpy()


def test_memory_is_that_of_the_gpu_alone(gpu: PretendedGpu) -> None:
    data = torch.ones(1000) + 1
    assert gpu.peak == 0
    moved = data.to(GPU)
    assert moved.sum().item() == 2000
    assert gpu.live == 4000
    del moved
    assert gpu.live == 0


@pytest.mark.parametrize("moved", [True, False])
def test_the_state_of_an_optimiser_that_was_restored_must_be_moved(moved: bool, gpu: PretendedGpu) -> None:
    weights = nn.Parameter(there(2))
    steps = torch.optim.SGD([weights], lr=1.0, momentum=0.9)
    weights.sum().backward()
    steps.step()
    buffer = steps.state[weights]["momentum_buffer"].cpu()
    steps.state[weights]["momentum_buffer"] = buffer.to(GPU) if moved else buffer
    if moved:
        steps.step()
    else:
        with pytest.raises(RuntimeError, match=REFUSED):
            steps.step()


def test_outside_of_it_nothing_is_refused() -> None:
    assert (there(2) * torch.ones(2)).tolist() == [1.0, 1.0]
