"""`replicate plan --budget`: the experiments that decide the most claims for so many GPU hours."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from common.claims import Claim, load_claims
from common.claims.verdicts import CONTRADICTED, REPRODUCED
from common.errors import UserError
from common.experiments.replication import Replication
from common.experiments.scales import SCALES
from common.reports.published import published_scales
from common.workflow.cost import ExperimentCost, gpu_hours


@dataclass(frozen=True)
class Decides:
    """How many claims the runs of an experiment are to decide at a scale.

    Attributes:
        open: empirical ones of the document that published evidence neither reproduces nor contradicts, at this scale
            or a smaller one.
        others: all other claims: decided before, of ours, controls, theorems and arithmetic.
    """

    open: int = 0
    others: int = 0

    def __add__(self, other: "Decides") -> "Decides":
        return Decides(self.open + other.open, self.others + other.others)


Decided = Mapping[tuple[str, str], Decides]
"""By paper and experiment; one that decides nothing may be absent."""


@dataclass(frozen=True)
class Proposal:
    """The experiments to compute, in the order in which they were chosen, and those that are left out."""

    kept: list[ExperimentCost]
    left_out: list[ExperimentCost]


def decided_by(replication: Replication, scale: str) -> dict[tuple[str, str], Decides]:
    """What the experiments of a paper are to decide at a scale."""
    rank = SCALES.index(scale)
    known = {
        verdict.id
        for published in published_scales(replication.root, replication.name)
        if SCALES.index(published.scale) <= rank
        for verdict in published.verdicts
        if verdict.verdict in (REPRODUCED, CONTRADICTED)
    }
    found: dict[tuple[str, str], Decides] = {}
    for claim in load_claims(replication.folder / "claims.yaml"):
        if SCALES.index(claim.decidable_from) <= rank:
            key = (replication.name, claim.experiment)
            one = Decides(open=1) if _open(claim, known) else Decides(others=1)
            found[key] = found.get(key, Decides()) + one
    return found


def _open(claim: Claim, known: set[str]) -> bool:
    return claim.polarity == "claim" and claim.nature == "empirical" and claim.id not in known


def propose(found: Sequence[ExperimentCost], decided: Decided, budget: float) -> Proposal:
    """The subset of a plan that decides the most open claims a GPU hour, with what it starts from.

    Greedy: of the experiments that still fit, with all that they wait for, the one with the most open claims an hour
    goes first; where these are equal, the one with the most claims of any kind, then the cheaper, then by name. Hours
    are upper bounds. An experiment with which nothing is decided is left out, and one that does not fit the GPU's
    memory, with all that starts from it.
    """
    kept: dict[tuple[str, str], ExperimentCost] = {}
    waiting = {(cost.paper, cost.experiment): cost for cost in sorted(found, key=lambda cost: cost.name)}
    while True:
        left = budget - gpu_hours(list(kept.values()))[2]
        ranked = []
        for cost in waiting.values():
            bundle = _with_needs(cost, waiting)
            claims = sum((decided.get((one.paper, one.experiment), Decides()) for one in bundle), Decides())
            hours = gpu_hours(bundle)[2]
            if hours <= left and claims != Decides() and not any(one.too_large for one in bundle):
                order = (_rate(claims.open, hours), _rate(claims.open + claims.others, hours), -hours)
                ranked.append((order, bundle))
        if not ranked:
            return Proposal(list(kept.values()), list(waiting.values()))
        _, bundle = max(ranked, key=lambda one: one[0])  # of equals the first by name
        for cost in bundle:
            kept[cost.paper, cost.experiment] = waiting.pop((cost.paper, cost.experiment))


def _with_needs(cost: ExperimentCost, waiting: Mapping[tuple[str, str], ExperimentCost]) -> list[ExperimentCost]:
    """An experiment behind all that it waits for and that is not chosen yet."""
    return [waiting[cost.paper, name] for name in (*cost.needs, cost.experiment) if (cost.paper, name) in waiting]


def _rate(claims: int, hours: float) -> float:
    if not claims:
        return 0.0
    return claims / hours if hours else math.inf


def rows(proposal: Proposal, decided: Decided) -> list[tuple[ExperimentCost, Decides, float, int]]:
    """The kept experiments: what each decides, and GPU hours (upper bound) and open claims of all up to it."""
    found, hours, claims = [], 0.0, 0
    for cost in proposal.kept:
        mine = decided.get((cost.paper, cost.experiment), Decides())
        hours, claims = hours + gpu_hours([cost])[2], claims + mine.open
        found.append((cost, mine, hours, claims))
    return found


def refuse(found: Sequence[ExperimentCost], proposal: Proposal, decided: Decided, budget: float) -> UserError:
    """Why a plan above its budget, or too large for its GPU, is refused, and what the proposal keeps of it."""

    def claims(of: Sequence[ExperimentCost]) -> int:
        return sum(decided.get((cost.paper, cost.experiment), Decides()).open for cost in of)

    def said(hours: float) -> str:
        return f"{float(f'{hours:.3g}'):,.0f}" if hours >= 1000 else f"{hours:.3g}"

    total, upper = claims(found), gpu_hours(found)[2]
    above = f"may take {said(upper)} GPU hours, more than the budget of {budget:g}" if upper > budget else ""
    large = [cost.name for cost in found if cost.too_large]
    other = f"holds what does not fit the GPU's memory ({', '.join(large)})" if large else ""
    return UserError(
        f"the plan {' and '.join(filter(None, [above, other]))}; the {len(proposal.kept)} "
        f"experiments kept above take {said(gpu_hours(proposal.kept)[2])} at most and are to decide "
        f"{claims(proposal.kept)} of {total} open claims. Fewer seeds or settings under `grid` of that scale in "
        "config.yaml cut the hours, too; `replicate plan --trial 20` replaces time limits by measured rates."
    )
