"""Table 1: from the records of the weight-decay sweep of the perceptron to one row a run, and figures."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import stdtrit

from common.figures import colours, note, reference_line, subplots

from ..shared.published import MLP_TEST_ACCURACY, TABLES
from .shared.labels import HOLLOW, MNIST_IMAGES, gamma_text
from .shared.measure import DAMPINGS, READINGS, equations, gaps_and_curvature, spectral_sums
from .shared.spectral_density import draw_densities

FITTED_ERROR = 0.15
NORM_ERROR = 0.2
PAPER_EPOCHS = 50
PANELS = {
    "loss_gap": "ΔL, test − training loss (nats)",
    "error_gap": "ΔE, training − test accuracy (%)",
    "test_accuracy": "test accuracy (%)",
    "sharpness": "λ₁",
    "trace_mean": "Tr H / P",
    "trace_squared_mean": "Tr H² / P",
}
COLUMNS = {
    "loss_gap": "loss_gap",
    "error_gap": "error_gap",
    "sharpness": "sharpness",
    "trace_mean": "trace",
    "trace_squared_mean": "trace_squared",
}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    `log10_…_per_nat` is of the curvature over the training loss, with which it falls near a fit. `…_published` are
    distances |ours/published − 1| from Table 1 at the run's decay, infinite where it has no line.
    """
    final = records[records["kind"] == "final"].set_index("run")
    sums = spectral_sums(records)
    size = final["parameters"]
    table = pd.DataFrame(
        {
            **gaps_and_curvature(final),
            "trace_moments_mean": sums["trace_moments"] / size,
            "trace_squared_moments_mean": sums["trace_squared_moments"] / size,
            "log10_training_loss": np.log10(final["training_loss"]),
            "log10_sharpness_per_nat": np.log10(final["sharpness"] / final["training_loss"]),
            "log10_trace_per_nat": np.log10(final["trace"] / final["training_loss"]),
            "negative_share": sums["negative_share"],
            "log_determinant_error": sums["log_determinant_d3_error"],
            **equations(final, sums),
        }
    )
    for name, column in _PUBLISHED.items():
        table[f"{name}_published"] = (table[name] / final["weight_decay"].map(_column(column)) - 1).abs().fillna(np.inf)
    table["regime_reached"] = (
        (final["training_error"] < FITTED_ERROR)
        & final["sharpness_converged"].astype(bool)
        & (table["trace_squared_error"] < NORM_ERROR)
    )
    return table


_PUBLISHED = {
    **dict.fromkeys(READINGS, "measure"),
    "sharpness": "sharpness",
    "trace_mean": "trace",
    "trace_squared_mean": "trace_squared",
}


def _column(name: str) -> dict[float, float]:
    """A column of Table 1 by weight decay."""
    return {row.weight_decay: getattr(row, name) for row in TABLES["mlp"].rows}


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Table 1, the readings of a, equations 6 and 9, and the spectra at the ends of the sweep."""
    axes = records.groupby("run", sort=False)[["weight_decay", "seed"]].first()
    table = metrics(records).join(axes)
    drawn = {
        "table1": _table(table),
        "table1_measure": _readings(table),
        "equations_6_9": _equations(table),
        "fig1_perceptron": _spectra(records),
    }
    first = records.iloc[0]
    if first["training_images"] < MNIST_IMAGES or first["epochs"] != PAPER_EPOCHS:
        text = f"{first['training_images']:,} of {MNIST_IMAGES:,} images, {first['epochs']} epochs (D1)"
        for figure in drawn.values():
            note(figure, text, "reduced")
    return drawn


def _half_width(values: pd.Series) -> float:
    """Of the 95 % interval of a mean; 0 of a single value."""
    count = len(values)
    return float(stdtrit(count - 1, 0.975) * values.std() / np.sqrt(count)) if count > 1 else 0.0


def points(
    axes: Axes,
    table: pd.DataFrame,
    metric: str,
    *,
    shift: float = 0.0,
    label: str = "",
    colour: str | None = None,
    marker: str = "o",
) -> None:
    """Mean over seeds with its 95 % interval at each weight decay, spaced evenly; single seeds pale."""
    values = sorted(table["weight_decay"].unique())
    groups = [table.loc[table["weight_decay"] == value, metric].astype(float) for value in values]
    places, means = np.arange(len(values)) + shift, [group.mean() for group in groups]
    half = [_half_width(group) for group in groups]
    line = axes.errorbar(places, means, half, marker=marker, capsize=3, color=colour, label=label or "_ours")
    for place, group in zip(places, groups, strict=True):
        axes.scatter(
            np.full(len(group), place + 0.06), group, s=9, color=line[0].get_color(), alpha=0.45, label="_seed"
        )
    axes.set_xticks(range(len(values)), [gamma_text(value) for value in values])


def _table(table: pd.DataFrame) -> Figure:
    figure, panels = subplots(3, 2, size=(7.0, 8.2))
    shade = colours(["ours", "published"])
    values = sorted(table["weight_decay"].unique())
    published = {row.weight_decay: row for row in TABLES["mlp"].rows}
    for axes, (metric, label) in zip(panels.flat, PANELS.items(), strict=True):
        points(axes, table, metric, label="ours, mean and 95 %")
        known = [place for place, value in enumerate(values) if value in published]
        if metric == "test_accuracy":
            shown = [MLP_TEST_ACCURACY[list(published).index(values[place])] for place in known]
        else:
            shown = [getattr(published[values[place]], COLUMNS[metric]) for place in known]
        axes.plot(known, shown, color=shade["published"], label="published, one run", **HOLLOW)
        axes.set_title(label)
    for axes in panels[-1]:
        axes.set_xlabel("weight decay γ")
    figure.legend(
        *panels[0, 0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=2,
        title="Table 1 · perceptron on MNIST",
    )
    return figure


def _relative(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The metric over its value without decay at the same seed."""
    plain = table[table["weight_decay"] == 0].set_index("seed")[metric]
    return table.assign(**{metric: table[metric] / table["seed"].map(plain)})


