"""A linear classifier on the untouched network's output: do the frozen features tell the classes apart?"""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from .upper_layers import upper_layers

RIDGE = 0.1
"""Penalty on the weights, in units of the mean squared length of the centred outputs."""
CHUNK = 50
"""Examples that pass the upper layers at once."""


@torch.no_grad()
def linear_accuracy(upper: Mapping[str, Tensor], train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor]) -> float:
    """Share of test examples that ridge regression on one-hot labels gets right, on the outputs of the upper layers.

    Args:
        upper: their weights as kept by `frozen_features`; empty where nothing is pretrained.
        train, test: features and labels.
    """
    network = upper_layers(upper)
    outputs = [torch.cat([network(part.float()) for part in data[0].split(CHUNK)]).flatten(1) for data in (train, test)]
    mean = outputs[0].mean(0)
    inputs, fresh = outputs[0] - mean, outputs[1] - mean
    targets = functional.one_hot(train[1]).float()
    offset = targets.mean(0)
    penalty = RIDGE * float(inputs.square().sum(1).mean())
    scores = fresh @ ridge_weights(inputs, targets - offset, penalty) + offset
    return float((scores.argmax(1) == test[1]).float().mean())


def ridge_weights(inputs: Tensor, targets: Tensor, penalty: float) -> Tensor:
    """(XᵀX + λ)⁻¹ XᵀY = Xᵀ(XXᵀ + λ)⁻¹Y [d, k]: the smaller of both systems is solved."""
    primal = len(inputs) > inputs.shape[1]
    system = inputs.T @ inputs if primal else inputs @ inputs.T
    system.diagonal().add_(penalty)
    solution: Tensor = torch.linalg.solve(system, inputs.T @ targets if primal else targets)
    return solution if primal else inputs.T @ solution
