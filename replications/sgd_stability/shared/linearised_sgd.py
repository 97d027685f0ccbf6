"""SGD on the linearised model at a minimum, in the errors of the examples: exact one-step averages and thresholds.

With the Jacobian J of the outputs kept where it is, a step on a batch of B of n examples changes the errors
e = outputs − targets by e ← e − (2η/B) K m∘e, K = J Jᵀ, where m marks the batch; the loss is `squared_error`, ‖e‖²/n,
and its Hessian has the eigenvalues of 2K/n. All averages over batches, drawn without replacement, follow from K.
"""

from dataclasses import dataclass

import torch

ROUNDING = 1e-15
"""Relative change of a moment from one step to the next below which it has settled."""


@dataclass(frozen=True)
class StepAverages:
    """What one step does to the loss, on average over all batches.

    Attributes:
        ratio: E[L_{t+1} | θ_t] / L_t.
        noise: the part of it that the noise of the batches brings, η² c μ ‖H‖²_F with c = (n − B)/(B(n − 1)).
        mu: as `alignment` says.
    """

    ratio: torch.Tensor
    noise: torch.Tensor
    mu: torch.Tensor


@dataclass(frozen=True)
class LinearisedSGD:
    """K [n, n] (float64), the learning rate η and the batch size B.

    Example:
        >>> sgd = LinearisedSGD(torch.eye(2, dtype=torch.float64), 0.5, 1)
        >>> sgd.averages(torch.ones(1, 2, dtype=torch.float64)).ratio.tolist()
        [0.5]
    """

    kernel: torch.Tensor
    learning_rate: float
    batch_size: int

    @property
    def count(self) -> int:
        """n."""
        return len(self.kernel)

    @property
    def noise_scale(self) -> float:
        """c = (n − B)/(B(n − 1)), the variance of a batch mean over that of one example."""
        return (self.count - self.batch_size) / (self.batch_size * (self.count - 1))

    @property
    def hessian_norm(self) -> float:
        """‖H‖_F."""
        return 2 * float(self.kernel.norm()) / self.count

    def step(self, errors: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        """Errors [trajectories, n] after a step on the batches `chosen` [trajectories, B]."""
        marked = torch.zeros_like(errors).scatter_(1, chosen, errors.gather(1, chosen))
        return errors - (2 * self.learning_rate / self.batch_size) * (marked @ self.kernel)

    def averages(self, errors: torch.Tensor) -> StepAverages:
        """Of one step from each row of `errors` [trajectories, n]."""
        gradient = errors @ self.kernel / self.count
        kept = (errors - 2 * self.learning_rate * gradient).square().sum(1) / errors.square().sum(1)
        noise = 4 * self.learning_rate**2 * self.noise_scale * _noise_along_curvature(errors, self.kernel)
        return StepAverages(kept + noise, noise, alignment(errors, self.kernel))

    def smallest_alignment(self, errors: torch.Tensor, batches: torch.Tensor) -> float:
        """The least μ on the trajectory from `errors` [n] through `batches` [steps, B]: Theorem 3's μ₀.

        At interpolation itself μ is 0/0. Errors are scaled to length 1 after each step, which changes no μ.
        """
        smallest, errors = float("inf"), errors[None]
        for chosen in batches:
            errors = self.step(errors, chosen[None])
            errors = errors / errors.norm()
            smallest = min(smallest, float(alignment(errors, self.kernel)))
        return smallest

    def radius(self, iterations: int = 400) -> float:
        """Growth of E[e eᵀ] a step, after so many from C = I: the mean square is unstable if above 1.

        Above 1 it is the largest eigenvalue of a step. Below, it has not settled after 400: the eigenvalue is close to
        that of descent in its slowest direction, (1 − 2ηκ/n)² with κ the least eigenvalue of K, and this is less.

        C ← (I − 2ηK/n) C (I − 2ηK/n) + 4η² c (K diag(C) K/n − K C K/n²), iterated from C = I until C changes by
        rounding alone. As C is symmetric, two products of matrices do: M = KC, and the factor of all that stands
        before the last K.
        """
        n, pull = self.count, 2 * self.learning_rate / self.count
        noise = 4 * self.learning_rate**2 * self.noise_scale
        moment = torch.eye(n).to(self.kernel) / n
        growth = 1.0
        for _ in range(iterations):
            once = self.kernel @ moment
            factor = (pull**2 - noise / n**2) * once + self.kernel * (noise / n * moment.diagonal())
            following = torch.addmm(moment, factor, self.kernel).sub_(once, alpha=pull).sub_(once.mT, alpha=pull)
            following = (following + following.mT).div_(2)  # rounding that is not symmetric would grow
            growth = float(following.trace())
            following /= growth
            settled = float((following - moment).norm()) <= ROUNDING * float(following.norm())
            moment = following
            if settled:
                break
        return growth

    def decoupled_sum(self) -> float:
        """Σ ηλᵢ/(2 − ηλᵢ) over the eigenvalues of H; where Σ ≈ 2LG, mean-square stability needs it to be below B.

        Infinite if ηλ₁ ≥ 2.
        """
        scaled = 2 * self.learning_rate / self.count * torch.linalg.eigvalsh(self.kernel).clamp(min=0)
        return float("inf") if float(scaled.max()) >= 2 else float((scaled / (2 - scaled)).sum())


def expected_losses(sgd: LinearisedSGD, errors: torch.Tensor, steps: int) -> list[float]:
    """E[L_t] for t = 0 … steps from `errors` [n], exact: the second moment, started at e eᵀ, as in `radius`.

    Where it grows, it does by `LinearisedSGD.radius` a step in the long run.
    """
    pull, noise = 2 * sgd.learning_rate / sgd.count, 4 * sgd.learning_rate**2 * sgd.noise_scale
    moment = torch.outer(errors, errors)
    losses = [float(moment.trace()) / sgd.count]
    for _ in range(steps):
        kept = moment - pull * (sgd.kernel @ moment)
        own = sgd.kernel * (moment.diagonal() / sgd.count) - sgd.kernel @ moment / sgd.count**2
        moment = kept - pull * (kept @ sgd.kernel) + noise * (own @ sgd.kernel)
        moment = (moment + moment.mT) / 2  # rounding that is not symmetric would grow
        losses.append(float(moment.trace()) / sgd.count)
    return losses


def alignment(errors: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
    """μ = Tr(ΣG)/(2L ‖G‖²_F), equation (9) [trajectories], from errors [trajectories, n] and K [n, n].

    `common.hessian.alignment` has it for any model and loss.
    """
    return _noise_along_curvature(errors, kernel) * len(kernel) ** 2 / kernel.square().sum()


def _noise_along_curvature(errors: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
    """Tr(ΣG)/(2L) of the lecture's L = ½ mean e² [trajectories]."""
    count, gradient = len(kernel), errors @ kernel / len(kernel)
    along = errors.square() @ kernel.square().sum(1) / count - gradient.square().sum(1)
    return along / errors.square().sum(1)
