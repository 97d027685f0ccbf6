"""From the records of McAllester's theorem and of the variational formula to one row a run, and figures."""

import pandas as pd
from matplotlib.figure import Figure

from common.figures import PALETTE, mean_bands, note, reference_line, subplots

NO_KL_SCALE = 80.0
"""λ of the Gibbs posterior at which the argument for a posterior fixed beforehand is tried."""


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    `finite_gap`, `gaussian_gap`: distance of log E e^V from the supremum that an optimiser finds; `…_distance`: of its
    argmax from the Gibbs distribution. `chernoff_ratio`: the largest P(gap ≥ t) over its Chernoff bound. `worst_…`:
    share of training sets for which the bound fails for some posterior. `no_divergence_failure`, `moment`,
    `moment_with_divergence`: see `NO_KL_SCALE`. `printed_line`: the largest, over λ > 0 and the Gibbs posterior of that
    λ, of log E e^{λ gap} − λ²/(8n) − E KL over training sets, which the printed line says is at most 0.
    """
    table = pd.DataFrame(index=pd.Index(records["run"].unique(), name="run"))
    for kind in ("finite", "gaussian"):
        rows = records[records["kind"] == kind].set_index("run")
        table[f"{kind}_gap"] = (rows["target"] - rows["best"]).abs()
        table[f"{kind}_distance"] = rows["distance"]
    chernoff = records[records["kind"] == "chernoff"]
    table["chernoff_ratio"] = (chernoff["tail"] / chernoff["right"]).groupby(chernoff["run"]).max()
    worst = records[records["kind"] == "worst"].set_index("run")
    for form in ("optimistic", "fixed", "maurer"):
        table[f"worst_{form}"] = worst[form]
    gibbs = records[(records["kind"] == "gibbs") & (records["scale"] == NO_KL_SCALE)].set_index("run")
    table["no_divergence_failure"] = gibbs["failure_without_divergence"]
    table["moment"], table["moment_with_divergence"] = gibbs["moment"], gibbs["moment_with_divergence"]
    chosen = records[(records["kind"] == "gibbs") & (records["scale"] > 0)]
    table["printed_line"] = (chosen["moment"] - chosen["divergence"]).groupby(chosen["run"]).max()
    table["regime_reached"] = True
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Both figures."""
    return {"donsker_varadhan": _variational(records), "mcallester": _guessers(records)}


def _variational(records: pd.DataFrame) -> Figure:
    figure, (left, right) = subplots(1, 2, size=(7.2, 3.8))
    first = records[records["seed"] == records["seed"].min()]
    curve = first[first["kind"] == "finite_curve"]
    left.plot(curve["beta"], curve["objective"], color=PALETTE[0], label="p ∝ π exp(βV)")
    reference_line(left, y=float(curve["target"].iloc[0]), label="log E exp(V)")
    left.set(title="50 points", xlabel="β", ylabel="E V − KL(p ‖ π) (nats)")
    left.legend(loc="lower center")
    gaussian = first[first["kind"] == "gaussian_curve"]
    for number, (factor, part) in enumerate(gaussian.groupby("factor")):
        right.plot(part["shift"], part["objective"], color=PALETTE[number], label=f"variance × {factor:g}")
    reference_line(right, y=float(gaussian["target"].iloc[0]), label="log E exp(V)")
    right.set(title="Gaussian, quadratic V", xlabel="mean − mean of the Gibbs distribution")
    right.legend(loc="lower center")
    figure.suptitle("Donsker and Varadhan's formula")
    note(figure, "cases of our choice (D47)", "deviation")
    return figure


def _guessers(records: pd.DataFrame) -> Figure:
    figure, (left, right) = subplots(1, 2, size=(7.6, 4.4))
    rows = records[records["kind"] == "gibbs"]
    names = {
        "gap_high": "gap, 95 % quantile",
        "bound_without_divergence": "without KL",
        "bound_optimistic": "as printed",
        "bound_maurer": "Maurer",
        "bound_fixed": "λ fixed at 60",
    }
    lines = mean_bands(left, rows, "scale", names)
    for label, line in lines.items():
        line.set_linestyle("-" if label == "gap, 95 % quantile" else (0, (5, 2)))
    left.set(title="Gibbs posteriors", xlabel="λ of the posterior", ylabel="gap L(Q) − L̂(Q)", ylim=(0, 0.45))
    left.legend(fontsize=8.5, loc="upper left")
    chernoff = records[(records["kind"] == "chernoff") & (records["seed"] == records["seed"].min())]
    right.plot(chernoff["t"], chernoff["tail"], color=PALETTE[0], label="P(gap ≥ t)")
    right.plot(chernoff["t"], chernoff["right"], color=PALETTE[1], linestyle=(0, (5, 2)), label="E exp(λ gap)/exp(λt)")
    right.set_yscale("log")
    right.set(title="One hypothesis: ≤, not ≥", xlabel="t", ylabel="probability")
    right.legend(loc="lower left")
    figure.suptitle("McAllester's theorem on 100 guessers")
    note(figure, "a class of our choice: every hypothesis is wrong with probability ½ (D47)", "deviation")
    return figure
