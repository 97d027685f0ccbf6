"""Figure 2: the sharpness term M against curvature at a fixed perturbation."""

import pandas as pd
from matplotlib.figure import Figure

from common.figures import PALETTE, colours, note, subplots


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a curvature: M's smallest relative growth with h, and its largest distance from the rise of the loss."""
    levels = records[records["kind"] == "level"]
    growth = (levels["larger_sharpness"] / levels["sharpness"] - 1).groupby(levels["run"]).min()
    error = (levels["sharpness"] / levels["rise"] - 1).abs().groupby(levels["run"]).max()
    table = growth.to_frame("sharpness_growth").join(error.rename("sharpness_error"))
    return table.assign(regime_reached=True)


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Loss curves under one perturbation, and M against the curvature for each level."""
    figure, (left, right) = subplots(1, 2, size=(8.0, 3.8))
    curves = records[records["kind"] == "curve"]
    levels = records[records["kind"] == "level"]
    chosen = sorted(curves["curvature"].unique())[::2]
    level = float(levels["level"].max())
    left.axvspan(-level, level, color=PALETTE[5], alpha=0.18, linewidth=0)
    for curvature, colour in colours(chosen).items():
        part = curves[curves["curvature"] == curvature]
        left.plot(part["w"], part["loss"], color=colour, label=f"h = {curvature:g}")
        mean = levels[(levels["curvature"] == curvature) & (levels["level"] == level)]["rise"].iloc[0]
        left.plot([-level, level], [mean, mean], color=colour, linewidth=3)
    left.set(xlabel="$w$", ylabel="loss", ylim=(0, 3), title=f"Perturbed by ±{level:g}: bars are E L(w + u)")
    left.legend()
    for level, colour in colours(sorted(levels["level"].unique())).items():
        part = levels[levels["level"] == level].sort_values("curvature")
        right.plot(part["curvature"], part["sharpness"], color=colour, label=f"σ = {level:g}")
        right.plot(part["curvature"], part["rise"], "o", color=colour)
    right.set(xlabel="curvature h", ylabel="M (points: E L(w + u) − L(w))", title="M grows with h")
    right.legend()
    figure.suptitle("Fig. 2 · sharpness in one dimension", x=0.01, ha="left")
    note(
        figure, "the paper gives no function; ours makes (5) an equality, so that M is the rise itself", "illustration"
    )
    return {"fig2": figure}
