"""A checkpoint is loaded on the CPU; what it holds of optimisers and methods goes to the device of their weights."""

from typing import Any

import pytest
import torch

from replications.cohen2021edge.shared.setting import Setting
from replications.cohen2021edge.shared.training import Training
from replications.hessian_finetuning.shared.methods.early_stopping import EarlyStopping
from replications.sgd_stability import large_batch, loss_slices
from tests.context import MemoryContext
from tests.unit.replications.cohen2021edge.samples import image_context
from tests.unit.replications.images import random_images

META = torch.device("meta")
"""Holds shapes alone, so that another device than the CPU is there on every machine."""


def on(device: torch.device, context: MemoryContext) -> MemoryContext:
    context.device = device
    return context


def devices(optimiser: torch.optim.Optimizer) -> set[torch.device]:
    """Where the state of the parameters lies; numbers of steps may stay on the CPU."""
    return {
        value.device
        for state in optimiser.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor) and value.dim()
    }


def test_momentum_of_full_batch_training() -> None:
    run = Setting(training_images=12, width=6, rule="heavy_ball", momentum=0.9, edge=8.0, seed=1)
    here = Training([run], image_context())
    here.advance(2)
    there = Training([run], on(META, image_context()))
    there.restore(here.state())
    assert devices(there.rule) == {META}
    assert there.ensemble.weights.device == there.vectors.device == META


def test_moments_of_adam(monkeypatch: pytest.MonkeyPatch) -> None:
    adam: Any = torch.optim.Adam
    run = large_batch.Parameters(training_images=50, hidden=(8,), epochs=1, batch_size=8, measured_images=50)
    here = large_batch._Training([run], MemoryContext("large_batch", data=random_images(1, 8)))
    here.one_epoch()
    # the fused steps of a GPU are not there on `meta`
    monkeypatch.setattr(torch.optim, "Adam", lambda parameters, lr, fused: adam(parameters, lr=lr))
    there = large_batch._Training([run], on(META, MemoryContext("large_batch", data=random_images(1, 8))))
    there.restore(here.state())
    assert devices(there.adam) == {META}


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")
def test_momentum_of_a_network_of_modules() -> None:
    def trained(device: torch.device) -> tuple[torch.nn.Module, torch.optim.SGD]:
        network = torch.nn.Linear(3, 2, device=device)
        optimiser = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
        torch.autograd.backward(network(torch.ones(1, 3, device=device)).sum())
        optimiser.step()
        return network, optimiser

    network, optimiser = trained(torch.device("cpu"))
    order = torch.Generator()
    state = {"epoch": 1, "network": network.state_dict(), "optimiser": optimiser.state_dict()}
    network, optimiser = trained(META)
    loss_slices._restore({**state, "order": order.get_state()}, network, optimiser, order)
    assert devices(optimiser) == {META}


def test_the_best_weights_of_early_stopping() -> None:
    def weights(device: torch.device) -> dict[str, torch.Tensor]:
        return {"weight": torch.ones(2, 3, device=device)}

    here = EarlyStopping(1.0)
    here.observe(weights(torch.device("cpu")), torch.ones(2))
    there = EarlyStopping(1.0)
    there.restore(here.state(), weights(META))
    assert there.state()["lowest"].device == there.state()["best"]["weight"].device == META
