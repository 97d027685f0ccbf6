"""Linearisation example by example, for networks that no vectorisation takes: slower, and right for all."""

from collections.abc import Iterator, Sequence

import torch

from common.hessian.chunks import Chunk, map_inputs, take
from common.hessian.linearisation import Linearisation
from common.hessian.problem import Problem


class LoopedLinearisation(Linearisation):
    """A forward and a backward pass for each example and cotangent: a gradient's cost, without a batch's speed.

    Entries of parameters that are not among `names` are zero.
    """

    def __init__(self, problem: Problem, chunk: Chunk, names: Sequence[str]) -> None:
        self.problem, self.chunk = problem, chunk
        with torch.no_grad():
            self.outputs = problem.outputs(chunk.inputs)
        self._places = [place for place, name in enumerate(problem.names) if name in set(names)]

    def squares_shapes(self) -> Sequence[torch.Tensor]:
        return self.problem.parameters

    def _each(self, cotangent: torch.Tensor) -> Iterator[tuple[int, list[torch.Tensor]]]:
        wanted = [self.problem.parameters[place] for place in self._places]
        for number in range(len(cotangent)):
            with torch.enable_grad(), self.problem.only_selected():
                output = single(self.problem, self.chunk, number)
                vector = cotangent[number].view_as(output).to(output)
                if not output.requires_grad:
                    yield number, [torch.zeros_like(parameter) for parameter in wanted]
                    continue
                found = torch.autograd.grad(output, wanted, vector, materialize_grads=True)
            yield number, [gradient.detach() for gradient in found]

    def norms(self, cotangent: torch.Tensor) -> list[torch.Tensor]:
        result = [cotangent.new_zeros(len(cotangent)) for _ in self.problem.parameters]
        for number, gradients in self._each(cotangent):
            for place, gradient in zip(self._places, gradients, strict=True):
                result[place][number] = gradient.square().sum()
        return result

    def squares(self, cotangent: torch.Tensor) -> list[torch.Tensor]:
        result = [torch.zeros_like(parameter) for parameter in self.problem.parameters]
        for _, gradients in self._each(cotangent):
            for place, gradient in zip(self._places, gradients, strict=True):
                result[place] += gradient.square()
        return result

    def gradients(self, cotangent: torch.Tensor) -> torch.Tensor:
        result = cotangent.new_zeros(len(cotangent), self.problem.size)
        columns = result.split(self.problem.sizes, dim=1)
        for number, gradients in self._each(cotangent):
            for place, gradient in zip(self._places, gradients, strict=True):
                columns[place][number] = gradient.flatten()
        return result


def single(problem: Problem, chunk: Chunk, number: int) -> torch.Tensor:
    """The output of one example, recorded; a model that drops an axis of length one gets the example twice."""
    one = take(chunk.inputs, slice(number, number + 1))
    output = problem.outputs(one)
    if output.shape[:1] == (1,) and output[0].numel() == problem.outputs_per_example:
        return output[0]
    return problem.outputs(map_inputs(one, lambda tensor: torch.cat([tensor, tensor])))[0]
