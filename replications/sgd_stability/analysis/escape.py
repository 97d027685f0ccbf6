"""How fast SGD leaves the minimum, and where it ends: a row a run, and figures."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import (
    IN_REGIME,
    MARKERS,
    OUTSIDE_REGIME,
    PALETTE,
    log_axis,
    mark_seed,
    mean_bands,
    note,
    points,
    reference_line,
    subplots,
)

START = 2e-8
"""The loss from which trajectories start is at most this: gradient descent has nearly converged."""
STRICT = 0.9
"""λ₁ over 2/η at the start is below this: the minimum is stable for gradient descent with a tenth to spare."""
SOON = 20
"""Steps within which the escape of SGD with B = 1 is looked for."""
LINEAR = 1e-3
"""Exponents are fitted up to this loss, a thousandth of that of f = 0: beyond it the model is not linear."""


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    Columns: curvature at gradient descent's minimum (`sharpness`, `non_uniformity`, `hessian_norm`) and its conditions
    of stability, each above 1 where it is violated: `sharpness_ratio`, `non_uniformity_ratio`, `criterion`,
    `decoupled_ratio`, `radius` (the exact one: the largest eigenvalue of the second moment's step); `mu0`, the smallest
    μ on the trajectories of the linearised model; `log_gamma0`, log of γ₀ = η² c μ₀ ‖H‖²_F, c = (n − B)/(B(n − 1)),
    missing for B = n; `theorem_margin`, the smallest one-step ratio E[L_{t+1} | θ_t]/L_t less γ₀.

    Of the trajectories, a diverged one being infinite from there on: `rise`, log₁₀ of the median loss after all steps
    over that at the start, `linear_rise` of the linearised model; `rise_in_twenty`, as `rise` after 20 steps;
    `tenfold_time`, the steps after which the median first is ten times that at the start, interpolated in its
    logarithm; `log_time_ratio`, log of the steps that the second hundredfold takes over those of the first; all
    missing where the median is not finite. `exponent`, growth of the log of the mean loss a step, fitted from ten times
    the loss at the start up to 1e-3; `linear_exponent` of the linearised mean and `expected_exponent` of its exact
    expectation in the same steps; `typical_exponent`, as `exponent` of the median; missing where there are fewer than
    three such steps. `exponent_ratio`, exponent over log of `radius`, `typical_to_predicted` the same of the median,
    `typical_ratio` over that of the linearised median in the same steps; `exponent_over_bound`, exponent less
    `log_gamma0`. `diverged_share` of the trajectories, `any_diverged` (0/1).

    Of the one network that goes on: `settled` (0/1), its loss came (back) to 1e-5 within the steps it has; `lost`
    (0/1), it diverged; `halved` (0/1), it settled with less than half the λ₁ of the start; `sharpness_after` over that
    before, whether it settled or not, `accuracy_after`, both missing where it is lost; `peak_loss`, the highest that
    was measured; `steps_taken`. `regime_reached`: the start has a loss of at most 2e-8 and λ₁ below 0.9 · 2/η.
    """
    rows = [{"run": run, **_measures(part)} for run, part in records.groupby("run", sort=False)]
    return pd.DataFrame(rows).set_index("run")


