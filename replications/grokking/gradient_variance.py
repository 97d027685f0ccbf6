"""The variance of noisy gradients over σ: on both sides (NSO) and on one (WP-SGD), at equal compute.

Three losses: a quartic, whose derivatives of all orders are known; a smooth network (tanh), near its initial weights;
and the transformer of Fig. 4 with ReLU, as it ends with large weight decay.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from common.experiments import ExperimentParameters, Field, RunContext
from common.hessian import Hessian, Problem, squared_frobenius_norm
from common.models import ModularTransformer
from common.optim import GaussianNoise, NoiseStability, PlainGradient, WeightPerturbation

from .shared.training import table

OURS = "our choice, deviation D9"


class Parameters(ExperimentParameters):
    """Settings: the scales of the noise, the draws, and the transformer of `modular_addition`."""

    scales: tuple[float, ...] = Field((1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2), description="values of σ", source=OURS)
    draws: int = Field(24, ge=4, description="noisy gradients behind a variance", source=OURS)
    quartic_size: int = Field(200, ge=2, description="coordinates of the quartic", source=OURS)
    smooth_width: int = Field(64, ge=2, description="units of the tanh network", source=OURS)
    pairs: int = Field(512, ge=8, unit="pairs", description="examples behind a gradient of a network", source=OURS)
    modulus: int = Field(97, gt=2, description="of the transformer", source="modular_addition")
    layers: int = Field(2, ge=1, description="of the transformer", source="modular_addition")
    width: int = Field(128, ge=4, description="of the transformer", source="modular_addition")
    heads: int = Field(4, ge=1, description="of the transformer", source="modular_addition")


@dataclass(frozen=True)
class System:
    """A loss and the parameters that it is differentiated by."""

    name: str
    parameters: list[nn.Parameter]
    loss: Callable[[], torch.Tensor]

    def gradient(self) -> torch.Tensor:
        """What a rule has left as the gradients, in one row."""
        return torch.cat([p.grad.flatten() for p in self.parameters if p.grad is not None])


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Variances of both gradients and their distance from ∇L, for each loss and σ."""
    saved = context.restore()
    parts = [(run, part) for run in runs for part in (_quartic, _smooth_network, _transformer)]
    for done, (run, part) in enumerate(parts, start=1):
        if saved is not None and done <= saved["done"]:
            continue
        part(run, context)
        context.progress(done, len(parts))
        context.checkpoint({"done": done})


def _quartic(run: Parameters, context: RunContext) -> None:
    """Σ a w²/2 + b w³/6 + c w⁴/24: var ½ b' U² = σ⁴ b'²/2 with b' = b + c w, and var h U = σ² h² with h its Hessian."""
    source = context.generator(run, "split")
    a, b, c, start = torch.randn(4, run.quartic_size, generator=source, dtype=torch.float64)
    weights = nn.Parameter(start)
    second, third = a + b * start + c * start**2 / 2, b + c * start

    def loss() -> torch.Tensor:
        value: torch.Tensor = (a * weights**2 / 2 + b * weights**3 / 6 + c * weights**4 / 24).sum()
        return value

    for sigma in run.scales:
        theory = {
            "nso": float(third.square().sum()) * sigma**4 / 2,
            "wp_sgd": float(second.square().sum()) * sigma**2 / 2,
        }
        _measure(run, context, System("quartic", [weights], loss), sigma, theory)


def _smooth_network(run: Parameters, context: RunContext) -> None:
    """A tanh network with targets of another one of its kind."""
    source = context.generator(run, "init")
    inputs = torch.randn(run.pairs, 10, generator=source, dtype=torch.float64)
    student, teacher = (
        nn.Sequential(nn.Linear(10, run.smooth_width), nn.Tanh(), nn.Linear(run.smooth_width, 1)).double()
        for _ in range(2)
    )
    with torch.no_grad():
        for parameter in (*student.parameters(), *teacher.parameters()):
            scale = parameter.shape[-1] ** -0.5 if parameter.dim() > 1 else 1.0
            parameter.copy_(scale * torch.randn(parameter.shape, generator=source, dtype=torch.float64))
        targets = teacher(inputs)
    _network(run, context, "smooth network", student, criterion=functional.mse_loss, data=(inputs, targets))


def _transformer(run: Parameters, context: RunContext) -> None:
    """The kept transformer on training and validation pairs alike."""
    model = ModularTransformer(run.modulus, layers=run.layers, width=run.width, heads=run.heads).double()
    with torch.no_grad():
        kept = context.artifact(run, "network", "weights")
        for name, parameter in model.named_parameters():
            parameter.copy_(kept[name])
    pairs, answers = table(run.modulus, "add")
    chosen = torch.randperm(len(pairs), generator=context.generator(run, "split"))[: run.pairs]
    data = pairs[chosen], answers[chosen]
    _network(run, context, "transformer", model, criterion=functional.cross_entropy, data=data)


def _network(
    run: Parameters,
    context: RunContext,
    name: str,
    model: nn.Module,
    *,
    criterion: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    data: tuple[torch.Tensor, torch.Tensor],
) -> None:
    """To first order the one-sided variance is σ² ‖H‖_F² over the draws a gradient takes."""
    seed = context.stream_seed(run, "probes")
    norm = squared_frobenius_norm(Hessian(Problem(model, criterion, data)), relative_error=0.1, budget=60, seed=seed)

    def loss() -> torch.Tensor:
        return criterion(model(data[0]), data[1])

    for sigma in run.scales:
        theory = {"wp_sgd": norm.value * sigma**2 / 2}
        _measure(run, context, System(name, list(model.parameters()), loss), sigma, theory)


def _measure(run: Parameters, context: RunContext, system: System, sigma: float, theory: dict[str, float]) -> None:
    """Both rules with the same stream of noise: total variance, and squared distance of the mean from ∇L."""
    optimiser = torch.optim.SGD(system.parameters, lr=1.0)
    PlainGradient(optimiser).fill(system.loss)
    plain = system.gradient()
    for name, kind, draws in (("nso", NoiseStability, 1), ("wp_sgd", WeightPerturbation, 2)):
        noise = GaussianNoise(system.parameters, scale=sigma, generators=context.generator(run, "probes"))
        rule = kind(optimiser, noise, draws=draws)
        rows = []
        for _ in range(run.draws):
            rule.fill(system.loss)
            rows.append(system.gradient())
        sample = torch.stack(rows)
        context.record(
            run,
            system=system.name,
            rule=name,
            sigma=sigma,
            variance=float(sample.var(0).sum()),
            squared_error=float((sample - plain).square().sum(1).mean()),
            squared_gradient=float(plain.square().sum()),
            theory=theory.get(name, float("nan")),
        )
