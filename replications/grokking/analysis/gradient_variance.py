"""The variance of noisy gradients over σ: a row a run, and the figure."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import MARKERS, log_axis, mean_band, subplots

from .shared.perturbation_rules import COLOURS, RULES


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    Columns, for each system and rule: `slope_<system>_<rule>`, the least-squares slope of log variance over log σ; with
    `log_ratio_<system>` the mean over σ of log10 of the NSO variance over that of WP-SGD; `wp_theory_<system>` the mean
    of log10 of the WP-SGD variance over σ² ‖H‖_F²/k, for σ up to 1e-3; `nso_theory_quartic` that of NSO over theory.
    """
    rows = {run: _variances_of(part) for run, part in records.groupby("run", sort=False)}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("run").assign(regime_reached=True)


def _variances_of(part: pd.DataFrame) -> dict[str, float]:
    values: dict[str, float] = {}
    for system, rows in part.groupby("system", sort=False):
        name = str(system).replace(" ", "_")
        wide = rows.pivot_table(index="sigma", columns="rule", values="variance")
        for rule in ("nso", "wp_sgd"):
            slope = np.polyfit(np.log(wide.index.to_numpy(dtype=float)), np.log(wide[rule].to_numpy()), 1)[0]
            values[f"slope_{name}_{rule}"] = float(slope)
        values[f"log_ratio_{name}"] = float(np.log10(wide["nso"] / wide["wp_sgd"]).mean())
        small = rows[rows["sigma"] <= 1e-3]
        ratios = small.assign(share=np.log10(small["variance"] / small["theory"]))
        shares = ratios.groupby("rule")["share"].mean()
        values[f"wp_theory_{name}"] = float(shares["wp_sgd"])
        if name == "quartic":
            values["nso_theory_quartic"] = float(shares["nso"])
    return values


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Variance over σ, a panel a loss, with what theory gives dashed."""
    systems = list(dict.fromkeys(records["system"]))
    figure, panels = subplots(1, len(systems), size=(9.0, 4.2), squeeze=False)
    for axes, system in zip(panels[0], systems, strict=True):
        rows = records[records["system"] == system]
        for number, rule in enumerate(("nso", "wp_sgd")):
            part = rows[rows["rule"] == rule]
            lines = mean_band(axes, part, "sigma", "variance", log=True, markers=True)
            lines[None].set(color=COLOURS[rule], marker=MARKERS[number], label=RULES[rule])
            for band in axes.collections[number:]:
                band.set_color(COLOURS[rule])
            theory = part.groupby("sigma")["theory"].mean().dropna()
            if len(theory):
                axes.plot(theory.index, theory, color="#5c6674", linestyle=(0, (4, 3)), marker="", label="theory")
        log_axis(axes, "x")
        axes.set_yscale("log")
        axes.set_title(str(system))
        axes.set_xlabel("σ")
    panels[0][0].set_ylabel("total variance of the gradient")
    handles, labels = panels[0][0].get_legend_handles_labels()
    known = dict(zip(labels, handles, strict=True))
    figure.legend(known.values(), known.keys(), loc="outside upper left", ncols=3, title="two gradients each")
    return {"gradient_variance": figure}