def _measures(part: pd.DataFrame) -> dict[str, float | bool]:
    minimum = part[part["kind"] == "minimum"].iloc[0]
    averages, losses = part[part["kind"] == "averages"], part[part["kind"] == "losses"].sort_values("step")
    after, course = part[part["kind"] == "afterwards"].iloc[0], part[part["kind"] == "course"]
    rate, size = float(minimum["learning_rate"]), float(minimum["batch_size"])
    scale = float(minimum["noise_scale"])
    mu0 = float(averages["smallest_mu"].min())
    gamma0 = rate**2 * scale * mu0 * float(minimum["hessian_norm"]) ** 2
    log_gamma0 = float(np.log(gamma0)) if gamma0 > 0 else np.nan
    first, second = _time_to(losses, 1e2), _time_to(losses, 1e4)
    settled, lost = bool(after["settled"]), bool(after["lost"])
    sharper = float(minimum["sharpness"]) * rate / 2
    change = np.nan if lost else float(after["sharpness_now"] / minimum["sharpness"])
    grows, typical = _growing(losses, "mean"), _growing(losses, "median")
    exponent = _exponent(grows, "mean")
    diverged = int(losses["trajectories_diverged"].iloc[-1])
    return {
        **{
            name: float(minimum[name])
            for name in ("sharpness", "non_uniformity", "hessian_norm", "criterion", "radius")
        },
        "sharpness_ratio": sharper,
        "non_uniformity_ratio": float(minimum["non_uniformity"]) * rate * float(np.sqrt(scale)),
        "decoupled_ratio": float(minimum["decoupled_sum"]) / size,
        "mu0": mu0,
        "log_gamma0": log_gamma0,
        "theorem_margin": float(averages["smallest_ratio"].min()) - gamma0,
        "rise": _rise(losses["median"]),
        "rise_in_twenty": _rise(losses.loc[losses["step"] <= SOON, "median"]),
        "linear_rise": _rise(losses["linear_median"]),
        "tenfold_time": _time_to(losses, 10.0),
        "log_time_ratio": float(np.log((second - first) / first)),
        "exponent": exponent,
        "linear_exponent": _exponent(grows, "linear_mean"),
        "expected_exponent": _exponent(grows, "expected"),
        "typical_exponent": _exponent(typical, "median"),
        "typical_ratio": _exponent(typical, "median") / _exponent(typical, "linear_median"),
        "typical_to_predicted": _exponent(typical, "median") / float(np.log(minimum["radius"])),
        "exponent_ratio": exponent / float(np.log(minimum["radius"])),
        "exponent_over_bound": exponent - log_gamma0,
        "diverged_share": diverged / float(minimum["trajectories"]),
        "any_diverged": float(diverged > 0),
        "settled": float(settled),
        "lost": float(lost),
        "halved": float(settled and change < 0.5),
        "sharpness_after": change,
        "accuracy_after": float("nan") if lost else float(after["test_accuracy"]),
        "peak_loss": float(course["loss"].max()),
        "steps_taken": float(after["step"]),
        "regime_reached": bool(losses["mean"].iloc[0] <= START and sharper < STRICT),
    }


def _growing(losses: pd.DataFrame, name: str) -> pd.DataFrame:
    """The steps from which a loss is ten times that at the start until it first is above `LINEAR` or infinite."""
    values = losses[name].to_numpy(float)
    beyond = np.flatnonzero(~(values <= LINEAR))
    end = beyond[0] if len(beyond) else len(values)
    begun = np.flatnonzero(values[:end] >= 10 * values[0])
    return losses.iloc[begun[0] : end] if len(begun) else losses.iloc[:0]


def _exponent(losses: pd.DataFrame, name: str) -> float:
    """Slope of the log of a loss over the steps, by least squares; missing below three points."""
    if len(losses) < 3:
        return float("nan")
    return float(np.polyfit(losses["step"].to_numpy(float), np.log(losses[name].to_numpy(float)), 1)[0])


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
    """`fig19`, `exponents`, `conditions`, `fig11` (courses) and `fig11_minima`."""
    axes = records.groupby("run", sort=False)[["learning_rate", "batch_size", "training_images", "seed"]].first()
    table = metrics(records).join(axes)
    figures = {
        "fig19": _paths(records, table),
        "exponents": _exponents(table),
        "conditions": _conditions(table),
        "fig11": _courses(records, table),
        "fig11_minima": _minima(table),
    }
    one = records.iloc[0]
    text = (
        f"digit parity with one output, {one['training_images']:.0f} images, "
        f"{one['hidden_layers']:.0f} × {one['width']:.0f} hidden units, η = {one['learning_rate']:g}: setting ours (D6)"
    )
    for figure in figures.values():
        note(figure, text, "deviation")
    return figures


def _name(size: int, images: int) -> str:
    return f"B = n = {images} (GD)" if size == images else f"B = {size}"


