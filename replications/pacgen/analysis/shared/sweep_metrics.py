"""From the records of a sweep to one row a run: the measures that claims speak of."""

from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Losses:
    """Training losses (nats) that say how far a sweep got, and where its settings are compared.

    Attributes:
        fitted: a run reached its regime if its training loss over the last two evaluations is at most this in the
            mean: where gap and Ψ are read, at the end of training, and one epoch before, so that neither a run that is
            still falling nor one that ends in a spike qualifies.
        matched: settings are compared where each run first passes it.
    """

    fitted: float
    matched: float


LOSSES_OF = {"mnist": Losses(0.02, 0.05), "cifar10": Losses(1.0, 1.0)}
"""By data set. On MNIST a near-minimum, of which the paper speaks (D10); on CIFAR-10 well below guessing (D19)."""


LOGARITHMS = ("training_loss", "hessian_trace", "mean_squared_gradient", "rho", "rho_fixed_batch")


PREFIXES = ("psi", "share", "rho", "mean_", "hessian_")


LOSSES = ("training_loss", "test_loss", "gap", "training_error", "test_error")


ARM = ["momentum", "seed"]
"""What the settings of a sweep share."""


SETTINGS = ("rho_images", "rho_draws", "rho_batches")


RISING = (
    "gap",
    "psi",
    "psi_fixed_batch",
    "psi_no_rho",
    "matched_gap",
    "matched_log_mean_squared_gradient",
    "matched_log_hessian_trace",
)
"""Measures whose change from the smallest to the largest setting is taken within a seed."""


TRENDS = (*RISING, "test_error")
"""Measures whose slope over all settings is taken within a seed, for a doubling of the setting."""


PARAMETERS = {"mnist": 21_840, "cifar10": 31_340}
"""By data set, the number m of parameters of the network that a sweep trains (`common.models.MnistConvNet`)."""


CURVES = ("gap", "psi", "log_training_loss")
"""Measures that are kept as a curve along the training of a run."""


READINGS = {
    "psi": "as in the paper: squared gradients, ρ over coordinates",
    "psi_fixed_batch": "squared gradients at one mini-batch size for all, ρ over coordinates",
    "psi_hessian": "Hessian diagonal, ρ over coordinates",
    "psi_hessian_norm_rho": "Hessian diagonal, ρ from norms",
    "psi_no_rho": "squared gradients, ρ = 0",
    "psi_floor": "floor (no curvature)",
}


def losses_of(records: pd.DataFrame) -> Losses:
    """The losses that belong to the records' data set."""
    return LOSSES_OF[str(records["dataset"].iloc[0])]


def sweep_metrics(records: pd.DataFrame, axis: str) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    Columns: every measure at the last epoch; with prefix `matched_` the same where the training loss first passes
    `Losses.matched` (interpolated linearly in log training loss from the record before); with suffix `_rise` the
    measure at the largest minus that at the smallest setting of `axis`, with suffix `_slope` its least-squares slope
    over log₂ of all settings of `axis`, both the same in all runs of a seed and momentum; with suffix `_curve` a list,
    the measure at every full look of the run; `psi_without_rho_share`, the range over `axis` of Ψ − (m/2) log ρ, what
    of Ψ is left to the weights and to h once ρ is taken out, over the range of Ψ, the same in all runs of a seed and
    momentum; `regime_reached`. A run that ended before the last epoch, or never passed the loss, has NaN.
    """
    losses = losses_of(records)
    everything, measures = with_logarithms(records)
    complete = everything[everything["kind"] != "check"]
    last = at_last_epoch(everything, measures)
    rows = [
        {"run": run, **_at_loss(curve.sort_values("step"), measures, losses.matched)}
        for run, curve in complete.groupby("run", sort=False)
    ]
    table = last.join(pd.DataFrame(rows).set_index("run"))
    table["regime_reached"] = (
        _fitted(records, table.index, losses.fitted) & table["gap"].notna() & table["matched_gap"].notna()
    )
    placed = table.join(records.groupby("run", sort=False)[[axis, *ARM]].first())
    share = _share_without_rho(placed, PARAMETERS[str(records["dataset"].iloc[0])])
    return table.join([_rises(placed, axis), _slopes(placed, axis), _curves(complete), share])


def with_logarithms(records: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The records with logarithms (base 10) beside their quantities, and the names of all measures."""
    logarithms = {f"log_{name}": np.log10(records[name].clip(lower=1e-12)) for name in LOGARITHMS}
    measured = [name for name in map(str, records) if name.startswith(PREFIXES) and name not in SETTINGS]
    return records.assign(**logarithms), [*LOSSES, *measured, *logarithms]


