"""Noise injection on matrix sensing: among all factors that fit the measurements, does it find one of lower trace?

    L(W) = 1/(2n) Σ_i (⟨A_i, W Wᵀ⟩ − y_i)²,  y_i = ⟨A_i, W* W*ᵀ⟩

With fewer measurements than entries many W fit. For Gaussian A_i the trace of the Hessian at a fit is close to
a multiple of ‖W‖_F², the trace of W Wᵀ, so that a lower trace means a matrix of lower rank.
"""

from collections.abc import Sequence
from typing import Any, Literal

import torch

from common.experiments import ExperimentParameters, Field, RunContext
from common.optim import GaussianNoise, GradientRule, NoiseStability, PlainGradient, WeightPerturbation

OURS = "our choice, deviation D8"


class Parameters(ExperimentParameters):
    """Settings of a run; the grid varies the rule."""

    size: int = Field(16, ge=2, description="rows d of W, which is square", source=OURS)
    rank: int = Field(2, ge=1, description="rank of W*", source=OURS)
    measurements: int = Field(80, ge=1, description="n; the matrix has d (d + 1)/2 free entries", source=OURS)
    start_scale: float = Field(0.3, gt=0, description="standard deviation of the initial entries", source=OURS)
    learning_rate: float = Field(0.005, gt=0, description="of gradient descent", source=OURS)
    rule: Literal["plain", "nso", "wp_sgd"] = Field("plain", description="which gradient is taken", source=OURS)
    noise_scale: float = Field(0.05, gt=0, description="σ of the perturbation of every entry", source=OURS)
    draws: int = Field(1, ge=1, description="perturbations a step", source=OURS)
    steps: int = Field(4_000, ge=10, unit="steps", description="length of training", source=OURS)
    lengthening: int = Field(1, ge=1, description="how many times `steps` this arm takes", source=OURS)
    records: int = Field(40, ge=2, description="rows recorded, evenly spread", source=OURS)


class Sensing:
    """Problems of all members: sensing matrices [members, n, d, d] and measurements [members, n]."""

    def __init__(self, matrices: torch.Tensor, truth: torch.Tensor) -> None:
        self.matrices = (matrices + matrices.mT) / 2
        self.truth = truth
        self.answers = self._measured(truth)

    def _measured(self, product: torch.Tensor) -> torch.Tensor:
        values: torch.Tensor = torch.einsum("mnij,mij->mn", self.matrices, product)
        return values

    def residuals(self, weights: torch.Tensor) -> torch.Tensor:
        """⟨A_i, W Wᵀ⟩ − y_i [members, n] of W [members, d, k]."""
        return self._measured(weights @ weights.mT) - self.answers

    def losses(self, weights: torch.Tensor) -> torch.Tensor:
        """L [members]."""
        return self.residuals(weights).square().mean(1) / 2

    def traces(self, weights: torch.Tensor) -> torch.Tensor:
        """Tr H [members], exact: 1/n Σ_i (4 ‖A_i W‖² + 2 k r_i Tr A_i) with symmetric A_i and k columns."""
        squares = torch.einsum("mnij,mjk->mnik", self.matrices, weights).square().sum((-1, -2))
        diagonals = self.matrices.diagonal(dim1=-2, dim2=-1).sum(-1)
        return (4 * squares + 2 * weights.shape[-1] * self.residuals(weights) * diagonals).mean(1)

    def recovery_errors(self, weights: torch.Tensor) -> torch.Tensor:
        """‖W Wᵀ − W* W*ᵀ‖_F / ‖W* W*ᵀ‖_F [members]."""
        distances = torch.linalg.matrix_norm(weights @ weights.mT - self.truth)
        return distances / torch.linalg.matrix_norm(self.truth)  # type: ignore[no-any-return]


def draw_problems(runs: Sequence[Parameters], context: RunContext) -> Sensing:
    """Gaussian sensing matrices and W* with entries of variance 1/d, shared by the arms of a seed."""
    matrices, truths = [], []
    for run in runs:
        source = context.generator(run, "split")
        shape = (run.measurements, run.size, run.size)
        matrices.append(torch.randn(shape, generator=source, dtype=torch.float64))
        factor = torch.randn(run.size, run.rank, generator=source, dtype=torch.float64) / run.size**0.5
        truths.append(factor @ factor.T)
    return Sensing(torch.stack(matrices), torch.stack(truths))


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one rule together from equal starts."""
    setting, problems = runs[0], draw_problems(runs, context)
    starts = [
        torch.randn(run.size, run.size, generator=context.generator(run, "init"), dtype=torch.float64) for run in runs
    ]
    weights = torch.nn.Parameter(setting.start_scale * torch.stack(starts))
    rule = _rule(runs, context, weights)
    total, step = setting.steps * setting.lengthening, 0
    saved: dict[str, Any] | None = context.restore()
    if saved is not None:
        step = saved["step"]
        rule.load_state_dict(saved["rule"])
        with torch.no_grad():
            weights.copy_(saved["weights"])
    due = {round(total * k / setting.records) for k in range(setting.records + 1)}

    def record() -> None:
        spent = {"step": step, "gradients": rule.gradient_evaluations}
        for run, values in zip(runs, _measured(problems, weights), strict=True):
            context.record(run, **spent, **values)

    if step == 0:
        record()
    while step < total:
        rule.step(lambda: problems.losses(weights).sum())
        step += 1
        if step in due:
            record()
            context.progress(step, total)
        context.checkpoint({"step": step, "rule": rule.state_dict(), "weights": weights.detach()})


def _rule(runs: Sequence[Parameters], context: RunContext, weights: torch.nn.Parameter) -> GradientRule:
    setting = runs[0]
    optimiser = torch.optim.SGD([weights], lr=setting.learning_rate)
    if setting.rule == "plain":
        return PlainGradient(optimiser)
    generators = [context.generator(run, "noise") for run in runs]
    noise = GaussianNoise([weights], scale=setting.noise_scale, generators=generators)
    kind = NoiseStability if setting.rule == "nso" else WeightPerturbation
    return kind(optimiser, noise, draws=setting.draws)


@torch.no_grad()
def _measured(problems: Sensing, weights: torch.Tensor) -> list[dict[str, float]]:
    columns = {
        "training_loss": problems.losses(weights),
        "trace": problems.traces(weights),
        "recovery_error": problems.recovery_errors(weights),
        "squared_norm": weights.square().sum((1, 2)),
    }
    return [{name: float(column[member]) for name, column in columns.items()} for member in range(len(weights))]
