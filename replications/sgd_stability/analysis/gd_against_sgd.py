"""Full-batch descent against SGD: a row a run, the candidate that validation data choose, and the figure."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from common.figures import PALETTE, abreast, note, reference_line, subplots
from common.figures.style import FACE

ROWS = {
    "sgd": ("SGD", 95.70),
    "gd_same_epochs": ("GD, as many epochs", 75.42),
    "gd_longer": ("GD, ten times as many", 87.36),
    "gd_same_steps": ("GD, as many steps", None),
    "gd_clipped": ("GD longer, clipped", 93.85),
    "gd_regularised": ("GD longer, clipped, penalty", 95.67),
}
"""Label of each arm, and the validation accuracy (%) that the table of Fig. 4 gives its row."""

FULL: dict[str, Any] = {"linestyle": "none", "marker": "o", "color": PALETTE[0]}
HOLLOW = {**FULL, "markerfacecolor": FACE, "markeredgecolor": PALETTE[0], "markeredgewidth": 1.2}

TUNED = ("learning_rate", "clip", "penalty")


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run: accuracy and training loss at the end, of the candidate that validation data choose.

    It is the candidate with the best validation accuracy among those whose training came to its end (a training loss
    of at most `stopping_loss`), or among all with a finite loss where none did. `trained` is 1 if it came to its end;
    `candidates_trained` counts those that did; `at_an_end_of_its_range` is 1 where what was chosen among several is the
    smallest or the largest of them, so that a wider range might have another best.

    The regime is a training that came to its end. Descent over as many epochs as SGD is in its regime in any case: that
    row of the table is about those epochs, and in the table, too, it is unfinished.
    """
    chosen = _chosen(records)
    table = chosen[["test_accuracy", "validation_accuracy", "training_loss", "trained", "candidates_trained"]].copy()
    table["at_an_end_of_its_range"] = chosen["at_an_end_of_its_range"]
    for name in TUNED:
        table[f"chosen_{name}"] = chosen[name]
    same_epochs = records.groupby("run")[["full_batch", "step_budget"]].first()
    by_epochs = same_epochs["full_batch"].astype(bool) & (same_epochs["step_budget"] == "epochs")
    table["regime_reached"] = table["trained"].eq(1) | by_epochs.reindex(table.index)
    return table.reindex(records["run"].unique())


def _chosen(records: pd.DataFrame) -> pd.DataFrame:
    """The chosen candidate of every run that has one, indexed by `run`."""
    last = records[records["last"].astype(bool) & records["finite"].astype(bool)]
    last = last.assign(trained=last["training_loss"] <= last["stopping_loss"])
    rows = []
    for _, part in last.groupby("run", sort=False):
        pool = part[part["trained"]] if part["trained"].any() else part
        best = pool.sort_values("validation_accuracy", ascending=False, kind="stable").iloc[0]
        rows.append({**best, "trained": float(best["trained"]), "candidates_trained": float(part["trained"].sum())})
    table = pd.DataFrame(rows, columns=[*last.columns, "candidates_trained"]).set_index("run")
    every = records.groupby("run")
    table["at_an_end_of_its_range"] = 0.0
    for name in TUNED:
        low, high = (extreme.reindex(table.index) for extreme in (every[name].min(), every[name].max()))
        at_end = (low < high) & ((table[name] == low) | (table[name] == high))
        table.loc[at_end, "at_an_end_of_its_range"] = 1.0
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`fig4`: test accuracy of each row beside the reported one, and the training loss at the end."""
    chosen = _chosen(records)
    rows = [arm for arm in ROWS if arm in set(records["arm"])]
    figure, (left, right) = subplots(1, 2, size=(9.2, 4.6), sharey=True, gridspec_kw={"width_ratios": [3, 2]})
    for place, arm in enumerate(rows):
        part = chosen[chosen["arm"] == arm]
        spread = abreast(len(part), 0.28)
        for axes, values in ((left, 100 * part["test_accuracy"]), (right, part["training_loss"])):
            _dots(axes, values, place + spread, part["trained"] == 1)
            axes.plot([values.mean()] * 2, [place - 0.3, place + 0.3], color=PALETTE[1], linewidth=2.4, label="_mean")
    left.plot([], [], label="a seed", **FULL)
    left.plot([], [], color=PALETTE[1], linewidth=2.4, label="their mean")
    if (chosen["trained"] == 0).any():
        left.plot([], [], label="stopped before its end", **HOLLOW)
    left.set_yticks(range(len(rows)), [_row(arm) for arm in rows])
    left.invert_yaxis()
    left.set(xlabel="test accuracy (%)", title="Fig. 4 · full-batch descent beside SGD")
    one = records.iloc[0]
    reference_line(right, x=float(one["stopping_loss"]), label="training has come to its end")
    right.set_xscale("log")
    right.set(xlabel="training loss at the end (nats)", title="how far it was trained")
    handles, labels = (a + b for a, b in zip(*(x.get_legend_handles_labels() for x in (left, right)), strict=True))
    figure.legend(handles, labels, loc="outside upper left", ncols=2)
    note(figure, _said(one, chosen), "illustration")
    return {"fig4": figure}


def _row(arm: str) -> str:
    """Its label and what the print has there."""
    label, reported = ROWS[arm]
    return label if reported is None else f"{label}\n(print: {reported:.2f} %)"


def _dots(axes: Axes, values: pd.Series, places: np.ndarray, full: pd.Series) -> None:
    """A dot a seed, hollow where training was stopped before its end."""
    where = full.to_numpy(dtype=bool)
    axes.plot(values[where], places[where], label="_trained", **FULL)
    axes.plot(values[~where], places[~where], label="_stopped", **HOLLOW)


def _said(one: pd.Series, chosen: pd.DataFrame) -> str:
    names = {"fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}
    network = "the small VGG" if one["network"] == "small_vgg" else f"two hidden layers of {one['width']:.0f}"
    stopped = chosen[chosen["trained"] == 0].groupby("arm").size()
    counts = ", ".join(f"{ROWS[str(arm)][0]} {count}" for arm, count in stopped.items()) or "none"
    return (
        f"{names.get(one['dataset'], one['dataset'])}, {one['training_images']:.0f} images, {network} (D8). Learning "
        f"rates, clipping norms and penalties by validation accuracy; the choice lies at an end of its range in "
        f"{chosen['at_an_end_of_its_range'].sum():.0f} of {len(chosen)} runs. Stopped before the end: {counts}"
    )
