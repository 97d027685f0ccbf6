"""Derivatives are checked before they are used: once for a problem, on two of its examples.

What is checked is the network (through a smooth function of its outputs, for the slope of a loss vanishes on examples
that are fitted) and the loss (at outputs of unit size). Both stand a hundredth away from the present weights, in a
random direction: at weights of zero, pixels of zero lie exactly on the kink of a ReLU. Draws come from a generator of
their own. The methods are those of `derivative_check.py`; a float32 network is compared with itself in float64, without
a copy: the parameters hold other values for as long as it takes.

Cost, in gradients of one example: 16 in float64 (one recorded, three products of two, one difference, two examples), 14
in float32 (two products there, two gradients in float64); eight examples once and again cost as much. A kink on the way
or single precision that leaves doubt adds 2 to 4.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from common.hessian.chunks import Inputs, map_inputs, take
from common.hessian.derivative_check import (
    ASYMMETRY,
    Finding,
    Tensors,
    asymmetry,
    directions,
    examine,
    hold_padding,
    holding,
    mismatch,
    product,
    recorded,
    sizes_of,
    wave,
)
from common.hessian.execution import REPLACEABLE
from common.hessian.localisation import culprit
from common.hessian.random import generator
from common.hessian.structure import graph_nodes

if TYPE_CHECKING:
    from common.hessian.problem import Problem

EXAMPLES = 2
DISPLACED = 0.01
"""How far the weights are moved for the check, over their size."""
SEED = 20_260
IMPRECISE = 0.5
"""Part of a product in single precision that may be rounding."""
WRITTEN_OUT = {
    "weight_norm": "Weight normalisation is computed as g v/‖v‖, without torch's fused operation, whose second derivative "
    "is wrong.",
    "hardsigmoid": "The hard sigmoid is computed as relu6(x + 3)/6, since torch's own has no second derivative.",
}


class WrongDerivativeError(ValueError):
    """A derivative that torch computes of a network or a loss is wrong, or there is none."""


@dataclass
class Verified:
    """What has been checked of a problem.

    Attributes:
        wanted: whether to check at all.
        cost: of all checks so far, in gradients of eight examples.
        said: what is computed otherwise than the network has it, and why.
        failures: the sentence of each kind of derivative ("second", "first") that was looked at; "" if it is right.
        layers, pushed: whether per-sample rules and products with the GGN have been compared with single examples.
        looped: parameters of which no rule holds and no vectorisation works: example by example.
    """

    wanted: bool = True
    cost: float = 0.0
    said: list[str] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    layers: bool = False
    pushed: dict[str, str] = field(default_factory=dict)
    looped: frozenset[str] = frozenset()

    def shared(self) -> "Verified":
        """What holds of the same network with fewer parameters, too."""
        return replace(self, cost=0.0, said=list(self.said), failures=dict(self.failures), layers=False, pushed={})


def require_derivatives(problem: "Problem", order: int) -> None:
    """Look once whether first, or first and second derivatives are right.

    Raises:
        WrongDerivativeError: they are not, with the module, and the way around where there is one.
    """
    state = problem.verified
    if not state.wanted:
        return
    kind = "second" if order == 2 else "first"
    if kind not in state.failures:
        with undisturbed(problem), problem.only_selected():
            state.failures[kind] = _failure(problem, order)
        if kind == "second" and not state.failures[kind]:
            state.failures["first"] = ""
    if state.failures[kind]:
        raise WrongDerivativeError(state.failures[kind])


def _failure(problem: "Problem", order: int) -> str:
    """The sentence that refuses, or ""."""
    sample = Sample(problem)
    wrong, message = _looked_at(problem, sample, order)
    if wrong and "does not currently support double backward" in message and not problem.execution.eager:
        problem.execution.eager = True
        wrong, message = _looked_at(problem, sample, order)
    if wrong and write_out(problem, sample):
        wrong, message = _looked_at(problem, sample, order)
        if wrong:
            problem.execution.written_out = frozenset()
    if wrong:
        return refusal(problem, sample, wrong, message)
    for name in problem.execution.written_out:
        say(problem, WRITTEN_OUT[name])
    wrong = _of_loss(problem, sample, order)
    name = getattr(problem.loss_function, "__name__", type(problem.loss_function).__name__)
    return _sentence(f"the loss {name}", wrong)


def write_out(problem: "Problem", sample: "Sample") -> bool:
    """Compose from now on what torch's own operations may have wrong derivatives of; whether there is any."""
    if problem.execution.written_out:
        return False
    problem.execution.written_out = frozenset(name for name, node in REPLACEABLE.items() if sample.holds(node))
    return bool(problem.execution.written_out)


