"""From the records of the slices to one row a run, and the figure."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import SEQUENTIAL, attach_data, note, subplots

TITLES = {"without": "Without skip connections", "with": "With skip connections"}
FITTED = 0.02
"""Share of errors in the last epoch up to which a network counts as trained (Table 2 of Keskar et al.: up to 1.7 %)."""
BEND = 0.05
"""A point of the slice counts as not convex if its smaller curvature is below minus that part of the larger one."""


def grid(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Positions along an axis [m] and losses [m, m] of one slice."""
    table = rows.pivot_table(index="a", columns="b", values="loss").sort_index()
    return table.index.to_numpy(), table.to_numpy()


def non_convex_share(losses: np.ndarray) -> float:
    """Share of inner points at which the 2×2 matrix of second differences has a clearly negative eigenvalue."""
    across = losses[2:, 1:-1] - 2 * losses[1:-1, 1:-1] + losses[:-2, 1:-1]
    along = losses[1:-1, 2:] - 2 * losses[1:-1, 1:-1] + losses[1:-1, :-2]
    mixed = (losses[2:, 2:] - losses[2:, :-2] - losses[:-2, 2:] + losses[:-2, :-2]) / 4
    middle, radius = (across + along) / 2, np.sqrt(((across - along) / 2) ** 2 + mixed**2)
    low, high = middle - radius, middle + radius
    return float((low < -BEND * np.maximum(np.abs(high), 1e-12)).mean())


def rise(positions: np.ndarray, losses: np.ndarray, radius: float) -> float:
    """Mean loss at about `radius` from the middle, minus the loss in the middle."""
    length = np.hypot(*np.meshgrid(positions, positions))
    step = positions[1] - positions[0]
    ring = np.abs(length - radius) <= step / 2 + 1e-9
    return float(losses[ring].mean() - losses[len(positions) // 2, len(positions) // 2])


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`: `non_convex`, `log10_rise` at half the reach, `error` of the last epoch."""
    found = {}
    for name, rows in records.groupby("run", sort=False):
        positions, losses = grid(rows[rows["kind"] == "slice"])
        last = rows[rows["kind"] == "epoch"].sort_values("epoch").iloc[-1]
        climbed = rise(positions, losses, positions[-1] / 2)
        found[name] = {
            "non_convex": non_convex_share(losses),
            "log10_rise": float(np.log10(max(climbed, 1e-9))),
            "error": float(last["error"]),
            "loss": float(last["loss"]),
            "regime_reached": bool(last["error"] <= FITTED),
        }
    return pd.DataFrame.from_dict(found, orient="index").rename_axis("run")


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`fig5`: contours of log10 of the training loss."""
    figure, axes = subplots(1, 2, size=(7.6, 4.0), sharey=True)
    rows = records[(records["seed"] == records["seed"].min()) & (records["kind"] == "slice")]
    values = np.log10(rows["loss"].clip(lower=1e-4, upper=1e4))
    levels = np.linspace(values.min(), min(values.max(), 3), 22)
    for axis, (arm, title) in zip(axes, TITLES.items(), strict=True):
        positions, losses = grid(rows[rows["arm"] == arm])
        shown = np.log10(np.clip(losses, 1e-4, 1e4)).T
        drawn = axis.contourf(positions, positions, shown, levels=levels, cmap=SEQUENTIAL, extend="max")
        axis.contour(positions, positions, shown, levels=levels[::2], colors="#ffffff", linewidths=0.5)
        axis.set(title=title, xlabel="filter-normalised direction δ", aspect="equal")
        axis.grid(False)
    axes[0].set_ylabel("filter-normalised direction η")
    ticks = np.arange(np.ceil(levels[0]), levels[-1] + 0.01)
    figure.colorbar(drawn, ax=list(axes), label="log₁₀ of the loss", shrink=0.85, ticks=ticks)
    attach_data(figure, rows[["arm", "a", "b", "loss"]])
    depth, width = int(records["depth"].iloc[0]), int(records["width"].iloc[0])
    images, side = int(records["training_images"].iloc[0]), int(records["side"].iloc[0])
    figure.suptitle(f"Fig. 5: loss around minima of residual networks of depth {depth}")
    text = f"depth {depth}, {width} channels, {images:,} CIFAR-10 images of {side} × {side} (D44)"
    note(figure, text, "illustration" if images < 50_000 else "deviation")
    return {"fig5": figure}
