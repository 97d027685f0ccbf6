"""Numbers of a run: its plateau at the edge, its fall from it, and how far a quadratic model goes wrong."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from .setting import stability_factor

ENOUGH = 5
"""Measurements of λ₁ at the edge without which there is no plateau to speak of."""
BAND = (0.95, 1.1)
"""Between these multiples of its threshold λ₁ is on the plateau, in the mean."""
SUCCESSIVE = 3
"""Measurements in a row that must be as high for a peak to count as more than the noise of one."""
FITTED = 0.1
"""A run counts as trained when its loss is below so many times that at the start."""

Measures = dict[str, float | bool]


def plateau_metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    Columns: `edge_ratio`, the mean of λ₁ over the rule's maximum stable sharpness from when λ₁ first reached it to
    the end, or over the last five measurements where it did not, or later; `curvature_times_rate`, the same mean of
    λ₁ · η; `log_curvature_times_rate`, its logarithm; `came`, 1 if there are five measurements from when λ₁ first
    reached the edge on; `on_plateau`, 1 if moreover their mean is within `BAND`; `peak_ratio`; `log10_loss` at the
    end over the start; `regime_reached`: the run was followed to its end, wherever λ₁ came.
    """
    return _by_run(records, _plateau)


def descent_metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    Columns: `peak_ratio` and `final_ratio`, the largest and the last λ₁ over 2/η; `lasting_peak_ratio`, the largest
    height over which λ₁ stays for three measurements in a row after it was below 2/η (NaN if it never was below);
    `log10_fall`, log10 of the last λ₁ over the largest; `log10_loss` at the end over the start; `regime_reached`: the
    loss fell to a tenth.
    """
    return _by_run(records, _descent)


def expansion_metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    Columns: `log10_model_growth`, the largest value of the quadratic model on the way over its first; `log10_growth`,
    the last loss over the first; `gap`, the distance of the last two over the first loss; `start`, the step of
    training at which the expansion was made; `regime_reached`: λ₁ came to the height asked for.
    """
    return _by_run(records, _expansion)


def _by_run(records: pd.DataFrame, measures: Callable[[pd.DataFrame], Measures]) -> pd.DataFrame:
    rows = [{"run": run, **measures(part)} for run, part in records.groupby("run", sort=False)]
    return pd.DataFrame(rows).set_index("run")


def _along(part: pd.DataFrame) -> pd.DataFrame:
    return part[part["kind"] == "along"].sort_values("step")


def _log10_loss(along: pd.DataFrame) -> float:
    return float(np.log10(along["loss"].iloc[-1] / along["loss"].iloc[0]))


def at_edge(along: pd.DataFrame) -> pd.DataFrame:
    """The measurements from the first at or above the edge on."""
    return along[(along["ratio"] >= 1).cummax()]


def _plateau(part: pd.DataFrame) -> Measures:
    along, one = _along(part), part.iloc[0]
    since = len(at_edge(along))
    factor = stability_factor(one["rule"], float(one["momentum"]))
    mean = float(along["ratio"].tail(max(since, ENOUGH)).mean())
    came = since >= ENOUGH
    return {
        "edge_ratio": mean,
        "curvature_times_rate": mean * factor,
        "log_curvature_times_rate": float(np.log(mean * factor)),
        "came": float(came),
        "on_plateau": float(came and BAND[0] < mean < BAND[1]),
        "peak_ratio": float(along["ratio"].max()),
        "log10_loss": _log10_loss(along),
        "regime_reached": bool(along["step"].iloc[-1] == one["steps"]),
    }


def _descent(part: pd.DataFrame) -> Measures:
    along = _along(part)
    peak, final = float(along["ratio"].max()), float(along["ratio"].iloc[-1])
    loss = _log10_loss(along)
    return {
        "peak_ratio": peak,
        "lasting_peak_ratio": _lasting_peak(along["ratio"]),
        "final_ratio": final,
        "log10_fall": float(np.log10(final / peak)),
        "log10_loss": loss,
        "regime_reached": loss <= np.log10(FITTED),
    }


def _lasting_peak(ratios: pd.Series) -> float:
    """The largest height that `SUCCESSIVE` measurements in a row come up to, from the first below the edge on."""
    since_below = ratios[(ratios < 1).cummax()]
    return float(since_below.rolling(SUCCESSIVE).min().max())


def _expansion(part: pd.DataFrame) -> Measures:
    here = part[part["kind"] == "from_here"].sort_values("step")
    if here.empty:
        names = ("log10_model_growth", "log10_growth", "gap", "start")
        return {**dict.fromkeys(names, np.nan), "regime_reached": False}
    model, loss = here["model_loss"].to_numpy(), here["loss"].to_numpy()
    return {
        "log10_model_growth": float(np.log10(model[1:].max() / loss[0])),
        "log10_growth": float(np.log10(loss[-1] / loss[0])),
        "gap": float(abs(model[-1] - loss[-1]) / loss[0]),
        "start": float(here["start"].iloc[0]),
        "regime_reached": True,
    }
