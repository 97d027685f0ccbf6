"""Figure 4 where grokking is late: accuracy over steps, times and fluctuation of every arm, and the Hessian."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import MARKERS, PALETTE, placeholder, subplots

from .shared.accuracies import accuracy_panels, dots, say_setting
from .shared.delays import LATE, delay_metrics, log_delay_of_grokking

REFERENCE = "large_decay"
PANELS = {
    "none": "a · no weight decay",
    "small_decay": "b · small weight decay",
    "large_decay": "c · large weight decay",
    "nso_0.01": "d · large decay, NSO of σ = 0.01",
}
SHORT = {
    "none": "no decay",
    "small_decay": "small decay",
    "large_decay": "large decay",
    "nso_0.003": "… NSO, σ = 0.003",
    "nso_0.01": "… NSO, σ = 0.01",
    "nso_0.03": "… NSO, σ = 0.03",
    "wp_sgd_0.003": "… WP-SGD, σ = 0.003",
    "wp_sgd_0.01": "… WP-SGD, σ = 0.01",
    "gradient_noise": "… gradient noise",
    "larger_epsilon": "… larger ε of Adam",
    "half_rate": "… half the rate",
    "averaged": "… averaged weights",
}
CURVATURE = ("large_decay", "nso_0.01", "wp_sgd_0.01", "gradient_noise", "larger_epsilon", "averaged")


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """`delay_metrics`, with whether grokking is late.

    More columns:
        log_delay_of_grokking: log10 of `delay_ratio`; 0 of a run that fits and never generalises.
        regime_reached: the run is complete, and large decay alone generalises, in the median over seeds, at least ten
            times as late as it fits.
    """
    table = delay_metrics(records)
    table["log_delay_of_grokking"] = log_delay_of_grokking(table)
    arms = records.groupby("run", sort=False)["arm"].first().reindex(table.index)
    median = table["log_delay_of_grokking"].fillna(-np.inf)[arms == REFERENCE].median()
    table["regime_reached"] = table["final_accuracy"].notna() & bool(median >= np.log10(LATE))
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """The four panels, every arm in numbers, and curvature over the loss."""
    arms = [arm for arm in SHORT if (records["arm"] == arm).any()]
    table = delay_metrics(records).join(records.groupby("run", sort=False)["arm"].first())
    columns = {
        "time_to_grok": "steps to 99 %",
        "delay_ratio": "steps to 99 % over\nsteps to fit",
        "late_fluctuation": "fluctuation at\nthe end (points)",
        "drops": "drops by more\nthan 5 points",
    }
    shown = {arm: PANELS[arm] for arm in arms if arm in PANELS}
    main = records[records["arm"].isin(shown)]
    title = "Figure 4 with a long delay"
    return {
        "fig4_late": accuracy_panels(main, "arm", shown, title + " · accuracy modulo {modulus}", deviation="D11"),
        "fig4_late_arms": dots(
            table, "arm", arms, columns, title=f"{title} · arms", records=main, names=SHORT, deviation="D11"
        ),
        "fig4_late_hessian": _curvature(records),
    }


def _curvature(records: pd.DataFrame) -> Figure:
    """Tr H and λ₁ over the loss of the same pairs at the same weights, a point a measurement."""
    rows = records[(records["kind"] == "curvature") & (records["step"] > 0) & records["arm"].isin(CURVATURE)]
    rows = rows[(rows["trace"] > 0) & (rows["sharpness"] > 0) & (rows["curvature_loss"] > 0)]
    if rows.empty:
        return placeholder("Curvature over the loss", "No run has a positive trace.")
    figure, panels = subplots(1, 2, size=(8.4, 4.4), sharex=True)
    for axes, (column, name) in zip(panels, {"trace": "Tr H", "sharpness": "λ₁"}.items(), strict=True):
        for place, arm in enumerate(CURVATURE):
            part = rows[rows["arm"] == arm]
            look = {"color": PALETTE[place], "marker": MARKERS[place], "linestyle": "none"}
            axes.plot(part["curvature_loss"], part[column], markersize=4, alpha=0.7, label=SHORT[arm], **look)
        axes.set(xscale="log", yscale="log", xlabel="loss of the same training pairs (nats)", title=name)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=3)
    say_setting(figure, records, "D11")
    return figure
