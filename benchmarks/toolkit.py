"""The toolkit beside its peers: `python -m benchmarks.toolkit [MODEL …] [--quick] [--threads N] [--device cuda]`.

Prints a table and writes benchmarks/results/toolkit.json, a list of {work, model, ours_g, peer, peer_g, ratio,
target, met, device}; one without a device is of a CPU. The unit g is one gradient over all data, timed in the same
process between the others. Peers that are not installed are left out; they come with the extra `bench`. On a GPU
networks are measured beside a plain double backward pass alone, with more data, all at once.
"""

import argparse
import math
import platform
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks import peers
from benchmarks.timing import medians
from benchmarks.workloads import Workload, workload
from common.files import read_json, write_json
from common.hessian import (
    GGN,
    Hessian,
    Problem,
    diagonal,
    eigenpairs,
    hutchinson_trace,
    per_sample_gradient_norms,
    spectrum,
    trace,
)
from common.hessian.random import generator, signs
from common.hessian.traces import exact_ggn_traces

RESULTS = Path(__file__).parent / "results" / "toolkit.json"
QUICK = {"mlp": 1024, "cnn": 256, "vgg": 64, "resnet20": 64, "resnet8 GroupNorm": 64, "transformer": 1024,
         "mixer": 128, "gpt": 128, "lstm": 128}  # fmt: skip
TRACE = {"mlp": (7, 1 / 4), "cnn": (9, 1 / 100), "vgg": (7.3, 1 / 100), "resnet20": (20, 1 / 100),
         "resnet8 GroupNorm": (math.inf, 1 / 100), "transformer": (6, 1 / 4), "mixer": (math.inf, 1 / 4),
         "gpt": (math.inf, 1 / 4), "lstm": (math.inf, 1 / 4)}  # fmt: skip
TOGETHER = {"vgg": 7.3, "resnet20": 7.3}
"""2 (1 + C)/3 gradients for the exact trace of ten classes, all columns together."""
ALONE = ("vgg", "resnet8 GroupNorm", "mixer", "gpt", "lstm")
"""Networks of which the traces and the Hessian product alone are measured, beside a plain double backward pass."""
ON_A_GPU = tuple(name for name in ALONE if name != "lstm")
"""Those that are measured there: cuDNN has no second derivative of an LSTM."""
EXACT = {"mlp": 3, "cnn": 9, "resnet20": 18}
NORMS = {"mlp": 1.0, "transformer": 1.0, "cnn": 1.7, "resnet20": 1.7}


@dataclass(frozen=True)
class Row:
    """One line of the table; `ratio` is ours over the peer's."""

    work: str
    model: str
    ours_g: float
    peer: str | None
    peer_g: float | None
    ratio: float | None
    target: str
    met: bool | None
    """None: the target is a ratio, and no peer was there to compare with."""


Peer = tuple[str, float] | None
"""A peer's name and its cost in g."""


def row(
    work: str,
    model: str,
    ours: float,
    target: str,
    *,
    below: float = math.inf,
    at_most: float | None = None,
    peer: Peer = None,
) -> Row:
    """`below`: bound of ours in g; `at_most`: bound of the ratio."""
    name, peer_g = peer or (None, None)
    ratio = ours / peer_g if peer_g else None
    compared = at_most is None or ratio is not None
    met = ours <= below and (at_most is None or ratio is None or ratio <= at_most)
    return Row(
        work=work,
        model=model,
        ours_g=round(ours, 3),
        peer=name,
        peer_g=peer_g and round(peer_g, 2),
        ratio=ratio and round(ratio, 4),
        target=target,
        met=met if compared or not met else None,
    )


def _peer(g: dict[str, float], key: str, name: str) -> Peer:
    return (name, g[key]) if key in g else None


def traced(work: Workload, repetitions: int) -> Iterator[Row]:
    """The rows of a network in `ALONE`."""
    problem = Problem(work.model, nn.CrossEntropyLoss(), (work.inputs, work.targets), chunk=work.chunk)
    vector, hessian, name = problem.random_signs(generator(0)), Hessian(problem), work.name
    functions: dict[str, Callable[[], Any]] = {
        "gradient": peers.gradient(work),
        "trace": lambda: trace(problem),
        "product": lambda: hessian @ vector,
        "double backward product": peers.double_backward(work, vector),
    }
    if name in TOGETHER:
        functions["exact trace, together"] = lambda: trace(problem, method="exact")
    seconds = medians(functions, repetitions, work.inputs.device.type)
    g = {key: value / seconds["gradient"] for key, value in seconds.items()}
    yield from _trace_rows(problem, hessian, name, g)
    their = _peer(g, "double backward product", "double backward")
    yield row("Hessian product", name, g["product"], "≤ 0.9×", at_most=0.9, peer=their)


