"""`replicate measure`: curvature measures and the spectral density of a user's own model on a registered data set."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from torch import nn

from common.datasets import Dataset, Split
from common.datasets import entry as data_entry
from common.datasets import load as load_data
from common.datasets.text_collections import text_of
from common.errors import DataUnavailable, UserError
from common.hessian import (
    MEASURES,
    Divided,
    Estimate,
    Hessian,
    Measured,
    Problem,
    RanksApart,
    Spectrum,
    measure,
    spectrum,
)
from common.hessian.chunks import Inputs, map_inputs, take
from common.hessian.measure import DEFAULT
from common.hessian.ranks import Ranks
from common.workflow.launched import launched
from common.workflow.user_models import (
    load_model,
    load_weights,
    named,
    one_line,
    read_checkpoint,
    tokenised,
    with_tensor_outputs,
)

LOSSES: dict[str, type[nn.Module]] = {"cross_entropy": nn.CrossEntropyLoss, "mse": nn.MSELoss}
SPLITS = ("train", "test")
IMAGES = 2000
"""Examples that are taken unless `--images` says how many."""
LARGEST_CHUNK, PARTS = 256, 16
"""Examples that are passed through the model together: at most so many, and a sixteenth, so that up to sixteen ranks,
which hold whole chunks, draw what one process draws."""
SHORT = {"trace": "hessian_trace"}
VECTORS, STEPS, POINTS = 4, 64, 1000


@dataclass(frozen=True)
class Request:
    """What is to be measured; checked on construction.

    Attributes:
        model: "module:factory"; the factory is called without arguments.
        data: a registered data set.
        checkpoint: .safetensors, or a weights-only .pt or .pth; None leaves the weights as the factory made them.
        images: a random subset of so many examples, drawn by `seed`; None means `IMAGES`, or all if there are fewer.
        what: names of measures, comma-separated; empty for the default ones, "all" for all.
        budget: gradient-equivalents for each measure, and for the spectrum.
        tokenizer, length: of a data set of texts: what makes tokens of them, and how many at most.
        plot: the spectral density goes to this file and to its neighbours .svg, .png and .csv.

    Raises:
        UserError: a value that is not allowed.
    """

    model: str
    data: str
    checkpoint: Path | None = None
    split: str = "train"
    images: int | None = None
    loss: str = "cross_entropy"
    what: str = ""
    relative_error: float = 0.01
    budget: float = 500.0
    seed: int = 0
    plot: Path | None = None
    tokenizer: Path | None = None
    length: int = 128

    def __post_init__(self) -> None:
        module, _, factory = self.model.partition(":")
        if not module or not factory.isidentifier():
            raise UserError(f"{self.model!r} does not name a model: write module:factory, such as nets:small_network.")
        _one_of(self.split, SPLITS, "split")
        _one_of(self.loss, LOSSES, "loss")
        for name in self.names:
            _one_of(name, MEASURES, "measure")
        if not 0 < self.relative_error < 1:
            raise UserError(f"The relative error must lie between 0 and 1, not at {self.relative_error:g}.")
        if not 0 < self.budget < math.inf:
            raise UserError(f"The budget must be a positive number of gradients, not {self.budget:g}.")
        if self.plot is not None and (self.plot.suffix not in (".svg", ".png") or self.plot.is_dir()):
            raise UserError(f"{self.plot} cannot be the plot: name a file that ends in .svg or .png.")

    @property
    def names(self) -> list[str]:
        """The measures, each once."""
        if self.what.strip() == "all":
            return list(MEASURES)
        wanted = [name.strip().replace("-", "_") for name in self.what.split(",") if name.strip()]
        return list(dict.fromkeys(SHORT.get(name, name) for name in wanted)) or list(DEFAULT)


def run(request: Request) -> dict[str, Any]:
    """Measure, and draw the spectrum if one is asked for. Returns plain data for JSON and for `show`.

    Under torchrun every process passes over its share of the images, and all return the same.

    Raises:
        UserError: whatever the user can mend, in one sentence.
    """
    with launched() as ranks:
        return _measured(request, ranks)


def _measured(request: Request, ranks: Ranks) -> dict[str, Any]:
    if request.plot is not None:
        _needs_figures()
    data_entry(request.data)  # an unknown name is told before a model is built
    model = load_model(request.model, request.seed)
    weights = None if request.checkpoint is None else read_checkpoint(request.checkpoint)
    dataset, split, inputs, labels = examples(request)
    # Shapes first: a pass makes parameters of lazy modules, which the weights then fill.
    readable = with_tensor_outputs(request.model, model, _like(model, take(inputs, slice(2))), dataset)
    if weights is not None and request.checkpoint is not None:
        load_weights(model, weights, request.checkpoint)
    inputs = _like(model, inputs)
    targets = labels
    if request.loss == "mse":
        targets = nn.functional.one_hot(labels, dataset.classes).to(next(model.parameters(), torch.empty(0)))
    try:
        data = (inputs, targets) if ranks.count == 1 else Divided((inputs, targets))
        chunk = min(LARGEST_CHUNK, -(-len(targets) // PARTS))
        problem = Problem(readable, LOSSES[request.loss](), data, chunk=chunk)
    except RanksApart:
        raise
    except ValueError as error:
        raise UserError(f"{request.model}: {one_line(error)}.") from error
    except (Exception, SystemExit) as error:  # whatever the user's forward does
        raise UserError(f"{request.model} cannot be measured: {named(error)}.") from error
    rows = []
    with Console(stderr=True, quiet=ranks.rank > 0).status("Measuring …") as status:
        for name in request.names:
            status.update(f"Measuring {name} …")
            rows.append(_row(problem, name, request))
        figure = None
        if request.plot is not None:
            status.update("Measuring the spectrum …")
            figure = _plot(problem, request, request.plot)
            rows = [_compared(row, figure["largest"]) for row in rows]
    whole = dataset.train if request.split == "train" else dataset.test
    return {
        "model": request.model,
        "checkpoint": None if request.checkpoint is None else str(request.checkpoint),
        "parameters": problem.size,
        "data": {"name": dataset.name, "digest": dataset.digest, "split": request.split},
        "images": len(split),
        "images_of_split": len(whole),
        "processes": ranks.count,
        "loss": request.loss,
        "relative_error": request.relative_error,
        "budget": request.budget,
        "seed": request.seed,
        "measures": rows,
        "spectrum": figure,
    }


def show(result: Mapping[str, Any]) -> None:
    """Print the table, what it was measured on, and what the error bars mean."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("measure", "", "value ± error", "method", "cost (g)", "converged"):
        justify: Any = "right" if name == "cost (g)" else "left"
        table.add_column(name, justify=justify, no_wrap=name not in ("method", "converged"))
    for row in result["measures"]:
        if row["problem"]:
            table.add_row(row["name"], row["symbol"], "–", f"[yellow]{escape(row['problem'])}[/yellow]")
            continue
        converged = "yes" if row["converged"] else f"[red]no[/red]: {escape(row['reason'])}"
        cells = (row["name"], row["symbol"], row["text"], escape(row["method"]), f"{row['cost']:.1f}", converged)
        table.add_row(*cells)
    console = Console(highlight=False, soft_wrap=True)
    weights = f"weights of {result['checkpoint']}" if result["checkpoint"] else "weights as the factory makes them"
    console.print(f"{escape(result['model'])}, {result['parameters']:,} parameters, {escape(weights)}")
    data = result["data"]
    processes = f", {result['processes']} processes" if result["processes"] > 1 else ""
    console.print(
        f"{data['name']}/{data['split']}, {result['images']:,} of {result['images_of_split']:,} examples, "
        f"{result['loss']}, seed {result['seed']}{processes}\n"
    )
    Console(highlight=False).print(table)
    console.print(
        "\n± one standard error over the random draws, the examples held fixed (λ₁ and s: of Lanczos's method). "
        "g: one gradient over the examples."
    )
    if result["spectrum"]:
        figure = result["spectrum"]
        console.print(f"Spectrum: {', '.join(figure['files'])} ({figure['method']}, {figure['cost']:.0f} gradients).")


