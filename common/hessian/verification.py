"""Derivatives are checked before they are used: once for a problem, on two of its examples.

What is checked is the network (through a smooth function of its outputs, for the slope of a loss vanishes on examples
that are fitted) and the loss (at outputs of unit size). Both stand a hundredth away from the present weights, in a
random direction: at weights of zero, pixels of zero lie exactly on the kink of a ReLU. Draws come from a generator of
their own. The methods are those of `derivative_check.py`; a float32 network is compared with itself in float64. The
parameters stay as they are: others stand in their places for as long as it takes (`sample.py`).

Cost of the second derivatives, in gradients of eight examples: 2.0 in float64 (of each of two examples one recorded
gradient, three products of two, one difference), 1.83 in float32 (one recorded, two products; two gradients and a pass
in float64). A kink on the way, or single precision that leaves doubt, adds a quarter to one.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Protocol

import torch
from torch import nn

from common.hessian.chunks import Chunk, take
from common.hessian.derivative_check import directions, examine
from common.hessian.localisation import culprit, is_wrong
from common.hessian.random import generator
from common.hessian.sample import EXAMPLES, SEED, Network, Sample
from common.memory import shortage

WRITTEN_OUT = {
    "weight_norm": "Weight normalisation is computed as g v/‖v‖, without torch's fused operation, whose second "
    "derivative is wrong.",
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
        return replace(
            self,
            cost=0.0,
            said=list(self.said),
            failures=dict(self.failures),
            layers=False,
            pushed={},
            looped=frozenset(),
        )


class Checked(Network, Protocol):
    """A problem with what is known of it."""

    verified: Verified


def require_derivatives(problem: Checked, order: int) -> None:
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


def _failure(problem: Checked, order: int) -> str:
    """The sentence that refuses, or ""."""
    sample = Sample(problem)
    with writing_out(problem) if order == 2 else nullcontext():
        wrong, message = _looked_at(problem, sample, order)
        if wrong and "does not currently support double backward" in message and not problem.execution.eager:
            problem.execution.eager = True
            wrong, message = _looked_at(problem, sample, order)
        if wrong:
            return refusal(problem, sample, wrong, message)
    say_written_out(problem)
    wrong = _of_loss(problem, sample, order)
    name = getattr(problem.loss_function, "__name__", type(problem.loss_function).__name__)
    return _sentence(f"the loss {name}", wrong)


class _WeightNorm(nn.Module):
    def forward(self, v: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        return torch._weight_norm(v, g, 0)


@cache
def wrongly_differentiated() -> frozenset[str]:
    """Of the operations that can be written out those whose second derivative by this torch is wrong, or none."""
    some = torch.arange(1.0, 7.0, dtype=torch.float64).view(3, 2)
    calls = {"weight_norm": (_WeightNorm(), (some, some[:, :1])), "hardsigmoid": (nn.Hardsigmoid(), (some - 3.5,))}
    return frozenset(name for name, (module, args) in calls.items() if is_wrong(module, (args, {})))


@contextmanager
def writing_out(problem: Checked) -> Iterator[None]:
    """Within: what torch differentiates twice wrongly is written out; what was met of it stays so afterwards."""
    execution = problem.execution
    execution.met.clear()
    execution.written_out = wrongly_differentiated()
    try:
        yield
    finally:
        execution.written_out = frozenset(execution.met)


def say_written_out(problem: Checked) -> None:
    """Warn of what is written out, once, and keep the sentences."""
    for sentence in (WRITTEN_OUT[name] for name in sorted(problem.execution.written_out)):
        if sentence not in problem.verified.said:
            problem.verified.said.append(sentence)
            warnings.warn(sentence, stacklevel=3)


def refusal(problem: Checked, sample: Sample, wrong: str, message: str = "") -> str:
    """The sentence that says what is wrong, and in which module."""
    inputs = sample.inputs_in(sample.kind)
    with sample.weights(sample.kind):
        place = culprit(problem.execution.model, problem.execution.setting, lambda: problem.outputs(inputs))
    return _sentence(place or "the model", wrong, message)


def _sentence(place: str, wrong: str, message: str = "") -> str:
    if not wrong:
        return ""
    often = "" if wrong.startswith("gradient") else " twice"
    said = f" ({message})" if message else ""
    return f"{place[0].upper()}{place[1:]} cannot be differentiated{often}: its {wrong}{said}."


def _looked_at(problem: Checked, sample: Sample, order: int) -> tuple[str, str]:
    """What is wrong with the network, and torch's own words if it raised an error."""
    try:
        finding = sample.first() if order == 1 else sample.second()
    except RuntimeError as error:
        if shortage(error) is not None:
            raise
        return "second derivative does not exist", str(error).strip().split("\n")[0][:90]
    finally:
        problem.verified.cost += sample.spent()
    return finding.wrong, ""


def _of_loss(problem: Checked, sample: Sample, order: int) -> str:
    """What is wrong with the derivatives of the loss by outputs of unit size."""
    outputs = sample.seen.to(sample.kind)
    targets = sample.targets.to(sample.kind) if sample.targets.is_floating_point() else sample.targets
    try:
        moved = outputs / max(float(outputs.abs().max()), 1.0)
        moved = (moved + directions([moved], [1.0], generator(SEED + 2))[0]).requires_grad_()
        vectors = [directions([moved], [1.0], generator(SEED + 3))]
        return examine(lambda: problem.summed_loss(moved, targets), [moved], vectors, [1.0], order=order).wrong
    except RuntimeError as error:
        if shortage(error) is not None:
            raise
        return ""  # it does not take float64, or has a domain


@contextmanager
def undisturbed(problem: Checked) -> Iterator[None]:
    """Within: random numbers may be drawn; afterwards torch's generators are as before."""
    devices = [problem.device] if problem.device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        yield


def few(problem: Checked) -> Chunk:
    """The chunk of the two examples of a check."""
    chunk = problem.chunks.first
    return replace(chunk, inputs=take(chunk.inputs, slice(0, EXAMPLES)), targets=chunk.targets[:EXAMPLES])
