"""McAllester's theorem and Donsker and Varadhan's formula where both sides can be computed."""

import math
from collections.abc import Callable, Sequence

import torch

from common.bounds.mcallester import fixed_complexity, maurer_complexity, optimistic_complexity, worst_log_moment
from common.bounds.variational import QuadraticCase, finite_divergence, gibbs, log_expectation, variational_objective
from common.experiments import ExperimentParameters, Field, RunContext

LECTURE = "Wu 2025"
OURS = "our choice, deviation D47"
WORST_SCALES = 80
"""Values of λ over which a supremum is searched."""

SHARES = (1.0, 0.1, 0.1)
"""Of equal shares in the distribution from which the finite supremum is sought, time after time."""


class Parameters(ExperimentParameters):
    """Settings of a class of guessers, of its samples, and of the cases of the variational formula."""

    hypotheses: int = Field(
        100, ge=2, description="guessers, each wrong on each example with probability ½", source=OURS
    )
    examples: int = Field(100, ge=8, description="n, size of a training set", source=OURS)
    samples: int = Field(2000, ge=20, description="training sets drawn a seed", source=OURS)
    delta: float = Field(0.05, gt=0, lt=1, description="δ, the allowed share of failures", source=OURS)
    prior_scale: float = Field(
        60.0, gt=0, description="λ that is fixed before the data, for a divergence of 1.5 nats", source=OURS
    )
    gibbs_scales: tuple[float, ...] = Field(
        (0, 2.5, 5, 10, 15, 20, 30, 40, 60, 80, 120, 160), description="λ of the Gibbs posteriors", source=OURS
    )
    points: int = Field(50, ge=2, description="points of the finite cases of the variational formula", source=OURS)


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Chernoff's inequality exactly, samples of the class of guessers, and both sides of the variational formula."""
    for number, run in enumerate(runs):
        _chernoff(run, context)
        _guessers(run, context)
        _finite_formula(run, context)
        _gaussian_formula(run, context)
        context.progress(number + 1, len(runs))


