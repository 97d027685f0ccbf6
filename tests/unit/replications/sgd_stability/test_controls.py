"""A planted effect, and one arm drawn twice."""

import torch

from common.models import rescale
from replications.sgd_stability import (
    controls,
)
from replications.sgd_stability.shared import layered_hessians
from replications.sgd_stability.shared.layered_hessians import LayeredHessians
from tests.unit.replications.sgd_stability.samples import TINY, generator, records, regression


def test_rescaled_neurons_are_sharper_and_compute_the_same():
    model, inputs, targets = regression((7, 6, 3), 11)
    before, first = model(inputs).detach(), LayeredHessians(model, inputs, targets)
    rescale(model, 4.0)
    torch.testing.assert_close(model(inputs).detach(), before, rtol=0, atol=1e-12)
    after = LayeredHessians(model, inputs, targets)
    values = [layered_hessians.largest_eigenvalue(each, generator(), 1e-3).value for each in (first, after)]
    assert values[1] > 1.5 * values[0]


def test_only_the_arm_with_own_streams_differs_among_the_controls():
    plain, again = (records(controls, **TINY, hidden_layers=1, batch_size=4, own_streams=own) for own in (False, True))
    repeated = records(controls, **TINY, hidden_layers=1, batch_size=4)
    assert plain["sharpness"].tolist() == repeated["sharpness"].tolist()
    assert (plain["sharpness"] != again["sharpness"]).all()
