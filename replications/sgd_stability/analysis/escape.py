"""How fast SGD leaves the minimum, and where it ends: a row a run, and figures."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import IN_REGIME, MARKERS, OUTSIDE_REGIME, PALETTE, log_axis, note, points, reference_line, subplots

FOUND = 1e-4
"""SGD has found a minimum again if its loss is at most this."""
START = 2e-6
"""The loss from which trajectories start is at most this: gradient descent has nearly converged."""
SOON = 20
"""Steps within which the escape of SGD with B = 1 is looked for: short enough that no median loss is lost by then."""
LOST = 1e12
"""A recorded loss of this size stands for one that was not finite, or beyond."""
LOSSES = ["mean", "median", "linear_mean", "linear_median"]


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    Columns: curvature at gradient descent's minimum (`sharpness`, `non_uniformity`, `hessian_norm`) and its conditions
    of stability, each above 1 where it is violated: `sharpness_ratio`, `non_uniformity_ratio`, `criterion`,
    `decoupled_ratio`, `radius` (the exact one); `mu0`, the smallest μ on the trajectories of the linearised model;
    `log_gamma0`, log of γ₀ = η² c μ₀ ‖H‖²_F, c = (n − B)/(B(n − 1)); `theorem_ratio`, the smallest one-step ratio
    E[L_{t+1} | θ_t]/L_t over γ₀; `rise`, log₁₀ of the median loss of the networks after all steps over that at the
    start, `linear_rise` the same of the linearised model, both missing where the median is not finite by then; `lost`
    (0/1): that of the networks is not; `rise_in_twenty`, as `rise` after 20 steps; `tenfold_time`, the steps after
    which the median first is ten times that at the start, interpolated in its logarithm; `log_time_ratio`, log of the
    steps that the second hundredfold takes over those of the first; `log_sharpness_change`, log of λ₁ after SGD has
    found a minimum (at most 1e-4) over that before; `accuracy_after` there; `settled` (0/1): it has found one; `halved`
    (0/1): one with less than half the λ₁ of that before; `regime_reached`: it started from a loss of at most 2·10⁻⁶.
    """
    rows = [{"run": run, **_measures(part)} for run, part in records.groupby("run", sort=False)]
    return pd.DataFrame(rows).set_index("run")


def _measures(part: pd.DataFrame) -> dict[str, float | bool]:
    minimum = part[part["kind"] == "minimum"].iloc[0]
    averages, losses = part[part["kind"] == "averages"], _finite(part[part["kind"] == "losses"].sort_values("step"))
    after = part[part["kind"] == "afterwards"].iloc[0]
    rate, size, n = (float(minimum[name]) for name in ("learning_rate", "batch_size", "training_images"))
    scale = float(minimum["noise_scale"])
    mu0 = float(averages["smallest_mu"].min())
    gamma0 = rate**2 * scale * mu0 * float(minimum["hessian_norm"]) ** 2
    settled = not after["diverged"] and float(after["loss"]) <= FOUND
    change = float(np.log(after["sharpness_after"] / minimum["sharpness"])) if settled else np.nan
    first, second = _time_to(losses, 1e2), _time_to(losses, 1e4)
    return {
        **{
            name: float(minimum[name])
            for name in ("sharpness", "non_uniformity", "hessian_norm", "criterion", "radius")
        },
        "sharpness_ratio": float(minimum["sharpness"]) * rate / 2,
        "non_uniformity_ratio": float(minimum["non_uniformity"]) * rate * float(np.sqrt(scale)),
        "decoupled_ratio": float(minimum["decoupled_sum"]) / size if n else np.nan,
        "mu0": mu0,
        "log_gamma0": float(np.log(gamma0)),
        "theorem_ratio": float(averages["smallest_ratio"].min() / gamma0),
        "rise": _rise(losses["median"]),
        "rise_in_twenty": _rise(losses.loc[losses["step"] <= SOON, "median"]),
        "linear_rise": _rise(losses["linear_median"]),
        "lost": float(np.isnan(losses["median"].iloc[-1])),
        "tenfold_time": _time_to(losses, 10.0),
        "log_time_ratio": float(np.log((second - first) / first)),
        "log_sharpness_change": change,
        "settled": float(settled),
        "halved": float(change < -np.log(2)),
        "accuracy_after": float(after["test_accuracy"]) if settled else np.nan,
        "steps_taken": float(after["steps_taken"]) if settled else np.nan,
        "regime_reached": bool(losses["mean"].iloc[0] <= START),
    }


