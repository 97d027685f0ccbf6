"""Which shortcuts are exact for a network, read off the graph that autograd records of one forward pass.

*Layered* parameters belong to a layer with a known rule (`layers.py`) and are used by it alone; the others are
*outside* (a positional table added by hand, tied weights, attention with its own projection).
*Used once*: a parameter acts in one place, so the outputs of its layer are linear in it.
*Piecewise linear*: used once, and everything after is linear or has kinks (ReLU, max-pooling, …). The outputs are
then piecewise linear in each single parameter; so ∂²f/∂wᵢ² = 0, diag H = diag G and Tr H = Tr G (almost everywhere).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from common.hessian.layers import rule_of
from common.hessian.recurrent import layers_in_parts

_VIEWS = {"T", "Transpose", "View", "ReshapeAlias", "UnsafeView", "Permute", "Alias", "Clone", "Expand", "Unsqueeze",
          "Squeeze", "Slice", "Select", "Split", "Unbind", "ToCopy"}  # fmt: skip
_LINEAR = {"Add", "Sub", "Neg", "Sum", "Mean", "Cat", "Stack", "AvgPool1D", "AvgPool2D", "AvgPool3D", "Index",
           "AdaptiveAvgPool1D", "AdaptiveAvgPool2D", "MkldnnAdaptiveAvgPool2D", "AdaptiveAvgPool3D", "ConstantPadNd",
           "Im2Col", "UpsampleNearest2D", "UpsampleBilinear2D", "Flip", "Roll", "Rsub"}  # fmt: skip
_KINKED = {"Relu", "LeakyRelu", "Hardtanh", "Hardsigmoid", "Softshrink", "Threshold", "MaxPool2DWithIndices",
           "Maxpool2D", "MaxPool3DWithIndices", "AdaptiveMaxPool2D", "AdaptiveMaxPool3D", "Max", "Min", "Amax", "Amin",
           "Maximum", "Minimum", "Abs", "PreluKernel", "Gather", "Clamp", "ClampMin", "ClampMax"}  # fmt: skip
_CURVED_AND_KINKED = {"Hardswish", "Hardshrink", "RreluWithNoise", "MultiMarginLoss", "MultilabelMarginLoss"}
_WITH_WEIGHTS = {"Addmm", "Mm", "Convolution", "MkldnnConvolution", "ThnnConv2D", "NativeBatchNorm", "CudnnBatchNorm",
                 "Embedding", "Linear", "Bmm", "SlowConvDilated2D", "CudnnConvolution"}  # fmt: skip
_SCALING = {"Mul", "Div"}
_KNOWN_NAMES = {"weight", "bias"}


@dataclass(frozen=True)
class Structure:
    """What holds for a network.

    Attributes:
        outside: names of the parameters that no known layer holds alone.
        reused: names of those that act in several places.
        shared: those of them that act in layers with a known rule only (tied weights, a layer called twice).
        piecewise_linear: in each single parameter.
        kinked: some operation has kinks.
        reason: why not, where something does not hold.
    """

    outside: tuple[str, ...]
    reused: tuple[str, ...]
    shared: tuple[str, ...]
    piecewise_linear: bool
    kinked: bool
    reason: str


def inspect(model: nn.Module, parameters: Sequence[nn.Parameter], forward: Callable[[], torch.Tensor]) -> Structure:
    """Record one forward pass with all of `parameters` requiring a gradient and read its graph."""
    selected = {id(parameter) for parameter in parameters}
    calls: Counter[int] = Counter()
    known: set[int] = set()
    handles = []
    with layers_in_parts(model) as layers, _only(model, selected):
        for module in layers:
            # (a layer that computes its weight from others, as `nn.utils.weight_norm` has it, holds those)
            own = [id(p) for name, p in module.named_parameters(recurse=False) if name in _KNOWN_NAMES]
            if (own := [i for i in own if i in selected]) and rule_of(module) is not None:
                known.update(own)
                handles.append(module.register_forward_hook(lambda _, __, ___, own=own: calls.update(own)))
        try:
            with torch.enable_grad():
                graph = _Graph(forward())
        finally:
            for handle in handles:
                handle.remove()
    return _judged(model, parameters, graph, calls, known)


@contextmanager
def _only(model: nn.Module, selected: Collection[int]) -> Iterator[None]:
    """Within: these parameters, by id, require a gradient and no others."""
    before = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    try:
        for parameter, _ in before:
            parameter.requires_grad_(id(parameter) in selected)
        yield
    finally:
        for parameter, state in before:
            parameter.requires_grad_(state)


def _judged(
    model: nn.Module, parameters: Sequence[nn.Parameter], graph: "_Graph", calls: Counter[int], known: set[int]
) -> Structure:
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    places = Counter(id(p) for m in model.modules() for p in m.parameters(recurse=False))
    uses = {id(parameter): graph.uses(parameter) for parameter in parameters}
    outside = [names[i] for i, count in uses.items() if i not in known or calls[i] != count or places[i] > 1]
    reused = [names[i] for i, count in uses.items() if count > 1]
    shared = [names[i] for i, count in uses.items() if count > 1 and i in known and calls[i] == count]
    reasons = [f"{name} is used outside the layers with a known rule" for name in outside[:2]]
    reasons += [f"{name} is used in several places" for name in reused[:2]]
    nonlinear = graph.first_nonlinear()
    if nonlinear:
        reasons.append(f"{nonlinear} is not piecewise linear")
    return Structure(
        outside=tuple(outside),
        reused=tuple(reused),
        shared=tuple(shared),
        piecewise_linear=not reused and not nonlinear,
        kinked=bool(graph.kinks()),
        reason="; ".join(reasons),
    )


def kinks_of(outputs: torch.Tensor) -> list[str]:
    """Names of the operations with kinks in the graph that autograd recorded of `outputs`."""
    return _Graph(outputs).kinks()


def graph_nodes(outputs: torch.Tensor) -> list[Any]:
    """The operations that autograd recorded of `outputs`."""
    return _Graph(outputs).nodes


class _Graph:
    """The operations between parameters and outputs."""

    def __init__(self, outputs: torch.Tensor) -> None:
        self.nodes: list[Any] = []
        self.consumers: dict[Any, list[Any]] = {}
        waiting = [outputs.grad_fn] if outputs.grad_fn is not None else []
        seen = set(waiting)
        while waiting:
            node = waiting.pop()
            self.nodes.append(node)
            for following, _ in node.next_functions:
                if following is None:
                    continue
                self.consumers.setdefault(following, []).append(node)
                if following not in seen:
                    seen.add(following)
                    waiting.append(following)
        self._leaf = {id(node.variable): node for node in self.nodes if hasattr(node, "variable")}

    def uses(self, parameter: nn.Parameter) -> int:
        """In how many operations a parameter acts; views of it are looked through."""
        leaf = self._leaf.get(id(parameter))
        return 0 if leaf is None else self._multiplicity(leaf)

    def _multiplicity(self, node: Any) -> int:
        return sum(
            self._multiplicity(consumer) if _kind(consumer) in _VIEWS and self.consumers.get(consumer) else 1
            for consumer in self.consumers.get(node, [])
        )

    def kinks(self) -> list[str]:
        """The operations that have kinks."""
        return [_kind(node) for node in self.nodes if _kind(node) in _KINKED | _CURVED_AND_KINKED or _bent_elu(node)]

    def first_nonlinear(self) -> str:
        """Name of an operation that is not piecewise linear in each parameter, or ''."""
        for node in self.nodes:
            kind = _kind(node)
            if kind == "AccumulateGrad" or kind in _VIEWS | _LINEAR | _KINKED:
                continue
            operands = [following for following, _ in node.next_functions if following is not None]
            moving = [operand for operand in operands if not self._is_parameter(operand)]
            if kind in _SCALING and len(operands) <= 1 and not (kind == "Div" and node.next_functions[0][0] is None):
                continue
            if kind in _WITH_WEIGHTS | {"Mul"} and len(moving) <= 1:
                continue
            return kind
        return ""

    def _is_parameter(self, node: Any) -> bool:
        """Whether a node gives a parameter as it is."""
        while _kind(node) in _VIEWS:
            following = [other for other, _ in node.next_functions if other is not None]
            if len(following) != 1:
                return False
            node = following[0]
        return hasattr(node, "variable")


def _bent_elu(node: Any) -> bool:
    """ELU, CELU and SELU have a kink unless the slopes on both sides are the same."""
    return _kind(node) == "Elu" and abs(node._saved_alpha * node._saved_input_scale - 1) > 1e-9


def _kind(node: Any) -> str:
    name = type(node).__name__
    if isinstance(node, torch.autograd.function.BackwardCFunction):
        return f"custom {name}"  # whatever torch's operation of that name does
    return name.rstrip("0123456789").removesuffix("Backward")
