"""Fig. 3: a row a run, curvature and validation results along fine-tuning by SGD, WP-SGD and NSO."""

import pandas as pd
from matplotlib.figure import Figure

from common.figures import log_axis, mean_band, subplots

from .shared.curvature_rows import metrics
from .shared.source_names import say_setting, system_names

__all__ = ["figures", "metrics"]

ARMS = {"sgd": "SGD", "sgd_twice": "SGD, twice the epochs", "wp_sgd": "WP-SGD", "nso": "NSO"}
CURVATURE = {
    "trace": "Tr H, training loss",
    "test_trace": "Tr H, test loss",
    "sharpness": "λ₁, training loss",
    "test_sharpness": "λ₁, test loss",
}
PLAIN = [step * 10.0**power for power in range(-1, 5) for step in (1, 2, 3, 5, 7)]
"""Ticks of logarithmic axes."""
VALIDATION = {"validation_loss": "validation loss (nats)", "validation_accuracy": "validation accuracy (%)"}


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Tr H and λ₁ over the epochs, and validation loss and accuracy."""
    rows = records[records["arm"].isin(ARMS)].copy()
    rows["validation_accuracy"] = 100 * (1 - rows["validation_error"])
    return {
        "fig3": _panels(rows, CURVATURE, "Figure 3 · the Hessian along fine-tuning", positive=True),
        "fig3_validation": _panels(rows, VALIDATION, "Figure 3 · validation along fine-tuning"),
    }


def _panels(rows: pd.DataFrame, columns: dict[str, str], title: str, *, positive: bool = False) -> Figure:
    """A row of panels a system, a panel a quantity: means over seeds with their interval."""
    systems = system_names(rows)
    count = len(columns)
    figure, panels = subplots(len(systems), count, size=(2.6 * count, 3.0 * len(systems) + 1.0), squeeze=False)
    for row, (system, name) in zip(panels, systems.items(), strict=True):
        for axes, (column, label) in zip(row, columns.items(), strict=True):
            part = rows[(rows["system"] == system) & rows[column].notna()]
            part = pd.concat([part[part["arm"] == arm] for arm in ARMS])
            log = positive and bool((part[column] > 0).all())
            mean_band(axes, part, "epoch", column, group="arm", log=log, labels=ARMS, markers=True)
            axes.set_title(f"{name}\n{label}", fontsize=10)
            if log:
                log_axis(axes, "y", ticks=PLAIN)
    for axes in panels[-1]:
        axes.set_xlabel("epochs")
    figure.suptitle(f"{title}: means, bands of 95 %", x=0.01, ha="left")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=len(ARMS), fontsize=9)
    say_setting(figure, rows)
    return figure
