"""Where each rule begins to grow on a quadratic: a row a run, and the growth around the threshold."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import MARKERS, PALETTE, reference_line, subplots

from .shared.labels import rule_name


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run: growth a step, and the threshold that was found over the formula."""
    table = records.set_index("run")
    return table.assign(threshold_ratio=table["threshold"] / table["formula"], regime_reached=True)[
        ["growth", "threshold_ratio", "regime_reached"]
    ]


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Growth a step of every seed, by rule, below and above the rule's threshold."""
    figure, axes = subplots(size=(5.6, 4.2))
    rules = list(dict.fromkeys(zip(records["rule"], records["momentum"], strict=True)))
    sides = sorted(records["curvature_ratio"].unique())
    for ratio, colour, marker in zip(sides, PALETTE, MARKERS, strict=False):
        part = records[records["curvature_ratio"] == ratio]
        places = [rules.index(rule) for rule in zip(part["rule"], part["momentum"], strict=True)]
        of_rule = part.groupby(["rule", "momentum"])["growth"]
        at = np.array(places) + 0.06 * (of_rule.cumcount() - (of_rule.transform("size") - 1) / 2)
        side = "above" if ratio > 1 else "below"
        label = f"λ₁ {abs(ratio - 1):.0%} {side} the rule's threshold".replace("%", " %")
        axes.plot(at, part["growth"], marker, linestyle="none", color=colour, label=label, alpha=0.85)
    reference_line(axes, y=0.0, label="neither grows nor shrinks")
    names = [rule_name(pd.Series({"rule": rule, "momentum": momentum})) for rule, momentum in rules]
    axes.set_xticks(range(len(rules)), names)
    axes.set(xlim=(-0.5, len(rules) - 0.5), ylabel="log growth of the iterate a step")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left")
    return {"growth": figure}
