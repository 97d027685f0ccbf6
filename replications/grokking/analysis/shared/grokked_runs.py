"""From the records of training runs to one row a run: when it grokked, and how curved it was afterwards."""

import numpy as np
import pandas as pd

GROKKED = 0.99
"""Validation accuracy from which a run counts as having grokked."""
DROP = 0.05
"""A drop is a fall of the validation accuracy by more than this from one evaluation to the next."""
LATE = 2 / 3
"""Share of a run after which its curvature counts as late."""
PER_NAT = {"trace": "trace_per_nat", "sharpness": "sharpness_per_nat"}
"""Curvatures that are also taken over the loss at the same weights on the same pairs."""
SIGNED = ("trace", "validation_trace")
"""Curvatures that may be negative, so that they are also taken without a logarithm."""


def run_metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    Columns:
        time_to_grok, gradients_to_grok: steps and gradients until the validation accuracy first is 99 % or more, with
            logarithms (base 10); NaN if it never is. share_to_grok: the steps over the length of the run, 1 if never.
        delay: steps from the first training accuracy of 99 % to the first such validation accuracy.
        fluctuation, drops: standard deviation (points) and number of drops over `window` steps after first reaching
            99 %; NaN without a full window. late_fluctuation: the standard deviation over the last `window` steps.
        best_accuracy, final_accuracy: in %.
        log_trace, log_validation_trace, log_sharpness: mean log10 over the last third of the run; with the suffix
            `_standard_error` the error of the estimator.
        log_trace_per_nat, log_sharpness_per_nat: the same of Tr H and λ₁ over the loss of the pairs and weights that
            they are of: where the gradients of the outputs stay, the curvature of the cross-entropy near a fit follows
            its loss about in proportion, which this takes out.
        trace, validation_trace: median over the last third of the run, of either sign.
        trace_per_nat_curve, sharpness_per_nat_curve, log_loss_curve: lists over the times at which curvature was
            measured and the loss of its pairs was positive ([NaN] if there is none): Tr H and λ₁ over that loss, and
            its log10.
        length: steps of the run.
    """
    rows = {run: _one_run(rows) for run, rows in records.groupby("run", sort=False)}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("run")


def single_metrics(records: pd.DataFrame) -> pd.DataFrame:
    """`run_metrics`, and `regime_reached` where the run is complete."""
    table = run_metrics(records)
    table["regime_reached"] = table["final_accuracy"].notna()
    return table


def _one_run(rows: pd.DataFrame) -> dict[str, float | list[float]]:
    looks = rows[rows["kind"] == "evaluation"].sort_values("step")
    interval, window = int(looks["evaluation_interval"].iloc[0]), int(looks["window"].iloc[0])
    length = int(looks["steps"].iloc[0] * looks["lengthening"].iloc[0])
    complete = int(looks["step"].iloc[-1]) == length
    time, gradients = _first_reaching(looks, "validation_accuracy")
    learnt, _ = _first_reaching(looks, "training_accuracy")
    grid = looks[looks["step"] % interval == 0]
    after = grid[(grid["step"] >= time) & (grid["step"] <= time + window)]["validation_accuracy"]
    late = grid[grid["step"] >= length - window]["validation_accuracy"]
    full = complete and time + window <= length
    return {
        "time_to_grok": time,
        "log_time_to_grok": float(np.log10(time)),
        "gradients_to_grok": gradients,
        "log_gradients_to_grok": float(np.log10(gradients)),
        "share_to_grok": time / length if np.isfinite(time) else 1.0,
        "delay": time - learnt,
        "fluctuation": 100 * after.std(ddof=1) if full else np.nan,
        "drops": float((after.diff() < -DROP).sum()) if full else np.nan,
        "late_fluctuation": 100 * late.std(ddof=1) if complete else np.nan,
        "best_accuracy": 100 * looks["validation_accuracy"].max(),
        "final_accuracy": 100 * looks["validation_accuracy"].iloc[-1] if complete else np.nan,
        "length": float(length),
        **_late_curvature(rows, length),
        **_curvature_curves(rows),
    }


def _first_reaching(looks: pd.DataFrame, accuracy: str) -> tuple[float, float]:
    """Step and gradients at the first evaluation with at least 99 %; NaN if there is none."""
    reached = looks[looks[accuracy] >= GROKKED]
    return (float(reached["step"].iloc[0]), float(reached["gradients"].iloc[0])) if len(reached) else (np.nan, np.nan)


def _late_curvature(rows: pd.DataFrame, length: int) -> dict[str, float]:
    """Mean logarithms over the last third, with the standard error of the estimator where it has one."""
    late = rows[(rows["kind"] == "curvature") & (rows["step"] > LATE * length)]
    names = ("trace", "validation_trace", "sharpness")
    if late.empty:
        return dict.fromkeys((*SIGNED, *(f"log_{name}" for name in (*names, *PER_NAT.values()))), np.nan)
    loss = late["curvature_loss"].where(late["curvature_loss"] > 0)
    values = {f"log_{ratio}": _mean_logarithm(late[name] / loss) for name, ratio in PER_NAT.items()}
    values |= {name: float(late[name].median()) for name in SIGNED}
    for name in names:
        values[f"log_{name}"] = _mean_logarithm(late[name])
        if name != "sharpness":
            relative = (late[f"{name}_standard_error"] / late[name].where(late[name] > 0)).to_numpy()
            values[f"log_{name}_standard_error"] = float(np.sqrt((relative**2).sum()) / len(late) / np.log(10))
    return values


def _curvature_curves(rows: pd.DataFrame) -> dict[str, list[float]]:
    """Curvatures per nat and log10 of the loss along the run."""
    measured = rows[rows["kind"] == "curvature"].sort_values("step")
    positive = measured if measured.empty else measured[measured["curvature_loss"] > 0]
    if positive.empty:
        return {f"{name}_curve": [np.nan] for name in (*PER_NAT.values(), "log_loss")}
    loss = positive["curvature_loss"]
    curves = {f"{ratio}_curve": (positive[name] / loss).tolist() for name, ratio in PER_NAT.items()}
    return {**curves, "log_loss_curve": np.log10(loss).tolist()}


def _mean_logarithm(values: pd.Series) -> float:
    """Mean log10; NaN if a value is missing or not positive."""
    return float(np.log10(values.where(values > 0)).mean(skipna=False))
