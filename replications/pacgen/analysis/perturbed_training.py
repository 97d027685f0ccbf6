"""From the records of training with perturbed weights to one row a run, and Figure 7."""

from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from common.figures import colours, mean_band, note, reference_line, subplots

ROOM = 2.0
"""Points by which the unperturbed training accuracy must exceed the test accuracy for a regulariser to have room."""
ARMS = {
    "none": "none",
    "weight_decay": "weight decay",
    "perturbed": "Algorithm 1",
    "perturbed_tenth": "Algorithm 1, γ/10",
    "perturbed_hundredth": "Algorithm 1, γ/100",
    "isotropic": "isotropic",
    "isotropic_tenth": "isotropic, γ/10",
    "isotropic_hundredth": "isotropic, γ/100",
}
"""Isotropic noise has the colour of the perturbation whose norm it has, and is drawn dashed."""
DATA = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "tiny_imagenet": "Tiny ImageNet"}
IMAGES = {"cifar10": 50_000, "cifar100": 50_000, "tiny_imagenet": 100_000}
ACCURACIES = ("training_accuracy", "step_accuracy", "test_accuracy")
KEY = ["data", "seed"]
RECORDED = ("open_share", "curvature_share", "noise_over_weights")
PERTURBATION = ("open_share", "curvature_share_of_open", "noise_over_weights")


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`, with what was recorded at the last epoch.

    A training that diverged has no accuracies: its last record holds none. The regime is that the unperturbed arm of
    the same seed and data set fits its training images better than the test images, by `ROOM`. `open_share` is that of
    the weights whose gate is open, `curvature_share_of_open` the share of these whose perturbation is smaller than κ;
    NaN without perturbation, the second also where no gate is open.

    `regularised_accuracy` is the smaller of two changes against the unperturbed arm of the same seed and data set, in
    points: by how much the training accuracy is lower, and by how much the test accuracy is higher.
    `regularised_step_accuracy` takes the training accuracy in the steps. A regulariser has both changes; a training
    that collapses has the first alone.
    """
    last = records.sort_values("epoch").groupby("run", sort=False).tail(1).set_index("run")
    for name in (*ACCURACIES, *RECORDED):
        if name not in last:
            last[name] = np.nan
    last["curvature_share_of_open"] = _share_of_open(last)
    table = last[[*ACCURACIES, *PERTURBATION]].copy()
    table["gap"] = table["training_accuracy"] - table["test_accuracy"]
    table["log_noise"] = np.log10(table["noise_over_weights"])
    plain = _unperturbed(table, last)
    table["relative_test_accuracy"] = table["test_accuracy"] / plain["test_accuracy"]
    rise = table["test_accuracy"] - plain["test_accuracy"]
    for name, seen in (("regularised_accuracy", "training_accuracy"), ("regularised_step_accuracy", "step_accuracy")):
        table[name] = np.minimum(plain[seen] - table[seen], rise)
    table["regime_reached"] = plain["gap"] >= ROOM
    return table


def _share_of_open(records: pd.DataFrame) -> pd.Series:
    """Share of the weights with an open gate whose perturbation the curvature decides; NaN where none is open."""
    return records["curvature_share"] / records["open_share"].where(records["open_share"] > 0)


def _unperturbed(table: pd.DataFrame, axes_of: pd.DataFrame) -> pd.DataFrame:
    """For each run the row of the unperturbed run of its data set and seed."""
    plain = axes_of["arm"] == "none"
    own = table[plain].set_index(pd.MultiIndex.from_frame(axes_of.loc[plain, KEY]))
    return own.reindex(pd.MultiIndex.from_frame(axes_of[KEY])).set_axis(table.index, axis="index")


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Figure 7; its end as differences at the same seed; what decides the size of the perturbation."""
    figures = {
        "fig7": _over_epochs(records),
        "fig7_differences": _differences(records),
        "fig7_levels": _levels(records),
    }
    for figure in figures.values():
        _say_what_differs(figure, records)
    return figures


def _over_epochs(records: pd.DataFrame) -> Figure:
    """A column a data set: training accuracy above, test accuracy below."""
    shown = [name for name in DATA if (records["data"] == name).any()]
    figure, panels = subplots(2, len(shown), size=(max(5.8, 3.6 * len(shown)), 6.6), sharex="col", squeeze=False)
    evaluated = records.dropna(subset="test_accuracy").sort_values("epoch")
    for column, name in enumerate(shown):
        own = evaluated[evaluated["data"] == name]
        for axes, measure in zip(panels[:, column], ("training_accuracy", "test_accuracy"), strict=True):
            _arms(axes, own, measure)
        panels[0, column].set_title(DATA[name] if column else f"Fig. 7 · {DATA[name]}")
        panels[1, column].set_xlabel("epochs")
    panels[0, 0].set_ylabel("training accuracy (%)")
    panels[1, 0].set_ylabel("test accuracy (%)")
    title = "perturbation; dashed: isotropic of the same norm; bands: 95 %"
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper left", ncols=4, title=title)
    return figure


def _shades() -> dict[str, str]:
    """A colour for each arm; noise of equal norm shares one."""
    shade = colours(arm for arm in ARMS if not arm.startswith("isotropic"))
    return {arm: shade[arm.replace("isotropic", "perturbed")] for arm in ARMS}


def _arms(axes: Axes, records: pd.DataFrame, measure: str) -> None:
    shade = _shades()
    for arm in ARMS:
        own = records[records["arm"] == arm]
        if own.empty:
            continue
        line = mean_band(axes, own, "epoch", measure)[None]
        line.set(color=shade[arm], label=ARMS[arm], linestyle="--" if arm.startswith("isotropic") else "-")
        if own["seed"].nunique() > 1:
            axes.collections[-1].set_facecolor(shade[arm])


def _differences(records: pd.DataFrame) -> Figure:
    """Each arm's accuracies minus those without perturbation, a point a seed and data set."""
    axes_of = records.groupby("run", sort=False)[["arm", *KEY]].first()
    table = metrics(records).join(axes_of)
    plain = table[table["arm"] == "none"].set_index(KEY)
    arms = [arm for arm in ARMS if arm != "none"]
    shade = colours(DATA)
    figure, panels = subplots(1, 3, size=(8.6, 4.6), sharey=True)
    titles = ("training, at w", "training, in the steps", "test")
    for axes, measure, title in zip(panels, ACCURACIES, titles, strict=True):
        for place, arm in enumerate(arms):
            own = table[table["arm"] == arm].set_index(KEY)
            change = (own[measure] - plain[measure]).dropna()
            for number, (name, label) in enumerate(DATA.items()):
                part = change[change.index.get_level_values("data") == name]
                at = np.full(len(part), place + 0.2 * (number - 1))
                axes.plot(part, at, "o", color=shade[name], label=label if place == 0 and len(part) else "_")
        reference_line(axes, x=0.0, label="no perturbation" if axes is panels[0] else "_")
        axes.set_title(title)
        axes.set_xlabel("difference (points)")
    panels[0].set_yticks(range(len(arms)), [ARMS[arm] for arm in arms])
    panels[0].set_ylim(len(arms) - 0.4, -0.6)
    title = "accuracy at the end, minus that without perturbation at the same seed"
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=4, title=title)
    return figure


def _levels(records: pd.DataFrame) -> Figure:
    """A column a data set: norm of the perturbation over that of the weights, open gates, what the curvature decides.

    Where the curvature decides no weight in any epoch, the label of the gate says so in place of a third row.
    """
    own = records[records["arm"].str.startswith("perturbed")].sort_values("epoch")
    own = own.assign(opened=100 * own["open_share"], curvature=100 * _share_of_open(own))
    decided = bool((own["curvature"] > 0).any())
    gate = "gate open\n(% of the weights)" + ("" if decided else ";\nthe curvature\ndecides none of these")
    labels = {"noise_over_weights": "‖u‖ / ‖w‖", "opened": gate}
    if decided:
        labels["curvature"] = "curvature decides\n(% of those)"
    shown = [name for name in DATA if (own["data"] == name).any()]
    size = (max(5.8, 3.6 * len(shown)), 1.2 + 2.6 * len(labels))
    figure, panels = subplots(len(labels), len(shown), size=size, sharex="col", sharey="row", squeeze=False)
    for column, name in enumerate(shown):
        for axes, measure in zip(panels[:, column], labels, strict=True):
            _arms(axes, own[own["data"] == name], measure)
        panels[0, column].set_title(DATA[name] if column else f"Levels of Algorithm 1 · {DATA[name]}")
        panels[-1, column].set_xlabel("epochs")
    for axes, label in zip(panels[:, 0], labels.values(), strict=True):
        axes.set_ylabel(label)
    panels[0, 0].set_yscale("log")
    panels[1, 0].set_ylim(top=100)
    if decided:
        panels[2, 0].set_ylim(bottom=0)
    figure.legend(
        *panels[0, 0].get_legend_handles_labels(), loc="outside upper left", ncols=3, title="means, bands: 95 %"
    )
    return figure


def _say_what_differs(figure: Figure, records: pd.DataFrame) -> None:
    first = records.iloc[0]
    seeds = ", one seed" if records["seed"].nunique() == 1 else ""
    network = (first["depth"], first["widening"], first["width"])
    if network != (58, 3, 16):
        images = ", ".join(
            f"{DATA[name]} {min(int(own['training_images'].iloc[0]), IMAGES[name]):,}"
            for name, own in ((str(name), own) for name, own in records.groupby("data", sort=False))
        )
        side = f"{first['side']} × {first['side']} pixels"
        text = f"WRN-{first['depth']}-{first['widening']} with {first['width']} channels for WRN-58-3; {side}; "
        kind: Literal["illustration", "reduced"] = "illustration" if seeds else "reduced"
        note(figure, f"{text}training images: {images}; {first['epochs']} epochs{seeds} (D20, D21)", kind)
    else:
        note(figure, "length of training, augmentation and momentum ours (D20)", "deviation")
