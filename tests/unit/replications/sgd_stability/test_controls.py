"""A planted effect, and one arm drawn twice."""

from common.models import rescale
from replications.sgd_stability import controls
from replications.sgd_stability.shared import layered_hessians
from replications.sgd_stability.shared.layered_hessians import LayeredHessians
from tests.unit.replications.sgd_stability.samples import TINY, generator, records, regression


def test_rescaled_neurons_are_sharper():
    model, inputs, targets = regression((7, 6, 3), 11)
    values = []
    for factor in (1.0, 4.0):
        rescale(model, factor)
        hessians = LayeredHessians(model, inputs, targets)
        values.append(layered_hessians.largest_eigenvalue(hessians, generator(), 1e-3).value)
    assert values[1] > 1.5 * values[0]


def test_only_the_arm_with_own_streams_differs_among_the_controls():
    plain, again = (records(controls, **TINY, hidden_layers=1, batch_size=4, own_streams=own) for own in (False, True))
    repeated = records(controls, **TINY, hidden_layers=1, batch_size=4)
    assert plain["sharpness"].tolist() == repeated["sharpness"].tolist()
    assert (plain["sharpness"] != again["sharpness"]).all()
