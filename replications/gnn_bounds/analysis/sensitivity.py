"""From the records of bounds taken apart to one row a run, and figures."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import PALETTE, note, subplots

from .shared.labels import MODELS, SERIES

FACTORS = {
    "graph": ("graph: $d$ or $\\|P\\|_2$", PALETTE[1]),
    "weights": ("spectral norms of the weights", PALETTE[0]),
    "features": ("features", PALETTE[3]),
    "width": ("width", PALETTE[4]),
    "rest": ("rest: ranks, $1/\\sqrt{N}$, logarithms", PALETTE[5]),
}
AXES = {"degree": "degree and norm of $P$", "weights": "all weights", "width": "width", "depth": "layers $l$"}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`: log₁₀ of factors; the power of the degree, from doubling it."""
    factors = records[records["row"] == "factors"]
    table = pd.DataFrame(index=pd.Index(records["run"].unique(), name="run"))
    for bound in ("ours", "liao", "garg"):
        part = factors[factors["bound"] == bound].set_index("run")
        for name in FACTORS:
            table[f"{bound}_{name}"] = part[name]
        table[f"{bound}_weights_minus_graph"] = part["weights"] - part["graph"]
    table["smallest_without_graph"] = factors.groupby("run")["without_graph"].min()
    sweep = records[(records["row"] == "sweep") & (records["axis"] == "degree")]
    at = {amount: sweep[sweep["amount"] == amount].set_index("run") for amount in (1.0, 2.0)}
    for bound in ("ours", "liao", "garg"):
        table[f"{bound}_degree_power"] = (at[2.0][bound] - at[1.0][bound]) / np.log10(2)
    return table.assign(regime_reached=True)


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """What each bound is made of at every depth, and how it moves along each axis."""
    return {"bound_factors": _factors(records), "bound_sweeps": _sweeps(records)}


def _factors(records: pd.DataFrame) -> Figure:
    part = records[records["row"] == "factors"]
    depths = sorted(part["depth"].unique())
    figure, panels = subplots(1, 2, size=(10.0, 4.6), sharey=True)
    places = [(bound, depth) for bound in ("ours", "liao", "garg") for depth in depths]
    for axes, model in zip(panels, MODELS, strict=True):
        means = part[part["model"] == model].groupby(["bound", "depth"])[list(FACTORS)].mean().reindex(places)
        at = [place + 0.6 * (place // len(depths)) for place in range(len(places))]
        high, low = np.zeros(len(places)), np.zeros(len(places))
        for name, (label, colour) in FACTORS.items():
            values = np.array([means.loc[place, name] for place in places])
            bottom = np.where(values >= 0, high, low)
            axes.bar(at, values, bottom=bottom, color=colour, label=label, width=0.75)
            high, low = high + values.clip(min=0), low + values.clip(max=0)
        axes.plot(at, high + low, "_", color="#1d2530", markersize=16, markeredgewidth=2.2, label="the bound")
        axes.axhline(0, color="#8a8f98", linewidth=1.2, label="_one")
        axes.set_xticks(at, [f"{depth}" for _, depth in places])
        for number, bound in enumerate(("ours", "liao", "garg")):
            middle = float(np.mean(at[number * len(depths) : (number + 1) * len(depths)]))
            axes.text(middle, 1.0, SERIES[bound][0], transform=axes.get_xaxis_transform(), ha="center", va="top")
        axes.set(title=MODELS[model], xlabel="layers $l$")
        axes.margins(y=0.14)
    panels[0].set_ylabel("$\\log_{10}$ of factors")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    note(figure, "factors set to one in the order of the legend; means over data sets, folds and seeds", "illustration")
    return figure


def _sweeps(records: pd.DataFrame) -> Figure:
    sweep = records[records["row"] == "sweep"]
    depth = sorted(sweep["depth"].unique())[len(sweep["depth"].unique()) // 2]
    figure, panels = subplots(2, len(AXES), size=(11.0, 5.6), sharey="row", sharex="col")
    for row, model in enumerate(MODELS):
        for axes, (axis, label) in zip(panels[row], AXES.items(), strict=True):
            own = sweep[(sweep["model"] == model) & (sweep["axis"] == axis)]
            start = depth if axis != "depth" else own["depth"].min()
            own = own[own["depth"] == start].groupby("amount")[["ours", "liao", "garg"]].mean()
            for bound in ("ours", "liao", "garg"):
                name, colour, marker = SERIES[bound]
                axes.plot(own.index, own[bound], color=colour, marker=marker, label=name)
            if axis != "depth":
                axes.set_xscale("log", base=2)
            axes.axhline(0, color="#8a8f98", linestyle="--", linewidth=1.2, label="_one")
            if row:
                axes.set_xlabel(label if axis == "depth" else f"{label}, times")
    for row, model in enumerate(MODELS):
        panels[row][0].set_ylabel(f"{MODELS[model]}: $\\log_{{10}}$ of the bound")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    note(figure, f"from networks of {depth} layers (depth: of the shallowest); others fixed; dashed: 1", "illustration")
    return figure
