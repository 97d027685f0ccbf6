"""The last measurement of every control, and its accuracy over steps."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from .shared.accuracies import accuracy_panels


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run: accuracies (%) and log10 of the losses at the last evaluation, `regime_reached` when complete."""
    looks = records[records["kind"] == "evaluation"].sort_values("step")
    last = looks.groupby("run", sort=False).last().reindex(pd.Index(records["run"].unique(), name="run"))
    table = pd.DataFrame(index=last.index)
    for kind in ("training", "validation"):
        table[f"{kind}_accuracy"] = 100 * last[f"{kind}_accuracy"]
        table[f"log_{kind}_loss"] = np.log10(last[f"{kind}_loss"])
    table["regime_reached"] = last["step"] == last["steps"] * last["lengthening"]
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Accuracy over steps in the arms of the controls."""
    names = {
        "true_answers": "true answers",
        "true_answers_again": "true answers, table divided anew",
        "shuffled_answers": "shuffled training answers",
    }
    titles = {arm: name for arm, name in names.items() if (records["arm"] == arm).any()}
    return {"controls": accuracy_panels(records, "arm", titles, "Controls · accuracy modulo {modulus}")}
