"""Section 4.2: work and noise of a trace."""

import pandas as pd
from matplotlib.figure import Figure

from common.figures import colours, log_axis, note, reference_line, subplots


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run: work of each way over that of a plain step, and the relative spread of a draw."""
    parts = []
    for what, own in records.groupby("what", sort=False):
        values = own.set_index("run")[["work", "spread"]].abs()
        parts.append(values.rename(columns={"work": f"work_{what}", "spread": f"spread_{what}"}))
    return pd.concat(parts, axis=1).assign(regime_reached=True)


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Work against the relative spread of one draw."""
    names = {
        "ggn": "step with Tr G, output probes",
        "ggn_sub_batch": "the same on an eighth of the batch",
        "ggn_weights": "step with Tr G, weight probes",
        "hessian_weights": "step with Tr H, weight probes",
        "measure": "measure (7), one Hessian product",
    }
    figure, axes = subplots(size=(6.4, 5.0))
    shade = colours(names)
    for (model, what), own in records.groupby(["model", "what"], sort=False):
        label = names[str(what)] if model == records["model"].iloc[0] else "_other"
        marker = "o" if model == "resnet20" else "s"
        axes.plot(own["work"].mean(), own["spread"].abs().mean(), marker, ms=8, color=shade[what], label=label)
    reference_line(axes, x=1.0, label="a plain step")
    reference_line(axes, x=3.0, label="the document's 3×").set_linestyle(":")
    log_axis(axes, "x", ticks=[1, 1.5, 2, 3, 5, 8])
    axes.set(
        xlabel="work / plain step (multiplications)",
        ylabel="spread of one draw / |mean|",
        title="Cost and noise of a trace (● ResNet-20, ■ thin WRN)",
    )
    figure.legend(loc="outside upper center", ncols=2)
    note(figure, "at initial weights, arithmetic only; seconds in benchmarks/trace_penalty (D11)", "deviation")
    return {"cost": figure}