def _readings(table: pd.DataFrame) -> Figure:
    figure, axes = subplots(size=(6.2, 5.0))
    shade = colours([*READINGS, "published", "gap"])
    for number, (metric, label) in enumerate(READINGS.items()):
        own, marker = _relative(table, metric), "os^v"[number]
        points(axes, own, metric, shift=0.09 * (number - 1.5), label=label, colour=shade[metric], marker=marker)
    values = sorted(table["weight_decay"].unique())
    rows = {row.weight_decay: row.measure for row in TABLES["mlp"].rows}
    if all(value in rows for value in values):
        relative = [rows[value] / rows[0.0] for value in values]
        axes.plot(relative, color=shade["published"], label="published a", **HOLLOW)
    points(axes, _relative(table, "loss_gap"), "loss_gap", shift=0.27, label="ΔL", colour=shade["gap"], marker="P")
    axes.set(xlabel="weight decay γ", ylabel="value / value at γ = 0", title="Which reading of a falls with γ?")
    figure.legend(loc="outside upper center", ncols=3)
    return figure


def _equations(table: pd.DataFrame) -> Figure:
    """Change against no decay at the same seed, at the largest decay, over the damping."""
    figure, panels = subplots(2, 1, size=(6.2, 6.6), sharex=True)
    strongest = table["weight_decay"].max()
    plain = table[table["weight_decay"] == 0].set_index("seed")
    largest = table[table["weight_decay"] == strongest].set_index("seed")
    shade = colours(["printed", "corrected", "laplace"])
    for axes, number in zip(panels, ("6", "9"), strict=True):
        for form, marker in (("printed", "o"), ("corrected", "s")):
            names = [f"equation{number}_{form}_{damping}" for damping in DAMPINGS]
            change = (largest[names] - plain[names]).reindex(plain.index)
            half = change.apply(_half_width)
            style = {"color": shade[form], "marker": marker, "capsize": 3, "label": form}
            axes.errorbar(list(DAMPINGS.values()), change.mean(), half, **style)
        _level(axes, largest[f"equation{number}_laplace"] - plain[f"equation{number}_laplace"], shade["laplace"])
        reference_line(axes, y=0.0, label="no change")
        axes.set_yscale("symlog", linthresh=1e-2 if number == "9" else 1.0)
        axes.set_ylabel(f"change of ({number}) (nats)")
        axes.set_title(f"Equation {number}, γ = {gamma_text(strongest)} minus γ = 0")
    panels[1].set_xscale("log")
    panels[1].set_xlabel("damping δ of log|H₊ + δ I|")
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=2,
        title="a fall predicts a smaller gap; 95 %",
    )
    return figure


def _level(axes: Axes, change: pd.Series, colour: str) -> None:
    """A reading without damping: its mean over seeds and the 95 % interval as a band."""
    half = _half_width(change)
    axes.axhline(change.mean(), color=colour, linestyle="-.", label="precision N H₊ + I")
    axes.axhspan(change.mean() - half, change.mean() + half, color=colour, alpha=0.15, linewidth=0, label="_band")


def _spectra(records: pd.DataFrame) -> Figure:
    """Spectral densities of one seed at the ends of the sweep, smoothed."""
    figure, axes = subplots(size=(6.2, 4.2))
    draw_densities(axes, records, 1e-6)
    axes.set_title("Spectra of the perceptron, one seed")
    return figure
