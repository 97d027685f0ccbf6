"""What follows exactly from the empirical neural tangent kernel, K = J Jᵀ [N·D, N·D], when that is smaller than P × P.

With J the derivative of all outputs by the parameters: the nonzero eigenvalues of the GGN are those of SᵀKS/N, the
gradients of examples n, m have the product rₙᵀ Kₙₘ rₘ with rₙ = ∂ℓₙ/∂outputs; so spectra, Frobenius norms and the
alignment of noise and curvature are a matter of small matrices.
"""

from dataclasses import dataclass

import torch

from common.hessian.estimates import Estimate
from common.hessian.per_sample import chunk_linearisations
from common.hessian.problem import Problem

LARGEST = 8192
"""Rows that a kernel may have."""
LARGEST_ROWS = 1 << 30
"""Bytes of J that are held while the kernel is made; beyond it is made in strips."""


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """How gradient noise lies along curvature (Wu, Wang and Su 2022), exactly.

    Attributes:
        mu: Tr(ΣG) / (2 L ‖G‖²_F) = alpha · beta.
        alpha: Tr(ΣG) / (‖Σ‖_F ‖G‖_F), the cosine.
        beta: ‖Σ‖_F / (2 L ‖G‖_F), the relative size.
        gamma: min_n ‖gₙ‖²_G / mean_n ‖gₙ‖²_G with gₙ the gradient of the output of example n and ‖g‖²_G = gᵀGg;
            None unless the model has one output.
        noise_trace, noise_norm, curvature_norm, noise_curvature: Tr Σ, ‖Σ‖_F, ‖G‖_F, Tr(ΣG).
        loss: L.
        cost: in gradient-equivalents.
    """

    mu: float
    alpha: float
    beta: float
    gamma: float | None
    noise_trace: float
    noise_norm: float
    curvature_norm: float
    noise_curvature: float
    loss: float
    cost: float


@dataclass(frozen=True, kw_only=True)
class EmpiricalNTK:
    """K = J Jᵀ with what is needed to read curvature and noise off it.

    Attributes:
        gram: K [N·D, N·D], float64; row n·D + d is output d of example n.
        factor: S [N, D, R]: Λₙ = Sₙ Sₙᵀ is the Hessian of ℓₙ in the outputs.
        residuals: rₙ = ∂ℓₙ/∂outputs [N, D].
        loss: L(w).
        scale: 1/N, or 1 if the loss is a sum.
        cost: in gradient-equivalents.
    """

    gram: torch.Tensor
    factor: torch.Tensor
    residuals: torch.Tensor
    loss: float
    scale: float
    cost: float

    def ggn(self) -> torch.Tensor:
        """SᵀKS · scale [N·R, N·R], S block diagonal: its nonzero eigenvalues are those of the GGN."""
        count, outputs, rank = self.factor.shape
        blocks = self.gram.view(count, outputs, count, outputs)
        half = torch.einsum("ndme,mer->ndmr", blocks, self.factor)
        both = torch.einsum("ndr,ndms->nrms", self.factor, half)
        return both.reshape(count * rank, count * rank) * self.scale

    def gradients(self, centred: bool) -> torch.Tensor:
        """Products gₙᵀgₘ [N, N] of the gradients of the examples, less their mean if `centred`."""
        count, outputs = self.residuals.shape
        blocks = self.gram.view(count, outputs, count, outputs)
        gram = torch.einsum("nd,ndme,me->nm", self.residuals, blocks, self.residuals)
        if centred:
            gram = gram - gram.mean(0, keepdim=True)
            gram = gram - gram.mean(1, keepdim=True)
        return gram

    def gradients_by_outputs(self, centred: bool) -> torch.Tensor:
        """Products of the gradients of the examples with the rows of SᵀJ [N, N·R]."""
        count, outputs, rank = self.factor.shape
        blocks = self.gram.view(count, outputs, count, outputs)
        cross = torch.einsum("nd,ndme,mer->nmr", self.residuals, blocks, self.factor).reshape(count, count * rank)
        return cross - cross.mean(0, keepdim=True) if centred else cross

    def alignment(self, centred: bool = True) -> Alignment:
        """Alignment factors, for a loss that is a mean; see the function `alignment`.

        Raises:
            ValueError: loss zero or no curvature (0/0).
        """
        count, outputs = self.residuals.shape
        noise, curvature = self.gradients(centred) / count, self.ggn()
        noise_norm, curvature_norm = float(noise.norm()), float(curvature.norm())
        cross = float(self.gradients_by_outputs(centred).square().sum()) / count**2
        if not self.loss > 0 or not noise_norm > 0 or not curvature_norm > 0:
            raise ValueError("Loss, gradient noise or curvature is zero here: the alignment factors are 0/0.")
        gamma = None
        if outputs == 1:
            along = (self.gram @ (self.gram * self.factor.view(-1).square()[:, None])).diagonal()
            gamma = float(along.min() / along.mean())
        return Alignment(
            mu=cross / (2 * self.loss * curvature_norm**2),
            alpha=cross / (noise_norm * curvature_norm),
            beta=noise_norm / (2 * self.loss * curvature_norm),
            gamma=gamma,
            noise_trace=float(noise.trace()),
            noise_norm=noise_norm,
            curvature_norm=curvature_norm,
            noise_curvature=cross,
            loss=self.loss,
            cost=self.cost,
        )