def measured(work: Workload, repetitions: int) -> Iterator[Row]:
    """All rows of one network."""
    if work.name in ALONE:
        yield from traced(work, repetitions)
        return
    problem = Problem(work.model, nn.CrossEntropyLoss(), (work.inputs, work.targets), chunk=work.chunk)
    vector = problem.random_signs(generator(0))
    hessian, ggn = Hessian(problem), GGN(problem)
    weights = signs((problem.count,), generator(1), vector)
    name = work.name
    ours: dict[str, Callable[[], Any]] = {
        "gradient": peers.gradient(work),
        "trace": lambda: trace(problem),
        "product": lambda: hessian @ vector,
        "GGN": lambda: ggn @ vector,
        "norms": lambda: per_sample_gradient_norms(problem),
        "sampled diagonal": lambda: diagonal(problem, "ggn", method="monte carlo", draws=2),
        "Tr(ΣG)": lambda: ggn.quadratic_form(ggn.weighted_gradient(weights)),
    }
    if name in EXACT:
        ours["exact trace"] = lambda: exact_ggn_traces(problem)
        ours["exact diagonal"] = lambda: diagonal(problem, "ggn")
    if name in TOGETHER:
        ours["exact trace, together"] = lambda: trace(problem, method="exact")
    if name == "mlp":
        ours["32 probes"] = lambda: hutchinson_trace(hessian, relative_error=1e-9, budget=64)
        ours["top 5"] = lambda: eigenpairs(hessian, 5, relative_error=1e-3)
        ours["SLQ"] = lambda: spectrum(hessian, vectors=4, steps=64)
    others = {**peers.curvlinops(work, vector), **peers.pyhessian(work, vector), **peers.backpack(work)}
    if name != "mlp":
        others = {k: f for k, f in others.items() if k not in ("curvlinops 32 probes", "PyHessian top 5")}
    if name in ("cnn", "resnet20"):
        others.pop("PyHessian product", None)
    seconds = medians({**ours, **others}, repetitions)
    g = {key: value / seconds["gradient"] for key, value in seconds.items()}
    yield from _trace_rows(problem, hessian, name, g)
    yield from _product_rows(name, g)
    yield from _sample_rows(name, g)
    if name == "mlp":
        yield from _spectrum_rows(hessian, g)


def _trace_rows(problem: Problem, hessian: Hessian, name: str, g: dict[str, float]) -> Iterator[Row]:
    source = generator(3)
    forms = torch.tensor([hessian.quadratic_form(problem.random_signs(source)) for _ in range(24)]).double()
    probes = max(1.0, float(forms.var() / (0.01 * trace(problem).value) ** 2))
    below, ratio = TRACE[name]
    target = f"≤ {below} g, " * math.isfinite(below) + f"≥ {1 / ratio:.0f}× cheaper"
    known = ("curvlinops product", "PyHessian loader product", "double backward product")
    compared = [peer for peer in known if peer in g]
    if not compared:
        yield row("Tr H to 1 %", name, g["trace"], target, below=below, at_most=ratio)
    for peer in compared:
        their = f"{peer.removesuffix(' product').removesuffix(' loader')}, {probes:.0f} probes", probes * g[peer]
        yield row("Tr H to 1 %", name, g["trace"], target, below=below, at_most=ratio, peer=their)
    if name in EXACT:
        exact = _peer(g, "BackPACK exact diagonal", "BackPACK, exact diagonal")
        yield row("exact Tr G", name, g["exact trace"], f"≤ {EXACT[name]} g", below=EXACT[name], peer=exact)
    if "exact trace, together" in g:
        below = TOGETHER[name]
        yield row("exact Tr G, together", name, g["exact trace, together"], f"≤ {below} g", below=below)


def _product_rows(name: str, g: dict[str, float]) -> Iterator[Row]:
    compared = [(peer, most) for peer, most in (("PyHessian product", 1.1), ("curvlinops product", 0.65)) if peer in g]
    for peer, most in compared:
        their = peer.split()[0], g[peer]
        yield row("Hessian product", name, g["product"], f"≤ {most}×", at_most=most, peer=their)
    if not compared:
        yield row("Hessian product", name, g["product"], "≤ 1.1×, ≤ 0.65×", at_most=0.65)
    curvlinops = _peer(g, "curvlinops GGN", "curvlinops")
    yield row("GGN product", name, g["GGN"], "≤ 1.6 g, ≤ 0.7×", below=1.6, at_most=0.7, peer=curvlinops)


