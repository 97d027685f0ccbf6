"""Metrics of minima that SGD selected, and how near they are to the bounds of stability: Figs. 16 and 17."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import MARKERS, PALETTE, log_axis, note, points, reference_line, subplots

MEASURES = ["sharpness", "non_uniformity", "criterion", "test_accuracy"]
FULL = "full criterion, largest η(H² + cΣ) over 2H"
CONDITIONS = {
    "sharpness_ratio": "sharpness a, over 2/η",
    "non_uniformity_ratio": "non-uniformity s, over (1/η)√(B(n−1)/(n−B))",
    "criterion": FULL,
}
"""What `criterion_figure` draws of the selection diagram, by column."""


def minimum_metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    Columns: `sharpness` a, `non_uniformity` s, `criterion` (the full criterion, over its bound),
    `sharpness_ratio` = a/(2/η), `non_uniformity_ratio` = s over its bound (1/η)√(B(n − 1)/(n − B)), absent for the
    full batch; logarithms `log_sharpness`, `log_non_uniformity`; the same times η (`log_scaled_…`); `test_accuracy`;
    `regime_reached`: the loss was reached and the eigenvalues converged.
    """
    table = records.groupby("run", sort=False).last()
    n, rate, size = table["training_images"], table["learning_rate"], table["batch_size"]
    bound = np.sqrt(size * (n - 1) / (n - size).where(n > size)) / rate
    found = table[MEASURES].assign(
        sharpness_ratio=table["sharpness"] * rate / 2,
        non_uniformity_ratio=table["non_uniformity"] / bound,
        log_sharpness=np.log(table["sharpness"]),
        log_non_uniformity=np.log(table["non_uniformity"]),
        log_scaled_sharpness=np.log(table["sharpness"] * rate),
        log_scaled_non_uniformity=np.log(table["non_uniformity"] * rate),
        quotient=table["non_uniformity"] / table["sharpness"],
        steps=table["step"],
        regime_reached=table["stopped"].astype(bool) & table["converged"].astype(bool),
    )
    return pd.DataFrame(found)


def with_settings(records: pd.DataFrame) -> pd.DataFrame:
    """`minimum_metrics` beside batch size, learning rate, examples and standing of each run."""
    columns = ["batch_size", "learning_rate", "training_images", "seed", "standing"]
    return minimum_metrics(records).join(records.groupby("run", sort=False)[columns].first())


def say_reduced(figures: dict[str, Figure], records: pd.DataFrame) -> dict[str, Figure]:
    """The figures, with a note where data or network are smaller than the authors'."""
    n, width = int(records["training_images"].iloc[0]), int(records["width"].iloc[0])
    if records["network"].iloc[0] == "small_vgg":
        return figures
    for figure in figures.values() if n < 1000 or width < 500 else ():
        note(figure, f"Fashion-MNIST: {n} of 1,000 images, hidden layers of {width} units, not 500 (D1)", "reduced")
    return figures


def criterion_figure(table: pd.DataFrame, names: Mapping[str, str] = CONDITIONS) -> Figure:
    """How near each minimum is to each of three bounds, by batch size; `names` are columns and their labels."""
    rates = sorted(table["learning_rate"].unique(), reverse=True)
    figure, panels = subplots(len(rates), 1, size=(5.6, 1.0 + 2.9 * len(rates)), sharex=True, squeeze=False)
    for axes, rate in zip(panels[:, 0], rates, strict=True):
        part = table[table["learning_rate"] == rate]
        for number, (name, label) in enumerate(names.items()):
            sizes = part.groupby("batch_size")["batch_size"]
            shift = 0.1 * (number - 1) + 0.05 * (sizes.cumcount() / sizes.transform("size") - 0.5)
            look = [*CONDITIONS, "exact"].index(name)
            points(
                axes,
                part.assign(place=part["batch_size"] * np.exp(shift)),
                "place",
                name,
                color=PALETTE[look],
                label=label,
                marker=MARKERS[look],
                s=22,
                alpha=0.8,
            )
        reference_line(axes, y=1.0, label="bound of stability")
        axes.set(
            ylabel="measured / bound", title=f"η = {rate:g}", ylim=(0, max(1.2, part[list(names)].max().max() * 1.1))
        )
        log_axis(axes, "x", ticks=sorted(table["batch_size"].unique()))
    panels[-1, 0].set_xlabel("batch size B (images)")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper left", ncols=1)
    return figure
