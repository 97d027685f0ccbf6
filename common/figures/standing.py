"""Runs that are no results: those outside the regime of their claim and those that diverged are drawn hollow.

`figures(records)` finds in the column `standing` what each run is worth; how many are not as meant is said under the
figure by the framework.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from common.figures.style import FACE

IN_REGIME = "in its regime"
OUTSIDE_REGIME = "outside its regime"
DIVERGED = "diverged"


def points(axes: Axes, frame: pd.DataFrame, x: str, y: str, *, color: str, label: str, **style: Any) -> PathCollection:
    """Scatter `y` over `x`, full where the column `standing` says that the run is in its regime, else hollow.

    Args:
        frame: one row a point, with the columns `x`, `y` and `standing`.
        style: what else `Axes.scatter` takes, such as `s` and `marker`.

    Returns:
        The full points, which carry the label; where there are none, the hollow ones do.
    """
    full = (frame["standing"] == IN_REGIME).to_numpy()
    rest, drawn = frame[~full], frame[full]
    name = f"_{label}, not as meant" if full.any() else label
    hollow = axes.scatter(rest[x], rest[y], facecolors=FACE, edgecolors=color, linewidths=1.2, label=name, **style)
    return axes.scatter(drawn[x], drawn[y], color=color, label=label, **style) if full.any() else hollow


def hollow_markers(axes: Axes, line: Line2D, sound: NDArray[np.bool_]) -> None:
    """Lay hollow markers over those points of a line at which not all runs are in their regime."""
    x, y = (np.asarray(values, dtype=float) for values in line.get_data())
    doubtful = ~sound & np.isfinite(y)
    if doubtful.any():
        marker, color = line.get_marker(), line.get_color()
        look: dict[str, Any] = {
            "linestyle": "none",
            "marker": marker,
            "color": color,
            "markerfacecolor": FACE,
            "markeredgewidth": 1.2,
        }
        axes.plot(x[doubtful], y[doubtful], label="_not all runs as meant", **look)
