"""Products, eigenvalues and the criterion against the toolkit."""

import pytest
import torch
from torch import nn

from common.hessian import Problem, SampleHessians, empirical_ntk, non_uniformity, sharpness, stability_factor
from replications.sgd_stability.shared import layered_hessians
from replications.sgd_stability.shared.layered_hessians import LayeredHessians, criterion_ratio
from tests.unit.replications.sgd_stability.samples import generator, regression


def test_layered_products_are_those_of_the_toolkit():
    model, inputs, targets = regression((7, 6, 5, 3), 11)
    problem = Problem(model, nn.MSELoss(), (inputs, targets))
    samples, layered = SampleHessians(problem), LayeredHessians(model, inputs, targets)
    vector = torch.randn(problem.size, generator=generator(2), dtype=torch.float64)
    for expected, found in zip(samples.moments(vector), layered.moments(vector), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-13)
    torch.testing.assert_close(layered.hessian(vector), samples.moments(vector)[0], rtol=0, atol=1e-13)
    torch.testing.assert_close(layered.covariance(vector), samples.covariance(vector), rtol=0, atol=1e-12)
    torch.testing.assert_close(layered.errors, model(inputs).detach() - targets)
    torch.testing.assert_close(layered.kernel(), empirical_ntk(problem).gram, rtol=0, atol=1e-12)


def test_layered_eigenvalues_are_those_of_the_toolkit_within_their_bounds():
    model, inputs, targets = regression((7, 6, 3), 11)
    problem, layered = Problem(model, nn.MSELoss(), (inputs, targets)), LayeredHessians(model, inputs, targets)
    pairs = [
        (layered_hessians.non_uniformity(layered, generator(), 1e-3), non_uniformity(problem, relative_error=1e-4)),
        (layered_hessians.largest_eigenvalue(layered, generator(), 1e-3), sharpness(problem).estimate),
    ]
    for found, expected in pairs:
        assert found.converged
        assert found.value == pytest.approx(expected.value, abs=found.error + expected.error + 1e-9)


@pytest.mark.parametrize("batch_size", [1, 2, 4])
def test_the_ratio_passes_one_exactly_where_the_full_criterion_does(batch_size: int):
    model, inputs, targets = regression((9, 2), 4)  # linear, so that each Hessian is a Gauss–Newton matrix
    problem = Problem(model, nn.MSELoss(), (inputs, targets))
    gram = LayeredHessians(model, inputs, targets).kernel()
    setting = {"batch_size": batch_size, "generator": generator(), "relative_error": 1e-6}
    limit = 1 / criterion_ratio(gram, 2, learning_rate=1.0, **setting).value  # type: ignore[arg-type]
    below = stability_factor(problem, 0.99 * limit, batch_size, relative_error=1e-6, products=40)
    above = stability_factor(problem, 1.01 * limit, batch_size, relative_error=1e-6, products=40)
    assert below.value <= 1 + 1e-8
    assert above.value > 1 + 1e-4
