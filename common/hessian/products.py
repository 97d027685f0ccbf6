"""Linear operators: products of curvature matrices with vectors, one pass over the data each.

    Hessian           H v
    GGN               G v = 1/N Σ Jₙᵀ Λₙ Jₙ v
    empirical Fisher  1/N Σ gₙ gₙᵀ v, gₙ the gradient of example n
    MC Fisher         the same with targets drawn from the model
    noise covariance  Σ v = 1/N Σ gₙ gₙᵀ v − ∇L ∇Lᵀ v

What a product needs of a chunk is recorded once and kept while it fits `memory_limit`; the chunks beyond it are
recorded again for every product. In units of a gradient (three forward passes) a kept chunk costs 2 for the Hessian
(differentiating the gradient) and 4/3 for the others: Jv is the derivative by u of the recorded Jᵀu, two thirds;
Jᵀ is a backward pass, two thirds. Recording costs 1 each time. With many convolutions Jv is a forward derivative
(`ggn.py`): a product costs 5/3, recording a third.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from common.hessian.chunks import Chunk
from common.hessian.problem import Problem

MEMORY_LIMIT = 2 << 30
"""Bytes of recorded graphs that an operator keeps, unless told otherwise."""


class LinearOperator:
    """A symmetric P × P matrix, known by its products, at the present weights of the model.

    When weights, buffers or data have been written to since the last product, what was recorded is made anew.

    Args:
        problem: whose curvature.
        memory_limit: bytes of recorded graphs to keep.

    Attributes:
        products: number of products computed so far.
        cost: of them all, in gradient-equivalents, recording included.

    Example:
        >>> model = torch.nn.Linear(2, 1, bias=False)
        >>> problem = Problem(model, torch.nn.MSELoss(), (torch.eye(2), torch.zeros(2, 1)))
        >>> (Hessian(problem) @ torch.tensor([1.0, 2.0])).tolist()
        [1.0, 2.0]
    """

    name = ""
    record_cost = 1.0
    kept_cost = 4 / 3
    quadratic_form_cost = 2 / 3

    def __init__(self, problem: Problem, *, memory_limit: int = MEMORY_LIMIT) -> None:
        self.problem = problem
        self.products = 0
        self.cost = 0.0
        self._limit = memory_limit
        self._kept: dict[int, Any] = {}
        self._kept_most: int | None = None
        self._recorded = False
        self._again: float | None = None  # recording the chunks that are not kept, in every pass
        self._weights = [length / problem.count for length in problem.chunks.lengths]
        self._recorded_at = problem.standing()

    def _refresh(self) -> None:
        """Forget what was recorded at other weights or data: the operator is always that of the present ones."""
        self._verify()
        if (now := self.problem.standing()) != self._recorded_at:
            self._kept.clear()
            self._recorded = False
            self._recorded_at = now
            self._moved()

    def _verify(self) -> None:
        """Check, once for the problem, the derivatives that products need."""
        self.problem.require_second_derivatives()

    def _moved(self) -> None:
        """Called when weights or data have changed since the last product."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.problem})"

    @property
    def size(self) -> int:
        """P."""
        return self.problem.size

    @property
    def again_cost(self) -> float:
        """Of recording what is not kept, in every pass over the data, in gradient-equivalents; known after one."""
        return self._again or 0.0

    @property
    def product_cost(self) -> float:
        """Of the next product, in gradient-equivalents, once what can be kept has been."""
        return self.kept_cost + self.again_cost

    @property
    def form_cost(self) -> float:
        """Of the next `quadratic_form`, likewise."""
        return self.quadratic_form_cost + self.again_cost

    def _settle(self, before: float) -> None:
        """After a pass over the data: what it has cost since `before`, and will again, over all ranks."""
        if self._again is None and self._kept_most is not None:
            self._again = self.problem.completed(self.record_cost * float(sum(self._weights[self._kept_most :])))
        if self.problem.ranks.count > 1:
            self.cost = before + (self.again_cost if self._recorded else self.record_cost)
        self._recorded = True

    def quadratic_form(self, vector: torch.Tensor) -> float:
        """vᵀ A v; cheaper than a product where only Jv is needed."""
        return float(vector.double() @ (self @ vector).double())

    def __matmul__(self, vectors: torch.Tensor) -> torch.Tensor:
        """Product with a vector [P] or with each column of a block [P, K].

        Raises:
            ValueError: no tensor, another shape, or a product that is not finite.
        """
        if not isinstance(vectors, torch.Tensor):
            raise ValueError(
                f"The {self.name} is multiplied by a tensor [P] or [P, K], not by a {type(vectors).__name__}: "
                "`problem.flat(tensors)` makes one of tensors in the shapes of the parameters."
            )
        if vectors.ndim not in (1, 2) or len(vectors) != self.size:
            raise ValueError(
                f"The {self.name} is multiplied by a vector [{self.size}] or columns [{self.size}, K], not by a "
                f"tensor {list(vectors.shape)}."
            )
        self._refresh()
        block = vectors.ndim == 2
        single = list(vectors.unbind(1)) if block else [vectors]
        columns = [self.problem.split(vector) for vector in single]
        totals: list[list[torch.Tensor] | None] = [None] * len(columns)
        before_pass = self.cost
        with self.problem.only_selected():
            for chunk, weight in zip(self.problem.chunks, self._weights, strict=True):
                state = self._state(chunk, weight)
                for place, column in enumerate(columns):
                    parts = self._apply(state, chunk, column)
                    before = totals[place]
                    if before is not None and parts is not None:
                        parts = [one + other for one, other in zip(before, parts, strict=True)]
                    totals[place] = before if parts is None else parts
        self._settle(before_pass)
        self.products += len(columns)
        self.cost += self.kept_cost * len(columns)
        results = [self._whole(total, vector) for total, vector in zip(totals, single, strict=True)]
        return torch.stack(results, dim=1) if block else results[0]

    def _whole(self, total: list[torch.Tensor] | None, vector: torch.Tensor) -> torch.Tensor:
        """The product from its sum over examples, by parameter."""
        like = self.problem.parameters[0]
        result = torch.zeros_like(vector).to(like) if total is None else self.problem.flat(total)
        result = self.problem.completed(result).mul_(self.problem.scale)
        result = self._finished(result, vector.to(result))
        if not math.isfinite(torch.linalg.vector_norm(result, math.inf)):
            raise ValueError(f"A product with the {self.name} is not finite: the loss is not smooth here.")
        return result

    def _state(self, chunk: Chunk, weight: float) -> Any:
        place = self.problem.chunks.place(chunk)
        if place in self._kept:
            return self._kept[place]
        self.cost += self.record_cost * weight
        if self._kept_most is None:
            used = _SavedBytes({p.data_ptr() for p in self.problem.model.parameters()})
            with torch.autograd.graph.saved_tensors_hooks(used, lambda tensor: tensor):
                state = self._record(chunk)
            each = max(used.total, 1) * max(self.problem.chunks.lengths) / len(chunk)
            self._kept_most = min(int(self._limit / each), len(self.problem.chunks))
        else:
            state = self._record(chunk)
        if place < self._kept_most:
            self._kept[place] = state
        return state

    def _record(self, chunk: Chunk) -> Any:
        raise NotImplementedError

    def _apply(self, state: Any, chunk: Chunk, vector: list[torch.Tensor]) -> list[torch.Tensor] | None:
        raise NotImplementedError

    def _finished(self, product: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
        return product


class _SavedBytes:
    """Counts the storage that autograd keeps, each once.

    What is kept is a detached tensor, to which autograd gives its place in the graph back: an operation that keeps
    its own output (softmax, tanh) would else hold itself, a circle that nothing ever frees.
    """

    def __init__(self, known: set[int]) -> None:
        self.total, self._seen = 0, known

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        place = tensor.untyped_storage().data_ptr()
        if place not in self._seen:
            self._seen.add(place)
            self.total += tensor.untyped_storage().nbytes()
        return tensor.detach()


@dataclass(frozen=True)
class RecordedGradient:
    """A gradient by the parameters with its graph, for double backward; entries that depend on nothing left out.

    Attributes:
        slopes: the derivatives by those parameters.
        places: which of the parameters they are.
    """

    slopes: list[torch.Tensor]
    places: list[int]

    def derivative(self, by: Sequence[torch.Tensor], vector: Sequence[torch.Tensor]) -> list[torch.Tensor] | None:
        """Derivative of its product with `vector` (in the shapes of all parameters); None if it depends on nothing."""
        if not self.slopes:
            return None
        weights = [vector[place] for place in self.places]
        return list(torch.autograd.grad(self.slopes, by, weights, retain_graph=True, materialize_grads=True))


def recorded_gradient(
    value: torch.Tensor, parameters: Sequence[torch.Tensor], cotangent: torch.Tensor | None = None
) -> RecordedGradient:
    """∂value/∂parameters with its graph; for a `value` of several entries, of its product with `cotangent`."""
    slopes = torch.autograd.grad(value, parameters, cotangent, create_graph=True, materialize_grads=True)
    places = [place for place, slope in enumerate(slopes) if slope.requires_grad]
    return RecordedGradient([slopes[place] for place in places], places)


class Hessian(LinearOperator):
    """∇²L(w), by differentiating the recorded gradient.

    At kinks (ReLU) this is the Hessian of the linear pieces: the jumps of the slope are not in it.

    Example:
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> problem = Problem(model, torch.nn.MSELoss(), (torch.ones(4, 1), torch.zeros(4, 1)))
        >>> (Hessian(problem) @ torch.ones(1)).item()
        2.0
    """

    name = "Hessian"
    kept_cost = quadratic_form_cost = 2.0

    def _record(self, chunk: Chunk) -> RecordedGradient:
        value = self.problem.summed_loss(self.problem.outputs(chunk.inputs), chunk.targets)
        return recorded_gradient(value, self.problem.parameters)

    def _apply(self, state: RecordedGradient, chunk: Chunk, vector: list[torch.Tensor]) -> list[torch.Tensor] | None:
        return state.derivative(self.problem.parameters, vector)


def operator_of(operator: LinearOperator | Problem) -> LinearOperator:
    """The operator itself; of a problem its Hessian."""
    return Hessian(operator) if isinstance(operator, Problem) else operator


def require_problem(problem: object, measure: str) -> None:
    """
    Raises:
        TypeError: it is an operator of a problem.
    """
    if isinstance(problem, LinearOperator):
        raise TypeError(f'{measure} takes the problem, and which matrix by name: {measure}(problem, "ggn").')


def quadratic_forms_by_parameter(operator: LinearOperator | Problem, vector: torch.Tensor) -> dict[str, float]:
    """v_iᵀ A_ii v_i for the block of each parameter tensor i, other blocks of v set to zero; a product each.

    A problem stands for its Hessian.

    Example:
        >>> model = torch.nn.Linear(1, 1)
        >>> problem = Problem(model, torch.nn.MSELoss(), (torch.ones(4, 1), torch.zeros(4, 1)))
        >>> quadratic_forms_by_parameter(Hessian(problem), torch.tensor([3.0, 1.0]))
        {'weight': 18.0, 'bias': 2.0}
    """
    operator = operator_of(operator)
    forms, start = {}, 0
    for name, size in zip(operator.problem.names, operator.problem.sizes, strict=True):
        block = torch.zeros_like(vector)
        block[start : start + size] = vector[start : start + size]
        forms[name] = operator.quadratic_form(block)
        start += size
    return forms


def diagonal_of(operator: LinearOperator) -> torch.Tensor:
    """The diagonal [P] of a matrix, by P products."""
    found = torch.empty(operator.size, dtype=operator.problem.dtype, device=operator.problem.device)
    unit = torch.zeros_like(found)
    for place in range(operator.size):
        unit[place] = 1.0
        found[place] = (operator @ unit)[place]
        unit[place] = 0.0
    return found


def dense(operator: LinearOperator | Problem) -> torch.Tensor:
    """The matrix itself [P, P], by P products; symmetric up to rounding. A problem stands for its Hessian.

    Example:
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> problem = Problem(model, torch.nn.MSELoss(), (torch.ones(4, 1), torch.zeros(4, 1)))
        >>> dense(Hessian(problem)).tolist()
        [[2.0]]
    """
    operator = operator_of(operator)
    unit = torch.eye(operator.size, dtype=operator.problem.dtype, device=operator.problem.device)
    blocks = [operator @ part for part in unit.split(max(1, math.ceil(2**22 / operator.size)), dim=1)]
    return torch.cat(blocks, dim=1)
