"""Lemmas 6 and 8 and Theorem 7 on the toy, as printed and corrected, beside the perturbed loss on fresh data."""

from collections.abc import Callable, Sequence

import torch

from common.experiments import Field, RunContext

from .shared.bound_versions import Bound, Case, Side, bound_rows
from .shared.minima import Function, in_chunks
from .shared.toy_network import cross_entropy
from .shared.toy_pairs import LocalConstants, Pair, kept_pair, local_geometry, probability_loss
from .shared.two_layer import LossName

PLACES = ("sharp", "flat")


class Parameters(LocalConstants):
    """Settings: the constants of the bounds, and how the loss on fresh data is estimated."""

    prior_range: float = Field(
        13.3, gt=0, description="τ fixed beforehand: the square's half width and its κ", source="our choice, D12"
    )
    fresh_examples: int = Field(
        2_000, ge=100, unit="examples", description="fresh sample of the mixture", source="our choice"
    )
    draws: int = Field(64, ge=2, description="perturbations u drawn for the loss on fresh data", source="our choice")


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Every version of every bound at both minima of each seed's mixture."""
    for done, run in enumerate(runs):
        found = kept_pair(context.artifact(run, "pair", "pair"), "coordinate")
        if found is None:
            context.record(run, kind="none")
        else:
            _measure(run, context, found)
        context.progress(done + 1, len(runs))


def _measure(run: Parameters, context: RunContext, found: Pair) -> None:
    labels = found.mixture.labels(found.points)
    source = context.generator(run, "probes")
    fresh = found.mixture.draw(run.fresh_examples, source)
    fresh_labels = found.mixture.labels(fresh)
    makers: dict[LossName, Callable[[torch.Tensor, torch.Tensor], Function]]
    makers = {"cross_entropy": cross_entropy, "probability": probability_loss}
    sides: dict[LossName, Side] = {}
    for loss_name, maker in makers.items():
        local = local_geometry(maker(found.points, labels), found.minima, run)
        sides[loss_name] = Side(local.loss, local.diagonal, local.rho)
    case = Case(
        weights=found.minima,
        kappa=local.kappa,
        sides=sides,
        eta=run.eta,
        examples=len(found.points),
        delta=run.delta,
        prior_range=run.prior_range,
    )
    units = 2 * torch.rand(run.draws, *found.minima.shape, generator=source, dtype=torch.float64) - 1

    def perturbed(bound: Bound) -> torch.Tensor:
        points = case.weights + torch.stack([bound.draw(case.kappa, unit) for unit in units])
        losses = in_chunks(makers[bound.loss](fresh, fresh_labels), points.flatten(0, 1))
        return losses.view(len(units), -1).mean(0)

    for place, values in bound_rows(case, perturbed):
        context.record(run, kind="bound", place=PLACES[place], **values)