def examples(request: Request) -> tuple[Dataset, Split, Inputs, torch.Tensor]:
    """The data set, the split's subset, its inputs and labels.

    Texts become tokens by the tokenizer of the request. Other bytes are standardised for each channel by mean and
    deviation of the whole training split, whatever split is measured; inputs that are stored as floats are taken as
    they are.
    """
    try:
        dataset = load_data(request.data)
    except DataUnavailable as error:
        raise UserError(one_line(error, whole=True)) from error
    whole = dataset.train if request.split == "train" else dataset.test
    split = whole.subset(min(IMAGES, len(whole)) if request.images is None else request.images, request.seed)
    if request.tokenizer is not None:
        if split.inputs.dtype != torch.uint8 or split.inputs.ndim != 2:
            raise UserError(f"{request.data} holds no texts: leave --tokenizer out.")
        return dataset, split, tokenised(text_of(split.inputs), request.tokenizer, request.length), split.targets
    if split.inputs.dtype != torch.uint8:
        return dataset, split, split.as_float(), split.targets
    try:
        inputs = split.standardised(*dataset.train.channel_statistics(), dtype=torch.float64)
    except (TypeError, ValueError) as error:
        raise UserError(f"{request.data} cannot be standardised: a channel has the same value everywhere.") from error
    return dataset, split, inputs, split.targets


