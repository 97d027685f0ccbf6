"""What is recorded of a Hessian: λ₁, traces, the nodes of its spectral density; Tr H² with little noise."""

import math

import torch

from common.experiments import ExperimentParameters, Field, RunContext
from common.hessian import Eigenpairs, Estimate, LinearOperator, Spectrum, eigenpairs

from .perceptron import SECTION_5


class DensityParameters(ExperimentParameters):
    """How finely a spectral density is computed."""

    moments: int = Field(100, ge=2, description="Lanczos steps of the spectral density", source=SECTION_5)
    start_vectors: int = Field(4, ge=1, description="random vectors of the spectral density", source="deviation D3")


class OutlierParameters(ExperimentParameters):
    """How Tr H² is computed."""

    outliers: int = Field(10, ge=1, description="extreme eigenvalues that are computed one by one", source="our choice")
    norm_probes: int = Field(16, ge=2, description="probes of what else is in Tr H²", source="our choice")
    eigenvalue_error: float = Field(0.05, gt=0, lt=1, description="wanted relative error of each", source="our choice")


def curvature_columns(
    operator: LinearOperator, total: Estimate, run: OutlierParameters, *, seed: int, source: torch.Generator
) -> dict[str, float | bool]:
    """Tr H (`total`), Tr H² and λ₁ with their errors; `seed` is for eigenvalues, `source` for probes."""
    pairs = eigenpairs(operator, run.outliers, relative_error=run.eigenvalue_error, seed=seed)
    squared = squared_norm(operator, pairs, run.norm_probes, source)
    largest = int(pairs.values.argmax())
    return {
        "trace": total.value,
        "trace_error": total.error,
        "trace_squared": squared.value,
        "trace_squared_error": squared.standard_error,
        "sharpness": float(pairs.values[largest]),
        "sharpness_bound": float(pairs.errors[largest]),
        "sharpness_converged": pairs.converged,
    }


def record_nodes(context: RunContext, run: ExperimentParameters, density: Spectrum) -> None:
    """A record for each node of the quadrature, with its weight and the start vector it comes from."""
    for vector, (nodes, weights) in enumerate(zip(density.nodes.tolist(), density.weights.tolist(), strict=True)):
        for node, weight in zip(nodes, weights, strict=True):
            context.record(run, kind="node", vector=vector, node=node, weight=weight)


def squared_norm(operator: LinearOperator, pairs: Eigenpairs, probes: int, source: torch.Generator) -> Estimate:
    """Tr A² with its standard error: Σ ‖A vᵢ‖² over the given eigenvectors, and probes in what is orthogonal to them.

    With V the orthonormal vectors and Q = I − VVᵀ, Tr A² = Tr VᵀA²V + E ‖A Q z‖² for random signs z, whatever V is;
    if V holds the outliers, little is left to the probes. Where the plain estimator needs hundreds of products for
    5 %, ten pairs and sixteen probes give a tenth of a percent here.

    Args:
        pairs: their residuals make up for eigenvectors that have not converged, ‖A v‖² = θ² + ‖A v − θ v‖².
        probes: at least 2, one product each.
        source: CPU generator of the signs.

    Raises:
        ValueError: fewer than two probes, which leave no standard error.
    """
    if probes < 2:
        raise ValueError(f"{probes} probes: at least 2 are needed for a standard error.")
    vectors = pairs.vectors
    forms = []
    for _ in range(probes):
        signs = torch.randint(0, 2, (operator.size,), generator=source).to(vectors).mul_(2).sub_(1)
        beside = signs - vectors @ (vectors.T @ signs)
        forms.append(float((operator @ beside).double().square().sum()))
    sample = torch.tensor(forms, dtype=torch.float64)
    along = float((pairs.values.double().square() + pairs.residuals.double().square()).sum())
    return Estimate(along + float(sample.mean()), float(sample.std()) / math.sqrt(probes))