def _chernoff(run: Parameters, context: RunContext) -> None:
    """P(gap ≥ t) of one guesser against E e^{λ gap}/e^{λt} at λ = 4nt, both exact."""
    n = run.examples
    wrong = torch.arange(n + 1, dtype=torch.float64)
    choose = (
        torch.lgamma(torch.tensor(n + 1.0, dtype=torch.float64)) - torch.lgamma(wrong + 1) - torch.lgamma(n - wrong + 1)
    )
    probability = (choose - n * math.log(2)).exp()
    gap = 0.5 - wrong / n
    for step in range(1, n // 4 + 1):
        t = step / n
        tail = float(probability[gap >= t - 1e-12].sum())
        scale = 4 * n * t
        moment = float((probability * (scale * gap).exp()).sum())
        context.record(run, kind="chernoff", t=t, tail=tail, right=moment / math.exp(scale * t))


def _guessers(run: Parameters, context: RunContext) -> None:
    """Failures of each form of the bound for the worst posterior, and gap and bounds for Gibbs posteriors."""
    n = run.examples
    source = context.generator(run, "batches")
    chance = torch.full((run.samples, run.hypotheses), float(n), dtype=torch.float64)
    wrong = torch.binomial(chance, torch.full_like(chance, 0.5), generator=source)
    gaps = 0.5 - wrong / n
    prior = torch.full((run.hypotheses,), 1 / run.hypotheses, dtype=torch.float64)
    scales = torch.linspace(2, 160, WORST_SCALES, dtype=torch.float64)
    worst = worst_log_moment(gaps, prior, scales, examples=n).amax(-1)
    fixed = worst_log_moment(gaps, prior, torch.tensor([run.prior_scale], dtype=torch.float64), examples=n)[:, 0]
    confidence = -math.log(run.delta)
    failures = {
        "optimistic": worst > confidence,
        "fixed": fixed > confidence,
        "maurer": worst > confidence + math.log(2 * math.sqrt(n)),
    }
    context.record(run, kind="worst", **{name: float(value.double().mean()) for name, value in failures.items()})
    for scale in run.gibbs_scales:
        posterior = gibbs(scale * gaps, prior)
        gap = (posterior * gaps).sum(-1)
        divergence = finite_divergence(posterior, prior)
        bounds = {
            "without_divergence": torch.full_like(gap, math.sqrt(confidence / (2 * n))),
            "optimistic": optimistic_complexity(divergence, examples=n, delta=run.delta),
            "fixed": fixed_complexity(divergence, scale=run.prior_scale, examples=n, delta=run.delta),
            "maurer": maurer_complexity(divergence, examples=n, delta=run.delta),
        }
        limit = scale**2 / (8 * n)
        context.record(
            run,
            kind="gibbs",
            scale=scale,
            gap=float(gap.mean()),
            gap_high=float(gap.quantile(1 - run.delta)),
            divergence=float(divergence.mean()),
            moment=_log_mean(scale * gap) - limit,
            moment_with_divergence=_log_mean(scale * gap - divergence) - limit,
            **{f"bound_{name}": float(value.mean()) for name, value in bounds.items()},
            **{f"failure_{name}": float((gap > value).double().mean()) for name, value in bounds.items()},
        )


def _log_mean(values: torch.Tensor) -> float:
    """log of the mean of e^values."""
    return float(torch.logsumexp(values, 0)) - math.log(len(values))


def _finite_formula(run: Parameters, context: RunContext) -> None:
    """A random V and π on finitely many points: the supremum found by an optimiser that knows no Gibbs distribution.

    The objective is concave in the distribution, but a point whose logit a step throws far down has no gradient that
    would bring it back: the search starts again from a mixture with equal shares.
    """
    source = context.generator(run, "init")
    values = 2 * torch.randn(run.points, generator=source, dtype=torch.float64)
    prior = torch.softmax(torch.randn(run.points, generator=source, dtype=torch.float64), -1)
    equal = torch.full_like(prior, 1 / run.points)
    found = equal
    for share in SHARES:
        start = (share * equal + (1 - share) * found).log()
        logits = _minimise(lambda x: -variational_objective(torch.softmax(x, -1), values, prior), start)
        found = torch.softmax(logits, -1)
    target = float(log_expectation(values, prior))
    distance = float((found - gibbs(values, prior)).abs().sum() / 2)
    best = float(variational_objective(found, values, prior))
    context.record(run, kind="finite", target=target, best=best, distance=distance)
    for beta in torch.linspace(-0.5, 2.5, 25, dtype=torch.float64).tolist():
        objective = float(variational_objective(gibbs(beta * values, prior), values, prior))
        context.record(run, kind="finite_curve", beta=beta, objective=objective, target=target)


def _gaussian_formula(run: Parameters, context: RunContext) -> None:
    """A random quadratic V under a Gaussian: the supremum over Gaussians, and the objective along their means."""
    slope, bend, mean, variance = torch.rand(4, generator=context.generator(run, "split"), dtype=torch.float64).tolist()
    case = QuadraticCase(slope=2 * slope + 0.5, bend=bend, mean=mean - 0.5, variance=0.5 + variance)

    def objective(x: torch.Tensor) -> torch.Tensor:
        spread = x[1].exp()
        value = case.slope * x[0] - case.bend * (x[0] ** 2 + spread) / 2
        divergence = (math.log(case.variance) - x[1] - 1 + (spread + (x[0] - case.mean) ** 2) / case.variance) / 2
        return value - divergence

    found = _minimise(lambda x: -objective(x), torch.zeros(2, dtype=torch.float64))
    middle, spread = case.gibbs()
    distance = max(abs(float(found[0]) - middle), abs(math.exp(float(found[1])) - spread))
    context.record(run, kind="gaussian", target=case.log_expectation(), best=float(objective(found)), distance=distance)
    for factor in (0.25, 1.0, 4.0):
        for shift in torch.linspace(-2, 2, 25, dtype=torch.float64).tolist():
            value = case.objective(middle + shift, factor * spread)
            context.record(
                run, kind="gaussian_curve", factor=factor, shift=shift, objective=value, target=case.log_expectation()
            )


def _minimise(function: Callable[[torch.Tensor], torch.Tensor], start: torch.Tensor) -> torch.Tensor:
    """A local minimum by L-BFGS from `start`."""
    point = start.clone().requires_grad_()
    optimiser = torch.optim.LBFGS(
        [point], max_iter=500, tolerance_grad=1e-12, tolerance_change=1e-16, line_search_fn="strong_wolfe"
    )

    def closure() -> float:
        optimiser.zero_grad()
        value = function(point)
        torch.autograd.backward(value)
        return float(value.detach())

    optimiser.step(closure)
    return point.detach()
