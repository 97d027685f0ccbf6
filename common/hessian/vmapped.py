"""Linearisation by `torch.func`, for parameters that no known layer holds."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.func import vjp, vmap

from common.hessian.chunks import Chunk, map_inputs, take
from common.hessian.linearisation import Linearisation
from common.hessian.problem import Problem

LARGEST_BLOCK = 256 << 20
"""Bytes of gradients of single examples that are held at once."""


class VmappedLinearisation(Linearisation):
    """By `torch.func`: right for every network, at about the cost of a gradient for each cotangent, and memory.

    Entries of parameters that are not among `names` are zero.
    """

    def __init__(self, problem: Problem, chunk: Chunk, names: Sequence[str]) -> None:
        self.problem, self.chunk = problem, chunk
        with torch.no_grad():
            self.outputs = problem.outputs(chunk.inputs)
        self._selected = {
            name: p.detach() for name, p in zip(problem.names, problem.parameters, strict=True) if name in names
        }
        self._places = [place for place, name in enumerate(problem.names) if name in names]

    def squares_shapes(self) -> Sequence[torch.Tensor]:
        return self.problem.parameters

    def _blocks(self, cotangent: torch.Tensor) -> Iterator[tuple[slice, list[torch.Tensor]]]:
        width = sum(tensor.numel() for tensor in self._selected.values())
        size = max(1, LARGEST_BLOCK // (4 * width))

        def product(inputs: Any, vector: torch.Tensor) -> dict[str, torch.Tensor]:
            def output(parameters: dict[str, torch.Tensor]) -> torch.Tensor:
                return self.problem.outputs(map_inputs(inputs, lambda tensor: tensor[None]), parameters)[0]

            return vjp(output, self._selected)[1](vector)[0]  # type: ignore[no-any-return]

        for start in range(0, len(cotangent), size):
            part = slice(start, start + size)
            found = vmap(product)(take(self.chunk.inputs, part), cotangent[part].view_as(self.outputs[part]))
            yield part, [found[self.problem.names[place]].detach() for place in self._places]

    def norms(self, cotangent: torch.Tensor) -> list[torch.Tensor]:
        result = [cotangent.new_zeros(len(cotangent)) for _ in self.problem.parameters]
        for part, gradients in self._blocks(cotangent):
            for place, gradient in zip(self._places, gradients, strict=True):
                result[place][part] = gradient.flatten(1).square().sum(1)
        return result

    def squares(self, cotangent: torch.Tensor) -> list[torch.Tensor]:
        result = [torch.zeros_like(parameter) for parameter in self.problem.parameters]
        for _, gradients in self._blocks(cotangent):
            for place, gradient in zip(self._places, gradients, strict=True):
                result[place] += gradient.square().sum(0)
        return result

    def gradients(self, cotangent: torch.Tensor) -> torch.Tensor:
        result = cotangent.new_zeros(len(cotangent), self.problem.size)
        columns = result.split(self.problem.sizes, dim=1)
        for part, gradients in self._blocks(cotangent):
            for place, gradient in zip(self._places, gradients, strict=True):
                columns[place][part] = gradient.flatten(1)
        return result
