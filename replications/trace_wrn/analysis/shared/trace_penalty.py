"""A row a run of the trace regulariser, and the differences that its arms make."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from common.figures import PALETTE, note, reference_line, subplots

CLASSES = {"cifar10": 10, "cifar100": 100, "tiny_imagenet_100": 200}
TRAINED = 0.5
"""Share of ln K, the loss of guessing among K classes, below which training counts as having worked."""
ARMS = {"ggn": "η Tr G", "whole": "η Tr G", "eighth": "η Tr G, an eighth of the batch", "hessian": "η Tr H"}
LABELS = {"ggn": "G", "whole": "whole", "eighth": "an eighth", "hessian": "H"}


def regulariser_metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    `loss_share` is the training loss over ln K, at most 1. A run whose loss was not finite counts there and in
    its accuracies as guessing among the K classes, and has nothing else. The regime is that the seed's arm without a
    penalty is trained.
    """
    final = records[records["kind"] == "final"].set_index("run")
    kept = ~final["lost"].astype(bool)
    classes = final["dataset"].map(CLASSES)
    share: pd.Series = (final["training_loss"] / np.log(classes)).clip(upper=1).where(kept, 1.0)
    right = {name: (1 - final[f"{name}_error"]).where(kept, 1 / classes) for name in ("training", "test")}
    return pd.DataFrame(
        {
            "training_accuracy": 100 * right["training"],
            "test_accuracy": 100 * right["test"],
            "training_loss": final["training_loss"].where(kept),
            "test_loss": final["test_loss"].where(kept),
            "loss_gap": (final["test_loss"] - final["training_loss"]).where(kept),
            "loss_share": share,
            "log_trace_ggn": np.log10(final["trace_ggn"].where(kept)),
            "norm": final["norm"].where(kept),
            "regime_reached": of_arm(share, final, "none") < TRAINED,
        }
    )


def of_arm(values: pd.Series, final: pd.DataFrame, arm: str) -> pd.Series:
    """For each run the value of an arm at the run's seed, missing where that arm has no such run."""
    own = values[final["arm"] == arm]
    return final["seed"].map(pd.Series(own.to_numpy(), index=final.loc[own.index, "seed"].to_numpy()))


def differences_figure(records: pd.DataFrame, title: str, *, decides: bool = True) -> Figure:
    """Test accuracy, Tr G and training loss of each arm minus those without a penalty at the same seed.

    Args:
        decides: whether claims are decided by these records, however small the problem.
    """
    axes_of = records.groupby("run", sort=False)[["arm", "seed"]].first()
    table = regulariser_metrics(records).join(axes_of)
    plain = table[table["arm"] == "none"].set_index("seed")
    figure, panels = subplots(1, 3, size=(8.6, 4.2))
    shade = dict(zip(ARMS, (PALETTE[0], *PALETTE), strict=False))  # η Tr G has one colour, by either name
    arms = {arm: name for arm, name in ARMS.items() if (table["arm"] == arm).any()}
    shown = {
        "test_accuracy": "test accuracy (%)",
        "log_trace_ggn": "log₁₀ Tr G",
        "training_loss": "training loss (nats)",
    }
    for axes, (metric, label) in zip(panels, shown.items(), strict=True):
        for place, (arm, name) in enumerate(arms.items()):
            own = table[(table["arm"] == arm) & (table["loss_share"] < 1)].set_index("seed")
            change = (own[metric] - plain[metric]).dropna()
            axes.plot(np.full(len(change), place), change, "o", color=shade[arm], alpha=0.6, label=name)
            if len(change) > 1:
                half = stats.t.ppf(0.975, len(change) - 1) * change.std() / np.sqrt(len(change))
                axes.errorbar(place + 0.2, change.mean(), half, fmt="D", color=shade[arm], capsize=3, label="_mean")
        reference_line(axes, y=0.0, label="η = 0")
        axes.set_xticks(range(len(arms)), [LABELS[arm] for arm in arms])
        axes.set_xlim(-0.4, len(arms) - 0.4)
        axes.set_title(label)
    panels[0].set_ylabel("arm − no penalty, same seed")
    title = f"{title} · runs no better than guessing not drawn"
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, title=title)
    note_setting(figure, records, decides=decides)
    return figure


def note_setting(figure: Figure, records: pd.DataFrame, *, decides: bool) -> None:
    """What the figure stands on where that is not the document's."""
    first = records.iloc[0]
    if first["dataset"] != "cifar100":
        note(figure, f"D7: {first['dataset']} instead of CIFAR-100", "substitution")
    if first["training_images"] < 50_000:
        network = f"WRN-{first['depth']}-{first['widening']}, width {first['width']}"
        pixels = f"{first['side']} × {first['side']} pixels"
        text = f"{network}, {pixels}, {first['training_images']:,} images, {first['epochs']} epochs (D7)"
        note(figure, text, "reduced" if decides else "illustration")
