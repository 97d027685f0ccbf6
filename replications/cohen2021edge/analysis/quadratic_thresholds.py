"""Where each rule begins to grow on a quadratic: a row a run, and the growth around the threshold."""

import pandas as pd
from matplotlib.figure import Figure

from common.figures import PALETTE, reference_line, subplots

from .shared.labels import rule_name


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run: growth a step, and the threshold that was found over the formula."""
    table = records.set_index("run")
    return table.assign(threshold_ratio=table["threshold"] / table["formula"], regime_reached=True)[
        ["growth", "threshold_ratio", "regime_reached"]
    ]


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Growth a step of every seed against λ₁ over the threshold."""
    figure, axes = subplots()
    arms = records.groupby(["rule", "momentum"], sort=False)
    for number, ((rule, momentum), part) in enumerate(arms):
        name = rule_name(pd.Series({"rule": rule, "momentum": momentum}))
        shift = 0.0012 * (number - len(arms) / 2)
        axes.plot(part["curvature_ratio"] + shift, part["growth"], "o", color=PALETTE[number], label=name)
    reference_line(axes, y=0.0, label="neither grows nor shrinks")
    axes.set(xlabel="λ₁ over the rule's threshold", ylabel="log growth of the iterate a step")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return {"growth": figure}
