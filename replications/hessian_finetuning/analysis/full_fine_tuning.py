"""All layers trained: a row a run, curvature and generalisation at the end of fine-tuning by SGD, SAM and NSO."""

import pandas as pd
from matplotlib.figure import Figure

from common.figures import PALETTE, note, subplots

from .shared.curvature_rows import metrics as curvature_metrics
from .shared.dots import dots
from .shared.source_names import substitutions, system_names

__all__ = ["figures", "metrics"]

ARMS = {"sgd_half": "SGD, as many steps", "sgd": "SGD, as many gradients", "sam": "SAM", "nso": "NSO"}
SHOWN = {
    "trace": "Tr H, training loss",
    "sharpness": "λ₁, training loss",
    "test_trace": "Tr H, test loss",
    "gap": "test − training loss (nats)",
    "accuracy": "test accuracy (%)",
}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """As along every fine-tuning, but a run reaches the regime only where it halves its training loss (D15)."""
    last = records.sort_values("step").groupby("run", sort=False).last()
    rows = curvature_metrics(records)
    rows["regime_reached"] &= last["training_loss"] < last["first_training_loss"] / 2
    return rows


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """A panel a system and quantity: the runs of each arm at the end, a dot a seed, a bar at the mean."""
    rows = records.sort_values("step").groupby("run", sort=False).tail(1)
    rows = rows.assign(gap=rows["test_loss"] - rows["training_loss"], accuracy=100 * (1 - rows["test_error"]))
    systems = system_names(rows)
    arms = [arm for arm in ARMS if (rows["arm"] == arm).any()]
    size = 2.7 * len(SHOWN) + 1.6, 2.2 * len(systems) + 0.8
    figure, panels = subplots(len(systems), len(SHOWN), size=size, squeeze=False, sharey=True)
    for row, (system, name) in zip(panels, systems.items(), strict=True):
        for axes, (column, label) in zip(row, SHOWN.items(), strict=True):
            part = rows[rows["system"] == system]
            dots(axes, [part.loc[part["arm"] == arm, column] for arm in arms], list(PALETTE[: len(arms)]))
            axes.set_yticks(range(len(arms)), [ARMS[arm] for arm in arms])
            axes.set(xlabel=label, ylim=(len(arms) - 0.5, -0.5))
        row[0].set_title(name, loc="left", fontsize=10)
    figure.suptitle("All layers trained · curvature and generalisation at the end", x=0.01, ha="left")
    said = [substitutions(rows), f"{rows['seed'].nunique()} seeds", *_chosen(rows)]
    note(figure, "; ".join(filter(None, said)), "deviation")
    return {"full": figure}


def _chosen(rows: pd.DataFrame) -> list[str]:
    """Which strengths the seeds have chosen, a text for each arm that has one."""
    symbols = {"sam": "ρ", "nso": "σ"}
    found = {arm: rows.loc[rows["arm"] == arm, "strength"] for arm in symbols}
    return [
        f"{symbols[arm]} of {ARMS[arm]}: "
        + ", ".join(f"{value:g} ({(values == value).sum()})" for value in sorted(set(values)))
        for arm, values in found.items()
        if len(values)
    ]
