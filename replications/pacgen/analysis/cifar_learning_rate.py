"""Figure 6."""

from functools import partial

from .shared.sweep_figures import sweep_figures
from .shared.sweep_metrics import sweep_metrics

metrics = partial(sweep_metrics, axis="learning_rate")
figures = partial(sweep_figures, axis="learning_rate", name="fig6")
