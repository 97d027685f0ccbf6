"""vᵢᵀ ∇ᵢ² ℓₙ vᵢ of every example n for the weight matrix of every layer i, in a pass a layer.

With t an unknown of each example and the output of layer i moved by tₙ · layer(Vᵢ; aₙ), the second derivative of ℓₙ
by tₙ at 0 is the quadratic form of the example's own Hessian, the block of layer i alone. Examples do not influence
each other, so one double backward pass gives all of them; no gradient by the weights is formed.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import torch
from torch import nn

from common.hessian import Problem

Layer = nn.Linear | nn.Conv1d | nn.Conv2d


def matrix_layers(model: nn.Module) -> dict[str, Layer]:
    """The layers with a trained weight matrix, by the name of that parameter.

    Raises:
        ValueError: a trained parameter of two or more dimensions lies outside such layers.

    Example:
        >>> list(matrix_layers(nn.Sequential(nn.Linear(1, 2), nn.LayerNorm(2))))
        ['0.weight']
    """
    found = {
        f"{name}.weight" if name else "weight": module
        for name, module in model.named_modules()
        if isinstance(module, Layer) and module.weight.requires_grad
    }
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and parameter.ndim > 1 and name not in found:
            raise ValueError(f"{name} is a weight matrix outside linear and convolutional layers.")
    return found


def layer_forms(problem: Problem, directions: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The quadratic form of each example [N] for each direction, by the name of its weight matrix.

    Args:
        directions: Vᵢ in the shape of the parameter, for names of `matrix_layers(problem.model)`.

    Example:
        >>> problem = Problem(nn.Linear(1, 1), nn.MSELoss(), (torch.tensor([[1.0], [2.0]]), torch.zeros(2, 1)))
        >>> layer_forms(problem, {"weight": torch.tensor([[3.0]])})["weight"].tolist()
        [18.0, 72.0]
    """
    layers = matrix_layers(problem.model)
    parts: dict[str, list[torch.Tensor]] = {name: [] for name in directions}
    for chunk in problem.chunks:
        steps = {
            name: torch.zeros(len(chunk), dtype=problem.dtype, device=problem.device, requires_grad=True)
            for name in directions
        }
        handles = [
            layers[name].register_forward_hook(_moved(layers[name], directions[name], steps[name]))
            for name in directions
        ]
        try:
            with torch.enable_grad(), problem.only_selected(active=False):
                total = problem.summed_loss(problem.outputs(chunk.inputs), chunk.targets)
                slopes = torch.autograd.grad(total, list(steps.values()), create_graph=True)
                for (name, step), slope in zip(steps.items(), slopes, strict=True):
                    (form,) = torch.autograd.grad(slope.sum(), step, retain_graph=True, materialize_grads=True)
                    parts[name].append(form.detach())
        finally:
            for handle in handles:
                handle.remove()
    return {name: torch.cat(values) for name, values in parts.items()}


def _moved(layer: Any, direction: torch.Tensor, steps: torch.Tensor) -> Callable[..., torch.Tensor]:
    """A hook that adds tₙ · layer(V; aₙ) to the layer's output."""
    along = deepcopy(layer).requires_grad_(False)
    along.weight.copy_(direction)
    if along.bias is not None:
        along.bias.zero_()

    def hook(_: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
        moved: torch.Tensor = output + steps.view(-1, *(1,) * (output.ndim - 1)) * along(inputs[0])
        return moved

    return hook
