"""Figure 1: spectra with and without weight decay."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from common.figures import colours, subplots

from .shared.labels import gamma_text, say_what_differs


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run: ends of the spectrum, ‖w‖ and test error."""
    final = records[records["kind"] == "final"].set_index("run")
    table = final[["largest", "smallest", "norm"]].copy()
    table["test_error"] = 100 * final["test_error"]
    table["regime_reached"] = final["largest"] > 0
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Spectra at the ends of the decays, and test error and norm against the decay."""
    figure, panels = subplots(1, 3, size=(9.6, 4.0))
    first_seed = records[records["seed"] == records["seed"].min()]
    nodes = first_seed[first_seed["kind"] == "node"]
    gammas = sorted(records["weight_decay"].unique())
    shade = colours(gammas)
    for gamma in (gammas[0], gammas[-1]):
        _density(panels[0], nodes[nodes["weight_decay"] == gamma], nodes, gamma, shade[gamma])
    panels[0].set_yscale("log")
    panels[0].set_ylim(1e-7, 100)
    panels[0].set(xlabel="eigenvalue of H", ylabel="spectral density", title="Fig. 1 (a), (b) · spectra")
    panels[0].legend()
    final = records[records["kind"] == "final"].sort_values("weight_decay")
    places = np.array([gammas.index(gamma) for gamma in final["weight_decay"]])
    shown = {"test error (%)": 100 * final["test_error"].to_numpy(), "‖w‖": final["norm"].to_numpy()}
    for axes, (label, values) in zip(panels[1:], shown.items(), strict=True):
        means = [values[places == place].mean() for place in range(len(gammas))]
        axes.plot(range(len(gammas)), means, "-", label="mean")
        axes.plot(places, values, "o", alpha=0.6, label="a seed")
        axes.set_xticks(range(len(gammas)), [gamma_text(gamma) for gamma in gammas])
        axes.margins(x=0.2)
        axes.set(xlabel="weight decay γ", title=f"Fig. 1 (c) · {label}")
    panels[-1].legend()
    say_what_differs(figure, records)
    return {"fig1": figure}


def _density(axes: Axes, own: pd.DataFrame, everyone: pd.DataFrame, gamma: float, colour: str) -> None:
    """The quadrature of one network, its nodes smoothed by 1 % of the range of all."""
    low, high = everyone["node"].min(), everyone["node"].max()
    grid = np.linspace(low - 0.05 * (high - low), high + 0.05 * (high - low), 500)
    width = 0.01 * (high - low)
    distance = (grid[:, None] - own["node"].to_numpy()) / width
    weight = own["weight"].to_numpy() / max(own["vector"].nunique(), 1)
    density = (weight * np.exp(-0.5 * distance**2)).sum(1) / (width * np.sqrt(2 * np.pi))
    axes.plot(grid, density, color=colour, label=f"γ = {gamma_text(gamma)}")
