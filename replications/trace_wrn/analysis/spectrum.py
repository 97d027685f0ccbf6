"""Figure 1: spectra with and without weight decay."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import subplots

from .shared.labels import gamma_text, say_what_differs
from .shared.spectral_density import draw_densities


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
    draw_densities(panels[0], records, 1e-7)
    panels[0].set_title("Fig. 1 (a), (b) · spectra")
    gammas = sorted(records["weight_decay"].unique())
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
