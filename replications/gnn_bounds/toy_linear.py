"""The talk's toy: a one-layer linear graph network with mean pooling, its norm bound against the measured gap.

f(X, G) = 1ᵀ P X w / n with ‖w‖₂ ≤ r and one output. Two losses of Lipschitz constant 1 in f:
- linear, ℓ = −y f: the largest gap over all w is r ‖E[y z] − Ê[y z]‖₂ with z = Xᵀ Pᵀ 1/n, in closed form;
- logistic, ℓ = log(1 + exp(−y f)), trained on the N graphs: the gap of the network that training finds.
"""

from collections.abc import Sequence
from typing import Literal

import torch

from common.bounds.graph_networks import linear_bound, linear_constant, printed_linear_bound
from common.experiments import ExperimentParameters, Field, RunContext

from .shared.random_graphs import erdos_renyi
from .shared.spectra import diffusion_norms

OURS = "our choice; the slide gives no data"


class Parameters(ExperimentParameters):
    """Settings of the toy."""

    labels: Literal["teacher", "random"] = Field(
        "teacher", description="classes: the sign of a linear teacher's output plus noise, or coins", source=OURS
    )
    own_streams: bool = Field(False, description="whether this arm draws its own graphs", source="our control")
    nodes: int = Field(16, ge=4, description="nodes of each graph", source=OURS, unit="nodes")
    degree: float = Field(5.0, gt=0, description="expected degree of the Erdős–Rényi graphs", source=OURS)
    features: int = Field(8, ge=1, description="features of a node, standard normal", source=OURS)
    noise: float = Field(
        1.0, ge=0, description="noise on the teacher's output, in its standard deviations", source=OURS
    )
    examples: tuple[int, ...] = Field(
        (32, 64, 128, 256, 512, 1024, 2048), description="training graphs N", source=OURS, unit="graphs"
    )
    repetitions: int = Field(8, ge=1, description="training sets averaged in a seed", source=OURS)
    fresh: int = Field(20000, ge=100, description="graphs that stand for the population", source=OURS, unit="graphs")
    radii: tuple[float, ...] = Field(
        (1.0, 4.0, 16.0, 64.0, 256.0), description="r, the largest ‖w‖₂ of the class", source=OURS
    )
    steps: int = Field(300, ge=1, description="steps of projected accelerated gradient descent", source=OURS)


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Largest gap over the class, gap of the trained network, and both bounds, for each N and r."""
    for number, run in enumerate(runs):
        generator = context.generator(run, "toy" if run.own_streams else "split")
        total = max(run.examples) * run.repetitions
        teacher = torch.randn(run.features, generator=generator, dtype=torch.float64)
        fresh, fresh_classes, norms = _draw(run, run.fresh, generator, teacher)
        pooled, classes, more = _draw(run, total, generator, teacher)
        largest = {name: max(norms[name], more[name]) for name in norms}
        constant = linear_constant(largest["diffusion"], largest["features"], 1.0, run.nodes)
        population = (fresh_classes[:, None] * fresh).mean(0)
        for examples in run.examples:
            parts = pooled.view(run.repetitions, -1, run.features)[:, :examples]
            signs = classes.view(run.repetitions, -1)[:, :examples]
            distance = ((signs[..., None] * parts).mean(1) - population).norm(dim=1).mean()
            gaps = _trained_gaps(run, parts, signs, fresh, fresh_classes)
            for radius, gap in zip(run.radii, gaps, strict=True):
                context.record(
                    run,
                    examples=examples,
                    radius=radius,
                    constant=float(constant) * radius,
                    largest_gap=float(distance) * radius,
                    trained_gap=gap,
                    bound=float(linear_bound(constant * radius, examples)),
                    printed_bound=float(printed_linear_bound(constant * radius, examples)),
                )
        context.progress(number + 1, len(runs))


def _draw(
    run: Parameters, count: int, generator: torch.Generator, teacher: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, dict[str, float]]:
    """Pooled features z [count, features], classes ±1 [count], and the largest ‖P‖₂ and ‖X‖₂ of a graph."""
    pooled, largest = [], {"diffusion": 0.0, "features": 0.0}
    for size in [4096] * (count // 4096) + [count % 4096] * (count % 4096 > 0):
        adjacency = erdos_renyi(size, run.nodes, run.degree, generator)
        root = adjacency.sum(-1).clamp(min=1).rsqrt()
        shares = root * (adjacency @ root[..., None])[..., 0] / run.nodes  # 1ᵀ P / n
        features = torch.randn(size, run.nodes, run.features, generator=generator, dtype=torch.float64)
        pooled.append((shares[:, None] @ features)[:, 0])
        norm = torch.linalg.eigvalsh(features.mT @ features)[:, -1].max().sqrt()
        largest["features"] = max(largest["features"], float(norm))
        few = diffusion_norms(adjacency[:64])["normalised_norm"].max()  # it is 1 for every graph with an edge
        largest["diffusion"] = max(largest["diffusion"], float(few))
    joined = torch.cat(pooled)
    coins = torch.randn(count, generator=generator, dtype=torch.float64)
    output = joined @ teacher
    signal = output + run.noise * output.std() * coins if run.labels == "teacher" else coins
    return joined, torch.where(signal > 0, 1.0, -1.0).double(), largest


def _trained_gaps(
    run: Parameters, pooled: torch.Tensor, classes: torch.Tensor, fresh: torch.Tensor, fresh_classes: torch.Tensor
) -> list[float]:
    """Gap of the trained network for each radius, the mean over the training sets [sets, N, features]."""
    every = len(run.radii)
    radii = torch.tensor(run.radii, dtype=torch.float64).repeat_interleave(len(pooled))[:, None]
    sets, signs = pooled.repeat(every, 1, 1), classes.repeat(every, 1)
    trained = _train(sets, signs, radii, run.steps)
    gaps = _logistic(fresh[None], fresh_classes[None], trained) - _logistic(sets, signs, trained)
    return gaps.view(every, -1).mean(1).tolist()


def _logistic(pooled: torch.Tensor, classes: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Mean logistic loss [sets] of weights [sets, features] on pooled features [sets or 1, N, features]."""
    outputs = torch.einsum("snf,sf->sn", pooled.expand(len(weights), -1, -1), weights)
    return torch.nn.functional.softplus(-classes * outputs).mean(1)


def _train(pooled: torch.Tensor, classes: torch.Tensor, radii: torch.Tensor, steps: int) -> torch.Tensor:
    """Weights [sets, features] of the smallest logistic loss in balls of `radii` [sets, 1]: Nesterov, projected."""
    weights = torch.zeros(len(pooled), pooled.shape[-1], dtype=torch.float64)
    ahead, momentum = weights, 1.0
    curvature = torch.linalg.eigvalsh(pooled.mT @ pooled / pooled.shape[1])[:, -1:] / 4
    for _ in range(steps):
        outputs = torch.einsum("snf,sf->sn", pooled, ahead)
        slopes = -classes * torch.sigmoid(-classes * outputs)
        moved = ahead - torch.einsum("sn,snf->sf", slopes, pooled) / pooled.shape[1] / curvature
        moved = moved * (radii / moved.norm(dim=1, keepdim=True)).clamp(max=1)
        following = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        ahead = moved + (momentum - 1) / following * (moved - weights)
        weights, momentum = moved, following
    return weights
