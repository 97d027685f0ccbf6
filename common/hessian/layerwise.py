"""Linearisation by layers: one forward pass is recorded, each cotangent is one backward pass to the activations."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from common.hessian.chunks import Chunk
from common.hessian.layers import LinearRule, Rule, rule_of
from common.hessian.linearisation import Linearisation
from common.hessian.problem import Problem
from common.hessian.recurrent import layers_in_parts


@dataclass
class _Use:
    """What the calls of one layer leave behind."""

    layer: Any
    rule: type[Rule]
    places: dict[str, int]
    inputs: list[torch.Tensor] = field(default_factory=list)
    outputs: list[torch.Tensor] = field(default_factory=list)
    _prepared: list[torch.Tensor] = field(default_factory=list)

    @property
    def prepared(self) -> list[torch.Tensor]:
        """What the rule makes of the inputs, made once for all cotangents; of calls that are joined it is one."""
        if not self._prepared:
            self._prepared = self.joined([self.rule.prepare(self.layer, a) for a in self.inputs])
        return self._prepared

    def joined(self, calls: list[torch.Tensor]) -> list[torch.Tensor]:
        """The calls of a linear layer are places of a sequence, like those within a call."""
        if self.rule is not LinearRule or len(calls) == 1:
            return calls
        return [torch.cat([call.reshape(len(call), -1, call.shape[-1]) for call in calls], dim=1)]


class LayerwiseLinearisation(Linearisation):
    """Parameters inside known layers; entries of those outside are zero."""

    def __init__(self, problem: Problem, uses: list[_Use], outputs: torch.Tensor) -> None:
        self.problem, self.uses = problem, uses
        self.outputs, self._graph = outputs.detach(), outputs

    def _deltas(self, cotangent: torch.Tensor) -> Iterator[tuple[_Use, list[torch.Tensor]]]:
        points = [z for use in self.uses for z in use.outputs]
        if points and self._graph.requires_grad:
            found = iter(
                torch.autograd.grad(
                    self._graph, points, cotangent.view_as(self._graph), retain_graph=True, materialize_grads=True
                )
            )
            for use in self.uses:
                yield use, use.joined([next(found) for _ in use.outputs])

    def norms(self, cotangent: torch.Tensor) -> list[torch.Tensor]:
        result = [cotangent.new_zeros(len(cotangent)) for _ in self.problem.parameters]
        for use, deltas in self._deltas(cotangent):
            with torch.no_grad():
                if len(deltas) == 1:
                    values = use.rule.norms(use.layer, use.prepared[0], deltas[0])
                else:
                    values = {k: g.flatten(1).square().sum(1) for k, g in _summed(use, deltas).items()}
            for name, place in use.places.items():
                result[place] = values[name]
        return result

    def factor_norms(self, factor: torch.Tensor, sign: torch.Tensor) -> list[float]:
        found: list[list[list[torch.Tensor]]] = []  # by column, use and call
        for column in factor.unbind(2):
            found.append([deltas for _, deltas in self._deltas(column)])
        totals = [0.0] * len(self.problem.parameters)
        for number, use in enumerate(self.uses if found and found[0] else []):
            with torch.no_grad():
                if len(use.prepared) == 1:
                    together = [deltas[number][0] for deltas in found]
                    values = use.rule.summed_norms(use.layer, use.prepared[0], together, sign)
                else:
                    values = {}
                    for deltas, signed in zip(found, sign.unbind(1), strict=True):
                        for name, gradient in _summed(use, deltas[number]).items():
                            value = (gradient.flatten(1).square().sum(1).double() * signed).sum()
                            values[name] = values[name] + value if name in values else value
            for name, place in use.places.items():
                totals[place] = float(values[name])
        return totals

    def squares(self, cotangent: torch.Tensor) -> list[torch.Tensor]:
        result = [torch.zeros_like(parameter) for parameter in self.problem.parameters]
        for use, deltas in self._deltas(cotangent):
            values = self._squares(use, deltas)
            for name, place in use.places.items():
                result[place] = values[name].view(result[place].shape)
        return result

    def squares_shapes(self) -> Sequence[torch.Tensor]:
        return self.problem.parameters

    def factor_squares(self, factor: torch.Tensor, sign: torch.Tensor) -> list[torch.Tensor]:
        total = [torch.zeros_like(parameter) for parameter in self.problem.parameters]
        plain: dict[int, torch.Tensor] = {}  # Σ_c ± δ² of dense layers: a² is the same for all columns
        for column in range(factor.shape[2]):
            signed = sign[:, column]
            for number, (use, deltas) in enumerate(self._deltas(factor[:, :, column])):
                if use.rule is LinearRule and use.prepared[0].ndim == 2:
                    squared = deltas[0].square() * signed[:, None]
                    plain[number] = plain[number] + squared if number in plain else squared
                    continue
                for part in signed.unique().tolist():
                    mask = (signed == part).to(factor)
                    found = self._squares(use, [d * mask.view(-1, *(1,) * (d.ndim - 1)) for d in deltas])
                    for name, place in use.places.items():
                        total[place].add_(found[name].view(total[place].shape), alpha=part)
        for number, squared in plain.items():
            use = self.uses[number]
            for name, place in use.places.items():
                total[place] += squared.T @ use.prepared[0].square() if name == "weight" else squared.sum(0)
        return total

    @staticmethod
    def _squares(use: _Use, deltas: list[torch.Tensor]) -> dict[str, torch.Tensor]:
        with torch.no_grad():
            if len(deltas) == 1:
                return use.rule.squares(use.layer, use.prepared[0], deltas[0])
            return {k: g.square().sum(0) for k, g in _summed(use, deltas).items()}

    def norms_and_squares(self, cotangent: torch.Tensor, total: list[torch.Tensor]) -> torch.Tensor:
        result = cotangent.new_zeros(len(cotangent))
        for use, deltas in self._deltas(cotangent):
            with torch.no_grad():
                if len(deltas) == 1:
                    norms, squares = use.rule.norms_and_squares(use.layer, use.prepared[0], deltas[0])
                else:
                    parts = {k: g.flatten(1).square() for k, g in _summed(use, deltas).items()}
                    norms = {k: g.sum(1) for k, g in parts.items()}
                    squares = {k: g.sum(0) for k, g in parts.items()}
            for name, place in use.places.items():
                result += norms[name]
                total[place] += squares[name].view(total[place].shape)
        return result

    def gradients(self, cotangent: torch.Tensor) -> torch.Tensor:
        rows: list[torch.Tensor | None] = [None] * len(self.problem.parameters)
        for use, deltas in self._deltas(cotangent):
            with torch.no_grad():
                values = _summed(use, deltas)
            for name, place in use.places.items():
                rows[place] = values[name].flatten(1)
        length = len(cotangent)
        return torch.cat(
            [
                cotangent.new_zeros(length, size) if row is None else row
                for row, size in zip(rows, self.problem.sizes, strict=True)
            ],
            dim=1,
        )


def _summed(use: _Use, deltas: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Gradients of each example, summed over the calls of the layer."""
    parts = [use.rule.gradients(use.layer, a, d) for a, d in zip(use.prepared, deltas, strict=True)]
    return {name: sum((part[name] for part in parts[1:]), parts[0][name]) for name in parts[0]}


