"""A minimum that is reached on purpose: Fig. 3."""

from typing import Any

from replications.sgd_stability import bad_minimum
from tests.unit.replications.sgd_stability.samples import in_arm


def test_false_points_lead_to_a_minimum_that_fits_as_well_and_is_worse() -> None:
    ends = {}
    for planted in (False, True):
        context = in_arm("bad_minimum", str(planted))
        settings: dict[str, Any] = {"hidden": (40, 40), "planting_steps": 600, "planting_rate": 0.005}
        rate = 0.001 if planted else 0.05
        run = bad_minimum.Parameters(planted=planted, learning_rate=rate, stopping_loss=0.01, **settings)
        bad_minimum.run([run], context)
        ends[planted] = context.rows[0]
    assert all(row["training_loss"] <= 0.01 for row in ends.values())
    assert ends[True]["test_loss"] > 5 * ends[False]["test_loss"]
