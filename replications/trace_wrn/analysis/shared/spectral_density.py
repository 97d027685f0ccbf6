"""The spectra of networks at the ends of a sweep over weight decays."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from common.figures import colours

from .labels import gamma_text


def draw_densities(axes: Axes, records: pd.DataFrame, floor: float) -> None:
    """The quadratures of one seed without and with the largest decay, smoothed by 1 % of the range of all nodes.

    Args:
        floor: the least density that is shown.
    """
    nodes = records[(records["kind"] == "node") & (records["seed"] == records["seed"].min())]
    low, high = nodes["node"].min(), nodes["node"].max()
    grid = np.linspace(low - 0.05 * (high - low), high + 0.05 * (high - low), 600)
    width = 0.01 * (high - low)
    gammas = sorted(nodes["weight_decay"].unique())
    shade = colours(gammas)
    for gamma in (gammas[0], gammas[-1]):
        own = nodes[nodes["weight_decay"] == gamma]
        distance = (grid[:, None] - own["node"].to_numpy()) / width
        weight = own["weight"].to_numpy() / own["vector"].nunique()
        density = (weight * np.exp(-0.5 * distance**2)).sum(1) / (width * np.sqrt(2 * np.pi))
        axes.plot(grid, density, color=shade[gamma], label=f"γ = {gamma_text(gamma)}")
    axes.set_yscale("log")
    axes.set(xlabel="eigenvalue of H", ylabel="spectral density", ylim=(floor, 100))
    axes.legend()
