"""From the records of the line between two networks to one row a run, and the figure."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import mean_bands, reference_line, subplots

from .large_batch import note_size

TINY = 1e-10
FITTED = 0.02
"""Share of wrong training labels up to which both ends count as trained."""


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`; α = 0 is the small-batch network, α = 1 the large-batch one.

    `log10_bend_ratio` is the logarithm of f(1 + h) + f(1 − h) − 2 f(1) over f(h) + f(−h) − 2 f(0), h one step of α,
    f the training loss (NaN where one is not positive); `outward_difference` is f(1 + h) − f(1) minus f(−h) − f(0), the
    rises away from the other end. `barrier` is the largest training loss strictly between the ends minus the
    larger of theirs, negative where there is none.
    """
    rows = {}
    for name, part in records.groupby("run", sort=False):
        line = part.sort_values("alpha").set_index("alpha")["training_loss"]
        step = line.index[1] - line.index[0]
        f = {k: float(np.interp(k, line.index, line)) for k in (-step, 0, step, 1 - step, 1, 1 + step)}
        errors = np.interp([0, 1], line.index, part.sort_values("alpha")["training_error"])
        between = line[(line.index > step / 2) & (line.index < 1 - step / 2)]
        rows[name] = {
            "log10_bend_ratio": _log10_ratio(f[1 + step] + f[1 - step] - 2 * f[1], f[step] + f[-step] - 2 * f[0]),
            "outward_difference": float(f[1 + step] - f[1] - (f[-step] - f[0])),
            "barrier": float(between.max() - max(f[0], f[1])),
            "regime_reached": bool((errors <= FITTED).all()),
        }
    table = pd.DataFrame.from_dict(rows, orient="index")
    return table.rename_axis("run")


def _log10_ratio(above: float, below: float) -> float:
    return float(np.log10(above / below)) if above > TINY and below > TINY else float("nan")


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Loss above, accuracy below, means over seeds with their intervals."""
    network = str(records["network"].iloc[0])
    rows = records[records["network"] == network]
    rows = rows.assign(**{f"{split}_accuracy": 100 * (1 - rows[f"{split}_error"]) for split in ("training", "test")})
    figure, axes = subplots(2, 1, size=(6.2, 5.6), sharex=True)
    for axis, what in zip(axes, ("loss", "accuracy"), strict=True):
        columns = {f"{split}_{what}": f"{split} images" for split in ("training", "test")}
        mean_bands(axis, rows, "alpha", columns, log=what == "loss", markers=True)
        reference_line(axis, x=0, label="_small")
        reference_line(axis, x=1, label="_large")
    axes[0].set_yscale("log")
    title = f"Fig. 6: the line from small to large batches, {network}"
    if rows["ends"].iloc[0] == "crossing":
        title = f"Fig. 6 at equal training loss, {network}"
    axes[0].set(ylabel="cross-entropy (nats)", title=title)
    axes[1].set(xlabel="α: 0 is the small-batch network, 1 the large-batch one", ylabel="accuracy (%)")
    axes[1].legend(loc="lower center")
    note_size(figure, network, int(rows["training_images"].iloc[0]))
    return {"fig6": figure}
