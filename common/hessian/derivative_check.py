"""Whether autograd's derivatives of a function are right: symmetry, and agreement with differences.

With s a number, g = ∇s by its variables x and H its second derivative,

    s(x + εd) − s(x) = ε gᵀd + ε²/2 dᵀHd + …        g(x + εd) − g(x) = ε H d + …        uᵀHv = vᵀHu

Every entry of H d is compared, so one random direction d is enough. A difference can be wrong as well: at a kink, where
part of the network computes in single precision, where the function is rough. Then it changes with ε, which an error of
H d does not: a derivative is called wrong only where the mismatch is the same over three orders of ε.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from common.hessian.random import normal
from common.hessian.structure import graph_nodes

Tensors = Sequence[torch.Tensor]

STEPS = {torch.float64: (1e-7, 1e-8), torch.float32: (3e-3, 1e-3)}
"""Lengths ε of the differences over the size of each tensor, by the type that the function is computed in; a shorter
one follows, which jumps over fewer kinks."""
CONFIRMING = {torch.float64: (1e-5, 1e-4), torch.float32: (1e-2, 3e-4)}
"""Others, at which an error must show as well to count."""
TOLERANCE = {torch.float64: (1e-3, 1e-6), torch.float32: (5e-2, 1e-2)}
"""Mismatch that is allowed, relative to each tensor and to all of them."""
LOOSE = (2e-2, 1e-3)
"""The same of a product in single precision, and where errors are confirmed."""
ROUNDING = {torch.float64: 1e3, torch.float32: 16.0}
"""Rounding of a gradient in units of the machine's precision."""
ASYMMETRY = {torch.float64: 1e-3, torch.float32: 5e-2}
"""Largest |uᵀHv − vᵀHu| over the size of its terms."""


@dataclass(frozen=True)
class Finding:
    """What a check found.

    Attributes:
        wrong: "" if nothing is; else which derivative, in words.
        cost: gradients of the function (three evaluations each) that it took.
        product, gradient: H d and ∇s.
        agreed: they agree with the differences (else they may be right all the same, see above).
        finite: nothing was infinite or NaN (else nothing was compared).
    """

    wrong: str
    cost: float
    product: Tensors
    gradient: Tensors
    agreed: bool = True
    finite: bool = True


@contextmanager
def holding(tensors: Tensors, values: Tensors) -> Iterator[None]:
    """Within: the tensors have these values, of their own type; afterwards what they held before, to the bit.

    Their places and versions do not change, so whatever was recorded of them stays as it is.
    """
    before = [tensor.data for tensor in tensors]
    try:
        for tensor, value in zip(tensors, values, strict=True):
            tensor.data = value
        yield
    finally:
        for tensor, value in zip(tensors, before, strict=True):
            tensor.data = value


def sizes_of(tensors: Tensors) -> list[float]:
    """Root mean square of each tensor; that of all where one is zero, and 1 where all are."""
    norms = [_norm(tensor) for tensor in tensors]
    whole = math.hypot(*norms) / math.sqrt(max(sum(tensor.numel() for tensor in tensors), 1)) or 1.0
    pairs = zip(norms, tensors, strict=True)
    return [norm / math.sqrt(max(tensor.numel(), 1)) or whole for norm, tensor in pairs]


def directions(tensors: Tensors, sizes: Sequence[float], source: torch.Generator) -> list[torch.Tensor]:
    """Independent uniform numbers, their deviation in each tensor its size (a quarter of the time of normal ones)."""
    found = []
    for tensor, size in zip(tensors, sizes, strict=True):
        drawn = torch.rand(tensor.shape, generator=source, dtype=tensor.dtype).sub_(0.5).mul_(math.sqrt(12) * size)
        found.append(drawn.to(tensor.device))
    return found


def padding_rows(model: nn.Module, tensors: Tensors) -> list[tuple[int, int]]:
    """Which rows of which of `tensors` an embedding pads with: they are constants to torch."""
    places = {id(tensor): place for place, tensor in enumerate(tensors)}
    return [
        (places[id(module.weight)], module.padding_idx)
        for module in model.modules()
        if isinstance(module, nn.Embedding | nn.EmbeddingBag)
        and module.padding_idx is not None
        and id(module.weight) in places
    ]


