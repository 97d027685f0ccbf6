"""Figure 1: sharp and flat minimum of a five-layer network with two parameters."""

from collections.abc import Sequence

import torch

from common.bounds.pacgen import neighbourhood, pacgen
from common.bounds.perturbation import (
    gaussian_bound,
    gaussian_levels,
    uniform_bound,
    uniform_levels,
    uniform_sharpness,
)
from common.experiments import Field, RunContext

from .shared.minima import CHUNK, Function, derivatives, in_chunks, square_grid
from .shared.pair_search import OURS, PAPER, FoundPair, PairSearch, search_pair
from .shared.toy_network import cross_entropy, logit_difference

FIGURES_3_TO_6 = f"{PAPER}, Figs. 3-6; not stated for Fig. 1"


class Parameters(PairSearch):
    """Settings of the toy; one run looks for one mixture that has the paper's two minima."""

    fresh_examples: int = Field(20_000, ge=100, unit="examples", description="fresh sample of the mixture", source=OURS)
    landscape_points: int = Field(81, ge=11, description="points a side of the drawn landscape (seed 0)", source=OURS)
    label_points: int = Field(100, ge=11, description="points a side of the maps of predicted labels", source=OURS)
    chords: int = Field(1_000, ge=10, description="straight lines for the boundary's complexity", source=OURS)
    gamma: float = Field(0.1, ge=0, description="γ of κ = γ|w| + ε", source=FIGURES_3_TO_6)
    epsilon: float = Field(0.1, gt=0, description="ε of κ = γ|w| + ε", source=FIGURES_3_TO_6)
    eta: float = Field(39.0, gt=0, description="η of the bound (13)", source=f"{PAPER}, footnote 1")
    delta: float = Field(0.05, gt=0, lt=1, description="probability with which the bound may fail", source=OURS)


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Draw mixtures until one has the paper's pair of minima (deviation D1); measure both on fresh data."""
    for done, parameters in enumerate(runs):
        _measure(parameters, context)
        context.progress(done + 1, len(runs))


def _measure(run: Parameters, context: RunContext) -> None:
    found, rejected = search_pair(run, context.generator(run, "split"))
    tally = {"mixtures_rejected": sum(rejected.values())}
    tally |= {f"rejected_{reason}": count for reason, count in rejected.items()}
    if found is None:
        context.record(run, kind="none", **tally)
    else:
        _record_pair(run, context, found, tally)


def _record_pair(run: Parameters, context: RunContext, found: FoundPair, tally: dict[str, int]) -> None:
    mixture, points, minima, pair = found.mixture, found.points, found.minima, found.pair
    labels = mixture.labels(points)
    score = score_points(cross_entropy(points, labels), pair, run)
    source = context.generator(run, "probes")
    fresh = mixture.draw(run.fresh_examples, source)
    population_loss = in_chunks(cross_entropy(fresh, mixture.labels(fresh)), pair)
    score |= {
        "population_loss": population_loss,
        "gap": population_loss - score["loss"],
        "training_error": _error(pair, points, labels),
        "population_error": _error(pair, fresh, mixture.labels(fresh)),
        "boundary_complexity": boundary_complexity(pair, random_chords(points, run.chords, source)),
        "sharpness": minima.sharpness[[0, found.flat]],
        "w1": pair[:, 0],
        "w2": pair[:, 1],
    }
    values = {f"{name}_sharp": float(value[0]) for name, value in score.items()}
    values |= {f"{name}_flat": float(value[1]) for name, value in score.items()}
    context.record(run, kind="pair", minima=len(minima.points), **tally, **values)
    if run.seed == 0:
        _record_drawing(run, context, points, labels, pair)


def _record_drawing(
    run: Parameters,
    context: RunContext,
    points: torch.Tensor,
    labels: torch.Tensor,
    pair: torch.Tensor,
) -> None:
    """What Figure 1 shows, for seed 0 whatever comes out: the landscape, the sample, the maps of labels."""
    grid = square_grid(run.half_width, run.landscape_points)
    score = score_points(cross_entropy(points, labels), grid, run)
    for k, (w1, w2) in enumerate(grid.tolist()):
        cell = {name: float(score[name][k]) for name in ("loss", "psi", "bound")}
        context.record(run, kind="landscape", w1=w1, w2=w2, **cell)
    predicted = predicted_labels(pair, points)
    for (x1, x2), label, sharp, flat in zip(points.tolist(), labels.tolist(), *predicted.tolist(), strict=True):
        context.record(run, kind="sample", x1=x1, x2=x2, label=int(label), sharp=int(sharp), flat=int(flat))
    box = _box(points, run.label_points)
    for (x1, x2), sharp, flat in zip(box.tolist(), *predicted_labels(pair, box).tolist(), strict=True):
        context.record(run, kind="map", x1=x1, x2=x2, sharp=int(sharp), flat=int(flat))


