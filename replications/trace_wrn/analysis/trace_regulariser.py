"""Tables 7 to 9: from the records of the trace regulariser to one row a run, and figures."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import log_axis, mean_band, subplots

from .shared.trace_penalty import ARMS, differences_figure, note_setting, regulariser_metrics

metrics = regulariser_metrics


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Differences from η = 0 at the same seed, and the objective over the epochs."""
    curves, axes = subplots(size=(6.0, 4.0))
    epochs = records[records["kind"] == "epoch"]
    names = {"none": "no penalty", **ARMS}
    mean_band(axes, epochs[np.isfinite(epochs["step_loss"])], "epoch", "step_loss", group="arm", labels=names)
    log_axis(axes, "y")
    axes.set(
        xlabel="epochs", ylabel="loss and penalty that steps descend (nats)", title="Training with a trace penalty"
    )
    axes.legend()
    decides = str(records.iloc[0]["dataset"]) == "cifar100"
    note_setting(curves, records, decides=decides)
    differences = differences_figure(records, "Tables 7 to 9", decides=decides)
    return {"tables_7_8": differences, "training_with_penalty": curves}