def at_last_epoch(records: pd.DataFrame, measures: list[str]) -> pd.DataFrame:
    """The measures at the last epoch, indexed by `run`."""
    last = pd.DataFrame(records[(records["kind"] == "epoch") & (records["epoch"] == records["epoch"].max())])
    return last.set_index("run")[measures].reindex(pd.Index(records["run"].unique(), name="run"))


def _fitted(records: pd.DataFrame, runs: pd.Index, limit: float) -> pd.Series:
    """Whether the training loss is at most `limit` over the last two evaluations."""
    ends = {run: curve.sort_values("step")["training_loss"].tail(2).mean() for run, curve in records.groupby("run")}
    fitted: pd.Series = pd.Series(ends).reindex(runs) <= limit
    return fitted


def _rises(table: pd.DataFrame, axis: str) -> pd.DataFrame:
    """Measures at the largest minus at the smallest setting of each run's arm; NaN where one of them is missing."""
    names = list(RISING)
    smallest, largest = (
        table[table[axis] == end].set_index(ARM)[names] for end in (table[axis].min(), table[axis].max())
    )
    rises: pd.DataFrame = (largest - smallest).reindex(pd.MultiIndex.from_frame(table[ARM])).add_suffix("_rise")
    return rises.set_axis(table.index, axis="index")


def _slopes(table: pd.DataFrame, axis: str) -> pd.DataFrame:
    """Least-squares slopes over log₂ of the settings of each run's arm; NaN where a setting has no value."""
    arms = [table[name] for name in ARM]
    doublings = pd.Series(np.log2(table[axis].astype(float)), table.index)
    centred = doublings - doublings.groupby(arms).transform("mean")
    weights = centred / (centred**2).groupby(arms).transform("sum")
    shares = table[list(TRENDS)].mul(weights, axis="index")
    slopes: pd.DataFrame = shares.groupby(arms).transform(lambda part: part.sum(skipna=False))
    return slopes.add_suffix("_slope")


def _share_without_rho(table: pd.DataFrame, parameters: int) -> pd.Series:
    """Range of Ψ − (m/2) log ρ over that of Ψ, over the settings of each run's arm; NaN where a setting has no value.

    Where √(h + ρ √m κ) exceeds 1/κ in every coordinate and ρ √m κ is far above h, Ψ of eq. (24) is (m/2) log ρ plus a
    function of the weights alone.
    """
    rho = table["rho"].where(table["rho"] > 0)
    parts = pd.DataFrame({"psi": table["psi"], "rest": table["psi"] - parameters / 2 * np.log(rho)})
    arms = parts.groupby([table[name] for name in ARM])
    ranges = arms.transform(lambda part: part.max(skipna=False) - part.min(skipna=False))
    share: pd.Series = ranges["rest"] / ranges["psi"].where(ranges["psi"] > 0)
    return share.rename("psi_without_rho_share")


def _curves(looks: pd.DataFrame) -> pd.DataFrame:
    """The measures of `CURVES` along each run, as lists."""
    curves: pd.DataFrame = looks.sort_values("step").groupby("run", sort=False)[list(CURVES)].agg(list)
    return curves.add_suffix("_curve")


def _at_loss(curve: pd.DataFrame, measures: list[str], level: float) -> dict[str, float]:
    """Every measure where the training loss of one run first passes `level`."""
    loss = curve["training_loss"].to_numpy()
    below = np.flatnonzero(loss <= level)
    if not len(below):
        return {f"matched_{name}": float("nan") for name in measures}
    after = int(below[0])
    before = max(after - 1, 0)
    span = np.log(loss[before] / loss[after]) if after else 0.0
    share = float(np.log(loss[before] / level) / span) if span > 0 else 1.0
    values = curve[measures].to_numpy(dtype=float)
    mixed = (1 - share) * values[before] + share * values[after]
    return {f"matched_{name}": float(value) for name, value in zip(measures, mixed, strict=True)}
