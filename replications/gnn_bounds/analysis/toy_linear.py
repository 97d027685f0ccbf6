"""From the records of the linear toy to one row a run, and its figure."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import PALETTE, log_axis, mean_band, note, subplots


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`: slopes of log gaps over log N and log r, and the largest log ratio to C/√N.

    What runs over N is of the largest radius. A trained gap may be negative: `trained_gap_slope` and `log_trained_gap`
    have no value then. `mean_trained_gap` is the mean over N, and `trained_gap_excess` the gap at the largest N times
    √(N/N_min) minus the gap at N_min (both in nats): below 0 where the gap falls faster than N^-½ between the two.
    """
    rows = {}
    for name, part in records.groupby("run", sort=False):
        wide = part[part["radius"] == part["radius"].max()].sort_values("examples")
        many = part[part["examples"] == part["examples"].max()].sort_values("radius")
        trained = wide["trained_gap"]
        growth = (wide["examples"].iloc[-1] / wide["examples"].iloc[0]) ** 0.5
        rows[name] = {
            "largest_gap_slope": _slope(wide["examples"], wide["largest_gap"]),
            "trained_gap_slope": _slope(wide["examples"], trained),
            "radius_slope": _slope(many["radius"], many["largest_gap"]),
            "largest_log_gap_over_bound": float(np.log(part["largest_gap"] / part["bound"]).max()),
            "log_largest_gap": float(np.log(wide["largest_gap"]).mean()),
            "log_trained_gap": float(np.log(trained).mean()) if (trained > 0).all() else np.nan,
            "mean_trained_gap": float(trained.mean()),
            "trained_gap_excess": float(trained.iloc[-1] * growth - trained.iloc[0]),
            "regime_reached": True,
        }
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index.name = "run"
    return table


def _slope(x: pd.Series, y: pd.Series) -> float:
    """Least-squares slope of log y over log x; NaN where a y is not positive."""
    if not (y > 0).all():
        return float("nan")
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Gaps and bounds over N at the largest radius, and over C at the largest N."""
    part = records[records["arm"] == "teacher"]
    figure, (left, right) = subplots(1, 2, size=(9.0, 4.3), sharey=False)
    radii = sorted(part["radius"].unique())
    middle = radii[len(radii) // 2]
    for axes, x, chosen in (
        (left, "examples", part[part["radius"] == middle]),
        (right, "constant", part[part["examples"] == part["examples"].max()]),
    ):
        if x == "constant":  # it differs a little between seeds: the largest norm of a drawn graph
            chosen = chosen.assign(constant=chosen.groupby("radius")["constant"].transform("mean"))
        _curves(axes, chosen, x)
    left.set(xlabel="training graphs $N$", ylabel="gap, fresh minus training loss", title=f"Radius $r$ = {middle:g}")
    right.set(xlabel="norm bound $C$", title=f"$N$ = {part['examples'].max():g}")
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    note(figure, "constants of both bounds are one; graphs, features and teacher are ours (D8)", "deviation")
    return {"toy_linear": figure}


def _curves(axes, part: pd.DataFrame, x: str) -> None:  # type: ignore[no-untyped-def]
    series = {
        "bound": "C/√N",
        "printed_bound": "√(C/N), as printed",
        "largest_gap": "largest gap of the class (linear loss)",
        "trained_gap": "trained network (logistic loss)",
    }
    long = part.melt(["seed", x], list(series), "series", "value")
    mean_band(axes, long, x, "value", group="series", labels=series)  # gaps of single seeds may be negative
    for line, (colour, style) in zip(
        [line for line in axes.lines if not str(line.get_label()).startswith("_")],
        ((PALETTE[0], "--"), (PALETTE[1], "--"), (PALETTE[2], "-"), (PALETTE[3], "-")),
        strict=True,
    ):
        line.set(color=colour, linestyle=style)
    log_axis(axes, "x", sorted(part[x].unique()) if x == "examples" else None)
    log_axis(axes, "y")
    means = long.groupby(["series", x])["value"].mean()
    axes.set_ylim(bottom=means[means > 0].min() / 3)
