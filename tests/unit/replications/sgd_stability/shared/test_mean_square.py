"""The exact threshold of stability in mean square against averages over every batch."""

import itertools

import pytest
import torch

from replications.sgd_stability.shared.layered_hessians import criterion_ratio
from replications.sgd_stability.shared.linearised_sgd import LinearisedSGD
from replications.sgd_stability.shared.mean_square import rate_over_threshold
from tests.unit.replications.sgd_stability.samples import generator


def kernel(rows: int, parameters: int) -> torch.Tensor:
    jacobian = torch.randn(rows, parameters, generator=generator(5), dtype=torch.float64) / 3
    return jacobian @ jacobian.mT


def ratio(gram: torch.Tensor, outputs: int, rate: float, batch_size: int) -> float:
    found = rate_over_threshold(
        gram,
        outputs,
        learning_rate=rate,
        batch_size=batch_size,
        generator=generator(1),
        relative_error=1e-6,
        products=200,
    )
    assert found.converged
    return found.value


def spectral_radius(gram: torch.Tensor, outputs: int, rate: float, batch_size: int) -> float:
    """Of the second moment, by an average over every batch, on the errors that steps change."""
    rows, count = len(gram), len(gram) // outputs
    batches = list(itertools.combinations(range(count), batch_size))
    values, vectors = torch.linalg.eigh(gram)
    factor = vectors[:, values > 1e-9] * values[values > 1e-9].sqrt()
    inverse = torch.linalg.pinv(factor)
    moment = torch.zeros(factor.shape[1] ** 2, factor.shape[1] ** 2, dtype=torch.float64)
    for batch in batches:
        mark = torch.zeros(count, dtype=torch.float64)
        mark[list(batch)] = 1
        step = torch.eye(rows).double() - 2 * rate / (outputs * batch_size) * gram * mark.repeat_interleave(outputs)
        within = inverse @ step @ factor
        moment += torch.kron(within, within) / len(batches)
    return float(torch.linalg.eigvals(moment).abs().max())


@pytest.mark.parametrize(
    ("rows", "parameters", "outputs", "batch_size"),
    [(6, 9, 1, 1), (6, 9, 1, 3), (6, 4, 1, 2), (6, 9, 2, 1), (8, 12, 2, 3), (6, 4, 3, 1)],
)
def test_the_second_moment_begins_to_grow_at_the_threshold(rows: int, parameters: int, outputs: int, batch_size: int):
    gram = kernel(rows, parameters)
    rate = 0.5 / ratio(gram, outputs, 0.5, batch_size)
    assert spectral_radius(gram, outputs, 0.999 * rate, batch_size) < 1
    assert spectral_radius(gram, outputs, 1.001 * rate, batch_size) > 1


def test_with_all_examples_it_is_the_sharpness_over_its_bound():
    gram = kernel(6, 9)
    sharpness = 2 / 6 * float(torch.linalg.eigvalsh(gram)[-1])
    assert ratio(gram, 1, 0.5, 6) == pytest.approx(0.5 * sharpness / 2, rel=1e-5)


@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_it_lies_between_the_condition_on_the_sharpness_and_the_full_criterion(batch_size: int):
    gram = kernel(8, 20)
    settings = {"learning_rate": 0.3, "batch_size": batch_size, "generator": generator(0), "relative_error": 1e-6}
    found = ratio(gram, 2, 0.3, batch_size)
    assert 0.3 / 8 * float(torch.linalg.eigvalsh(gram)[-1]) < found < criterion_ratio(gram, 2, **settings).value


def test_a_minimum_that_breaks_the_full_criterion_is_stable_by_it():
    gram = torch.tensor([[1, 0.5], [0.5, 0.5]], dtype=torch.float64)
    assert ratio(gram, 1, 1.1, 1) == pytest.approx(0.97218, abs=1e-4)
    assert LinearisedSGD(gram, 1.1, 1).radius() < 1
