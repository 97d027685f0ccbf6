"""Compiled steps are those of gradient descent, SGD and SAM."""

from typing import Any

import pytest
import torch


def reference_step(weights: tuple[torch.Tensor, ...], inputs: torch.Tensor, targets: torch.Tensor) -> Any:
    outer, inner = (weight.clone().requires_grad_() for weight in weights)
    loss = ((inputs @ inner).relu() @ outer - targets).square().mean()
    return torch.autograd.grad(loss, (outer, inner))


def problem() -> tuple[torch.Tensor, ...]:
    source = torch.Generator().manual_seed(3)
    draw = lambda *shape: torch.randn(*shape, generator=source, dtype=torch.float64)  # noqa: E731
    return draw(5), draw(4, 5), draw(6, 4), draw(6)


def test_compiled_descent_is_gradient_descent_with_weight_decay() -> None:
    from replications.sgd_stability.shared.sequential_training import descend

    outer, inner, inputs, targets = problem()
    expected = (outer.clone(), inner.clone())
    for _ in range(3):
        slopes = reference_step(expected, inputs, targets)
        expected = tuple(w - 0.05 * (g + 0.1 * w) for w, g in zip(expected, slopes, strict=True))
    arrays = [tensor.numpy() for tensor in (outer, inner, inputs, targets)]
    descend(*arrays, rate=0.05, decay=0.1, steps=3)
    torch.testing.assert_close((outer, inner), expected)


@pytest.mark.parametrize(("radius", "decay"), [(0.0, 0.0), (0.3, 0.0), (0.0, 0.1), (0.3, 0.1)])
def test_compiled_single_example_steps_are_those_of_sgd_and_sam(radius: float, decay: float) -> None:
    from replications.sgd_stability.shared.sequential_training import descend_by_examples

    outer, inner, inputs, targets = problem()
    expected = (outer.clone(), inner.clone())
    order = torch.tensor([4, 0, 2, 2, 5])
    for at in order.tolist():
        one = inputs[at : at + 1], targets[at : at + 1]
        slopes = reference_step(expected, *one)
        norm = torch.cat([slope.flatten() for slope in slopes]).norm()
        if radius and norm > 0:
            there = tuple(w + radius * g / norm for w, g in zip(expected, slopes, strict=True))
            slopes = reference_step(there, *one)
        expected = tuple(w - 0.02 * (g + decay * w) for w, g in zip(expected, slopes, strict=True))
    arrays = [tensor.numpy() for tensor in (outer, inner, inputs, targets)]
    descend_by_examples(*arrays, order=order.numpy(), rate=0.02, radius=radius, decay=decay)
    torch.testing.assert_close((outer, inner), expected)
