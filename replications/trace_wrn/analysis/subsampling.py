"""From the records of sub-sampling to one row a run, and Figure 2."""

import pandas as pd
from matplotlib.figure import Figure

from common.figures import colours, log_axis, mean_band, note, reference_line, subplots

from .shared.labels import MNIST_IMAGES

BATCH = 128
QUANTITIES = {
    "trace_hessian": "Tr H",
    "trace_ggn": "Tr G",
    "squared_hessian": "Tr H²",
    "squared_ggn": "Tr G²",
}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    `<quantity>_ratio`: mean over batches of 128 over the value on all images; `…_spread`: standard deviation over
    batches, relative. `<square>_excess_ratio`: mean minus full value, over its prediction (N − B)/(B(N − 1)) times the
    excess of single images (the sampling variance of the matrix).
    """
    full = records[records["full"]].set_index("run")
    parts = records[~records["full"]]
    largest = parts["size"].max()
    at_size = parts[parts["size"] == min(BATCH, largest)].groupby("run")
    single = parts[parts["size"] == parts["size"].min()].groupby("run")
    table = pd.DataFrame(index=full.index)
    for name in QUANTITIES:
        table[f"{name}_full"] = full[name]
        table[f"{name}_ratio"] = at_size[name].mean() / full[name]
        table[f"{name}_spread"] = at_size[name].std() / full[name]
    count, size = full["size"], at_size["size"].first()
    for name in ("squared_hessian", "squared_ggn"):
        predicted = (count - size) / (size * (count - 1)) * (single[name].mean() - full[name])
        table[f"{name}_excess_ratio"] = (at_size[name].mean() - full[name]) / predicted
    table["regime_reached"] = size == BATCH
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Batch values over full values by quantity, and the excess of squares against the batch size."""
    drawn = {"fig2": _batches(records), "fig2_excess": _excess(records)}
    first = records.iloc[0]
    for figure in drawn.values():
        note(figure, "perceptron on MNIST: the document does not say which network it shows (D8)", "deviation")
        if first["training_images"] < MNIST_IMAGES:
            note(figure, f"all images: {first['full_images']:,} instead of {MNIST_IMAGES:,} (D1)", "reduced")
    return drawn


def _batches(records: pd.DataFrame) -> Figure:
    """Distribution over batches of 128, relative to the full value, before and after training."""
    figure, panels = subplots(1, 2, size=(7.2, 4.0), sharey=True)
    full = records[records["full"]].set_index("run")
    parts = records[records["size"] == min(BATCH, records.loc[~records["full"], "size"].max())]
    shade = colours(QUANTITIES)
    for axes, at in zip(panels, ("initial", "trained"), strict=True):
        own = parts[parts["at"] == at]
        for place, (name, label) in enumerate(QUANTITIES.items()):
            ratio = own[name].to_numpy() / own["run"].map(full[name]).to_numpy()
            if not len(ratio):
                continue
            boxes = axes.boxplot(
                [ratio],
                positions=[place],
                widths=0.6,
                patch_artist=True,
                sym="",
                whis=(5, 95),
                medianprops={"color": "#000000"},
                boxprops={"facecolor": shade[name], "alpha": 0.35, "edgecolor": shade[name]},
            )
            boxes["boxes"][0].set_label(f"_{label}")
            axes.plot(place, ratio.mean(), "D", color=shade[name], label="_mean over batches")
        axes.set_xticks(range(len(QUANTITIES)), list(QUANTITIES.values()))
        axes.set_title({"initial": "before training", "trained": "after training"}[at])
        reference_line(axes, y=1.0, label="all images")
    panels[0].set_ylabel("batch of 128 / all images")
    panels[0].plot([], [], "D", color="#5c6674", label="mean over batches and seeds")
    panels[0].legend(loc="upper left")
    figure.suptitle("Fig. 2 · curvature of mini-batches")
    return figure


def _excess(records: pd.DataFrame) -> Figure:
    """Mean over batches minus full value, relative, against the batch size, with the prediction dashed."""
    figure, panels = subplots(1, 2, size=(7.6, 4.4), sharey=True)
    for axes, at in zip(panels, ("initial", "trained"), strict=True):
        own = records[records["at"] == at]
        if own.empty:
            continue
        lines = mean_band(axes, _excess_rows(own), "size", "value", group="of", markers=True)
        for of, line in lines.items():
            if "predicted" in str(of):
                line.set(linestyle=(0, (4, 3)), marker="", zorder=3)
        axes.set_yscale("log")
        log_axis(axes, "x", ticks=sorted(own.loc[~own["full"], "size"].unique()))
        axes.set_xlabel("batch size (images)")
        axes.set_title({"initial": "before training", "trained": "after training"}[at])
    panels[0].set_ylabel("excess / value on all images")
    figure.legend(
        *panels[1].get_legend_handles_labels(), loc="outside upper center", ncols=4, title="excess of traces of squares"
    )
    return figure


def _excess_rows(records: pd.DataFrame) -> pd.DataFrame:
    """Measured and predicted excess of each run and batch size, over the full value."""
    full = records[records["full"]].set_index("run")
    rows = []
    for (run, _), group in records[~records["full"]].groupby(["run", "size"]):
        size = int(group["size"].iloc[0])
        for name in ("squared_hessian", "squared_ggn"):
            whole, count = float(full[name][str(run)]), int(full["size"][str(run)])
            batches = records[(records["run"] == run) & ~records["full"]]
            single = float(batches.loc[batches["size"] == batches["size"].min(), name].mean())
            predicted = (count - size) / (size * (count - 1)) * (single - whole)
            measured = float(group[name].mean()) - whole
            for of, value in ((QUANTITIES[name], measured), (f"{QUANTITIES[name]}, predicted", predicted)):
                rows.append({"seed": group["seed"].iloc[0], "size": size, "of": of, "value": value / whole})
    return pd.DataFrame(rows).sort_values(["of", "size"])
