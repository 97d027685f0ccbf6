"""What the kinks of ReLUs, max-pooling and the like add to the loss under noise, which autograd's Hessian lacks.

A piecewise linear operation k with input z, whose change is ż, and derivative δ by its output adds

    δ · (k(z + ż) − k(z) − k'(z) ż)

which is zero unless z + ż lies on another piece. For a ReLU that is δ |z + ż| where the sign flips, and for normal ż of
standard deviation s its mean is δ (s φ(z/s) − |z| Φ(−|z|/s)).
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
import torch.autograd.forward_ad as forward
from torch.overrides import TorchFunctionMode

from common.hessian.chunks import Chunk
from common.hessian.estimates import Accuracy, Estimate, average
from common.hessian.forward_mode import dual_parameters
from common.hessian.problem import Problem
from common.hessian.random import generator
from common.hessian.structure import kinks_of

_FUNCTIONS = {
    "relu", "relu_", "relu6", "leaky_relu", "leaky_relu_", "hardtanh", "hardtanh_", "hardsigmoid", "softshrink",
    "max_pool1d", "max_pool2d", "max_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d",
    "abs", "abs_", "absolute", "clamp", "clamp_", "clamp_min", "clamp_max", "clip", "maximum", "minimum", "amax",
    "amin",
}  # fmt: skip
"""Names of torch's functions that are piecewise linear in their tensors and return one."""


def kink_term(
    problem: Problem, sigma: float, *, relative_error: float = 0.05, budget: float = 1000.0, seed: int = 0
) -> Estimate:
    """What kinks add to E L(w + u) − L(w), u ~ N(0, σ² I), to leading order (σ²).

    Draws u, takes ż of every operation with kinks by forward differentiation, and sums δ · (k(z + ż) − k(z) − k'(z) ż),
    in float64. It does not matter whether they are modules, functions, methods or work in place.

    Raises:
        ValueError: kinks of which this is not known (SELU, a maximum with its index, the L1 loss, …), or custom
            autograd functions.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.ReLU(), torch.nn.Linear(1, 1))
        >>> problem = Problem(model, torch.nn.MSELoss(), (torch.ones(3, 1), torch.ones(3, 1)))
        >>> kink_term(problem, 1e-6, relative_error=10).value < 1e-3
        True
    """
    if custom := problem.custom_functions:
        raise ValueError(f"The kink term needs forward derivatives, which {custom[0]} may not have.")
    chunks = problem.chunks
    slopes = [_slopes(problem, chunk) for chunk in chunks] if chunks.kept else None
    source = generator(seed)

    def draw() -> float:
        direction = problem.split(sigma * problem.random_normal(source))
        pairs = zip(chunks, slopes, strict=True) if slopes else ((chunk, _slopes(problem, chunk)) for chunk in chunks)
        parts = (_excess(problem, *pair, direction) for pair in pairs)
        return problem.completed(math.fsum(parts)) * problem.scale

    reason = "forward derivatives of what enters the operations with kinks"
    accuracy = Accuracy(relative_error, budget)
    cost = 2 / 3 if slopes else 5 / 3
    return average(draw, cost=cost, accuracy=accuracy, seed=seed, method="kinks", reason=reason)


def has_kinks(problem: Problem) -> bool:
    """Whether the loss, as a function of the parameters, has kinks (read off the graph of a few examples)."""
    if problem.structure.kinked:
        return True
    first, inputs = problem.chunks.first, problem.first_inputs(2)
    with torch.enable_grad(), problem.only_selected():
        return bool(_kinks(problem, problem.outputs(inputs), first.targets[:2]))


def _kinks(problem: Problem, outputs: torch.Tensor, targets: torch.Tensor) -> list[str]:
    """Of outputs and loss; picking entries by their targets is none."""
    of_outputs = kinks_of(outputs)
    of_loss = Counter(kinks_of(problem.summed_loss(outputs, targets))) - Counter(of_outputs)
    return of_outputs + [kind for kind in of_loss.elements() if kind != "Gather"]


class _Slopes(TorchFunctionMode):
    """Remembers the derivative by the output of each operation with kinks, in order of call."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[torch.Tensor | None] = []
        self.recorded = 0  # how many of them depend on the parameters

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if getattr(function, "__name__", "") in _FUNCTIONS and isinstance(result, torch.Tensor):
            self.found.append(None)
            if result.grad_fn is not None:
                self.recorded += 1
                # of the node, since the tensor itself may be overwritten later
                result.grad_fn.register_prehook(self._remember(len(self.found) - 1, result.output_nr))
        return result

    def _remember(self, place: int, output: int) -> Callable[[tuple[torch.Tensor, ...]], None]:
        def remember(gradients: tuple[torch.Tensor, ...]) -> None:
            self.found[place] = gradients[output].detach()

        return remember


def _slopes(problem: Problem, chunk: Chunk) -> list[torch.Tensor | None]:
    slopes = _Slopes()
    with torch.enable_grad(), problem.only_selected():
        with slopes:
            outputs = problem.outputs(chunk.inputs)
            value = problem.summed_loss(outputs, chunk.targets)
        kinks = _kinks(problem, outputs, chunk.targets)
        if len(kinks) != slopes.recorded:
            raise ValueError(f"The network or the loss has kinks that are not known ({', '.join(sorted(set(kinks)))}).")
        torch.autograd.grad(value, problem.parameters, materialize_grads=True)
    return slopes.found


class _Excess(TorchFunctionMode):
    """Sums δ · (k(z + ż) + k(z − ż) − 2 k(z))/2 over the operations with kinks, in the order of their slopes."""

    def __init__(self, slopes: Iterable[torch.Tensor | None]) -> None:
        super().__init__()
        self.total = 0.0
        self._slopes = iter(slopes)

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(function, "__name__", "") in _FUNCTIONS:
            slope = next(self._slopes, None)
            if slope is not None:
                values = [_moved(function, args, kwargs, sign) for sign in (1, -1, 0)]
                self.total += float((slope.double() * ((values[0] + values[1]) / 2 - values[2])).sum())
        return function(*args, **kwargs)


def _moved(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], sign: int) -> torch.Tensor:
    """k(z + sign ż) in float64, of tensors that are the operation's own, as it may work in place."""

    def at(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        primal, tangent = forward.unpack_dual(value)
        point = primal.detach().to(torch.float64, copy=True)
        return point if tangent is None else point + sign * tangent.detach().double()

    result: torch.Tensor = function(*map(at, args), **{name: at(value) for name, value in kwargs.items()})
    return result


def _excess(
    problem: Problem, chunk: Chunk, slopes: Iterable[torch.Tensor | None], direction: list[torch.Tensor]
) -> float:
    excess = _Excess(slopes)
    with dual_parameters(problem, direction) as values, excess:
        problem.summed_loss(problem.outputs(chunk.inputs, values), chunk.targets)
    return excess.total


def closed_form_kinks(z: torch.Tensor, deviation: torch.Tensor) -> torch.Tensor:
    """E relu(z + ż) − relu(z) − relu'(z) E ż for ż ~ N(0, deviation²): s φ(z/s) − |z| Φ(−|z|/s).

    Example:
        >>> round(closed_form_kinks(torch.zeros(1), torch.ones(1)).item(), 4)
        0.3989
    """
    ratio = z.abs() / deviation
    density = torch.exp(-0.5 * ratio.square()) / math.sqrt(2 * math.pi)
    mean: torch.Tensor = deviation * density - z.abs() * torch.special.ndtr(-ratio)
    return mean