def wave(outputs: Tensors, source: torch.Generator) -> Callable[[Tensors], torch.Tensor]:
    """A smooth number made of outputs: Σ sin(o/c + φ), c their size, φ random.

    Its slope is nowhere small everywhere, as that of a loss is on examples that are fitted, and it is curved.
    """
    sizes = sizes_of(outputs)
    phases = [math.pi * normal(output.shape, source, output.detach()) for output in outputs]

    def number(values: Tensors) -> torch.Tensor:
        parts = zip(values, sizes, phases, strict=True)
        return torch.stack([(value / size + phase.to(value)).sin().sum() for value, size, phase in parts]).sum()

    return number


def recorded(
    value: Callable[[], torch.Tensor], variables: Tensors, graph: bool = True
) -> tuple[float, Tensors, torch.dtype]:
    """s, ∇s with its graph or without, and the type that s is computed in (float32 if any operation is less precise
    than float64)."""
    with torch.enable_grad():
        number = value()
        if not number.requires_grad:
            return float(number), [torch.zeros_like(variable) for variable in variables], variables[0].dtype
        kind = _computed_in(number)
        slopes = torch.autograd.grad(number, variables, create_graph=graph, materialize_grads=True)
    return float(number.detach()), slopes, kind


def _computed_in(number: torch.Tensor) -> torch.dtype:
    made = (output for node in graph_nodes(number) for output in node._input_metadata)
    # (an output of a custom function that cannot be differentiated is noted as a single number in float32)
    kinds = {output.dtype for output in made if output.shape} - {torch.float64, torch.complex128}
    coarse = any(kind.is_floating_point or kind.is_complex for kind in kinds)
    return torch.float32 if coarse else torch.float64


def product(slopes: Tensors, variables: Tensors, vector: Tensors) -> list[torch.Tensor]:
    """H v by double backward."""
    pairs = [(slope, part) for slope, part in zip(slopes, vector, strict=True) if slope.requires_grad]
    if not pairs:
        return [torch.zeros_like(variable) for variable in variables]
    left, right = zip(*pairs, strict=True)
    return list(torch.autograd.grad(left, variables, right, retain_graph=True, materialize_grads=True))


def rounding_of(kind: torch.dtype) -> float:
    """What counts as rounding of numbers of size one."""
    return ROUNDING[kind] * torch.finfo(kind).eps


def asymmetry(products: Sequence[Tensors], vectors: Sequence[Tensors], floor: float) -> float:
    """Largest |uᵀHv − vᵀHu| of all pairs, over the root of the sum of the squares of the terms of both."""
    worst = 0.0
    for i in range(len(products)):
        for j in range(i):
            size = math.hypot(_spread(products[i], vectors[j]), _spread(products[j], vectors[i])) + floor
            gap = _dot(products[i], vectors[j]) - _dot(products[j], vectors[i])
            worst = max(worst, abs(gap) / size) if size else worst
    return worst


def mismatch(
    left: Tensors, right: Tensors, sizes: Sequence[float], allowed: tuple[float, float], floor: float
) -> float:
    """Largest distance of two tensors over what is allowed; above 1 they differ."""
    pairs = list(zip(left, right, sizes, strict=True))
    norms = [size * max(_norm(a), _norm(b)) for a, b, size in pairs]
    base = allowed[1] * math.hypot(*norms) + floor
    ratios = [
        size * _norm(a.to(b) - b) / limit
        for (a, b, size), norm in zip(pairs, norms, strict=True)
        if (limit := allowed[0] * norm + base)
    ]
    return max(ratios, default=0.0)


