"""Propositions 1 and 2: alignment of noise and curvature in linear networks and random-feature models, for every θ."""

from collections.abc import Sequence
from typing import Literal

import torch

from common.experiments import ExperimentParameters, Field, RunContext

from .shared.two_layer_relu import sphere

PROPOSITIONS = "Wu 2025, Propositions 1 and 2"
OURS = "our choice, D29"
CHUNK = 10_000


class Parameters(ExperimentParameters):
    """Settings: the model, its dimension, and the sample that stands for n = ∞."""

    model: Literal["linear", "random_features"] = Field(
        "linear", description="a deep linear network, or ReLU random features", source=PROPOSITIONS
    )
    dimension: int = Field(8, ge=2, description="d of the inputs", source=PROPOSITIONS)
    examples: int = Field(40_000, ge=10, unit="examples", description="sample that stands for n = ∞", source=OURS)
    few_per_dimension: int = Field(2, ge=1, description="n/d of the small sample", source=OURS)
    features: int = Field(100, ge=2, description="m of the random features", source=OURS)
    layers: int = Field(3, ge=1, description="of the linear network", source=OURS)
    targets: int = Field(40, ge=1, description="random errors e = vᵀx tried on a linear network", source=OURS)
    rank_cut: float = Field(1e-6, gt=0, lt=1, description="λ/λ₁ of G below which directions are left out", source=OURS)


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """The least μ over θ: by the formula and a sample for linear networks, an eigenvalue for random features."""
    for done, run in enumerate(runs):
        init, source = context.generator(run, "init"), context.generator(run, "probes")
        if run.model == "linear":
            context.record(run, **linear_alignment(run, init, source))
        else:
            context.record(run, **random_feature_alignment(run, init, source))
        context.progress(done + 1, len(runs))


def linear_alignment(run: Parameters, init: torch.Generator, source: torch.Generator) -> dict[str, float]:
    """μ of a random deep linear network over random v, for x ~ N(0, S).

    g(x)ᵀg(x') = xᵀMx' with M = Σ_l ‖u_l‖² V_lᵀV_l for f = u_lᵀ W_l V_l x. With e = vᵀx Gaussian fourth moments give
    Σ = A((vᵀSv) S + S v vᵀ S)Aᵀ, so μ = 1 + vᵀSMSMSv/(vᵀSv Tr(MSMS)) ≥ 1.
    """
    dimension = run.dimension
    square = torch.randn(run.layers - 1, dimension, dimension, generator=init, dtype=torch.float64) / dimension**0.5
    last = torch.randn(1, dimension, generator=init, dtype=torch.float64)
    weights = [*square, last]
    matrix = torch.zeros(dimension, dimension, dtype=torch.float64)
    for layer in range(run.layers):
        below = torch.eye(dimension, dtype=torch.float64)
        for weight in weights[:layer]:
            below = weight @ below
        above = torch.ones(1, 1, dtype=torch.float64)
        for weight in reversed(weights[layer + 1 :]):
            above = above @ weight
        matrix += above.square().sum() * below.T @ below
    root = torch.randn(dimension, dimension, generator=init, dtype=torch.float64) / dimension**0.5
    covariance = root @ root.T
    errors = torch.randn(run.targets, dimension, generator=source, dtype=torch.float64)
    exact = _gaussian_alignment(errors, covariance, matrix)
    many = torch.randn(run.examples, dimension, generator=source, dtype=torch.float64) @ root.T
    few = torch.randn(run.few_per_dimension * dimension, dimension, generator=source, dtype=torch.float64) @ root.T
    sampled, scarce = (_sample_alignment(inputs, errors, matrix) for inputs in (many, few))
    return {
        "mu_smallest": float(sampled.min()),
        "mu_mean": float(sampled.mean()),
        "mu_formula_smallest": float(exact.min()),
        "formula_error": float((sampled / exact - 1).abs().mean()),
        "mu_few_smallest": float(scarce.min()),
    }


def _gaussian_alignment(errors: torch.Tensor, covariance: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    both = matrix @ covariance
    slope = errors @ covariance
    return 1 + ((slope @ both) * (slope @ matrix)).sum(1) / ((slope * errors).sum(1) * (both @ both).trace())


def _sample_alignment(inputs: torch.Tensor, errors: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """μ [v] of a sample [n, d] for errors e = vᵀx, with its own G and mean gradient."""
    count = len(inputs)
    covariance = inputs.T @ inputs / count
    both = matrix @ covariance
    along = ((inputs @ both @ matrix) * inputs).sum(1)  # ‖g_i‖²_G
    squares = (inputs @ errors.T).square()
    slope = errors @ covariance
    lost = ((slope @ both) * (slope @ matrix)).sum(1)
    return ((squares * along[:, None]).mean(0) - lost) / (squares.mean(0) * (both @ both).trace())


def random_feature_alignment(run: Parameters, init: torch.Generator, source: torch.Generator) -> dict[str, float]:
    """The least μ over all θ of f = Σ_j θ_j σ(w_jᵀx), x on the unit sphere, ‖w_j‖ = √d: a generalised eigenvalue.

    With e = vᵀφ, μ = vᵀ(Q − G³)v/(vᵀGv ‖G‖²_F), Q = E φφᵀ (φᵀGφ). Directions that G hardly has are left out.
    """
    directions = sphere((run.features, run.dimension), init)
    chunks = []
    for start in range(0, run.examples, CHUNK):
        points = sphere((min(CHUNK, run.examples - start), run.dimension), source) / run.dimension**0.5
        chunks.append((points @ directions.T).relu())
    features = torch.cat(chunks)
    curvature = features.T @ features / run.examples
    along = ((features @ curvature) * features).sum(1)
    weighted = (features * along[:, None]).T @ features / run.examples
    eigenvalues, vectors = torch.linalg.eigh(curvature)
    kept = eigenvalues > run.rank_cut * eigenvalues[-1]
    whitening = vectors[:, kept] / eigenvalues[kept].sqrt()
    cube = curvature @ curvature @ curvature
    noise = whitening.T @ (weighted - cube) @ whitening / curvature.square().sum()
    found = torch.linalg.eigvalsh((noise + noise.T) / 2)
    drawn = torch.randn(1, run.features, generator=source, dtype=torch.float64)
    typical = (drawn @ (weighted - cube) @ drawn.T) / (drawn @ curvature @ drawn.T * curvature.square().sum())
    return {
        "mu_smallest": float(found[0]),
        "mu_mean": float(found.mean()),
        "mu_typical": float(typical),
        "rank": float(kept.sum()),
    }
