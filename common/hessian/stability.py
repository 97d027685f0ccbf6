"""Linear stability of SGD at a minimum: what single examples' Hessians Hₙ add to H = mean Hₙ.

For a batch of B of N examples, drawn without replacement, at learning rate η, the second moment of the distance to
the minimum is multiplied by at most the largest eigenvalue of

    (I − ηH)² + η² (N − B)/(B (N − 1)) Σ_H,   Σ_H = 1/N Σ_n Hₙ² − H²

(Wu, Ma and E 2018). Stability needs λ₁(H) ≤ 2/η and s = √λ₁(Σ_H) ≤ (1/η) √(B(N − 1)/(N − B)), the two necessary
conditions; the eigenvalue above being ≤ 1 is the full criterion.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.func import grad, vjp, vmap

from common.hessian.chunks import Chunk, map_inputs, take
from common.hessian.derivative_check import mismatch, rounding_of
from common.hessian.estimates import ROUNDINGS, Estimate, square_root
from common.hessian.lanczos import Product, lanczos
from common.hessian.looped import single
from common.hessian.problem import Problem
from common.hessian.products import recorded_gradient
from common.hessian.random import generator, normal
from common.hessian.verification import few, undisturbed
from common.hessian.vmapped import LARGEST_BLOCK
from common.memory import shortage

Vectors = dict[str, torch.Tensor]
"""By name of the parameter."""


class SampleHessians:
    """Products with H, with 1/N Σ Hₙ² and with Σ_H, from batched products with the Hessian of each example.

    Backward over backward (forward over backward under vmap is wrong through LayerNorm in torch 2.13), in blocks of
    examples; memory for P numbers an example.

    Attributes:
        products: number of passes so far; `cost` of them in gradient-equivalents.
        largest_second: ‖1/N Σ Hₙ² v‖ of unit vectors met by `covariance`, from whose size its differences are left.

    Example:
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> data = torch.tensor([[1.0], [2.0]]), torch.zeros(2, 1)
        >>> hessians = SampleHessians(Problem(model, torch.nn.MSELoss(), data))
        >>> mean, second = hessians.moments(torch.ones(1))
        >>> mean.item(), second.item()
        (5.0, 34.0)
    """

    PASS_COST = 4.0

    def __init__(self, problem: Problem) -> None:
        problem.require_mean()
        self.problem = problem
        self.products = 0
        self.largest_second = 0.0
        self._looped: bool | None = None

    @property
    def cost(self) -> float:
        """In gradient-equivalents: two products a pass, two gradients each."""
        return self.products * self.PASS_COST

    def moments(self, vector: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """H v and 1/N Σ Hₙ² v, both [P]."""
        parts = dict(zip(self.problem.names, self.problem.split(vector), strict=True))
        first, second = torch.zeros_like(vector), torch.zeros_like(vector)
        self._verify()
        for inputs, targets in self._blocks():
            once = self._products(inputs, targets, parts, 0)
            twice = self._products(inputs, targets, once, 1)
            first += self.problem.flat([once[name].sum(0) for name in self.problem.names])
            second += self.problem.flat([twice[name].sum(0) for name in self.problem.names])
        self.products += 1
        first, second = self.problem.completed([first, second])
        return first / self.problem.count, second / self.problem.count

    def covariance(self, vector: torch.Tensor) -> torch.Tensor:
        """Σ_H v [P]: a second pass for H(Hv)."""
        first, second = self.moments(vector)
        self.largest_second = max(self.largest_second, float(second.norm() / vector.norm()))
        return second - self.moments(first)[0]

    def second_moment_factor(self, vector: torch.Tensor, learning_rate: float, batch_size: int) -> torch.Tensor:
        """((I − ηH)² + η² (N − B)/(B(N − 1)) Σ_H) v [P]."""
        count = self.problem.count
        first, second = self.moments(vector)
        squared = self.moments(first)[0]
        noise = (count - batch_size) / (batch_size * (count - 1)) if count > 1 else 0.0
        steps = vector - 2 * learning_rate * first + learning_rate**2 * squared
        return steps + learning_rate**2 * noise * (second - squared)

    def _blocks(self) -> Iterator[tuple[Any, torch.Tensor]]:
        size = max(1, LARGEST_BLOCK // (16 * self.problem.size))
        for chunk in self.problem.chunks:
            for start in range(0, len(chunk), size):
                part = slice(start, start + size)
                yield take(chunk.inputs, part), chunk.targets[part]

    def _products(self, inputs: Any, targets: torch.Tensor, vectors: Vectors, own: int) -> Vectors:
        """Hₙ v of examples, by name [n, …]; with `own` each has a vector of its own [n, …]."""
        if not self._looped:
            return vmap(self._product, in_dims=(0, 0, 0 if own else None))(inputs, targets, vectors)
        return self._each(inputs, targets, vectors, own)

    def _each(self, inputs: Any, targets: torch.Tensor, vectors: Vectors, own: int) -> Vectors:
        """The same example by example."""
        problem, rows = self.problem, []
        for n in range(len(targets)):
            chunk = Chunk(0, take(inputs, slice(n, n + 1)), targets[n : n + 1])
            with torch.enable_grad(), problem.only_selected():
                output = single(problem, chunk, 0)[None]
                slopes = recorded_gradient(problem.summed_loss(output, chunk.targets), problem.parameters)
                vector = [vectors[name][n] if own else vectors[name] for name in problem.names]
                found = slopes.derivative(problem.parameters, vector)
            rows.append(found or [torch.zeros_like(parameter) for parameter in problem.parameters])
        return {name: torch.stack([row[i] for row in rows]) for i, name in enumerate(problem.names)}

    def _verify(self) -> None:
        """Once: second derivatives, and whether vectorised products are those of single examples."""
        problem = self.problem
        problem.require_second_derivatives()
        if self._looped is not None:
            return
        self._looped = False
        if problem.verified.wanted:
            chunk = few(problem)
            source = generator(31)
            parts = zip(problem.names, problem.parameters, strict=True)
            vectors = {name: normal(p.shape, source, p.detach()) for name, p in parts}
            with undisturbed(problem):
                self._looped = not self._vectorised_rightly(chunk, vectors)
            problem.verified.cost += 6 * len(chunk) / 8

    def _vectorised_rightly(self, chunk: Chunk, vectors: Vectors) -> bool:
        try:
            found = self._products(chunk.inputs, chunk.targets, vectors, 0)
        except Exception as error:  # whatever a network does that cannot be vectorised
            if shortage(error) is not None:
                raise
            return False
        right = self._each(chunk.inputs, chunk.targets, vectors, 0)
        allowed = (1e-2, 1e-3) if self.problem.dtype == torch.float32 else (1e-6, 1e-9)
        names, floor = self.problem.names, rounding_of(self.problem.dtype)
        return mismatch([found[n] for n in names], [right[n] for n in names], [1.0] * len(names), allowed, floor) <= 1

    def _product(self, inputs: Any, target: torch.Tensor, vector: Vectors) -> Vectors:
        """Hₙ v of one example."""
        problem = self.problem

        def loss(parameters: Vectors) -> torch.Tensor:
            one = map_inputs(inputs, lambda tensor: tensor[None])
            return problem.summed_loss(problem.outputs(one, parameters), target[None])

        at = dict(zip(problem.names, (p.detach() for p in problem.parameters), strict=True))
        return vjp(grad(loss), at)[1](vector)[0]  # type: ignore[no-any-return]


def non_uniformity(
    problem: Problem,
    *,
    relative_error: float = 1e-2,
    products: int = 100,
    seed: int = 0,
    start: torch.Tensor | None = None,
) -> Estimate:
    """s = √λ₁(1/N Σ Hₙ² − H²), with the error bound of λ₁ carried over, rounding of the difference included.

    Example:
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> data = torch.tensor([[1.0], [2.0]]), torch.zeros(2, 1)
        >>> non_uniformity(Problem(model, torch.nn.MSELoss(), data)).value
        3.0
    """
    hessians = SampleHessians(problem)
    largest = _largest(hessians, hessians.covariance, seed, start, relative_error=2 * relative_error, products=products)
    rounding = ROUNDINGS * torch.finfo(problem.dtype).eps * hessians.largest_second
    if rounding > 2 * relative_error * abs(largest.value):
        reason = "the examples' Hessians differ by no more than rounding"
        largest = replace(largest, bound=largest.bound + rounding, converged=False, reason=reason)
    return square_root(largest, "Lanczos, covariance of the examples' Hessians")


def stability_factor(
    problem: Problem,
    learning_rate: float,
    batch_size: int,
    *,
    relative_error: float = 1e-2,
    products: int = 100,
    seed: int = 0,
    start: torch.Tensor | None = None,
) -> Estimate:
    """λ_max of (I − ηH)² + η² (N − B)/(B(N − 1)) Σ_H: SGD is linearly stable if it is at most 1.

    Raises:
        ValueError: a learning rate that is not positive, or a batch that is not between 1 and N.

    Example:
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> data = torch.tensor([[1.0], [2.0]]), torch.zeros(2, 1)
        >>> round(stability_factor(Problem(model, torch.nn.MSELoss(), data), 0.1, 1).value, 4)
        0.34
    """
    if not learning_rate > 0 or not 1 <= batch_size <= problem.count:
        raise ValueError(
            f"Learning rate {learning_rate} and batch size {batch_size}: "
            f"the rate must be positive and 1 ≤ B ≤ {problem.count}."
        )
    hessians = SampleHessians(problem)
    product = partial(hessians.second_moment_factor, learning_rate=learning_rate, batch_size=batch_size)
    return _largest(hessians, product, seed, start, relative_error=relative_error, products=products)


def _largest(
    hessians: SampleHessians,
    product: Product,
    seed: int,
    start: torch.Tensor | None,
    *,
    relative_error: float,
    products: int,
) -> Estimate:
    drawn = start is None
    if start is None:
        start = hessians.problem.random_normal(generator(seed))
    found = lanczos(
        product, start, 1, which="largest", relative_error=relative_error, products=products, random_start=drawn
    )
    return Estimate(
        float(found.values[0]),
        bound=float(found.errors[0]),
        passes=hessians.products,
        cost=hessians.cost,
        seed=seed,
        converged=found.converged,
        method="Lanczos, second moment of SGD's linearised step",
    )