def examine(
    value: Callable[[], torch.Tensor],
    variables: Tensors,
    vectors: Sequence[Tensors],
    sizes: Sequence[float],
    *,
    guess: Tensors | None = None,
    order: int = 2,
) -> Finding:
    """Compare autograd's derivatives of s with differences, and the second ones with each other.

    Args:
        value: s at what the variables hold.
        variables: tensors of the check's own, of one floating-point type; they hold other values for the differences.
        vectors: directions in their shapes; the differences are taken along the first.
        sizes: of each variable, in which its entries are compared.
        guess: H d of the first direction from elsewhere, in single precision; if it agrees, none is computed.
        order: 1 looks at the gradient alone.
    """
    number, slopes, kind = recorded(value, variables, graph=order == 2)
    gradient = [slope.detach() for slope in slopes]
    cost = 1.0
    products: list[Tensors] = []
    if guess is None and order == 2:
        products = [product(slopes, variables, vector) for vector in vectors]
        cost += 2.0 * len(vectors)
    found: Tensors = (
        guess if guess is not None else products[0] if products else [torch.zeros_like(g) for g in gradient]
    )
    epsilon = rounding_of(kind)
    spread = _spread(gradient, vectors[0])
    noise = epsilon * (1.0 + spread + _size(gradient, sizes))  # s is made to be of size one
    if not all(math.isfinite(x) for x in (number, spread, _size(found, sizes))):
        return Finding("", cost, found, gradient, agreed=False, finite=False)

    def differences(step: float) -> tuple[list[torch.Tensor], float]:
        moved = [x.data + step * d for x, d in zip(variables, vectors[0], strict=True)]
        with holding(variables, moved):
            after, ends, _ = recorded(value, variables, graph=False)
        return [(b - a) / step for a, b in zip(gradient, ends, strict=True)], (after - number) / step

    slope = _dot(gradient, vectors[0])

    def compare(step: float, allowed: tuple[float, float], change: Tensors, rise: float) -> tuple[bool, bool]:
        rises.append(rise - slope - step / 2 * _dot(change, vectors[0]))
        gaps.append([a - b.to(a) for a, b in zip(change, found, strict=True)])
        fine = abs(rises[-1]) <= TOLERANCE[kind][0] * spread + epsilon * max(1.0, abs(number)) / step
        return fine, order == 1 or mismatch(change, found, sizes, allowed, noise / step) <= 1

    allowed = _looser(TOLERANCE[kind], LOOSE) if guess is not None else TOLERANCE[kind]
    rises: list[float] = []
    gaps: list[Tensors] = []
    right = [False, False]
    for step in STEPS[kind] + CONFIRMING[kind]:
        if step == CONFIRMING[kind][0]:
            allowed = _looser(allowed, LOOSE)
        change, rise = differences(step)
        cost += 1.0
        agrees = compare(step, allowed, change, rise)
        if guess is not None and not all(agrees):
            found, guess, allowed = product(slopes, variables, vectors[0]), None, TOLERANCE[kind]
            products = [found]
            cost += 2.0
            rises.clear()
            gaps.clear()
            agrees = compare(step, allowed, change, rise)
        right = [before or now for before, now in zip(right, agrees, strict=True)]
        if all(right):
            break
    wrong = ""
    if not right[0] and all(abs(rest - rises[0]) <= 0.5 * abs(rises[0]) for rest in rises):
        wrong = "gradient is not the derivative of what it computes"
    elif not right[1] and all(_alike(gap, gaps[0], sizes) for gap in gaps):
        wrong = "second derivative is not the change of its gradient"
    elif asymmetry(products, vectors, noise) > ASYMMETRY[kind]:
        wrong = "second derivative is not symmetric"
    return Finding(wrong, cost, found, gradient, agreed=all(right))


def _looser(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return max(one[0], other[0]), max(one[1], other[1])


def _alike(left: Tensors, right: Tensors, sizes: Sequence[float]) -> bool:
    gap = _size([a - b for a, b in zip(left, right, strict=True)], sizes)
    return gap <= 0.5 * _size(right, sizes)


def _norm(tensor: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(tensor.detach()))


def _size(tensors: Tensors, sizes: Sequence[float]) -> float:
    return math.hypot(*(size * _norm(tensor) for tensor, size in zip(tensors, sizes, strict=True)))


def _spread(left: Tensors, right: Tensors) -> float:
    """Root of the sum of the squares of all products of entries."""
    return math.hypot(*(_norm(a * b) for a, b in zip(left, right, strict=True)))


def _dot(left: Tensors, right: Tensors) -> float:
    return math.fsum(float(torch.dot(a.reshape(-1), b.reshape(-1))) for a, b in zip(left, right, strict=True))
