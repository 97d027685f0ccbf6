"""From the critical steps under both noises to one row a run, and figures."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from common.figures import log_axis, mean_band, note, reference_line, subplots

NOISES = {"geometry": "geometry-aware noise", "isotropic": "isotropic noise"}
SPECTRA = {"few_examples": "G of {n} examples", "full_rank": "G of full rank, λ ∝ 1/k"}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    At the step size beyond which the mean loss is unbounded, `<noise>_log_frobenius` is log η‖H‖_F, `<noise>_log_trace`
    log η Tr H; `geometry_condition` is η‖H‖_F/√B and `isotropic_condition` η Tr H/√(mB), at most 1 by the lecture.
    `log_frobenius_ratio` is isotropic minus geometry-aware. `<noise>_simulation` is the simulated mean loss over the
    one predicted (NaN where it was not simulated).
    """
    settings = records.groupby("run")[["parameters", "batch_size"]].first()
    table = pd.DataFrame(index=settings.index)
    for noise in NOISES:
        part = records[records["noise"] == noise].set_index("run")
        table[f"{noise}_log_frobenius"] = np.log(part["frobenius"])
        table[f"{noise}_log_trace"] = np.log(part["trace"])
        table[f"{noise}_largest"] = part["largest"]
        simulated = "simulated" in part
        table[f"{noise}_simulation"] = part["simulated"] / part["predicted"] if simulated else np.nan
    batch, parameters = settings["batch_size"], settings["parameters"]
    table["geometry_condition"] = np.exp(table["geometry_log_frobenius"]) / np.sqrt(batch)
    table["isotropic_condition"] = np.exp(table["isotropic_log_trace"]) / np.sqrt(parameters * batch)
    table["log_frobenius_ratio"] = table["isotropic_log_frobenius"] - table["geometry_log_frobenius"]
    table["regime_reached"] = True
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Critical sharpness over m for one batch size, and both quantities over the lecture's conditions."""
    smallest = records[records["batch_size"] == records["batch_size"].min()]
    drawn = {"noise_structure": _critical(smallest), "noise_structure_conditions": _conditions(records)}
    for figure in drawn.values():
        note(figure, "random quadratics of our choice, noise scaled by 1/√B (D20)", "deviation")
    return drawn


def _titles(records: pd.DataFrame) -> dict[str, str]:
    return {name: title.format(n=int(records["examples"].iloc[0])) for name, title in SPECTRA.items()}


def _critical(records: pd.DataFrame) -> Figure:
    batch = int(records["batch_size"].iloc[0])
    figure, panels = subplots(1, 2, size=(8.4, 4.3), sharey=True)
    for axes, (spectrum, title) in zip(panels, _titles(records).items(), strict=True):
        part = records[records["spectrum"] == spectrum]
        mean_band(axes, part, "parameters", "frobenius", group="noise", log=True, labels=NOISES, markers=True)
        reference_line(axes, y=batch**0.5, label="√B, the lecture's condition (geometry-aware)")
        cap = part.groupby("parameters")[["frobenius", "largest"]].apply(
            lambda rows: float((2 * rows["frobenius"] / rows["largest"]).mean())
        )
        axes.plot(cap.index, cap, ":", color="#8a8f98", label="2$\\|H\\|_F$/λ₁: GD's limit")
        _parameters_axis(axes, title)
    log_axis(panels[0], "y", ticks=[0.2, 0.5, 1, 2, 5])
    panels[0].set_ylabel(f"critical η$\\|H\\|_F$ (B = {batch})")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def _conditions(records: pd.DataFrame) -> Figure:
    table = metrics(records)
    settings = records.groupby("run")[["spectrum", "parameters", "batch_size", "seed"]].first()
    rows = settings.join(table)
    figure, panels = subplots(1, 2, size=(8.4, 4.3), sharey=True)
    for axes, name, title in zip(
        panels,
        ("geometry_condition", "isotropic_condition"),
        ("η$\\|H\\|_F$/√B, geometry-aware", "η Tr H/√(mB), isotropic"),
        strict=True,
    ):
        kinds = rows["spectrum"].map({"few_examples": "few examples", "full_rank": "full rank"})
        part = rows.assign(kind=kinds + ", B = " + rows["batch_size"].astype(str))
        mean_band(axes, part, "parameters", name, group="kind", log=True, markers=True)
        reference_line(axes, y=1.0, label="the lecture's condition: ≤ 1")
        _parameters_axis(axes, title)
    log_axis(panels[0], "y", ticks=[0.02, 0.05, 0.1, 0.2, 0.5, 1])
    panels[0].set_ylabel("value at the exact threshold")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def _parameters_axis(axes: Axes, title: str) -> None:
    log_axis(axes, "x")
    axes.set(xlabel="number of parameters m", title=title)
