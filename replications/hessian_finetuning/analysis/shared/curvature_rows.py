"""A row a run of what is measured along fine-tuning: losses, errors, Tr H and λ₁ at the end, and as curves."""

import numpy as np
import pandas as pd

CURVATURES = ("trace", "test_trace", "sharpness", "test_sharpness")


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`, from the last measurement; curves from all.

    Columns:
        trace, sharpness: Tr H and λ₁ of the training loss; test_trace, test_sharpness: of the test loss. With `log_`
            before it base 10, NaN where not positive. With the suffix `_standard_error` the error of the estimator.
        trace_per_nat_curve, loss_gap_curve, log_training_loss_curve: lists over all measurements: Tr H of the training
            loss, on `curvature_examples`, over the loss of all training examples, test minus training loss, and log10
            of the training loss.
        trace_curve, test_trace_curve, sharpness_curve, test_sharpness_curve, test_accuracy_curve: lists of the above.
        log_training_loss: base 10. loss_gap: test minus training loss in nats.
        sigma: of the noise that was injected, 0 where there is none.
        test_accuracy, validation_accuracy: in %. gradients: work spent, in gradients of a mini-batch.
        regime_reached: the run is complete and fine-tuning lowered the training loss.
    """
    last = records.sort_values("step").groupby("run", sort=False).last()
    rows = pd.DataFrame(index=last.index)
    for name in CURVATURES:
        positive = last[name].where(last[name] > 0)
        rows[name], rows[f"log_{name}"] = last[name], np.log10(positive)
        if name.endswith("trace"):
            rows[f"{name}_standard_error"] = last[f"{name}_standard_error"]
            rows[f"log_{name}_standard_error"] = last[f"{name}_standard_error"] / positive / np.log(10)
    rows["log_training_loss"] = np.log10(last["training_loss"])
    rows["loss_gap"] = last["test_loss"] - last["training_loss"]
    for split in ("test", "validation"):
        rows[f"{split}_accuracy"] = 100 * (1 - last[f"{split}_error"])
    rows["gradients"], rows["sigma"] = last["gradients"], last["sigma"]
    rows = rows.join(_curves(records))
    rows["regime_reached"] = (last["step"] == last["total_steps"]) & (
        last["training_loss"] < last["first_training_loss"]
    )
    return rows


def _curves(records: pd.DataFrame) -> pd.DataFrame:
    """What is compared at equal training loss, as lists along each run."""
    losses = records["training_loss"]
    along = {
        "trace_per_nat": records["trace"] / losses,
        "loss_gap": records["test_loss"] - losses,
        "log_training_loss": np.log10(losses),
        "test_accuracy": 100 * (1 - records["test_error"]),
        **{name: records[name] for name in CURVATURES},
    }
    ordered = records[["run", "step"]].assign(**along).sort_values("step")
    curves: pd.DataFrame = ordered.groupby("run", sort=False)[list(along)].agg(list)
    return curves.add_suffix("_curve")
