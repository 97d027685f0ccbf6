"""Training in coordinates of the span of the images, where they are fewer than their pixels.

Whatever the batches, steps move the first layer's weights within the span of the training images alone. In an
orthonormal basis of it the losses, the steps and the nonzero eigenvalues of the Hessians are those of the pixels, and
the first layer has as many inputs as there are images. What lies beside the span stays as it was drawn, and matters on
other images only.
"""

from collections.abc import Sequence

import torch
from torch import nn

from common.models import FullyConnected
from common.training import FullyConnectedEnsemble, ModuleEnsemble

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
        basis, coordinates = torch.linalg.qr(images.double().T)
        self._basis, self.inputs = basis.to(images), coordinates.T.to(images).contiguous()
        first, others = _first_layer(ensemble)
        self._beside = first - (first @ self._basis) @ self._basis.T
        self._sizes = ensemble.sizes
        rows = torch.cat([(first @ self._basis).flatten(1), others], dim=1)
        self.ensemble = FullyConnectedEnsemble((len(images), *ensemble.sizes[1:]), rows, loss=ensemble.loss)

    def on_images(self, members: Sequence[int]) -> Ensemble:
        """The chosen networks as they are now, taking images."""
        chosen = self.ensemble.members(members)
        if self._basis is None or not isinstance(chosen, FullyConnectedEnsemble):
            return chosen
        first, others = _first_layer(chosen)
        whole = self._beside[list(members)] + first @ self._basis.T
        return FullyConnectedEnsemble(self._sizes, torch.cat([whole.flatten(1), others], dim=1), loss=chosen.loss)

    def module(self, member: int) -> nn.Module | FullyConnected:
        """An ordinary network that takes images, with a copy of the member's parameters."""
        return self.on_images([member]).module(0)


def _first_layer(ensemble: FullyConnectedEnsemble) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights of the first layer [members, units, inputs], and all other coordinates [members, …]."""
    count = ensemble.sizes[0] * ensemble.sizes[1]
    return ensemble.weights[:, :count].unflatten(1, (ensemble.sizes[1], ensemble.sizes[0])), ensemble.weights[:, count:]