def _finite(losses: pd.DataFrame) -> pd.DataFrame:
    """Losses that are not finite have no value."""
    paths = [name for name in losses if str(name).startswith("path")]
    return losses.assign(**{str(name): losses[name].where(losses[name] < LOST) for name in [*LOSSES, *paths]})


def _rise(losses: "pd.Series[float]") -> float:
    """log₁₀ of the last over the first, missing where either is."""
    return float(np.log10(losses.iloc[-1] / losses.iloc[0]))


def _time_to(losses: pd.DataFrame, factor: float) -> float:
    """Steps after which the median first is so many times that at the start, interpolated in its logarithm.

    Missing where it never is, and where it is only by a loss that is not finite.
    """
    steps, decades = losses["step"].to_numpy(float), np.log10(losses["median"] / losses["median"].iloc[0]).to_numpy()
    beyond = np.flatnonzero(~(decades < np.log10(factor)))
    if not len(beyond) or np.isnan(decades[beyond[0]]):
        return float("nan")
    place = beyond[0]
    return float(np.interp(np.log10(factor), decades[place - 1 : place + 1], steps[place - 1 : place + 1]))


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`fig19`, `conditions` and `fig11`."""
    axes = records.groupby("run", sort=False)[["learning_rate", "batch_size", "seed"]].first()
    table = metrics(records).join(axes)
    figures = {"fig19": _paths(records, table), "conditions": _conditions(table), "fig11": _afterwards(records, table)}
    one = records.iloc[0]
    text = (
        f"digit parity with one output, {one['training_images']:.0f} images, "
        f"{one['hidden_layers']:.0f} × {one['width']:.0f} hidden units: setting ours (D6)"
    )
    for figure in figures.values():
        note(figure, text, "deviation")
    return figures


def _paths(records: pd.DataFrame, table: pd.DataFrame) -> Figure:
    """Fig. 19: single trajectories, their mean and median, γ₀ᵗ; a panel a setting, one seed."""
    losses = _finite(records[(records["kind"] == "losses") & (records["seed"] == records["seed"].min())])
    rates, sizes = sorted(table["learning_rate"].unique(), reverse=True), sorted(table["batch_size"].unique())
    sizes = [size for size in sizes if size in (1, 4, 16, 64)]
    figure, panels = subplots(
        len(sizes),
        len(rates),
        size=(1.2 + 3.6 * len(rates), 1.4 + 2.0 * len(sizes)),
        sharex=True,
        sharey=True,
        squeeze=False,
    )
    for row, size in enumerate(sizes):
        for column, rate in enumerate(rates):
            axes = panels[row, column]
            part = losses[(losses["learning_rate"] == rate) & (losses["batch_size"] == size)].sort_values("step")
            for name in [name for name in part if str(name).startswith("path")]:
                axes.plot(part["step"], part[name], color=PALETTE[0], linewidth=0.6, alpha=0.35, rasterized=True)
            axes.plot(part["step"], part["mean"], color=PALETTE[1], label="mean of 200")
            axes.plot(part["step"], part["linear_mean"], color=PALETTE[1], linestyle=":", label="mean, linearised")
            of_seed = table[(table["learning_rate"] == rate) & (table["batch_size"] == size)]
            if of_seed.empty or part.empty:
                axes.set_axis_off()
                continue
            gamma = float(np.exp(of_seed.sort_values("seed")["log_gamma0"].iloc[0]))
            bound = part["mean"].iloc[0] * gamma ** part["step"]
            axes.plot(part["step"], bound, color="grey", linestyle=(0, (4, 3)), label="L₀ γ₀ᵗ (Theorem 4)")
            radius = of_seed["radius"].mean()
            axes.set_title(f"η = {rate:g}, B = {size}: γ₀ = {gamma:.2g}, ρ = {radius:.3f}", fontsize=9.5)
            axes.set_ylim(1e-8, 1e2)
            log_axis(axes, "y")
        panels[row, 0].set_ylabel("training loss")
    for axes in panels[-1]:
        axes.set_xlabel("steps of SGD")
    figure.legend(
        *panels[0, 0].get_legend_handles_labels(),
        loc="outside upper left",
        ncols=3,
        title="Fig. 19 · from gradient descent's minimum (η = 0.1)",
    )
    return figure


def _conditions(table: pd.DataFrame) -> Figure:
    """Conditions of stability at the minimum against what the loss does."""
    names = {
        "sharpness_ratio": "a over 2/η",
        "non_uniformity_ratio": "s over its bound",
        "criterion": "full criterion",
        "decoupled_ratio": "Σ ηλ/(2 − ηλ) over B",
        "radius": "exact: growth of the mean square",
    }
    rates = sorted(table["learning_rate"].unique(), reverse=True)
    figure, panels = subplots(1, len(rates), size=(1.0 + 3.8 * len(rates), 4.6), sharey=True, squeeze=False)
    for axes, rate in zip(panels[0], rates, strict=True):
        part = table[table["learning_rate"] == rate]
        means = part.groupby("batch_size")[[*names, "log_gamma0"]].mean()
        for (name, label), colour, marker in zip(names.items(), PALETTE, MARKERS, strict=False):
            axes.plot(means.index, means[name], marker=marker, color=colour, label=label)
        axes.plot(means.index, np.exp(means["log_gamma0"]), marker="P", color=PALETTE[5], label="γ₀ of Theorem 4")
        reference_line(axes, y=1.0, label="unstable above")
        log_axis(axes, "x", ticks=sorted(table["batch_size"].unique()))
        log_axis(axes, "y")
        axes.set(title=f"η = {rate:g}", xlabel="batch size B (images)")
    panels[0, 0].set_ylabel("measured / bound")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return figure


def _afterwards(records: pd.DataFrame, table: pd.DataFrame) -> Figure:
    """Fig. 11: λ₁ of gradient descent's minimum and of the one that SGD finds from there, every seed."""
    after = records[(records["kind"] == "afterwards") & (records["loss"] <= FOUND)].set_index("run")["sharpness_after"]
    table = table.join(after)
    rates = sorted(table["learning_rate"].unique(), reverse=True)
    figure, panels = subplots(1, len(rates), size=(1.0 + 3.4 * len(rates), 3.9), sharey=True, squeeze=False)
    for axes, rate in zip(panels[0], rates, strict=True):
        every = table[table["learning_rate"] == rate]
        part = every.dropna(subset="sharpness_after")
        before = every.assign(standing=every["sharpness_after"].isna().map({False: IN_REGIME, True: OUTSIDE_REGIME}))
        points(
            axes,
            before.assign(place=before["batch_size"] / 1.08),
            "place",
            "sharpness",
            color=PALETTE[1],
            label="before: minimum of GD (hollow: no other one found)",
            marker="s",
        )
        axes.plot(part["batch_size"] * 1.08, part["sharpness_after"], "o", color=PALETTE[0], label="after SGD")
        reference_line(axes, y=2 / rate, label="2/η")
        log_axis(axes, "x", ticks=sorted(table["batch_size"].unique()))
        axes.set(title=f"η = {rate:g}", xlabel="batch size B (images)", ylim=(0, None))
    panels[0, 0].set_ylabel("sharpness λ₁")
    figure.legend(
        *panels[0, 0].get_legend_handles_labels(),
        loc="outside upper left",
        ncols=3,
        title="Fig. 11 · sharpness before and after the escape",
    )
    return figure
