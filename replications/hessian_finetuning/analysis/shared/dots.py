"""Values of several groups, seed by seed, a row a group."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes


def dots(axes: Axes, values: list[pd.Series], shades: list[str]) -> None:
    """A row for each series: a dot a seed, a bar at the mean."""
    for row, (known, shade) in enumerate(zip(values, shades, strict=True)):
        spread = np.linspace(-0.15, 0.15, len(known)) if len(known) > 1 else np.zeros(len(known))
        axes.plot(known, row + spread, "o", color=shade, label=f"_row {row}")
        axes.plot([known.mean()] * 2, [row - 0.3, row + 0.3], color=shade, label=f"_row {row}, mean")
