"""Gaussian perturbations of parameters, drawn from given generators."""

from collections.abc import Sequence
from typing import Any

import torch


class GaussianNoise:
    """Draws U ~ N(0, scale² I) in the shapes of some parameters.

    With one generator the parameters are one network's. With several, the first axis of every parameter runs over
    members, and each member's noise comes from its own generator, so that it does not depend on who is drawn with it.
    """

    def __init__(
        self,
        parameters: Sequence[torch.Tensor],
        *,
        scale: float,
        generators: torch.Generator | Sequence[torch.Generator],
    ) -> None:
        """
        Args:
            scale: standard deviation σ of every coordinate.
            generators: on the CPU; their states belong to a checkpoint (`state`).

        Raises:
            ValueError: no parameters, a negative scale, or a first axis that is not one entry a generator.
        """
        self.parameters = list(parameters)
        if not self.parameters or scale < 0:
            raise ValueError("noise needs parameters and a scale of 0 or more.")
        self.scale = scale
        self.members = not isinstance(generators, torch.Generator)
        self.generators = [generators] if isinstance(generators, torch.Generator) else list(generators)
        lengths = {len(parameter) for parameter in self.parameters} if self.members else {1}
        if self.members and lengths != {len(self.generators)}:
            raise ValueError(f"{len(self.generators)} generators for parameters of {sorted(lengths)} members.")

    def draw(self) -> list[torch.Tensor]:
        """One perturbation, a tensor for each parameter, in its shape and type and on its device."""
        first = self.parameters[0]
        sizes = [parameter.numel() // len(self.generators) for parameter in self.parameters]
        rows = [
            torch.randn(sum(sizes), generator=generator, dtype=first.dtype).mul_(self.scale)
            for generator in self.generators
        ]
        parts = [torch.split(row.to(first.device), sizes) for row in rows]
        return [
            torch.stack([own[place] for own in parts]).view_as(parameter)
            for place, parameter in enumerate(self.parameters)
        ]

    def lengths(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """Norm over all parameters of tensors in their shapes: [members], of one network's a scalar."""
        first = 1 if self.members else 0
        squares = [tensor.flatten(first).square().sum(-1) for tensor in tensors]
        return torch.stack(squares).sum(0).sqrt()

    def state(self) -> dict[str, Any]:
        """What must be kept to go on later."""
        return {"generators": [generator.get_state() for generator in self.generators]}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state()`."""
        for generator, saved in zip(self.generators, state["generators"], strict=True):
            generator.set_state(saved)
