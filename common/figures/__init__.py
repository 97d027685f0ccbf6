"""One style for all figures, and their export as SVG, PNG and CSV."""

from common.figures.data import attach_data, plotted_data
from common.figures.export import SVG_LIMIT, export, figure_title
from common.figures.plots import (
    abreast,
    column_of_seeds,
    log_axis,
    mark_seed,
    mean_band,
    mean_bands,
    note,
    placeholder,
    reference_line,
)
from common.figures.standing import DIVERGED, IN_REGIME, OUTSIDE_REGIME, points
from common.figures.style import (
    MARKERS,
    PALETTE,
    SEQUENTIAL,
    colours,
    subplots,
    use_style,
)

__all__ = [
    "DIVERGED",
    "IN_REGIME",
    "MARKERS",
    "OUTSIDE_REGIME",
    "PALETTE",
    "SEQUENTIAL",
    "SVG_LIMIT",
    "abreast",
    "attach_data",
    "colours",
    "column_of_seeds",
    "export",
    "figure_title",
    "log_axis",
    "mark_seed",
    "mean_band",
    "mean_bands",
    "note",
    "placeholder",
    "plotted_data",
    "points",
    "reference_line",
    "subplots",
    "use_style",
]
