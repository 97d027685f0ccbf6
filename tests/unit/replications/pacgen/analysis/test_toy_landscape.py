"""A search that finds no pair has not reached its regime."""

import numpy as np
import pandas as pd

from replications.pacgen.analysis import toy_landscape as toy_landscape_analysis

PAIRED = ("psi", "bound", "population_loss", "training_error", "boundary_complexity", "loss")


def test_a_mixture_hunt_that_finds_nothing_has_not_reached_the_regime():
    rows = [{"run": "seed=0", "seed": 0, "kind": "none", "mixtures_rejected": 5, "rejected_none_flatter": 5}]
    rows += [
        {**rows[0], "run": "seed=1", "kind": "pair", **{f"{n}_{w}": 1.0 for n in PAIRED for w in ("sharp", "flat")}}
    ]
    table = toy_landscape_analysis.metrics(pd.DataFrame(rows))
    assert table["regime_reached"].to_dict() == {"seed=0": False, "seed=1": True}
    assert np.isnan(table.loc["seed=0", "psi_difference"])
    assert table.loc["seed=0", "rejected_none_flatter"] == 5
    assert np.isnan(table.loc["seed=0", "flat_is_better_on_fresh_data"])
