"""Readings that coincide can be told apart."""

import numpy as np
import pandas as pd

from replications.pacgen.analysis.shared.sweep_figures import NESTED, _readings
from replications.pacgen.analysis.shared.sweep_metrics import READINGS


def test_of_readings_on_one_line_each_shows_over_the_one_before() -> None:
    rows = [{"batch_size": size, "momentum": 0.0, "seed": seed} for size in (32, 64) for seed in range(3)]
    table = pd.DataFrame(rows)
    for name in READINGS:
        table[name] = 1e4 * table["batch_size"] / 64
    (axes,) = _readings(table, "batch_size").axes
    lines = {line.get_label(): line for line in axes.lines}
    floor, norms, none = (lines[READINGS[name]] for name in NESTED)
    assert np.array_equal(floor.get_ydata(), none.get_ydata())
    assert floor.get_linewidth() > norms.get_linewidth() > none.get_linewidth()
    assert floor.get_markersize() == 0 < none.get_markersize() < norms.get_markersize()
    assert floor.get_zorder() < norms.get_zorder() < none.get_zorder()
    assert len({line.get_color() for line in (floor, norms, none)}) == 3
