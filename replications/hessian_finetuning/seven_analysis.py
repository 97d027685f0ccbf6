"""From the records of `seven_methods` to one row a run."""

import numpy as np
import pandas as pd

MEASURES = {
    "measure": "Hessian measure",
    "test_measure": "… with test points",
    "mean_measure": "… mean for maximum",
    "curvature": "… without C",
    "root_largest_loss": "√C alone",
    "norm_product": "norm product",
    "weight_norm": "weight norm",
    "distance": "distance from start",
}
"""The readings of the measure, its parts and its rivals, with the names that figures give them."""


def seven_metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    Columns:
        loss_gap (nats), error_gap (points): test minus training. test_error, validation_error: in %.
        log_training_loss: base 10. validation_loss: nats, what strengths are selected by.
        measure and the others of `MEASURES`.
        vacuity: training loss plus measure over the loss of guessing, log(classes): below 1 it says something.
        regime_reached: the run is complete and fine-tuning lowered the training loss.
    """
    table = records.set_index("run")
    rows = pd.DataFrame(index=table.index)
    rows["loss_gap"] = table["test_loss"] - table["training_loss"]
    rows["error_gap"] = 100 * (table["test_error"] - table["training_error"])
    rows["test_error"], rows["validation_error"] = 100 * table["test_error"], 100 * table["validation_error"]
    rows["validation_loss"] = table["validation_loss"]
    rows["log_training_loss"] = np.log10(table["training_loss"])
    for name in MEASURES:
        rows[name] = table[name]
    rows["vacuity"] = (table["training_loss"] + table["measure"]) / np.log(table["classes"])
    rows["regime_reached"] = table["training_loss"] < table["first_training_loss"]
    return rows


def selected(table: pd.DataFrame) -> pd.DataFrame:
    """Of each system, method and seed the run whose strength has the lowest validation loss."""
    best = table.groupby(["system", "method", "seed"], sort=False)["validation_loss"].idxmin()
    return table.loc[best]


def within_seed_correlations(table: pd.DataFrame) -> pd.DataFrame:
    """Rank correlation of each measure with the loss gap over all settings of a system and seed: a row each."""
    rows = []
    for (system, seed), part in table.groupby(["system", "seed"], sort=False):
        for name in MEASURES:
            value = part[name].corr(part["loss_gap"], method="spearman")
            rows.append({"system": system, "seed": seed, "measure": name, "correlation": value})
    return pd.DataFrame(rows)
