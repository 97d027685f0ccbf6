"""What rules are called on figures, and what figures say of reduced settings."""

import pandas as pd
from matplotlib.figure import Figure

from common.figures import note

RULES = {"gradient_descent": "gradient descent", "heavy_ball": "heavy ball", "nesterov": "Nesterov"}
PAPER_IMAGES = 5000


def rule_name(one: pd.Series) -> str:
    """A row's rule, with its momentum if it has one."""
    name = RULES[one["rule"]]
    return name if one["rule"] == "gradient_descent" else f"{name}, β = {one['momentum']:g}"


def say_what_is_reduced(figure: Figure, records: pd.DataFrame) -> Figure:
    """The figure, with a note where images or widths are fewer than the paper's."""
    one = records.iloc[0]
    if one["training_images"] < PAPER_IMAGES:
        note(figure, f"{one['training_images']:.0f} of 5,000 images, 2 × {one['width']:.0f} tanh units (D1)", "reduced")
    return figure
