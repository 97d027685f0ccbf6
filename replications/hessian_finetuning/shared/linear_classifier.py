"""A linear classifier on the untouched network's output: do the frozen features tell the classes apart?"""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from .upper_layers import upper_layers

RIDGE = 0.1
"""Added to the features' covariance, in units of its mean diagonal entry."""


@torch.no_grad()
def linear_accuracy(upper: Mapping[str, Tensor], train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor]) -> float:
    """Share of test examples that ridge regression on one-hot labels gets right, on the outputs of the upper layers.

    Args:
        upper: their weights as kept by `frozen_features`; empty where nothing is pretrained.
        train, test: features and labels.
    """
    network = upper_layers(upper)
    outputs = [torch.cat([network(part.float()) for part in data[0].split(200)]).flatten(1) for data in (train, test)]
    mean = outputs[0].mean(0)
    inputs, fresh = outputs[0] - mean, outputs[1] - mean
    targets = functional.one_hot(train[1]).float()
    gram = inputs @ inputs.T
    gram.diagonal().add_(RIDGE * float(gram.diagonal().mean()))
    scores = fresh @ (inputs.T @ torch.linalg.solve(gram, targets - targets.mean(0))) + targets.mean(0)
    return float((scores.argmax(1) == test[1]).float().mean())
