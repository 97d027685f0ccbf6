"""How far a quadratic model of the loss goes wrong: a row a run, and both losses along the way."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from common.figures import PALETTE, mark_seed, subplots

from .shared.by_run import Measures, by_run
from .shared.labels import say_what_is_reduced

MOMENTS = {
    "before": "before, λ₁ ≥ {start_ratio:g} · 2/η",
    "first_crossing": "first crossing, λ₁ ≥ {start_ratio:g} · 2/η",
    "settled": "≥ {wait:g} steps after λ₁ came to 2/η",
}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    Columns: `log10_model_growth`, the largest value of the quadratic model on the way over its first; `log10_growth`,
    the last loss over the first; `gap`, the distance of the last two over the first loss, and `gap_over_fall`, over
    what the loss fell by; `start`, the step of training at which the expansion was made; `regime_reached`: λ₁ came to
    the height asked for.
    """
    return by_run(records, _expansion)


def _expansion(part: pd.DataFrame) -> Measures:
    here = part[part["kind"] == "from_here"].sort_values("step")
    if here.empty:
        names = ("log10_model_growth", "log10_growth", "gap", "gap_over_fall", "start")
        return {**dict.fromkeys(names, np.nan), "regime_reached": False}
    model, loss = here["model_loss"].to_numpy(), here["loss"].to_numpy()
    gap = abs(model[-1] - loss[-1])
    return {
        "log10_model_growth": float(np.log10(model[1:].max() / loss[0])),
        "log10_growth": float(np.log10(loss[-1] / loss[0])),
        "gap": float(gap / loss[0]),
        "gap_over_fall": float(gap / abs(loss[0] - loss[-1])),
        "start": float(here["start"].iloc[0]),
        "regime_reached": True,
    }


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`expansion`: a panel a moment, how far both losses went from the first, every seed."""
    here = records[records["kind"] == "from_here"]
    moments = {key: name for key, name in MOMENTS.items() if key in set(here["moment"])}
    figure, panels = subplots(1, max(1, len(moments)), size=(10.2, 3.8), squeeze=False, sharey=True)
    for axes, (moment, name) in zip(panels[0], moments.items(), strict=False):
        part = here[here["moment"] == moment]
        _both(axes, part)
        title = name.format(**part.iloc[0])
        axes.set(title=title, xlabel="steps from there", ylim=(-60, 1e4))
        axes.set_yscale("symlog", linthresh=1, linscale=0.7)
        axes.set_yticks([-10, -1, 0, 1, 10, 100, 1000, 10000], ["−10", "−1", "0", "1", "10", "100", "1,000", "10,000"])
        axes.yaxis.set_minor_locator(NullLocator())
    panels[0, 0].set_ylabel("change of the loss (%)")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return {"expansion": say_what_is_reduced(figure, records)}


def _both(axes: Axes, part: pd.DataFrame) -> None:
    for number, (_, curve) in enumerate(part.groupby("run", sort=False)):
        curve = curve.sort_values("step")
        first = curve["loss"].iloc[0]
        for column, colour, style, name in (
            ("loss", PALETTE[0], "-", "the loss"),
            ("model_loss", PALETTE[1], "--", "its quadratic model"),
        ):
            change = 100 * (curve[column] / first - 1)
            label = None if number else name
            line = axes.plot(curve["step"], change, style, color=colour, linewidth=1.3, alpha=0.85, label=label)
            mark_seed(line, curve["seed"].iloc[0])