def empirical_ntk(problem: Problem) -> EmpiricalNTK:
    """K = J Jᵀ in float64, with at most D + 1 backward passes to the activations a chunk.

    Raises:
        ValueError: more than 8,192 rows, or a loss that is not convex.

    Example:
        >>> model = torch.nn.Linear(2, 1)
        >>> empirical_ntk(Problem(model, torch.nn.MSELoss(), (torch.eye(2), torch.ones(2, 1)))).gram.tolist()
        [[2.0, 1.0], [1.0, 2.0]]
    """
    outputs = problem.outputs_per_example
    rows = problem.count * outputs
    if rows > LARGEST:
        raise ValueError(f"The kernel would have {rows} rows (examples × outputs), more than {LARGEST}.")
    strips, factors, residuals = [], [], []
    value = 0.0
    for chunk, at in chunk_linearisations(problem):
        factor, sign = problem.curvature.factor(at.outputs, chunk.targets)
        if bool((sign < 0).any()):
            raise ValueError("The loss is not convex in the outputs: its GGN has no symmetric factor.")
        factors.append(factor.double() * (sign != 0)[:, None, :])
        residuals.append(problem.output_gradient(at.outputs, chunk.targets).flatten(1).double())
        value += float(problem.summed_loss(at.outputs, chunk.targets))
        flat = torch.zeros_like(at.outputs.flatten(1))
        parts = []
        for output in range(outputs):
            flat.zero_()[:, output] = 1.0
            parts.append(at.gradients(flat.view_as(at.outputs)))
        strips.append(torch.stack(parts, dim=1).flatten(0, 1))
    jacobian = problem.gathered(torch.cat(strips))
    gram = torch.zeros(rows, rows, dtype=torch.float64, device=problem.device)
    for part in jacobian.split(max(1, LARGEST_ROWS // (8 * rows)), dim=1):
        gram += part.double() @ part.double().T
    return EmpiricalNTK(
        gram=gram,
        factor=problem.gathered(torch.cat(factors)),
        residuals=problem.gathered(torch.cat(residuals)),
        loss=problem.completed(value) * problem.scale,
        scale=problem.scale,
        cost=(1 + outputs) / 3,
    )


def ggn_spectrum(problem: Problem) -> torch.Tensor:
    """The eigenvalues of the GGN that may be nonzero, ascending [min(N·R, P) or fewer], exactly.

    Example:
        >>> problem = Problem(torch.nn.Linear(2, 1), torch.nn.MSELoss(), (torch.eye(2), torch.ones(2, 1)))
        >>> [round(value, 4) for value in ggn_spectrum(problem).tolist()]
        [1.0, 3.0]
    """
    eigenvalues: torch.Tensor = torch.linalg.eigvalsh(empirical_ntk(problem).ggn())
    return eigenvalues[-problem.size :]


def ggn_frobenius_norm(problem: Problem) -> Estimate:
    """‖G‖_F exactly, from the empirical NTK.

    Example:
        >>> problem = Problem(torch.nn.Linear(2, 1), torch.nn.MSELoss(), (torch.eye(2), torch.ones(2, 1)))
        >>> round(ggn_frobenius_norm(problem).value**2, 4)
        10.0
    """
    kernel = empirical_ntk(problem)
    value = float(kernel.ggn().norm())
    return Estimate(value, passes=1, cost=kernel.cost, method="exact, empirical NTK")


def alignment(problem: Problem, *, centred: bool = True) -> Alignment:
    """Alignment factors of noise covariance Σ and GGN G; all are invariant to a factor before the loss.

    With K outputs and a mean squared error over them the decoupled value is 1/K instead of 1: use one output.

    Args:
        centred: Σ less ∇L ∇Lᵀ (the covariance); False gives the second moment of the gradients.

    Raises:
        ValueError: a sum loss, loss zero or no curvature (0/0), or what `empirical_ntk` refuses.

    Example:
        >>> data = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)), torch.ones(50, 1)
        >>> found = alignment(Problem(torch.nn.Linear(3, 1), torch.nn.MSELoss(), data))
        >>> abs(found.mu - found.alpha * found.beta) < 1e-9
        True
    """
    problem.require_mean()
    return empirical_ntk(problem).alignment(centred)