def score_points(loss: Function, points: torch.Tensor, run: Parameters) -> dict[str, torch.Tensor]:
    """Loss, ρ, Ψ and the bounds at points [k, 2]; every value is [k]. The Hessians are exact."""
    parts = [_score(loss, part, run) for part in torch.split(points, CHUNK)]
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _score(loss: Function, points: torch.Tensor, run: Parameters) -> dict[str, torch.Tensor]:
    values, _, hessians = derivatives(loss, points)
    kappa = neighbourhood(points, gamma=run.gamma, epsilon=run.epsilon)
    rho = local_lipschitz(loss, points, hessians, kappa)
    diagonal = hessians.diagonal(dim1=1, dim2=2)
    curvature = diagonal.clamp(min=0)  # for (14) and (21); footnote 4 has (24) cut off the sum with ρ, not h
    score = pacgen(points, diagonal, rho, gamma=run.gamma, epsilon=run.epsilon)
    tau = points.abs() + kappa
    sigma = uniform_levels(curvature, rho, kappa, eta=run.eta)
    scale = points.square().sum(1)
    result = {
        "loss": values,
        "rho": rho,
        "trace": diagonal.sum(1),
        "psi": score.value,
        "psi_floor": score.floor,
        "curvature_share": score.curvature_share,
        "psi_no_rho": pacgen(points, diagonal, gamma=run.gamma, epsilon=run.epsilon).value,
        "bound": uniform_bound(values, tau, sigma, eta=run.eta, examples=run.examples, delta=run.delta),
        "bound_tight": uniform_bound(
            values,
            tau,
            sigma,
            eta=run.eta,
            examples=run.examples,
            delta=run.delta,
            sharpness=uniform_sharpness(curvature, rho, kappa, sigma),
        ),
    }
    for name, as_printed in (("bound_gaussian", False), ("bound_gaussian_printed", True)):
        levels = gaussian_levels(curvature, rho, kappa, tau=scale, eta=run.eta, as_printed=as_printed)
        result[name] = gaussian_bound(values, levels, tau=scale, eta=run.eta, examples=run.examples, delta=run.delta)
    return result


def local_lipschitz(loss: Function, points: torch.Tensor, hessians: torch.Tensor, kappa: torch.Tensor) -> torch.Tensor:
    """Largest ‖∇²L(v) − ∇²L(w)‖/‖v − w‖ over the 8 corners and edge centres v of each w's neighbourhood.

    Definition 4 with the maximum over 8 points for that over the neighbourhood: a lower estimate of ρ, [k].
    """
    rho = torch.zeros(len(points), dtype=points.dtype)
    for shift in square_grid(1.0, 3):
        if not bool(shift.any()):
            continue
        step = shift * kappa
        _, _, other = derivatives(loss, points + step)
        rho = torch.maximum(rho, torch.linalg.matrix_norm(other - hessians, ord=2) / step.norm(dim=1))
    return rho


def predicted_labels(weights: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """Truth values [k, n]: whether class 1 is predicted."""
    with torch.no_grad():
        return logit_difference(weights, points) > 0


def boundary_complexity(weights: torch.Tensor, chords: torch.Tensor) -> torch.Tensor:
    """Share of chords [c, p, 2] along which the predicted label changes more than once, for weights [k, 2]; [k].

    0 for a straight boundary, wherever it lies, and where one label is predicted everywhere.
    """
    labels = predicted_labels(weights, chords.flatten(0, 1)).view(len(weights), *chords.shape[:2])
    changes = (labels[..., 1:] != labels[..., :-1]).sum(-1)
    return (changes > 1).double().mean(-1)


def random_chords(points: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """`count` straight lines between random places of the sample's box, 100 points each: [count, 100, 2]."""
    low, high = _ends(points)
    start, end = (low + (high - low) * torch.rand(2, count, 1, 2, generator=generator, dtype=points.dtype)).unbind()
    return start + torch.linspace(0, 1, 100, dtype=points.dtype)[:, None] * (end - start)


def _error(weights: torch.Tensor, points: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return (predicted_labels(weights, points) != labels).double().mean(1)


def _ends(points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Lowest and highest corner of the sample's bounding box, a tenth wider on each side."""
    low, high = points.amin(0), points.amax(0)
    return low - 0.1 * (high - low), high + 0.1 * (high - low)


def _box(points: torch.Tensor, count: int) -> torch.Tensor:
    """Lattice [count², 2] over the sample's box."""
    low, high = _ends(points)
    return low + (high - low) * (square_grid(1.0, count) + 1) / 2