def _paths(records: pd.DataFrame, table: pd.DataFrame) -> Figure:
    """Fig. 19: single trajectories, their mean, its expectation in the linear model, γ₀ᵗ; a panel a B, one seed."""
    losses = records[(records["kind"] == "losses") & (records["seed"] == records["seed"].min())]
    sizes = [size for size in sorted(table["batch_size"].unique()) if size not in (2, 8, 16)]
    rows = -(-len(sizes) // 2)
    figure, panels = subplots(rows, 2, size=(8.4, 1.6 + 2.5 * rows), sharex=True, sharey=True, squeeze=False)
    for axes, size in zip(panels.flat, sizes, strict=False):
        part = losses[losses["batch_size"] == size].sort_values("step")
        of_size = table[table["batch_size"] == size].sort_values("seed")
        for name in [name for name in part if str(name).startswith("path")]:
            axes.plot(part["step"], part[name], color=PALETTE[0], linewidth=0.6, alpha=0.35, rasterized=True)
        axes.plot(
            part["step"], part["mean"], color=PALETTE[1], label="mean of all trajectories (ends where one diverges)"
        )
        axes.plot(part["step"], part["expected"], color=PALETTE[2], linestyle=":", label="its expectation, linearised")
        gamma = float(np.exp(of_size["log_gamma0"].iloc[0]))
        if np.isfinite(gamma):
            bound = part["mean"].iloc[0] * gamma ** part["step"]
            axes.plot(part["step"], bound, color="grey", linestyle=(0, (4, 3)), label="L₀ γ₀ᵗ (Theorem 4)")
        lost = f"{part['trajectories_diverged'].iloc[-1]:.0f} of {_count(part, size)} diverged"
        name = _name(int(size), int(part["training_images"].iloc[0]))
        axes.set_title(f"{name}: ρ = {of_size['radius'].iloc[0]:.3f}, {lost}", fontsize=9.5)
        axes.set_ylim(1e-10, 1e3)
        log_axis(axes, "y")
    for axes in panels.flat[len(sizes) :]:
        axes.set_axis_off()
    for axes in panels[:, 0]:
        axes.set_ylabel("training loss")
    for axes in panels[-1]:
        axes.set_xlabel("steps of SGD")
    figure.legend(
        *panels[0, 0].get_legend_handles_labels(),
        loc="outside upper left",
        ncols=2,
        title="Fig. 19 · from a minimum at which gradient descent with this η stays",
    )
    return figure


def _count(part: pd.DataFrame, size: float) -> int:
    """Trajectories of a run: with all images in each batch they are one."""
    return 1 if size == part["training_images"].iloc[0] else int(part["trajectories"].iloc[0])


def _exponents(table: pd.DataFrame) -> Figure:
    """The growth of the loss a step, fitted and predicted, against B; and the share that diverges."""
    stochastic = table[table["batch_size"] < table["training_images"]]
    figure, (axes, beside) = subplots(1, 2, size=(9.0, 4.3))
    names = {"exponent": "mean of the trajectories", "typical_exponent": "their median"}
    for shift, (name, label), colour, marker in zip((0.95, 1.05), names.items(), PALETTE, MARKERS, strict=False):
        points(
            axes,
            stochastic.assign(place=stochastic["batch_size"] * shift, standing=_standing(stochastic)),
            "place",
            name,
            color=colour,
            label=label,
            marker=marker,
        )
    means = stochastic.assign(predicted=np.log(stochastic["radius"])).groupby("batch_size")[["predicted", "log_gamma0"]]
    for name, label, style in (
        ("predicted", "log ρ, exact second moment", "-"),
        ("log_gamma0", "log γ₀, Theorem 4", ":"),
    ):
        axes.plot(means.mean().index, means.mean()[name], style, color="grey", label=label)
    reference_line(axes, y=0.0, label="stays below")
    axes.set(xlabel="batch size B (images)", ylabel="growth of log loss a step")
    points(
        beside,
        stochastic.assign(standing=_standing(stochastic)),
        "batch_size",
        "diverged_share",
        color=PALETTE[3],
        label="a seed",
        marker=MARKERS[0],
    )
    beside.set(xlabel="batch size B (images)", ylabel="share of trajectories that diverge", ylim=(-0.003, None))
    for panel in (axes, beside):
        log_axis(panel, "x", ticks=sorted(stochastic["batch_size"].unique()))
    figure.legend(
        *axes.get_legend_handles_labels(),
        loc="outside upper left",
        ncols=3,
        title="Exponents of the escape, every seed",
    )
    return figure


def _standing(table: pd.DataFrame) -> "pd.Series[str]":
    return table["regime_reached"].map({True: IN_REGIME, False: OUTSIDE_REGIME})


def _conditions(table: pd.DataFrame) -> Figure:
    """Conditions of stability at the minimum against what the loss does: means over seeds and their intervals."""
    names = {
        "sharpness_ratio": "sharpness a / (2/η)",
        "non_uniformity_ratio": "non-uniformity s / its bound",
        "criterion": "full criterion",
        "decoupled_ratio": "Σ ηλ/(2 − ηλ) / B, for Σ = 2LG",
        "radius": "growth of the mean square, exact",
        "gamma0": "γ₀ of Theorem 4",
    }
    part = table[table["batch_size"] < table["training_images"]]
    figure, axes = subplots(1, 1, size=(6.6, 5.0))
    part = part.assign(gamma0=np.exp(part["log_gamma0"])).drop(columns="standing", errors="ignore")
    mean_bands(axes, part, "batch_size", names, markers=True)
    reference_line(axes, y=1.0, label="unstable above, or may be")
    log_axis(axes, "x", ticks=sorted(part["batch_size"].unique()))
    log_axis(axes, "y")
    axes.set(xlabel="batch size B (images)", ylabel="measured / bound")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return figure


def _courses(records: pd.DataFrame, table: pd.DataFrame) -> Figure:
    """Fig. 11: loss, λ₁ and accuracy after the switch, every seed; a column a B."""
    course = records[records["kind"] == "course"]
    sizes = [size for size in sorted(table["batch_size"].unique()) if size not in (2, 8, 16, 32)]
    rows = {"loss": "training loss", "sharpness_now": "sharpness λ₁", "test_accuracy": "test accuracy"}
    figure, panels = subplots(
        3, len(sizes), size=(1.2 + 2.9 * len(sizes), 7.2), sharex=True, sharey="row", squeeze=False
    )
    rate = float(records["learning_rate"].iloc[0])
    for column, size in enumerate(sizes):
        part = course[course["batch_size"] == size]
        settled = table[table["batch_size"] == size].set_index("seed")["settled"]
        for seed, of_seed in part.groupby("seed"):
            style = "-" if settled[seed] else ":"
            for axes, name in zip(panels[:, column], rows, strict=True):
                line = axes.plot(of_seed["step"], of_seed[name], style, color=PALETTE[0], linewidth=1.0, alpha=0.7)
                mark_seed(line, seed)
        images = int(part["training_images"].iloc[0])
        share = f"{settled.sum():.0f} of {len(settled)} at 1e-5 again"
        panels[0, column].set_title(_name(int(size), images) + (f"\n{share}" if size < images else ""), fontsize=9.5)
        reference_line(panels[1, column], y=2 / rate, label="2/η")
        panels[2, column].set_xlabel("steps after the switch")
        panels[0, column].set_xscale("symlog", linthresh=1)
    log_axis(panels[0, 0], "y")
    panels[1, 0].set_ylim(0, 5 / rate)  # what diverges leaves the panel
    for axes, label in zip(panels[:, 0], rows.values(), strict=True):
        axes.set_ylabel(label)
    figure.legend(
        *panels[1, 0].get_legend_handles_labels(),
        loc="outside upper left",
        title="Fig. 11 · gradient descent's minimum under SGD with the same η (dotted: found no other)",
    )
    return figure


def _minima(table: pd.DataFrame) -> Figure:
    """λ₁ of gradient descent's minimum and of the one that SGD finds from there, every seed."""
    table = table.assign(now=table["sharpness"] * table["sharpness_after"].where(table["settled"] > 0))
    rate = float(table["learning_rate"].iloc[0])
    figure, axes = subplots(1, 1, size=(6.0, 4.2))
    standing = table["settled"].map({1.0: IN_REGIME, 0.0: OUTSIDE_REGIME})
    points(
        axes,
        table.assign(place=table["batch_size"] / 1.08, standing=standing),
        "place",
        "sharpness",
        color=PALETTE[1],
        label="before: minimum of GD (hollow: no other one found)",
        marker="s",
    )
    axes.plot(table["batch_size"] * 1.08, table["now"], "o", color=PALETTE[0], label="after SGD")
    reference_line(axes, y=2 / rate, label="2/η")
    log_axis(axes, "x", ticks=sorted(table["batch_size"].unique()))
    axes.set(xlabel="batch size B (images; the largest is gradient descent)", ylim=(0, None), ylabel="sharpness λ₁")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", title="Sharpness before and after")
    return figure
