"""What a linear classifier finds in the frozen features."""

import pandas as pd
from matplotlib.figure import Figure

from common.figures import PALETTE, note, subplots

from .shared.source_names import substitutions, system_names

RAW = {"digits": "pixels", "molecules": "packed graphs"}
"""What the probe is given where nothing is pretrained."""


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a system: test accuracy of the linear probe, and its excess over chance."""
    table = records.drop_duplicates("run", keep="last").set_index("run")[["classes", "probe_accuracy"]]
    table["probe_gain"] = table["probe_accuracy"] - 1 / table["classes"]
    table["regime_reached"] = True
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Test accuracy of the linear probe of each system, beside chance."""
    figure, axes = subplots(size=(8.4, 3.2))
    table = records.sort_values("system")
    names = system_names(table, "\n")
    names |= {system: f"{raw}\n{names[system].split(chr(10))[1]}" for system, raw in RAW.items() if system in names}
    places = range(len(table))
    axes.barh(places, table["probe_accuracy"], color=PALETTE[0], height=0.5, label="linear probe")
    axes.scatter(1 / table["classes"], places, marker="D", s=40, color=PALETTE[1], zorder=3, label="chance")
    axes.set_yticks(list(places), [names[name] for name in table["system"]])
    axes.set(xlabel="test accuracy of the linear probe", xlim=(0, 1))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper")
    figure.suptitle("What the untouched networks tell a linear classifier", x=0.01, ha="left")
    if text := substitutions(table):
        note(figure, text, "substitution")
    return {"frozen_features": figure}
