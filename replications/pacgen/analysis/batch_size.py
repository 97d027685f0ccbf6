"""Figure 3."""

from functools import partial

from .shared.sweep_figures import sweep_figures
from .shared.sweep_metrics import sweep_metrics

metrics = partial(sweep_metrics, axis="batch_size")
figures = partial(sweep_figures, axis="batch_size", name="fig3")