def _sample_rows(name: str, g: dict[str, float]) -> Iterator[Row]:
    norms = _peer(g, "BackPACK norms", "BackPACK")
    yield row("gradient norms", name, g["norms"], f"≤ {NORMS[name]} g", below=NORMS[name], peer=norms)
    draw = _peer(g, "BackPACK sampled diagonal", "BackPACK")
    yield row("GGN diagonal, a draw", name, g["sampled diagonal"] / 2, "≤ 2.1 g", below=2.1, peer=draw)
    if name in EXACT:
        exact = _peer(g, "BackPACK exact diagonal", "BackPACK")
        yield row("GGN diagonal, exact", name, g["exact diagonal"], "≤ 1×", at_most=1.0, peer=exact)
    yield row("Tr(ΣG), a draw", name, g["Tr(ΣG)"], "≤ 2.2 g", below=2.2)


def _spectrum_rows(hessian: Hessian, g: dict[str, float]) -> Iterator[Row]:
    curvlinops = g.get("curvlinops product")
    their = _peer(g, "curvlinops 32 probes", "curvlinops")
    yield row("32 Hutchinson probes", "mlp", g["32 probes"], "≤ 0.67×", at_most=0.67, peer=their)
    made = eigenpairs(hessian, 5, relative_error=1e-3).products
    work = f"top 5 to 1e-3, {made} products"
    if not curvlinops:
        yield row(work, "mlp", g["top 5"], "≤ 0.5×, ≤ 0.4×", at_most=0.4)
        yield row("SLQ 4 × 64", "mlp", g["SLQ"], "≤ 450 g, ≤ 0.4×", below=450, at_most=0.4)
    else:
        from scipy.sparse.linalg import LinearOperator, eigsh

        count = [0]

        def product(vector: Any) -> Any:
            count[0] += 1
            return (hessian @ torch.as_tensor(vector.ravel(), dtype=torch.float32)).numpy()

        shape = (hessian.size, hessian.size)
        eigsh(LinearOperator(shape, matvec=product, dtype="float32"), k=5, which="LM", tol=1e-3)
        their = f"curvlinops + eigsh, {count[0]} products", count[0] * curvlinops
        yield row(work, "mlp", g["top 5"], "≤ 0.5×", at_most=0.5, peer=their)
        their = "curvlinops, 256 products", 256 * curvlinops
        yield row("SLQ 4 × 64", "mlp", g["SLQ"], "≤ 450 g, ≤ 0.4×", below=450, at_most=0.4, peer=their)
    if their := _peer(g, "PyHessian top 5", "PyHessian"):
        yield row(work, "mlp", g["top 5"], "≤ 0.4×", at_most=0.4, peer=their)


def table(rows: list[dict[str, Any]]) -> str:
    """As Markdown."""
    lines = [
        "| work | network | ours (g) | peer | peer (g) | ratio | target | met |",
        "|---|---|--:|---|--:|--:|---|---|",
    ]
    for r in rows:
        peer_g = f"{r['peer_g']:.1f}" if r["peer_g"] else "–"
        ratio = f"{r['ratio']:.3g}" if r["ratio"] else "–"
        met = "–" if r["met"] is None else "yes" if r["met"] else "no"
        cells = [r["work"], r["model"], f"{r['ours_g']:.2f}", r["peer"] or "–", peer_g, ratio, r["target"], met]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", help=f"some of {', '.join(TRACE)}; on a GPU of {', '.join(ON_A_GPU)}")
    parser.add_argument("--quick", action="store_true", help="less data, one repetition")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device, models = options.device, options.models or (TRACE if options.device == "cpu" else ON_A_GPU)
    earlier = read_json(options.out) if options.out.exists() else []
    kept = [r for r in earlier if (r["model"], r.get("device", "cpu")) not in {(name, device) for name in models}]
    where = f"{platform.machine()}, {device}, {options.threads} thread(s)"
    timed = "processor" if (device, options.threads) == ("cpu", 1) else "clock"
    print(f"torch {torch.__version__}, {where}, time of the {timed}")
    for name in models:
        work = workload(name, count=QUICK[name] if options.quick else None, device=device)
        print(f"{name}: {len(work.targets)} examples", flush=True)
        kept += [{**asdict(found), "device": device} for found in measured(work, 1 if options.quick else 3)]
        kept.sort(key=lambda found: list(TRACE).index(found["model"]))
        write_json(options.out, kept)
    print(table([found for found in kept if found.get("device", "cpu") == device]))


if __name__ == "__main__":
    main()
