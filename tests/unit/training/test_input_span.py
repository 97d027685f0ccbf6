"""Coordinates of the span of the inputs, and the weights of a first layer on them."""

import torch

from common.training import FullyConnectedEnsemble
from common.training.input_span import join_first_layer, span, split_first_layer


def test_a_network_gives_on_coordinates_what_it_gives_on_inputs() -> None:
    source = torch.Generator().manual_seed(0)
    inputs = torch.randn(4, 9, generator=source, dtype=torch.float64)
    basis, coordinates = span(inputs)
    torch.testing.assert_close(basis.mT @ basis, torch.eye(4, dtype=torch.float64))
    torch.testing.assert_close(coordinates @ basis.mT, inputs)
    whole = FullyConnectedEnsemble.drawn((9, 5, 2), [source, source], dtype=torch.float64)
    first, others = split_first_layer(whole.weights, 9, 5)
    assert torch.equal(join_first_layer(first, others), whole.weights)
    small = FullyConnectedEnsemble((4, 5, 2), join_first_layer(first @ basis, others))
    torch.testing.assert_close(small.outputs(coordinates), whole.outputs(inputs))
