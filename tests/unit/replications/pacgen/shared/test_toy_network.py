"""The toy of section 2, its derivatives and its sample."""

import pytest
import torch

from common.hessian import dense_hessian
from replications.pacgen.shared.toy_network import cross_entropy, draw_mixture, logit_difference


def test_toy_network_is_five_layers_of_one_matrix():
    weights, points = torch.tensor([[0.7, -1.3]], dtype=torch.float64), torch.randn(4, 2, dtype=torch.float64)
    matrix = torch.tensor([[0.7, -1.3], [1.3, 0.7]], dtype=torch.float64)
    hidden = points
    for _ in range(4):
        hidden = (hidden @ matrix.T).sigmoid()
    logits = hidden @ matrix.T
    torch.testing.assert_close(logit_difference(weights, points)[0], logits[:, 1] - logits[:, 0])
    labels = torch.tensor([0, 1, 1, 0])
    expected = torch.nn.functional.cross_entropy(logits, labels)
    torch.testing.assert_close(cross_entropy(points, labels.bool())(weights)[0], expected)


def test_the_derivatives_that_the_toy_knows_are_those_of_autograd():
    mixture, points = draw_mixture(
        torch.Generator().manual_seed(3), spread=2.0, width=0.7, label_by="coordinate", examples=50
    )
    loss = cross_entropy(points, mixture.labels(points))
    weights = 4 * torch.randn(30, 2, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    for own, expected in zip(loss.derivatives(weights), dense_hessian(loss, weights), strict=True):
        torch.testing.assert_close(own, expected, rtol=0, atol=1e-13)
    assert torch.equal(loss.derivatives(weights)[0], loss(weights))  # a step is compared with the value before it


@pytest.mark.parametrize("label_by", ["coordinate", "density"])
def test_the_median_splits_the_training_sample_in_halves(label_by):
    mixture, points = draw_mixture(
        torch.Generator().manual_seed(0), spread=2.0, width=0.7, label_by=label_by, examples=100
    )
    assert int(mixture.labels(points).sum()) == 50
