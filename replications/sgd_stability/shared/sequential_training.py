"""Compiled steps for a small two-layer ReLU network: full-batch descent, and SGD and SAM with batches of one.

The loss is the mean of (f(x) − y)², without ½, of f(x) = Σ_j a_j σ(w_jᵀx) with a last coordinate 1 of x as bias.
Inner weights lie as [d + 1, m], so that the innermost loops run over neurons. Sequential steps of some microseconds
would cost a hundred times as much in any interpreter, so this module needs numba and is imported where it is used.
"""

from typing import Any

import numpy as np
from numba import njit

Array = np.ndarray[Any, np.dtype[np.float64]]


@njit()
def descend(outer: Array, inner: Array, inputs: Array, targets: Array, rate: float, decay: float, steps: int) -> None:
    """`steps` full-batch steps in place, with weight decay: θ ← θ − rate (∇L + decay θ).

    outer [m], inner [d + 1, m], inputs [n, d + 1], targets [n].
    """
    count, features = inputs.shape
    width = outer.shape[0]
    before = np.empty(width)
    slope_outer = np.empty(width)
    slope_inner = np.empty((features, width))
    for _ in range(steps):
        slope_outer[:] = 0.0
        slope_inner[:] = 0.0
        for i in range(count):
            before[:] = 0.0
            for k in range(features):
                x = inputs[i, k]
                for j in range(width):
                    before[j] += inner[k, j] * x
            value = 0.0
            for j in range(width):
                before[j] = max(before[j], 0.0)
                value += outer[j] * before[j]
            factor = 2.0 * (value - targets[i]) / count
            for j in range(width):
                slope_outer[j] += factor * before[j]
                before[j] = factor * outer[j] if before[j] > 0.0 else 0.0
            for k in range(features):
                x = inputs[i, k]
                for j in range(width):
                    slope_inner[k, j] += before[j] * x
        for j in range(width):
            outer[j] -= rate * (slope_outer[j] + decay * outer[j])
        for k in range(features):
            for j in range(width):
                inner[k, j] -= rate * (slope_inner[k, j] + decay * inner[k, j])


@njit()
def descend_by_examples(
    outer: Array, inner: Array, inputs: Array, targets: Array, order: Any, rate: float, radius: float, decay: float
) -> None:
    """One step an entry of `order` [steps] in place, each on one example: SGD for radius 0, else SAM.

    Weight decay is as in `descend`. SAM takes the gradient at θ + radius ∇ℓ/‖∇ℓ‖. In that direction of ascent neuron j
    moves along the input, so that its preactivation moves by a_j ‖x‖² times the step: no second pass over the inner
    weights is needed.
    """
    features = inputs.shape[1]
    width = outer.shape[0]
    kept = 1.0 - rate * decay
    before = np.empty(width)
    moved = np.empty(width)
    for at in range(order.shape[0]):
        i = order[at]
        before[:] = 0.0
        length = 0.0
        for k in range(features):
            x = inputs[i, k]
            length += x * x
            for j in range(width):
                before[j] += inner[k, j] * x
        value, size = 0.0, 0.0
        for j in range(width):
            if before[j] > 0.0:
                value += outer[j] * before[j]
                size += before[j] * before[j] + outer[j] * outer[j] * length
            else:
                before[j] = 0.0
        error = value - targets[i]
        norm = abs(error) * np.sqrt(size)
        ascent = radius * error / norm if norm > 0.0 else 0.0
        value = 0.0
        for j in range(width):
            moved[j] = 0.0
            if before[j] > 0.0:
                there = outer[j] + ascent * before[j]
                before[j] = max(before[j] + ascent * outer[j] * length, 0.0)
                moved[j] = there if before[j] > 0.0 else 0.0
                value += there * before[j]
        factor = 2.0 * (value - targets[i]) * rate
        for j in range(width):
            outer[j] = kept * outer[j] - factor * before[j]
            moved[j] *= factor
        for k in range(features):
            x = inputs[i, k]
            for j in range(width):
                inner[k, j] = kept * inner[k, j] - moved[j] * x
