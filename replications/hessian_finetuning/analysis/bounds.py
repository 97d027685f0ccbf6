"""From the records of `bounds` to one row a run, and the figure of Theorem 1."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import MARKERS, PALETTE, abreast, log_axis, mean_band, note, subplots

from .shared.source_names import system_names, trained_parts

LEAST_GAP = 1e-3
"""Nats; a smaller gap (or a negative one) counts as this."""
FITTED = 0.05
SERIES = {
    "norm_product": "product of norms\n(Bartlett et al.)",
    "catoni": "Catoni",
    "mcallester": "McAllester",
    "hessian_bound": "Theorem 1",
    "cut_test_loss": "test loss",
    "gap": "test − training loss",
}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`: logs (base 10) of bounds over what they bound, and natural logs of bounds."""
    table = records.drop_duplicates("run", keep="last").set_index("run")
    found = table.drop(columns=["seed", "system", "depth"], errors="ignore").copy()
    gap = table["gap"].clip(lower=LEAST_GAP)
    found["theorem_over_gap"] = np.log10((table["hessian_bound"] - table["cut_training_loss"]) / gap)
    found["theorem_over_test_loss"] = np.log10(table["hessian_bound"] / table["cut_test_loss"])
    found["mcallester_over_test_loss"] = np.log10(table["mcallester"] / table["mcallester_bounds"])
    found["catoni_over_test_loss"] = np.log10(table["catoni"] / table["catoni_bounds"])
    found["theorem_over_limit"] = np.log10(table["hessian_bound"] / table["limit_of_loss"])
    found["mcallester_over_theorem"] = np.log10(table["mcallester"] / table["hessian_bound"])
    found["norms_over_theorem"] = np.log10(table["norm_product"] / table["hessian_bound"])
    found["log_norm_product"] = np.log(table["norm_product"])
    found["log_theorem"] = np.log(table["hessian_bound"])
    found["log_norms_over_theorem"] = found["log_norm_product"] - found["log_theorem"]
    found["regime_reached"] = table["training_error"] <= FITTED
    return found


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Bounds and gap over depth (left), and on the pretrained image network (right)."""
    figure, (left, right) = subplots(1, 2, size=(11.0, 4.6), sharey=True, width_ratios=(2.6, 1))
    long = records.melt(["seed", "system", "depth"], list(SERIES), "series", "value")
    long["value"] = long["value"].clip(lower=LEAST_GAP)
    digits, image = (long[long["system"] == name] for name in ("digits", "image"))
    mean_band(left, digits, "depth", "value", group="series", labels=SERIES, log=True, markers=True)
    names = system_names(records, "\n")
    left.set(title=names["digits"], xlabel="layers", ylabel="nats (the product of norms: no unit)")
    left.set_xticks(sorted(digits["depth"].unique()))
    if not image.empty:
        for number, (series, part) in enumerate(image.groupby("series", sort=False)):
            right.plot(
                number + abreast(len(part), 0.5),
                part["value"],
                MARKERS[number],
                color=PALETTE[number],
                label=f"_{series}",
            )
        right.set(title=names["image"])
    right.set(xlabel="trained part, a point a seed", xticks=[])
    log_axis(left, "y")
    figure.legend(*left.get_legend_handles_labels(), loc="outside right upper")
    figure.suptitle("Theorem 1, PAC-Bayes bounds and the product of norms", x=0.01, ha="left")
    note(figure, "; ".join(filter(None, ["losses cut off at C (D7)", trained_parts(records)])), "deviation")
    return {"theorem1": figure}
