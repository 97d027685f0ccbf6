"""Networks that are trained in coordinates of the span of the images, where they are fewer than their pixels."""

from collections.abc import Sequence

import torch
from torch import nn

from common.models import FullyConnected
from common.training import FullyConnectedEnsemble, ModuleEnsemble
from common.training.input_span import join_first_layer, span, split_first_layer

Ensemble = FullyConnectedEnsemble | ModuleEnsemble


class ImageSpan:
    """Networks on images and the same networks on coordinates of the images.

    Attributes:
        inputs: coordinates [n, rank] of the images, or the images themselves [n, features] where nothing is gained:
            as many images as features, or a network that is not fully connected.
        ensemble: takes `inputs`, is to be trained.
    """

    def __init__(self, ensemble: Ensemble, images: torch.Tensor) -> None:
        """
        Args:
            ensemble: initial networks on `images` [n, features].
        """
        self.inputs, self.ensemble = images, ensemble
        self._basis: torch.Tensor | None = None
        if not isinstance(ensemble, FullyConnectedEnsemble) or len(images) >= images.shape[1]:
            return
        basis, coordinates = span(images)
        self._basis, self.inputs = basis.to(images), coordinates.to(images).contiguous()
        self._sizes = ensemble.sizes
        first, others = split_first_layer(ensemble.weights, *self._sizes[:2])
        self._beside = first - (first @ self._basis) @ self._basis.T
        rows = join_first_layer(first @ self._basis, others)
        self.ensemble = FullyConnectedEnsemble((len(images), *ensemble.sizes[1:]), rows, loss=ensemble.loss)

    def on_images(self, members: Sequence[int]) -> Ensemble:
        """The chosen networks as they are now, taking images."""
        chosen = self.ensemble.members(members)
        if self._basis is None or not isinstance(chosen, FullyConnectedEnsemble):
            return chosen
        first, others = split_first_layer(chosen.weights, *chosen.sizes[:2])
        whole = self._beside[list(members)] + first @ self._basis.T
        return FullyConnectedEnsemble(self._sizes, join_first_layer(whole, others), loss=chosen.loss)

    def module(self, member: int) -> nn.Module | FullyConnected:
        """An ordinary network that takes images, with a copy of the member's parameters."""
        return self.on_images([member]).module(0)
