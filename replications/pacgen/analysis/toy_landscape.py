"""From the records of the toy to one row a run, and Figure 1."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure

from common.figures import PALETTE, attach_data, note, subplots, use_style

SHARP, FLAT = PALETTE[2], PALETTE[1]
CLASSES = (PALETTE[0], PALETTE[1])
HIGHEST_DRAWN_LOSS = 1.2  # nats; guessing costs log 2 = 0.69
NAMES = {"sharp": "sharp (global) minimum", "flat": "flat minimum"}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`: each measure at both minima, and their differences.

    Differences are sharp minus flat (`…_difference`). A run that found no pair of minima has NaN and no regime.
    """
    runs = pd.Index(records["run"].unique(), name="run")
    pairs = records[records["kind"] == "pair"].set_index("run").reindex(runs)
    table = pairs[[name for name in pairs if str(name).endswith(("_sharp", "_flat"))]].astype(float)
    names = [str(name).removesuffix("_sharp") for name in table if str(name).endswith("_sharp")]
    for name in names:
        table[f"{name}_difference"] = table[f"{name}_sharp"] - table[f"{name}_flat"]
    table["bound_distance"] = table["bound_difference"].abs() / table["bound_flat"]
    better = table["population_loss_difference"] > 0
    table["flat_is_better_on_fresh_data"] = better.where(pairs["kind"].notna()).astype(float)
    counts = [name for name in map(str, records) if name.startswith(("rejected_", "mixtures_rejected"))]
    table[counts] = records.groupby("run", sort=False)[counts].first().reindex(runs).astype(float)
    table["regime_reached"] = pairs["kind"].notna()
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Figure 1 a–d from the first seed, and how the two minima compare over all seeds."""
    drawn = records[records["seed"] == 0]
    pair = drawn[drawn["kind"] == "pair"]
    figures = {"fig1_fresh_data": _fresh_data(records)}
    if len(pair):
        row = pair.iloc[0]
        figures = {
            "fig1a": _landscape(drawn[drawn["kind"] == "landscape"], row),
            "fig1_map": _maps(drawn[drawn["kind"] == "landscape"], row),
            "fig1b": _sample(drawn[drawn["kind"] == "sample"], "label", "Fig. 1b · training sample and labels"),
            "fig1c": _prediction(drawn, "sharp", "Fig. 1c · predicted by the sharp minimum", row),
            "fig1d": _prediction(drawn, "flat", "Fig. 1d · predicted by the flat minimum", row),
            **figures,
        }
    return figures


def _landscape(cells: pd.DataFrame, pair: pd.Series) -> Figure:
    """The surface is the loss (where below 1.2 nats), its colour Ψ; the plane below shows the bound."""
    use_style()
    figure = Figure(figsize=(5.6, 5.6), layout="constrained")
    places = figure.add_gridspec(2, 2, height_ratios=[24, 1])
    axes: Any = figure.add_subplot(places[0, :], projection="3d", computed_zorder=False)
    tables = {name: cells.pivot(index="w2", columns="w1", values=name) for name in ("loss", "psi", "bound")}
    w1, w2 = np.meshgrid(tables["loss"].columns.to_numpy(), tables["loss"].index.to_numpy())
    top = HIGHEST_DRAWN_LOSS
    height = np.where(tables["loss"] <= top, tables["loss"], np.nan)
    floor = 0.2 * top
    low = cells["loss"] <= top
    psi, bound = _colours(cells.loc[low, "psi"], "viridis"), _colours(cells.loc[low, "bound"], "magma")
    plane = np.full_like(height, floor)
    settings: dict[str, Any] = {"rcount": len(w2), "ccount": len(w1), "shade": False, "antialiased": False}
    axes.plot_surface(w1, w2, plane, facecolors=bound.to_rgba(tables["bound"].to_numpy()), zorder=1, **settings)
    axes.plot_surface(w1, w2, height, facecolors=psi.to_rgba(tables["psi"].to_numpy()), zorder=2, **settings)
    for which, colour in (("sharp", SHARP), ("flat", FLAT)):
        at = [pair[f"w1_{which}"]] * 2, [pair[f"w2_{which}"]] * 2
        axes.plot(*at, [floor, 0.95 * top], color=colour, linewidth=2.5, label=NAMES[which], zorder=3)
    axes.set(xlabel="$w_1$", ylabel="$w_2$", zlabel="training loss (nats)", zlim=(floor, top))
    axes.view_init(elev=36, azim=-128)
    axes.set_title(f"Fig. 1a · loss landscape (cut at {top:g} nats), Ψ and bound")
    axes.legend(loc="upper left", bbox_to_anchor=(0.0, 0.98))
    for column, shades, label in ((0, psi, "surface: Ψ (nats)"), (1, bound, "plane: bound (13) (nats)")):
        bar = figure.add_subplot(places[1, column])
        figure.colorbar(shades, cax=bar, orientation="horizontal", extend="both", label=label)
    attach_data(figure, cells[["w1", "w2", "loss", "psi", "bound"]])
    return figure


def _maps(cells: pd.DataFrame, pair: pd.Series) -> Figure:
    """Loss and Ψ over (w1, w2) seen from above, with both minima."""
    figure, panels = subplots(1, 2, size=(8.2, 4.2), sharey=True)
    for axes, name, title in zip(panels, ("loss", "psi"), ("training loss (nats)", "Ψ (nats)"), strict=True):
        table = cells.pivot(index="w2", columns="w1", values=name)
        limit = HIGHEST_DRAWN_LOSS if name == "loss" else float(np.quantile(cells[name], 0.98))
        mesh = axes.pcolormesh(table.columns, table.index, table, vmax=limit, shading="nearest", rasterized=True)
        for which, marker in (("sharp", "^"), ("flat", "o")):
            at = pair[f"w1_{which}"], pair[f"w2_{which}"]
            style: Any = {"color": "#ffffff", "markeredgecolor": "#111111", "markeredgewidth": 1.0, "markersize": 8}
            axes.plot(*at, marker, label=which, **style)
        axes.set(xlabel="$w_1$", title=title)
        axes.set_aspect("equal")
        axes.grid(visible=False)
        figure.colorbar(mesh, ax=axes, shrink=0.8, extend="max")
    figure.suptitle("Fig. 1a from above", x=0.01, ha="left")
    note(
        figure,
        f"losses above {HIGHEST_DRAWN_LOSS:g} nats share one colour; mixture and weight sharing ours (D1)",
        "deviation",
    )
    panels[0].set_ylabel("$w_2$")
    panels[0].legend(loc="lower right", title="minimum")
    return figure


def _colours(values: pd.Series, name: str) -> Any:
    """A colour scale over the middle 96 % of the values."""
    return ScalarMappable(Normalize(float(values.quantile(0.02)), float(values.quantile(0.98))), name)


def _sample(points: pd.DataFrame, column: str, title: str) -> Figure:
    figure, axes = subplots(size=(4.6, 4.6))
    _scatter(axes, points, column)
    axes.set_title(title)
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def _scatter(axes: Axes, points: pd.DataFrame, column: str, name: str = "class") -> None:
    for label, marker in ((0, "o"), (1, "s")):
        chosen = points[points[column] == label]
        axes.scatter(chosen["x1"], chosen["x2"], color=CLASSES[label], marker=marker, s=22, label=f"{name} {label}")
    axes.set(xlabel="$x_1$", ylabel="$x_2$")


def _prediction(drawn: pd.DataFrame, which: str, title: str, pair: pd.Series) -> Figure:
    """Predicted class of every place, with the sample in its predicted classes; wrong ones are ringed."""
    figure, axes = subplots(size=(4.6, 4.6))
    cells = drawn[drawn["kind"] == "map"].pivot(index="x2", columns="x1", values=which)
    shades = ListedColormap([*CLASSES])
    axes.pcolormesh(cells.columns, cells.index, cells, cmap=shades, vmin=0, vmax=1, alpha=0.22, rasterized=True)
    points = drawn[drawn["kind"] == "sample"]
    _scatter(axes, points, which, "predicted")
    wrong = points[points[which] != points["label"]]
    axes.scatter(
        wrong["x1"], wrong["x2"], facecolors="none", edgecolors="#111111", s=52, linewidths=1.1, label="label differs"
    )
    axes.grid(visible=False)
    axes.set_title(title)
    losses = f"loss: training {pair[f'loss_{which}']:.2f}, fresh {pair[f'population_loss_{which}']:.2f}"
    figure.legend(loc="outside lower center", ncols=3, title=losses)
    return figure


def _fresh_data(records: pd.DataFrame) -> Figure:
    """Flat against sharp minimum, one point a mixture: loss on fresh data, generalisation gap, and Ψ."""
    pairs = records[records["kind"] == "pair"]
    figure, (left, middle, right) = subplots(1, 3, size=(10.4, 3.9))
    _compare(left, pairs, "population_loss", "loss on fresh data (nats)")
    _compare(middle, pairs, "gap", "fresh − training loss (nats)")
    _compare(right, pairs, "psi", "Ψ (nats)")
    smaller = int((pairs["gap_flat"] < pairs["gap_sharp"]).sum())
    middle.set_title(f"Gap smaller at flat: {smaller} of {len(pairs)}")
    better = int((pairs["population_loss_flat"] < pairs["population_loss_sharp"]).sum())
    left.set_title(f"Flat better on fresh data: {better} of {len(pairs)}")
    higher = int((pairs["psi_sharp"] > pairs["psi_flat"]).sum())
    right.set_title(f"Ψ higher at sharp: {higher} of {len(pairs)}")
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return figure


def _compare(axes: Axes, pairs: pd.DataFrame, measure: str, label: str) -> None:
    x, y = pairs[f"{measure}_sharp"], pairs[f"{measure}_flat"]
    low, high = min(x.min(), y.min()), max(x.max(), y.max())
    margin = 0.05 * (high - low) or 0.1
    limits = (low - margin, high + margin)
    axes.plot(limits, limits, color="#8a8f98", linestyle="--", linewidth=1.2, label="equal")
    axes.scatter(x, y, color=PALETTE[0], s=26, label="one mixture")
    axes.set(xlim=limits, ylim=limits, xlabel=f"sharp: {label}", ylabel=f"flat: {label}")
    axes.set_aspect("equal")