def say(problem: "Problem", sentence: str) -> None:
    """Warn, once, and keep the sentence."""
    if sentence not in problem.verified.said:
        problem.verified.said.append(sentence)
        warnings.warn(sentence, stacklevel=3)


def refusal(problem: "Problem", sample: "Sample", wrong: str, message: str = "") -> str:
    """The sentence that says what is wrong, and in which module."""
    with sample.weights(sample.kind):
        place = culprit(problem.execution.model, problem.execution.setting, lambda: sample.outputs(sample.kind))
    return _sentence(place or "the model", wrong, message)


def _sentence(place: str, wrong: str, message: str = "") -> str:
    if not wrong:
        return ""
    often = "" if wrong.startswith("gradient") else " twice"
    said = f" ({message})" if message else ""
    return f"{place[0].upper()}{place[1:]} cannot be differentiated{often}: its {wrong}{said}."


def _looked_at(problem: "Problem", sample: "Sample", order: int) -> tuple[str, str]:
    """What is wrong with the network, and torch's own words if it raised an error."""
    try:
        finding = sample.first() if order == 1 else sample.second()
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        return "second derivative does not exist", str(error).strip().split("\n")[0][:90]
    finally:
        problem.verified.cost += sample.spent()
    return finding.wrong, ""


class Sample:
    """Two examples of a problem, near its weights, in the model's type and in float64 (where it runs in it).

    Attributes:
        kind: the type of the differences.
        vectors, sizes: directions and the sizes of the parameters.
    """

    def __init__(self, problem: "Problem") -> None:
        self.problem = problem
        source = generator(SEED)
        parameters = [parameter.detach() for parameter in problem.parameters]
        self.sizes = sizes_of(parameters)
        self.vectors = [[d.double() for d in directions(parameters, self.sizes, source)] for _ in range(3)]
        for vector in self.vectors:
            hold_padding(problem.model, problem.parameters, vector)
        away = directions(parameters, self.sizes, source)
        self._near = [p + DISPLACED * d for p, d in zip(parameters, away, strict=True)]
        self.inputs = problem.first_inputs(EXAMPLES)
        self.targets = problem.chunks[0].targets[:EXAMPLES]
        self.count = len(self.targets)
        self._evaluations = 0.0
        self.doubled_default = False
        self._number: Callable[[Tensors], torch.Tensor] | None = None
        self.seen = torch.empty(0)
        self.kind = self._precise()

    def _precise(self) -> torch.dtype:
        """float64 if the model runs in it, else its own type."""
        if self.problem.dtype == torch.float64:
            return self.problem.dtype
        for self.doubled_default in (False, True):
            try:
                self._evaluations += 1 / 3
                if self.outputs(torch.float64).dtype == torch.float64:
                    return torch.float64
            except (RuntimeError, TypeError, ValueError):
                continue
        self.doubled_default = False
        return self.problem.dtype

    @contextmanager
    def weights(self, kind: torch.dtype) -> Iterator[None]:
        """Within: the model is near its weights, and of this type."""
        model = self.problem.execution.model
        chosen = {id(p): near for p, near in zip(self.problem.parameters, self._near, strict=True)}
        tensors = [t for t in (*model.parameters(), *model.buffers()) if t.is_floating_point()]
        default = torch.get_default_dtype()
        with holding(tensors, [chosen.get(id(t), t.data).to(kind) for t in tensors]):
            if self.doubled_default and kind == torch.float64:
                torch.set_default_dtype(kind)
            try:
                yield
            finally:
                torch.set_default_dtype(default)

    def _inputs(self, kind: torch.dtype) -> Inputs:
        return map_inputs(self.inputs, lambda tensor: tensor.to(kind) if tensor.is_floating_point() else tensor)

    def outputs(self, kind: torch.dtype) -> torch.Tensor:
        """Without graph, near the weights."""
        with torch.no_grad(), self.weights(kind):
            return self.problem.outputs(self._inputs(kind))

    def value(self, kind: torch.dtype) -> Callable[[], torch.Tensor]:
        """A smooth function of the outputs at what the parameters hold."""
        inputs = self._inputs(kind)

        def number() -> torch.Tensor:
            outputs = self.problem.outputs(inputs)
            if self._number is None:
                self.seen = outputs.detach()
                self._number = wave([self.seen.double()], generator(SEED + 1))
            return self._number([outputs])

        return number

    def first(self) -> Finding:
        """The gradient against differences."""
        with self.weights(self.kind):
            vectors = [[part.to(self.kind) for part in self.vectors[0]]]
            finding = examine(self.value(self.kind), self.problem.parameters, vectors, self.sizes, order=1)
            self._evaluations += finding.cost
        return finding

    def second(self) -> Finding:
        """Gradient and second derivatives against differences and each other; at the weights if it must be there."""
        finding = self._compared()
        if finding.finite:
            return finding
        self._near, self._number = [p.detach().clone() for p in self.problem.parameters], None
        return self._compared()

    def _compared(self) -> Finding:
        parameters, own = self.problem.parameters, self.problem.dtype
        if own == self.kind:
            return self._examined(self.vectors)
        with self.weights(own):
            vectors = [[part.to(own) for part in vector] for vector in self.vectors[:2]]
            _, slopes = recorded(self.value(own), parameters)
            products = [product(slopes, parameters, vector) for vector in vectors]
            self._evaluations += 5
            gradient = [slope.detach() for slope in slopes]
        del slopes
        symmetric = asymmetry(products, vectors, 0.0) <= ASYMMETRY[own]
        finding = self._examined(self.vectors[: 1 if symmetric else 2], guess=products[0] if symmetric else None)
        if not finding.wrong and finding.product is not products[0]:
            close = mismatch(products[0], finding.product, self.sizes, (IMPRECISE, 0.05), 0.0) <= 1
            precise = mismatch(gradient, finding.gradient, self.sizes, (1e-3, 1e-4), 0.0) <= 1
            if not close and precise:
                return replace(finding, wrong="second derivative in single precision is not that in double precision")
        return finding

    def _examined(self, vectors: Sequence[Tensors], guess: Tensors | None = None) -> Finding:
        with self.weights(self.kind):
            kept = [[part.to(self.kind) for part in vector] for vector in vectors]
            found = examine(self.value(self.kind), self.problem.parameters, kept, self.sizes, guess=guess)
        self._evaluations += found.cost
        return found

    def holds(self, operation: str) -> bool:
        """Whether autograd records this operation."""
        with self.weights(self.kind), torch.enable_grad():
            nodes = graph_nodes(self.value(self.kind)())
        return any(type(node).__name__.startswith(operation) for node in nodes)

    def spent(self) -> float:
        """Since the last call, in gradients of eight examples."""
        spent, self._evaluations = self._evaluations * self.count / 8, 0.0
        return spent


def _of_loss(problem: "Problem", sample: Sample, order: int) -> str:
    """What is wrong with the derivatives of the loss by outputs of unit size."""
    outputs = sample.seen.to(sample.kind)
    targets = sample.targets.to(sample.kind) if sample.targets.is_floating_point() else sample.targets
    try:
        moved = outputs / max(float(outputs.abs().max()), 1.0)
        moved = (moved + directions([moved], [1.0], generator(SEED + 2))[0]).requires_grad_()
        vectors = [directions([moved], [1.0], generator(SEED + 3))]
        return examine(lambda: problem.summed_loss(moved, targets), [moved], vectors, [1.0], order=order).wrong
    except RuntimeError:
        return ""  # it does not take float64, or has a domain


@contextmanager
def undisturbed(problem: "Problem") -> Iterator[None]:
    """Within: random numbers may be drawn; afterwards torch's generators are as before."""
    devices = [problem.device] if problem.device.type == "cuda" else []
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices))
        yield


def few(problem: "Problem") -> Any:
    """The chunk of the two examples of a check."""
    chunk = problem.chunks[0]
    return replace(chunk, inputs=take(chunk.inputs, slice(0, EXAMPLES)), targets=chunk.targets[:EXAMPLES])
