"""Fig. 3: a row a run, curvature and validation results along fine-tuning by SGD, WP-SGD and NSO."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import mean_band, subplots

from .shared.source_names import say_setting, system_names

CURVATURES = ("trace", "test_trace", "sharpness", "test_sharpness")
ARMS = {"sgd": "SGD", "sgd_twice": "SGD, twice the epochs", "wp_sgd": "WP-SGD", "nso": "NSO"}
CURVATURE = {
    "trace": "Tr H, training loss",
    "test_trace": "Tr H, test loss",
    "sharpness": "λ₁, training loss",
    "test_sharpness": "λ₁, test loss",
}
VALIDATION = {"validation_loss": "validation loss (nats)", "validation_accuracy": "validation accuracy (%)"}


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


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Tr H and λ₁ over the epochs, and validation loss and accuracy."""
    rows = records[records["arm"].isin(ARMS)].copy()
    rows["validation_accuracy"] = 100 * (1 - rows["validation_error"])
    return {
        "fig3": _panels(rows, CURVATURE, "Figure 3 · the Hessian along fine-tuning", positive=True),
        "fig3_validation": _panels(rows, VALIDATION, "Figure 3 · validation along fine-tuning"),
    }


def _panels(rows: pd.DataFrame, columns: dict[str, str], title: str, *, positive: bool = False) -> Figure:
    """A row of panels a system, a panel a quantity: means over seeds with their interval."""
    systems = system_names(rows)
    count = len(columns)
    figure, panels = subplots(len(systems), count, size=(3.2 * count + 2.4, 3.0 * len(systems) + 1.0), squeeze=False)
    for row, (system, name) in zip(panels, systems.items(), strict=True):
        for axes, (column, label) in zip(row, columns.items(), strict=True):
            part = rows[(rows["system"] == system) & rows[column].notna()]
            part = pd.concat([part[part["arm"] == arm] for arm in ARMS])
            log = positive and bool((part[column] > 0).all())
            mean_band(axes, part, "epoch", column, group="arm", log=log, labels=ARMS, markers=True)
            axes.set_title(f"{name}\n{label}", fontsize=10)
            if log:
                axes.set_yscale("log")
    for axes in panels[-1]:
        axes.set_xlabel("epochs")
    figure.suptitle(title, x=0.01, ha="left")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside right upper", title="means, bands: 95 %")
    say_setting(figure, rows)
    return figure
