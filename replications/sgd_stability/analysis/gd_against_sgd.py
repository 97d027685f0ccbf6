"""Full-batch descent against SGD: a row a run, and the figure."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import PALETTE, note, subplots

ROWS = {
    "sgd": ("SGD", 95.70),
    "gd_same_epochs": ("GD, as many epochs", 75.42),
    "gd_longer": ("GD, ten times as many", 87.36),
    "gd_same_steps": ("GD, as many steps", None),
    "gd_clipped": ("GD longer, clipped", 93.85),
    "gd_regularised": ("GD longer, clipped, penalty", 95.67),
}
"""Label of each arm, and the validation accuracy (%) that the table of Fig. 4 gives its row."""


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run: accuracy and training loss at the end."""
    last = records[records["last"].astype(bool)].set_index("run")
    table = last[["test_accuracy", "training_loss"]].reindex(records["run"].unique())
    table["regime_reached"] = table["training_loss"].notna()
    table.index.name = "run"
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`fig4`: test accuracy of each row beside the reported one."""
    last = records[records["last"].astype(bool)]
    figure, axes = subplots(size=(5.6, 4.4))
    rows = [arm for arm in ROWS if arm in set(last["arm"])]
    for place, arm in enumerate(rows):
        values = 100 * last.loc[last["arm"] == arm, "test_accuracy"]
        spread = np.linspace(-0.12, 0.12, len(values)) if len(values) > 1 else np.zeros(len(values))
        axes.plot(
            values, place - 0.12 + spread, "o", color=PALETTE[0], label="ours, a point a seed" if not place else None
        )
        reported = ROWS[arm][1]
        if reported is not None:
            axes.plot(
                [reported],
                [place + 0.2],
                "s",
                color=PALETTE[1],
                label="reported, CIFAR-10, ResNet-18" if not place else None,
            )
    axes.set_yticks(range(len(rows)), [ROWS[arm][0] for arm in rows])
    axes.invert_yaxis()
    axes.set(xlabel="test accuracy (%)", title="Fig. 4 · full-batch descent beside SGD")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=2)
    one = records.iloc[0]
    names = {"fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}
    network = "the small VGG" if one["network"] == "small_vgg" else f"two hidden layers of {one['width']:.0f}"
    text = f"{names.get(one['dataset'], one['dataset'])}, {one['training_images']:.0f} images, {network} (D8)"
    note(figure, text, "illustration")
    return {"fig4": figure}
