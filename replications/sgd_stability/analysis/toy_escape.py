"""SGD at a minimum at which gradient descent is stable: a row a run, and Fig. 15."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import PALETTE, log_axis, reference_line, subplots

VANISHING = 1e-9
"""A multiplier below is that of a step straight into the minimum (η = 1/a on the full batch), and left out."""
ROUNDING = 1e-9
"""Standard error below which a simulated multiplier is exact to rounding, as that of the full batch is."""
TITLES = {
    "sgd": "SGD, without ½",
    "sgd_half": "SGD, with ½",
    "gd": "GD, without ½",
}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    Columns: `escaped_share` of the trajectories; `all_escape` and `none_escapes` (0/1); `median_time` in steps;
    `first_ratio` and `second_ratio`, simulated over predicted multiplier averaged over the settings (of the first
    moment where it is at least 0.1 in size); `worst_z`, the largest deviation of a second moment in standard errors;
    `first_largest_z` and `second_largest_z`, the largest deviation of a multiplier over all settings in standard errors
    (of at least `ROUNDING`);
    `misjudged`, settings where (6) and the simulation disagree on stability by more than three standard errors;
    `deceptive_share` of the settings unstable by (6) whose typical trajectory still converges.
    """
    rows = [{"run": run, **_measures(part)} for run, part in records.groupby("run", sort=False)]
    return pd.DataFrame(rows).set_index("run")


def _measures(part: pd.DataFrame) -> dict[str, float | bool]:
    end = part[part["kind"] == "escape"].iloc[0]
    found: dict[str, float | bool] = {
        "escaped_share": float(end["escaped"]),
        "all_escape": float(end["escaped"] == 1),
        "none_escapes": float(end["escaped"] == 0),
        "median_time": float(end["median_time"]),
        "regime_reached": True,
    }
    table = part[part["kind"] == "multiplier"]
    if table.empty:
        return found
    every, table = table, table[table["second_predicted"] > VANISHING]
    noisy = table[table["second_error"] > 1e-12]
    z = (noisy["second"] - noisy["second_predicted"]) / noisy["second_error"]
    clear = table[table["first_predicted"].abs() >= 0.1]
    unstable = table[table["second_predicted"] > 1]
    grows = noisy["second"] - 1
    apart = (np.sign(grows) != np.sign(noisy["second_predicted"] - 1)) & (grows.abs() > 3 * noisy["second_error"])
    return {
        **found,
        "first_ratio": float((clear["first"] / clear["first_predicted"]).mean()),
        "second_ratio": float((table["second"] / table["second_predicted"]).mean()),
        "worst_z": float(z.abs().max()),
        **{f"{moment}_largest_z": _largest_z(every, moment) for moment in ("first", "second")},
        "misjudged": float(apart.sum()),
        "deceptive_share": float((unstable["typical"] < 0).mean()),
    }


def _largest_z(table: pd.DataFrame, moment: str) -> float:
    distance = (table[moment] - table[f"{moment}_predicted"]).abs()
    return float((distance / table[f"{moment}_error"].clip(lower=ROUNDING)).max())


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`fig15` and `multipliers`."""
    return {"fig15": _paths(records), "multipliers": _multipliers(records)}


def _paths(records: pd.DataFrame) -> Figure:
    """The first trajectories of the first seed."""
    paths = records[(records["kind"] == "path") & (records["seed"] == records["seed"].min())]
    figure, panels = subplots(3, 1, size=(5.6, 6.4), sharex=True, sharey=True)
    for axes, (arm, title) in zip(panels, TITLES.items(), strict=True):
        part = paths[paths["arm"] == arm].sort_values("step")
        for column in [name for name in part if str(name).startswith("x") and str(name)[1:].isdigit()]:
            shown = part[part["step"] <= 150]
            axes.plot(shown["step"], shown[column], color=PALETTE[0], linewidth=0.9, alpha=0.6)
        share = records[(records["kind"] == "escape") & (records["arm"] == arm)]["escaped"].mean()
        axes.set(title=f"{title}: {share:.0%} of trajectories leave x = 1", ylabel="x", ylim=(-0.6, 2.1))
    panels[-1].set_xlabel("steps")
    figure.suptitle("Fig. 15 · η = 0.7 from x = 1 − 10⁻⁵", x=0.01, ha="left")
    return figure


def _multipliers(records: pd.DataFrame) -> Figure:
    """Simulated against predicted mean-square multiplier, all settings of all seeds."""
    table = records[(records["kind"] == "multiplier") & (records["second_predicted"] > VANISHING)]
    figure, axes = subplots(size=(5.6, 4.4))
    for (size, part), colour in zip(table.groupby("batch"), PALETTE, strict=False):
        axes.plot(
            part["second_predicted"],
            part["second"],
            "o",
            color=colour,
            label=f"B = {size:.0f}",
            alpha=0.6,
            rasterized=True,
        )
    low, high = table["second_predicted"].min() * 0.7, table["second_predicted"].max() * 1.4
    axes.plot([low, high], [low, high], color="grey", linewidth=1, label="equal")
    reference_line(axes, x=1.0, label="stable to the left (6)")
    log_axis(axes, "x")
    log_axis(axes, "y")
    axes.set(
        xlabel="(1 − ηa)² + η²(n − B)s²/(B(n − 1))", ylabel="simulated E x′² / x²", title="Equation (6) and simulation"
    )
    axes.legend()
    return figure
