"""From constructions and trainings on x₁x₂ to one row a run, and figures."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import PALETTE, abreast, log_axis, mean_band, note, reference_line, subplots

ARMS = {
    "gd": "GD",
    "gd_weight_decay": "GD with weight decay",
    "sgd": "SGD, batch 1",
    "sam": "SAM, batch 1",
}
CONSTRUCTIONS = {
    "printed": "memorise,\nprinted",
    "corrected": "memorise,\ncorrected",
    "generalising": "four units,\n(d + 1)^¼",
    "generalising_printed": "four units,\n(d² + 1)^¼",
}
FITTED = 0.05


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`; columns that belong to the other kind of run are NaN.

    Constructions: `<name>_error` is the largest error on the training points, `<name>_over_bound` the trace over the
    least one, `<name>_test_error`; `…_wide` at the larger d. Trainings: values at the end; `test_error_rise` is the
    last test error less the lowest on the way. Their regime is training error 0 and a loss below 0.05.
    """
    runs = pd.Index(records["run"].unique(), name="run")
    table = pd.DataFrame(index=runs)
    built = records[records["method"] == "constructions"]
    if len(built):
        for (name, place), part in built.groupby(["construction", "place"]):
            at, suffix = part.set_index("run"), "_wide" if place == "wide" else ""
            table[f"{name}_error{suffix}"] = at["largest_error"]
            table[f"{name}_over_bound{suffix}"] = at["trace"] / at["least_trace"]
            table[f"{name}_test_error{suffix}"] = at["test_error"]
            if name == "printed":
                table[f"printed_violations{suffix}"] = at["violations"].astype(float)
    trained = records[records["method"] != "constructions"]
    if len(trained):
        last = trained.sort_values("epoch").groupby("run").last()
        table["log_trace"], table["test_error"] = np.log(last["trace"]), last["test_error"]
        table["trace_over_bound"] = last["trace"] / last["least_trace"]
        table["test_loss"], table["loss"] = last["test_loss"], last["loss"]
        fitted = trained[trained["training_error"] == 0]
        table["test_error_rise"] = last["test_error"] - fitted.groupby("run")["test_error"].min()
        table["regime_reached"] = (last["training_error"] == 0) & (last["loss"] < FITTED)
    else:
        table["regime_reached"] = True
    table["regime_reached"] = table["regime_reached"].where(~runs.isin(built["run"]), True).astype(bool)
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Trace and test error along training; trace over the least one for the constructions."""
    drawn: dict[str, Figure] = {}
    trained = records[records["method"] != "constructions"]
    built = records[records["method"] == "constructions"]
    if len(trained):
        drawn |= training_curves(trained, ARMS)
    if len(built):
        drawn["theorem4"] = _built(built)
    return drawn


def training_curves(trained: pd.DataFrame, labels: dict[str, str]) -> dict[str, Figure]:
    """`fig8` (trace and test error) and `fig8_training_loss` along the trainings of the arms of `labels`."""
    rows = trained[
        trained["gradients"] >= trained.loc[(trained["epoch"] == 1) & (trained["method"] == "sam"), "gradients"].min()
    ]
    both, (left, right) = subplots(1, 2, size=(8.4, 4.4))
    alone, below = subplots(size=(5.6, 4.2))
    for axes, name, title in (
        (left, "trace", "(2/n) Σ‖∇f(xᵢ)‖², Tr H at interpolation"),
        (right, "test_error", "test error"),
        (below, "loss", "training loss (drawn from 1e-12)"),
    ):
        log = name != "test_error"
        shown = rows.assign(loss=rows["loss"].clip(lower=1e-12))
        mean_band(axes, shown, "gradients", name, group="arm", labels=labels, log=log)
        log_axis(axes, "x")
        axes.set(xlabel="gradients of examples", title=title)
    log_axis(left, "y", ticks=[10, 20, 30, 50, 100, 200])
    below.set_yscale("log")
    reference_line(left, y=float(trained["least_trace"].iloc[0]), label="least trace at interpolation")
    right.set_ylim(bottom=0)
    both.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    alone.legend(loc="outside upper center", ncols=2)
    width, epochs = int(trained["width"].iloc[0]), int(trained["epochs"].iloc[0])
    dimension, examples = int(trained["dimension"].iloc[0]), int(trained["examples"].iloc[0])
    if width < 500 or epochs < 200_000:
        fewer = " instead of 500" if width < 500 else ""
        text = f"d = {dimension}, n = {examples}, width {width}{fewer}, {epochs:,} epochs of SAM (D26)"
        for figure in (both, alone):
            note(figure, text, "reduced")
    return {"fig8": both, "fig8_training_loss": alone}


def _built(built: pd.DataFrame) -> Figure:
    figure, panels = subplots(1, 2, size=(8.4, 4.2), sharey=True)
    for axes, place in zip(panels, ("narrow", "wide"), strict=True):
        part = built[built["place"] == place]
        for position, (name, _) in enumerate(CONSTRUCTIONS.items()):
            at = part[part["construction"] == name]
            ratio, fits = at["trace"] / at["least_trace"], at["largest_error"] < 1e-9
            spread = abreast(len(at), 0.4)
            for chosen, colour, label in ((fits, PALETTE[0], "interpolates"), (~fits, PALETTE[1], "does not")):
                axes.plot(position + spread[chosen], ratio[chosen], "o", color=colour, label=label, markersize=6)
        dimension = int(part["dimension" if place == "narrow" else "wide_dimension"].iloc[0])
        axes.set_xticks(range(len(CONSTRUCTIONS)), list(CONSTRUCTIONS.values()), fontsize=8.5)
        axes.set_xlim(-0.6, len(CONSTRUCTIONS) - 0.4)
        axes.set_title(f"d = {dimension}, n = {int(part['examples'].iloc[0])}")
        reference_line(axes, y=1.0, label="least trace")
    panels[0].set_ylabel("trace / least trace")
    handles, labels = panels[0].get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    figure.legend(unique.values(), unique.keys(), loc="outside upper center", ncols=3)
    return figure
