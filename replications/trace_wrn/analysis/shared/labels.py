"""How weight decays are written, and what figures say of reduced settings."""

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from common.figures import note

MNIST_IMAGES = 60_000
"""Training images of the document's perceptron."""
FULL = {"cnn": 1_387_108, "preresnet": 1_726_388, "wrn": 36_546_980}

HOLLOW: dict[str, Any] = {"marker": "D", "linestyle": "", "mfc": "none", "mew": 1.5, "ms": 7}
"""The mark of a published number."""


def gamma_text(value: float) -> str:
    """γ as the tables print it."""
    return "0" if value == 0 else f"{value:.0e}".replace("e-0", "e-").replace("-", "−")


def say_what_differs(figure: Figure, records: pd.DataFrame) -> None:
    """Note under the figure where data set or networks are others than the document's."""
    first = records.iloc[0]
    sizes = records.loc[records["kind"] == "final"].groupby("network")["parameters"].first()
    thin = any(int(size) < FULL[str(network)] for network, size in sizes.items())
    if first["dataset"] != "cifar100":
        note(figure, f"D7: {first['dataset']} instead of CIFAR-100", "substitution")
    if thin:
        shown = ", ".join(f"{network} {int(size):,}" for network, size in sizes.items())
        text = f"thin networks ({shown} parameters), {first['training_images']:,} images, {first['epochs']} epochs (D7)"
        note(figure, text, "reduced" if first["dataset"] == "cifar100" else "illustration")
