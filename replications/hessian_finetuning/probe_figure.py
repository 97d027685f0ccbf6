"""The figure of `frozen_features`."""

import pandas as pd
from matplotlib.figure import Figure

from common.figures import PALETTE, note, subplots

NAMES = {
    "image": "MobileNetV2 (ImageNet)\non CIFAR-10",
    "text": "MiniLM-L6\non movie reviews",
    "digits": "pixels of MNIST",
    "molecules": "graphs of MUTAG",
}


def probe_figure(table: pd.DataFrame) -> Figure:
    """Test accuracy of the linear probe of each system, beside chance."""
    figure, axes = subplots(size=(7.0, 3.2))
    table = table.sort_values("system")
    places = range(len(table))
    axes.barh(places, table["probe_accuracy"], color=PALETTE[0], height=0.5, label="linear probe")
    axes.scatter(1 / table["classes"], places, marker="D", s=40, color=PALETTE[1], zorder=3, label="chance")
    axes.set_yticks(list(places), [NAMES[name] for name in table["system"]])
    axes.set(xlabel="test accuracy of the linear probe", xlim=(0, 1))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=2)
    note(figure, "ResNet-34 and BERT-base at paper scale alone (D1)", "substitution")
    return figure
