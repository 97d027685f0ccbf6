"""Figures of the convolutional networks: Tables 2, 4 and 5, and Figure 1."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from common.figures import colours, note, subplots

from .decay_figures import gamma_text
from .measure_analysis import READINGS, convolutional_metrics
from .published import TABLES

NETWORKS = {"cnn": "Table 2 · All-CNN-C", "preresnet": "Table 4 · PreResNet", "wrn": "Table 5 · WRN"}
PANELS = {
    "loss_gap": ("ΔL (nats)", "loss_gap"),
    "sharpness": ("λ₁", "sharpness"),
    "trace_mean": ("Tr H / P", "trace"),
    "a_mean_trace_half_norm": (READINGS["a_mean_trace_half_norm"], "measure"),
}
FULL = {"cnn": 1_387_108, "preresnet": 1_726_388, "wrn": 36_546_980}


def convolutional_figures(records: pd.DataFrame) -> dict[str, Figure]:
    """One column a network, one row a quantity, against the decay; the printed lines beside ours."""
    axes_of = records.groupby("run", sort=False)[["network", "weight_decay", "seed"]].first()
    table = convolutional_metrics(records).join(axes_of)
    figure, panels = subplots(len(PANELS), len(NETWORKS), size=(8.2, 9.0), sharex=True)
    shade = colours(["ours", "published"])
    for column, (network, title) in enumerate(NETWORKS.items()):
        own = table[table["network"] == network]
        published = TABLES[network].rows
        for row, (metric, (label, printed)) in enumerate(PANELS.items()):
            axes = panels[row, column]
            places = [[r.weight_decay for r in published].index(gamma) for gamma in own["weight_decay"]]
            axes.plot(places, own[metric], "o", color=shade["ours"], label="ours")
            axes.plot([getattr(r, printed) for r in published], "D", mfc="none", mew=1.5, ms=7,
                      color=shade["published"], label="published")  # fmt: skip
            if metric != "loss_gap":  # which may be negative
                axes.set_yscale("log")
                axes.yaxis.set_minor_formatter(NullFormatter())
            axes.set_xticks(range(3), [gamma_text(r.weight_decay) for r in published])
            axes.set_xlim(-0.4, 2.4)
            if column == 0:
                axes.set_ylabel(label)
        panels[0, column].set_title(title)
        panels[-1, column].set_xlabel("weight decay γ")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2)
    _say_what_differs(figure, records)
    return {"tables_2_4_5": figure}


def _say_what_differs(figure: Figure, records: pd.DataFrame) -> None:
    first = records.iloc[0]
    sizes = records.loc[records["kind"] == "final"].groupby("network")["parameters"].first()
    thin = any(int(size) < FULL[str(network)] for network, size in sizes.items())
    if first["dataset"] != "cifar100":
        note(figure, f"D7: {first['dataset']} instead of CIFAR-100", "substitution")
    if thin:
        shown = ", ".join(f"{network} {int(size):,}" for network, size in sizes.items())
        text = f"thin networks ({shown} parameters), {first['training_images']:,} images, {first['epochs']} epochs (D7)"
        note(figure, text, "reduced" if first["dataset"] == "cifar100" else "illustration")


def spectrum_figures(records: pd.DataFrame) -> dict[str, Figure]:
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
    _say_what_differs(figure, records)
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
