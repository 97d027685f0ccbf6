"""Values of several groups, seed by seed, a row a group."""

import pandas as pd
from matplotlib.axes import Axes

from common.figures import abreast


def dots(axes: Axes, values: list[pd.Series], shades: list[str]) -> None:
    """A row for each series: a dot a seed, a bar at the mean."""
    for row, (known, shade) in enumerate(zip(values, shades, strict=True)):
        spread = abreast(len(known), 0.3)
        axes.plot(known, row + spread, "o", color=shade, label=f"_row {row}")
        axes.plot([known.mean()] * 2, [row - 0.3, row + 0.3], color=shade, label=f"_row {row}, mean")
