"""Fig. 3: a row a run, curvature and validation results along fine-tuning by SGD, WP-SGD and NSO."""

import pandas as pd
from matplotlib.figure import Figure

from common.figures import mean_band, subplots

from .shared import curvature_rows
from .shared.source_names import say_setting, system_names

__all__ = ["figures", "metrics"]

ARMS = {"sgd": "SGD", "sgd_twice": "SGD, twice the epochs", "wp_sgd": "WP-SGD", "nso": "NSO"}
CURVATURE = {
    "trace": "Tr H, training loss",
    "test_trace": "Tr H, test loss",
    "sharpness": "λ₁, training loss",
    "test_sharpness": "λ₁, test loss",
}
VALIDATION = {"validation_loss": "validation loss (nats)", "validation_accuracy": "validation accuracy (%)"}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`: `curvature_rows`, and three columns in nats.

    Columns:
        test_loss: at the end. rise, test_rise: of the loss of training and test examples under noise in the weights,
            at the end. rise_curve: a list over all measurements.
    """
    along = records.sort_values("step").groupby("run", sort=False)
    last = along.last()[["test_loss", "rise", "test_rise"]]
    return curvature_rows.metrics(records).join(last).assign(rise_curve=along["rise"].agg(list))


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
    figure, panels = subplots(len(systems), count, size=(3.2 * count + 2.4, 3.0 * len(systems) + 1.0), squeeze=False)
    for row, (system, name) in zip(panels, systems.items(), strict=True):
        for axes, (column, label) in zip(row, columns.items(), strict=True):
            part = rows[(rows["system"] == system) & rows[column].notna()]
            part = pd.concat([part[part["arm"] == arm] for arm in ARMS])
            log = positive and bool((part[column] > 0).all())
            mean_band(axes, part, "epoch", column, group="arm", log=log, labels=ARMS, markers=True)
            axes.set_title(f"{name}\n{label}", fontsize=10)
            if log:
                axes.set_yscale("log")
    for axes in panels[-1]:
        axes.set_xlabel("epochs")
    figure.suptitle(title, x=0.01, ha="left")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside right upper", title="means, bands: 95 %")
    say_setting(figure, rows)
    return figure
