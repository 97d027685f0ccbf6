"""Donsker and Varadhan's variational formula: log E_π e^V = sup_p (E_p V − KL(p ‖ π)), attained at p ∝ π e^V.

Both sides in closed form on finite sets and for quadratics of a Gaussian variable. Tensors are float64; the points of a
finite set are the last axis, leading axes are independent cases.
"""

import math
from dataclasses import dataclass

import torch


def log_expectation(values: torch.Tensor, prior: torch.Tensor) -> torch.Tensor:
    """log E_π e^V [...] of values V [..., points] under probabilities π [..., points]."""
    return torch.logsumexp(values + prior.log(), -1)


def gibbs(values: torch.Tensor, prior: torch.Tensor) -> torch.Tensor:
    """The Gibbs distribution π e^V / E_π e^V [..., points]."""
    return torch.softmax(values + prior.log(), -1)


def finite_divergence(posterior: torch.Tensor, prior: torch.Tensor) -> torch.Tensor:
    """KL(p ‖ π) = Σ p log(p/π) in nats [...]; points without posterior mass add nothing."""
    return (torch.xlogy(posterior, posterior) - torch.xlogy(posterior, prior)).sum(-1)


def variational_objective(posterior: torch.Tensor, values: torch.Tensor, prior: torch.Tensor) -> torch.Tensor:
    """E_p V − KL(p ‖ π) [...], whose supremum over p is `log_expectation`."""
    return (posterior * values).sum(-1) - finite_divergence(posterior, prior)


@dataclass(frozen=True)
class QuadraticCase:
    """V(x) = slope · x − bend · x²/2 under π = N(mean, variance), bend > −1/variance, so that E e^V is finite."""

    slope: float
    bend: float
    mean: float = 0.0
    variance: float = 1.0

    def __post_init__(self) -> None:
        if not self.variance > 0 or not 1 + self.bend * self.variance > 0:
            raise ValueError(f"variance {self.variance} and bend {self.bend}: E e^V is infinite.")

    def log_expectation(self) -> float:
        """log E_π e^V, by completing the square."""
        widened = 1 + self.bend * self.variance
        tilt = self.slope * self.mean - self.bend * self.mean**2 / 2
        lead = self.variance * (self.slope - self.bend * self.mean) ** 2 / (2 * widened)
        return tilt + lead - math.log(widened) / 2

    def gibbs(self) -> tuple[float, float]:
        """Mean and variance of the Gibbs distribution, a Gaussian."""
        widened = 1 + self.bend * self.variance
        return (self.mean + self.variance * self.slope) / widened, self.variance / widened

    def objective(self, mean: float, variance: float) -> float:
        """E_p V − KL(p ‖ π) for p = N(mean, variance)."""
        value = self.slope * mean - self.bend * (mean**2 + variance) / 2
        scaled = (variance + (mean - self.mean) ** 2) / self.variance
        return value - (math.log(self.variance / variance) - 1 + scaled) / 2