def layerwise(problem: Problem, chunk: Chunk) -> LayerwiseLinearisation:
    """Record a chunk; the parameters must not require a gradient meanwhile."""
    copy = False
    while True:
        uses, outputs, overwritten = _record(problem, chunk, copy)
        if not overwritten:
            return LayerwiseLinearisation(problem, uses, outputs)
        copy = True  # the network works in place: give it copies


def _record(problem: Problem, chunk: Chunk, copy: bool) -> tuple[list[_Use], torch.Tensor, bool]:
    uses, versions = [], []
    handles = []

    def hook(use: _Use) -> Any:
        def remember(_: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
            a = inputs[0].detach()
            a = a.clone() if copy else a
            if not output.requires_grad:
                output = output.detach().requires_grad_()
            use.inputs.append(a)
            use.outputs.append(output)
            versions.extend([(a, a._version), (output, output._version)])
            return output.clone() if copy else output

        return remember

    outside = set(problem.structure.outside)
    places = {id(p): i for i, p in enumerate(problem.parameters) if problem.names[i] not in outside}
    with layers_in_parts(problem.model) as layers:
        for layer in layers:
            own = {n: places[id(p)] for n, p in layer.named_parameters(recurse=False) if id(p) in places}
            rule = rule_of(layer)
            if own and rule is not None:
                uses.append(_Use(layer, rule, own))
                handles.append(layer.register_forward_hook(hook(uses[-1])))
        try:
            with torch.enable_grad():
                outputs = problem.outputs(chunk.inputs)
        except RuntimeError as error:
            if copy or "in-place" not in str(error):
                raise
            return uses, torch.empty(0), True
        finally:
            for handle in handles:
                handle.remove()
    return uses, outputs, any(tensor._version != version for tensor, version in versions)
