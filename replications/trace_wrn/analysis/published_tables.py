"""What follows from the printed tables alone."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import ttest_ind_from_stats

from common.figures import colours, log_axis, reference_line, subplots

from ..shared.published import SEEDS_OF_TABLE_7
from .shared.labels import gamma_text

NETWORKS = {
    "mlp": "Table 1 · perceptron",
    "cnn": "Table 2 · All-CNN-C",
    "preresnet": "Table 4 · PreResNet-164",
    "wrn": "Table 5 · WRN-28-10",
}
READINGS_OF_NORM = {"": "‖w‖ = 2 (a − Tr H/P)", "_norm": "‖w‖ = a"}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run (a table), indexed by `run`; a metric that a table has not is missing there.

    `<column>_ratio` compares γ = 5·10⁻⁴ with 0, `…_smallest_step` and `…_largest_step` are the extreme ratios of
    neighbouring lines. `per_parameter_moment` is the least P Tr H²/λ₁² of a table's lines, `raw_moment` the largest
    Tr H²/λ₁²: a sum of squared eigenvalues is at least λ₁². `implied_norm_…` is ‖w‖ at γ = 0 that a reading of a
    asks for, over the norm of freshly drawn weights. `equation7_last_step` is Tr H + ‖w‖²/2 at 5·10⁻⁴ over that at
    10⁻⁴, raw traces, ‖w‖ = 2 (a − Tr H/P); `equation7_last_step_norm` is the same with ‖w‖ = a.
    """
    rows = {}
    for run, own in records.groupby("run", sort=False):
        table = own["table"].iloc[0]
        if table in NETWORKS:
            rows[run] = _of_network(own.sort_values("weight_decay"))
        elif table == "table7":
            rows[run] = _of_table_7(own.set_index("arm"))
        else:
            arms = own.set_index("arm")["validation_accuracy"]
            rows[run] = {"accuracy_change": arms["with"] - arms["without"]}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("run").assign(regime_reached=True)


def _of_network(own: pd.DataFrame) -> dict[str, float]:
    own = own.reset_index(drop=True)
    plain: dict[str, float] = {name: float(own[name].iloc[0]) for name in ("measure", "trace", "initial_norm")}
    found: dict[str, float] = {}
    for name in ("loss_gap", "measure", "trace", "trace_squared", "sharpness"):
        steps = (own[name] / own[name].shift())[1:]
        found[f"{name}_ratio"] = own[name].iloc[-1] / own[name].iloc[0]
        found[f"{name}_smallest_step"], found[f"{name}_largest_step"] = steps.min(), steps.max()
    found["error_gap_change"] = own["error_gap"].iloc[-1] - own["error_gap"].iloc[0]
    found["training_accuracy_change"] = own["training_accuracy"].iloc[-1] - own["training_accuracy"].iloc[0]
    found["parameters_match"] = float(own["parameters"].iloc[0] == own["printed_parameters"].iloc[0])
    size = own["parameters"]
    found["per_parameter_moment"] = float((own["trace_squared"] * size / own["sharpness"] ** 2).min())
    found["raw_moment"] = float((own["trace_squared"] / own["sharpness"] ** 2).max())
    found["raw_trace_over_measure"] = float(own["trace"].iloc[-1] * size.iloc[-1] / own["measure"].iloc[-1])
    beyond = plain["measure"] - plain["trace"]
    found["implied_norm_square"] = float(np.sqrt(2 * beyond) / plain["initial_norm"])
    found["implied_norm_plain"] = float(plain["measure"] / plain["initial_norm"])
    found["implied_norm_half"] = float(2 * beyond / plain["initial_norm"])
    change = own[["trace", "measure"]].diff().abs()[1:]
    found["trace_share"] = float((change["trace"] / change["measure"]).max())
    for reading, norm in printed_norms(own).items():
        values = equation_7(own, norm)
        found[f"equation7_last_step{reading}"] = float(values.iloc[-1] / values.iloc[-2])
    return found


