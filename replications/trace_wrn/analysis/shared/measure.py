"""The readings of the measure a, and equations 6 and 9, from norms and spectra."""

import numpy as np
import pandas as pd

DAMPINGS = {"d4": 1e-4, "d3": 1e-3, "d2": 1e-2, "d1": 1e-1}
"""δ of log|H₊ + δ I|, by the ending of the metric."""
READINGS = {
    "a_norm": "‖w‖",
    "a_mean_trace_half_norm": "Tr H/P + ‖w‖/2",
    "a_mean_trace": "Tr H/P + ‖w‖²/2",
    "a_equation7": "Tr H + ‖w‖²/2, equation 7",
}


def readings(trace: pd.Series, norm: pd.Series, parameters: pd.Series) -> dict[str, pd.Series]:
    """Every reading of a (σ² = 1): which trace, and which power of the norm."""
    return {
        "a_norm": norm,
        "a_mean_trace_half_norm": trace / parameters + norm / 2,
        "a_mean_trace": trace / parameters + norm**2 / 2,
        "a_equation7": trace + norm**2 / 2,
    }


def spectral_sums(records: pd.DataFrame) -> pd.DataFrame:
    """Log-determinants and traces of inverses from the quadrature's nodes, one row a run; negative nodes count as 0.

    `log_determinant_…` of H₊ + δ I and `inverse_trace_…` of its inverse; `…_laplace` the same of N H₊ + I; `…_error`
    their standard errors over start vectors, missing where there is but one; `negative_share`, the weight of nodes
    below 0;
    `trace_moments` and `trace_squared_moments` from the first vector alone, as the document takes them.
    """
    nodes = records[records["kind"] == "node"]
    final = records[records["kind"] == "final"].set_index("run")
    size, images = (nodes["run"].map(final[name]) for name in ("parameters", "training_images"))
    positive = nodes["node"].clip(lower=0)
    terms: dict[str, pd.Series] = {"negative_share": (nodes["node"] < 0).astype(float) / size}
    for name, delta in DAMPINGS.items():
        terms[f"log_determinant_{name}"] = (positive + delta).map(np.log)
        terms[f"inverse_trace_{name}"] = 1 / (positive + delta)
    terms["log_determinant_laplace"] = (1 + images * positive).map(np.log)
    terms["inverse_trace_laplace"] = 1 / (1 + images * positive)
    terms["trace_moments"], terms["trace_squared_moments"] = nodes["node"], nodes["node"] ** 2
    weighted = pd.DataFrame({name: term * nodes["weight"] * size for name, term in terms.items()})
    of_vector = weighted.groupby([nodes["run"], nodes["vector"]]).sum()
    table = of_vector.groupby("run").mean()
    count = of_vector.groupby("run").size()
    table = table.join(of_vector.groupby("run").std().div(np.sqrt(count), axis=0).add_suffix("_error"))
    first = of_vector.xs(0, level="vector")
    for name in ("trace_moments", "trace_squared_moments"):
        table[name] = first[name]
    return table.reindex(final.index)


def equations(final: pd.DataFrame, sums: pd.DataFrame) -> dict[str, pd.Series]:
    """Equations 6 and 9 (negated: smaller is better) with σ² = 1, as printed and corrected, for each damping.

    6 printed: ½ [Tr H + ‖w‖²] + ½ log|H|. Corrected, for the covariance H⁻¹ that its log-determinant implies:
    ½ [log|H| − P + Tr H⁻¹ + ‖w‖²]. 9 printed: N L + ½ (1 + 1/N) log|H| + [Tr H + ‖w‖²]/2N; corrected: L + (6)/N,
    with (6) corrected, constants dropped. `laplace`: precision N H₊ + I in place of H, which needs no damping.
    """
    trace, square, count = final["trace"], final["norm"] ** 2, final["training_images"]
    loss, size = final["training_loss"], final["parameters"]
    found = {}
    for name in DAMPINGS:
        logarithm, inverse = sums[f"log_determinant_{name}"], sums[f"inverse_trace_{name}"]
        corrected = (logarithm - size + inverse + square) / 2
        found[f"equation6_printed_{name}"] = (trace + square + logarithm) / 2
        found[f"equation6_corrected_{name}"] = corrected
        found[f"equation9_printed_{name}"] = (
            count * loss + (1 + 1 / count) * logarithm / 2 + (trace + square) / (2 * count)
        )
        found[f"equation9_corrected_{name}"] = loss + corrected / count
    laplace = (sums["log_determinant_laplace"] - size + sums["inverse_trace_laplace"] + square) / 2
    found["equation6_laplace"] = laplace
    found["equation9_laplace"] = loss + laplace / count
    return found


def gaps_and_curvature(final: pd.DataFrame) -> dict[str, pd.Series]:
    """The columns of the tables, and the readings of a."""
    size = final["parameters"]
    return {
        "training_loss": final["training_loss"],
        "training_accuracy": 100 * (1 - final["training_error"]),
        "test_accuracy": 100 * (1 - final["test_error"]),
        "loss_gap": final["test_loss"] - final["training_loss"],
        "error_gap": 100 * (final["test_error"] - final["training_error"]),
        "initial_norm": final["initial_norm"],
        "norm": final["norm"],
        "sharpness": final["sharpness"],
        "trace": final["trace"],
        "trace_mean": final["trace"] / size,
        "trace_squared_mean": final["trace_squared"] / size,
        "trace_squared_error": final["trace_squared_error"] / final["trace_squared"],
        **readings(final["trace"], final["norm"], size),
    }
