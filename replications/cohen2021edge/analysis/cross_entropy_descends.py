"""The fall of λ₁ under cross-entropy: a row a run, and λ₁ with the loss along training."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import log_axis, mean_band, reference_line, subplots

from .shared.by_run import Measures, along_training, at_edge, by_run, log10_loss
from .shared.labels import say_what_is_reduced

SUCCESSIVE = 3
"""Measurements in a row that must be as high for a peak to count as more than the noise of one."""
FITTED = 0.1
"""A run counts as trained when its loss is below so many times that at the start."""
LOSSES = {"cross_entropy": "cross-entropy", "mse": "squared error"}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    Columns: `peak_ratio` and `final_ratio`, the largest and the last λ₁ over 2/η; `lasting_peak_ratio`, the largest
    height over which λ₁ stays for three measurements in a row after it was below 2/η (NaN if it never was below);
    `log10_fall`, log10 of the last λ₁ over the largest; `log10_lasting_fall`, log10 of the largest of the last three
    over the lasting peak; `log10_height_along` and `log10_loss_along`, curves from the first λ₁ of at least 2/η on:
    log10 of λ₁ over the lasting peak and of the loss over that at the start; `log10_loss` at the end over the start;
    `regime_reached`: the loss fell to a tenth.
    """
    return by_run(records, _descent)


def _descent(part: pd.DataFrame) -> Measures:
    along = along_training(part)
    peak, final = float(along["ratio"].max()), float(along["ratio"].iloc[-1])
    loss, lasting, since = log10_loss(along), _lasting_peak(along["ratio"]), at_edge(along)
    return {
        "peak_ratio": peak,
        "lasting_peak_ratio": lasting,
        "final_ratio": final,
        "log10_fall": float(np.log10(final / peak)),
        "log10_lasting_fall": float(np.log10(along["ratio"].tail(SUCCESSIVE).max() / lasting)),
        "log10_height_along": [*np.log10(since["ratio"] / lasting)] or [np.nan],
        "log10_loss_along": [*np.log10(since["loss"] / along["loss"].iloc[0])] or [np.nan],
        "log10_loss": loss,
        "regime_reached": loss <= np.log10(FITTED),
    }


def _lasting_peak(ratios: pd.Series) -> float:
    """The largest height that `SUCCESSIVE` measurements in a row come up to, from the first below the edge on."""
    since_below = ratios[(ratios < 1).cummax()]
    return float(since_below.rolling(SUCCESSIVE).min().max())


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`descent`: λ₁ over 2/η above, the loss below."""
    along = records[records["kind"] == "along"]
    figure, (above, below) = subplots(2, 1, size=(5.6, 5.4), sharex=True)
    names = {key: name for key, name in LOSSES.items() if key in set(along["objective"])}
    mean_band(above, along, "step", "ratio", group="objective", labels=names)
    mean_band(below, along, "step", "loss", group="objective", labels=names, log=True)
    reference_line(above, y=1.0, label="2/η")
    log_axis(below, "y")
    above.set(ylabel="λ₁ / (2/η)", ylim=(0, None))
    below.set(ylabel="training loss", xlabel="steps")
    figure.legend(*above.get_legend_handles_labels(), loc="outside upper left", ncols=3)
    return {"descent": say_what_is_reduced(figure, records)}