def printed_norms(own: pd.DataFrame) -> dict[str, pd.Series]:
    """‖w‖ from the printed a, by the ending of the metric: a is Tr H/P + ‖w‖/2, as on the perceptron, or ‖w‖ itself."""
    return {"": 2 * (own["measure"] - own["trace"]), "_norm": own["measure"]}


def equation_7(own: pd.DataFrame, norm: pd.Series) -> pd.Series:
    """Tr H + ‖w‖²/2 from the printed mean trace, made a sum, and a norm."""
    return own["trace"] * own["parameters"] + norm**2 / 2


def _of_table_7(arms: pd.DataFrame) -> dict[str, float]:
    """Welch's test, with ± read as standard deviation of four seeds and as standard error of their mean."""
    mean, spread = ({arm: float(arms[name][arm]) for arm in arms.index} for name in ("validation_accuracy", "spread"))
    found = {"accuracy_change": mean["with"] - mean["without"]}
    for reading, factor in (("deviation", 1.0), ("error", SEEDS_OF_TABLE_7**0.5)):
        test = ttest_ind_from_stats(
            mean1=mean["with"],
            std1=factor * spread["with"],
            nobs1=SEEDS_OF_TABLE_7,
            mean2=mean["without"],
            std2=factor * spread["without"],
            nobs2=SEEDS_OF_TABLE_7,
            equal_var=False,
        )
        found[f"welch_p_{reading}"] = float(test.pvalue)
    return found


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Tables 1 to 6 relative to no decay, and Tables 7 to 9."""
    return {"tables_1_to_6": _tables(records), "tables_7_to_9": _regulariser(records)}


def _tables(records: pd.DataFrame) -> Figure:
    figure, panels = subplots(2, 2, size=(7.6, 7.0), sharex=True)
    shade = colours(["measure", "loss_gap", "sharpness", "equation7"])
    for axes, (network, title) in zip(panels.flat, NETWORKS.items(), strict=True):
        own = records[records["table"] == network].sort_values("weight_decay").reset_index(drop=True)
        for name, label, marker in (("measure", "printed a", "D"), ("loss_gap", "ΔL", "o"), ("sharpness", "|H|", "s")):
            axes.plot(own[name] / own[name].iloc[0], marker=marker, color=shade[name], label=label)
        for (reading, norm), line in zip(printed_norms(own).items(), ("--", ":"), strict=True):
            values = equation_7(own, norm)
            axes.plot(
                values / (values.iloc[0] if len(values) else 1),
                marker="^",
                linestyle=line,
                color=shade["equation7"],
                label=f"Tr H + ‖w‖²/2, {READINGS_OF_NORM[reading]}",
            )
        log_axis(axes, "y", ticks=[0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20])
        reference_line(axes, y=1.0, label="γ = 0")
        axes.set_xticks(range(len(own)), [gamma_text(value) for value in own["weight_decay"]])
        axes.set_title(title)
    for axes in panels[-1]:
        axes.set_xlabel("weight decay γ")
    for axes in panels[:, 0]:
        axes.set_ylabel("value / value at γ = 0")
    figure.legend(
        *panels[0, 0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=3,
        title="Tables 1 to 6, as printed",
    )
    return figure


def _regulariser(records: pd.DataFrame) -> Figure:
    figure, panels = subplots(1, 2, size=(7.0, 3.8))
    for axes, table, title in zip(
        panels, ("table7", "table8"), ("Table 7 · CIFAR-100", "Table 8 · ImageNet-32"), strict=True
    ):
        own = records[records["table"] == table].set_index("arm").reindex(["without", "with"])
        accuracy = own["validation_accuracy"]
        spread = own["spread"] if table == "table7" else None
        axes.errorbar([0, 1], accuracy, spread, fmt="D", capsize=4, label="accuracy, with the ± of Table 7")
        axes.set_xticks([0, 1], ["0", "10⁻⁴"])
        axes.set(title=title, xlim=(-0.5, 1.5), ylim=(accuracy.mean() - 0.6, accuracy.mean() + 0.6))
        axes.set_xlabel("strength η of the penalty")
    panels[0].set_ylabel("validation accuracy (%)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", title="Trace penalty, as printed")
    return figure
