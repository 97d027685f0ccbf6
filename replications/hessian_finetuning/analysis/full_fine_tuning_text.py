"""All layers of the text encoder trained: what `full_fine_tuning` shows of images."""

import pandas as pd
from matplotlib.figure import Figure

from . import full_fine_tuning
from .full_fine_tuning import metrics

__all__ = ["figures", "metrics"]


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """The figure of images, of the text encoder."""
    return {"full_text": full_fine_tuning.figures(records)["full"]}
