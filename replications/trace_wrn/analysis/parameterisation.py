"""From the records of the parameterisation to one row a run, and its figure."""

import pandas as pd
from matplotlib.figure import Figure

from common.figures import log_axis, mean_bands, note, subplots

from .shared.labels import MNIST_IMAGES
from .shared.measure import READINGS, equations, readings, spectral_sums

EQUATIONS = {
    "equation6_printed_d3": "equation 6, printed, δ = 10⁻³",
    "equation6_corrected_d3": "equation 6, corrected, δ = 10⁻³",
    "equation6_laplace": "equation 6, precision N H₊ + I",
}
SAME_FUNCTION = 1e-3


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`: `…_change` is |value/value at α = 1 − 1| at the same seed."""
    final = records[records["kind"] == "final"].set_index("run")
    sums = spectral_sums(records)
    table = pd.DataFrame(
        {
            "trace": final["trace"],
            "sharpness": final["sharpness"],
            **readings(final["trace"], final["norm"], final["parameters"]),
            **{name: values for name, values in equations(final, sums).items() if name.startswith("equation6")},
        }
    )
    one = final.index[final["alpha"] == 1]
    for name in [str(column) for column in table]:
        base = pd.Series(table.loc[one, name].to_numpy(), index=final.loc[one, "seed"].to_numpy())
        table[f"{name}_relative"] = table[name] / final["seed"].map(base)
        table[f"{name}_change"] = (table[f"{name}_relative"] - 1).abs()
    loss = pd.Series(final.loc[one, "training_loss"].to_numpy(), index=final.loc[one, "seed"].to_numpy())
    table["function_change"] = (final["training_loss"] / final["seed"].map(loss) - 1).abs()
    table["regime_reached"] = table["function_change"] < SAME_FUNCTION
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Curvature and the readings of a above, equation 6 below, each over its value at α = 1."""
    axes_of = records.groupby("run", sort=False)[["alpha", "seed"]].first()
    table = metrics(records).join(axes_of)
    figure, panels = subplots(2, 1, size=(6.4, 7.6), sharex=True)
    above = {"sharpness": "λ₁", **READINGS}
    for axes, names in zip(panels, (above, EQUATIONS), strict=True):
        columns = {f"{name}_relative": label for name, label in names.items()}
        mean_bands(axes, table, "alpha", columns, markers=True)
        axes.set_ylabel("value / value at α = 1")
        axes.legend(fontsize=9)
    panels[0].set_yscale("log")
    panels[0].set_title("One function, (α W₁, α b₁, W₂/α)")
    log_axis(panels[1], "x", ticks=sorted(table["alpha"].unique()))
    panels[1].set_xlabel("α")
    images = int(records["training_images"].iloc[0])
    if images < MNIST_IMAGES:
        note(figure, f"perceptron trained on {images:,} of {MNIST_IMAGES:,} images (D1)", "reduced")
    return {"parameterisation": figure}
