"""From the records of `noise_injection` to one row a run."""

import numpy as np
import pandas as pd

CURVATURES = ("trace", "test_trace", "sharpness")


def noise_metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`, from the last measurement.

    Columns:
        trace, test_trace, sharpness: Tr H of the training and of the test loss and λ₁ of the training loss; log_trace,
            log_test_trace, log_sharpness: base 10, NaN where not positive. With the suffix `_standard_error` the error
            of the estimator.
        log_training_loss: base 10. loss_gap: test minus training loss in nats.
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
    rows["gradients"] = last["gradients"]
    rows["regime_reached"] = (last["step"] == last["total_steps"]) & (
        last["training_loss"] < last["first_training_loss"]
    )
    return rows
