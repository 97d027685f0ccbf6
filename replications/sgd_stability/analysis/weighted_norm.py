"""From curvature over weighted norms to one row a run, and figures."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import PALETTE, colours, log_axis, mean_band, note, reference_line, subplots

ENOUGH = 4.0
DELTA = 0.05
"""δ of N(d, δ), the number of examples that Theorem 2 asks for."""
MEASURES = {
    "trace": r"Tr G / $\|\theta\|^2_{2,d}$",
    "frobenius": r"$\|G\|_F$ / $\|\theta\|^2_{2,\sqrt{d}}$",
    "spectral": r"$\|G\|_2$ / $\|\theta\|^2_{2,1}$",
}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    `<measure>_smallest` and `_largest` are over θ, rescalings and n ≥ 4d (`spectral`: n ≥ d²), `<measure>_log_ratio` is
    the mean of the logarithm there. At n ≥ N(d, δ) (`spectral`: n ≥ d N(d, δ)) `<measure>_log_ratio_in_premise` is
    that mean, `<measure>_least` and `_most` are over θ, rescalings and the neurons of least and most curvature that a
    search finds. `unpaired_log_ratio` has ‖G‖_F over the norm that belongs to the trace. `worst_neuron_…` is the least
    ratio of a searched neuron at n = d and n = 4d.
    `path_slack` is the least relative slack of the path-norm inequality, `path_slack_balanced` the largest in size
    after balancing. `rooted_growth` is by how much Tr G over the norm with the square root grows when θ is ten times as
    large.
    """
    table = pd.DataFrame(index=pd.Index(records["run"].unique(), name="run"))
    curvature = records[records["part"] == "curvature"]
    enough = curvature[curvature["per_dimension"] >= ENOUGH]
    many = curvature[curvature["per_dimension"] >= curvature["dimension"]]
    for measure in MEASURES:
        part = (many if measure == "spectral" else enough).groupby("run")[f"{measure}_ratio"]
        table[f"{measure}_smallest"], table[f"{measure}_largest"] = part.min(), part.max()
        table[f"{measure}_log_ratio"] = part.agg(lambda values: float(np.log(values).mean()))
    table["unpaired_log_ratio"] = enough.groupby("run")["unpaired_ratio"].agg(lambda v: float(np.log(v).mean()))
    growth = curvature["rooted_ratio_tenfold"] / curvature["rooted_ratio"]
    table["rooted_growth"] = growth.groupby(curvature["run"]).max()
    neuron = records[records["part"] == "worst_neuron"]
    for measure in MEASURES:
        found, searched = _in_premise(curvature, measure), _in_premise(neuron, measure)
        ratio, least = f"{measure}_ratio", "ratio" if measure == "trace" else "inner"
        part = found[ratio].groupby(level="run")
        table[f"{measure}_log_ratio_in_premise"] = part.agg(lambda values: float(np.log(values).mean()))
        table[f"{measure}_least"] = pd.concat([found[ratio], searched[least]]).groupby(level="run").min()
        table[f"{measure}_most"] = pd.concat([found[ratio], searched["inner_largest"]]).groupby(level="run").max()
    for factor, name in ((1, "at_d"), (4, "at_4d")):
        table[f"worst_neuron_{name}"] = neuron[neuron["per_dimension"] == factor].set_index("run")["ratio"]
    path = records[records["part"] == "path"]
    table["path_slack"] = path.groupby("run")["slack"].min()
    table["path_slack_balanced"] = path["balanced_slack"].abs().groupby(path["run"]).max()
    table["regime_reached"] = True
    return table


def _in_premise(rows: pd.DataFrame, measure: str) -> pd.DataFrame:
    """The rows, by run, with as many examples as Theorem 2 asks for: d log(n/δ) ≤ n, for ‖G‖₂ d times as many."""
    count = rows["examples"] / (rows["dimension"] if measure == "spectral" else 1)
    kept: pd.DataFrame = rows[rows["dimension"] * np.log(count / DELTA) <= count]
    return kept.set_index("run")


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Curvature over norms, and the worst neuron, both over n/d."""
    drawn = {"theorem2": _ratios(records), "theorem2_worst_neuron": _worst(records)}
    note(drawn["theorem2"], "kinds of θ of our choice (D22)", "deviation")
    return drawn


def _ratios(records: pd.DataFrame) -> Figure:
    curvature = records[records["part"] == "curvature"]
    figure, panels = subplots(1, 3, size=(8.4, 4.2), sharey=True)
    colour = colours(sorted(curvature["dimension"].unique()))
    for axes, (measure, title) in zip(panels, MEASURES.items(), strict=True):
        for dimension, part in curvature.groupby("dimension"):
            ratio = part.groupby("per_dimension")[f"{measure}_ratio"].agg(["min", "median", "max"])
            at = ratio.index.to_numpy(dtype=float)
            axes.plot(at, ratio["median"], marker="o", color=colour[dimension], label=f"d = {dimension}, median")
            for end, label in (("min", f"d = {dimension}, least and largest"), ("max", "_largest")):
                axes.plot(at, ratio[end], "--", color=colour[dimension], linewidth=1.0, marker="", label=label)
        log_axis(axes, "x")
        axes.set(xlabel="examples/dimension, n/d", title=title)
        reference_line(axes, x=ENOUGH, label="n = 4d")
    log_axis(panels[0], "y", ticks=[0.03, 0.1, 0.3, 1, 3])
    panels[0].set_ylim(bottom=0.02)
    panels[0].set_ylabel("curvature over norm")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=3)
    return figure


def _worst(records: pd.DataFrame) -> Figure:
    neuron = records[records["part"] == "worst_neuron"]
    figure, axes = subplots(size=(5.6, 4.2))
    mean_band(
        axes,
        neuron.assign(label="d = " + neuron["dimension"].astype(str)),
        "per_dimension",
        "ratio",
        group="label",
        markers=True,
    )
    reference_line(axes, y=0.5, label="n = ∞")
    axes.axvline(2, color=PALETTE[5], linestyle=":", linewidth=1.2, label="n = 2d")
    log_axis(axes, "x")
    axes.set(
        xlabel="examples per dimension, n/d",
        ylabel=r"least Tr G / $\|\theta\|^2_{2,d}$ found",
        title="The worst neuron",
    )
    figure.legend(loc="outside upper center", ncols=3)
    return figure