def _like(model: nn.Module, inputs: Inputs) -> Inputs:
    first = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    return map_inputs(inputs, lambda t: t.to(first.device, first.dtype if t.is_floating_point() else t.dtype))


def _row(problem: Problem, name: str, request: Request) -> dict[str, Any]:
    try:
        [found] = measure(
            problem, [name], relative_error=request.relative_error, budget=request.budget, seed=request.seed
        )
    except RanksApart:
        raise
    except (Exception, SystemExit) as error:  # memory, no second derivative, or whatever the user's forward does
        found = Measured(name, MEASURES[name][0], None, named(error))
    estimate = found.estimate
    row: dict[str, Any] = {"name": name, "symbol": found.symbol, "problem": found.problem}
    return row if estimate is None else row | asdict(estimate) | {"text": _text(estimate)}


def _compared(row: dict[str, Any], largest: float) -> dict[str, Any]:
    """A λ₁ that lies below a Ritz value of the spectrum, by more than its error, is not the largest eigenvalue."""
    if row["name"] != "sharpness" or row["problem"] or largest <= row["value"] + 2 * row["bound"] + 1e-5 * abs(largest):
        return row
    return row | {"converged": False, "reason": f"the spectrum reaches {largest:.6g}: ask for a smaller relative error"}


def _text(estimate: Estimate) -> str:
    return str(estimate).split(" (", 1)[0]  # before method and cost


def _needs_figures() -> None:
    try:
        import common.figures  # noqa: F401
    except ModuleNotFoundError as error:
        raise UserError(f"--plot needs {error.name}: install the extra `full`, or leave the plot out.") from error


def _plot(problem: Problem, request: Request, path: Path) -> dict[str, Any]:
    from common.figures import export

    matrix = Hessian(problem)
    steps = max(2, min(STEPS, int(request.budget / (VECTORS * matrix.product_cost))))
    try:
        with problem.ranks.together():
            found = spectrum(matrix, vectors=VECTORS, steps=steps, seed=request.seed, deflate=True)
    except RanksApart:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(f"The spectrum of {request.model} cannot be measured: {named(error)}.") from error
    weights = f", {request.checkpoint.name}" if request.checkpoint else ""
    title = f"Spectrum of the Hessian\n{request.model}{weights} on {request.data}/{request.split}"
    files = export(draw(found, title), path.parent, path.stem).values() if problem.ranks.rank == 0 else ()
    return {
        "files": [str(file) for file in sorted(files, key=lambda file: file.suffix != path.suffix)],
        "method": found.method,
        "cost": found.cost,
        "smallest": float(found.nodes.min()),
        "largest": float(found.nodes.max()),
    }


def draw(found: Spectrum, title: str) -> Any:
    """The smoothed density on a logarithmic axis, down to a tenth of what one eigenvalue makes."""
    from common.figures import log_axis, reference_line, subplots

    low, high = float(found.nodes.min()), float(found.nodes.max())
    width = (high - low) / 200 or max(abs(high) / 200, 1e-12)
    points = torch.linspace(low - 6 * width, high + 6 * width, POINTS, dtype=torch.float64)
    density = found.density(points, width)
    one = 1 / (found.size * width * math.sqrt(2 * math.pi))
    figure, axes = subplots()
    axes.plot(points, density.clamp(min=one / 100), label="density")
    axes.fill_between(points, one / 100, density.clamp(min=one / 100), alpha=0.15, linewidth=0, label="_area")
    log_axis(axes, "y")
    axes.set_ylim(one / 10, 3 * float(density.max()))
    reference_line(axes, x=low, label="smallest Ritz value")
    reference_line(axes, x=high, label="largest Ritz value")
    axes.set(xlabel=f"eigenvalue (dashed: extreme Ritz values, {low:.3g} and {high:.4g})", ylabel="density")
    axes.set_title(title.replace("$", r"\$"), fontsize=10)
    return figure


def _one_of(value: str, known: Any, what: str) -> None:
    if value not in known:
        raise UserError(f"{value!r} is not a {what}; choose among {', '.join(known)}.")
