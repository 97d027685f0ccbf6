"""The counts of Fig. 1 beside what its networks' layers add up to: a row a network, and a drawing."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import PALETTE, log_axis, reference_line, subplots

PRINTED = {
    "inception": ("Inception", 50_000, 1_649_402),
    "alexnet": ("AlexNet", 50_000, 1_387_786),
    "mlp_1x512": ("MLP 1 × 512", 50_000, 1_209_866),
    "inception_v4": ("Inception V4", 1_200_000, 42_681_353),
    "imagenet_alexnet": ("AlexNet", 1_200_000, 61_100_840),
    "resnet18": ("ResNet-18", 1_200_000, 11_689_512),
    "resnet152": ("ResNet-152", 1_200_000, 60_192_808),
    "vgg11": ("VGG-11", 1_200_000, 132_863_336),
    "vgg19": ("VGG-19", 1_200_000, 143_667_240),
}
"""Name, training images and parameters as the lecture prints them, in its order."""
SETS = {50_000: "CIFAR-10", 1_200_000: "ImageNet"}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run: `difference` from the printed count, and `per_image`, parameters over printed training images."""
    table = records.groupby("run", sort=False).last()
    images, printed = (table["network"].map(lambda name, k=k: PRINTED[name][k]) for k in (1, 2))
    counted = table["parameters"].astype(float)
    return pd.DataFrame({"difference": counted - printed, "per_image": counted / images, "regime_reached": True})


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`fig1`: parameters a training image, by network."""
    counted = records.groupby("network")["parameters"].last()
    names = [name for name in PRINTED if name in counted.index]
    figure, axes = subplots(size=(6.4, 4.2))
    for (images, label), colour in zip(SETS.items(), PALETTE, strict=False):
        places = [place for place, name in enumerate(names) if PRINTED[name][1] == images]
        shares = [counted[names[place]] / images for place in places]
        axes.plot(shares, places, "o", color=colour, label=f"{label}, {images:,} training images")
        for place, share in zip(places, shares, strict=True):
            axes.annotate(f"{counted[names[place]]:,.0f}", (share, place), xytext=(9, -3.5), textcoords="offset points")
    axes.set_yticks(np.arange(len(names)), [PRINTED[name][0] for name in names])
    axes.invert_yaxis()
    log_axis(axes, "x", ticks=(1, 10, 100))
    reference_line(axes, x=1, label="as many parameters as images")
    axes.set(xlim=(0.7, 700), xlabel="parameters for each training image", title="Fig. 1 · image classification models")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left")
    return {"fig1": figure}
