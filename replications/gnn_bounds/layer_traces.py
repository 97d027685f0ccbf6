"""The talk's central step: is Tr H in each layer of four trained graph networks below what bound (12) puts for it?"""

from collections.abc import Sequence
from typing import Any

import torch

from common.bounds.graph_networks import layer_trace_bounds, spectral_bound, spectral_mean, spectral_power
from common.experiments import Field, RunContext
from common.hessian import trace

from .shared.bound_setting import norms_of
from .shared.training import Members, NetworkParameters, graphs_of, measured_losses


class Parameters(NetworkParameters):
    """Settings of a trained network and of its traces."""

    trace_error: float = Field(0.1, gt=0, description="wanted relative error of Tr H", source="our choice")
    trace_budget: float = Field(
        10.0, gt=0, description="most gradients for each Tr H", source="our choice", unit="gradients"
    )


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds together, then measure the trace in every block of weights of each, and its distance."""
    data = graphs_of(runs[0], context.device)
    members = Members(runs, context, data)
    members.train(context)
    with torch.no_grad():
        logits = members.logits()
    for place, run in enumerate(runs):
        if not torch.isfinite(logits[place]).all():
            context.diverged(run, "the outputs are not finite")
            continue
        losses = measured_losses(logits[place], data.targets, members.training[place], members.targets[place])
        bounds, ours = _bounds(members, place)
        context.record(run, row="network", log10_ours=ours, **_distance(members, place), **losses)
        for name, (chosen, bound) in bounds.items():
            problem = members.problem_in(place, chosen)
            seed = context.stream_seed(run, "probes") % 2**31
            found = trace(problem, relative_error=run.trace_error, budget=run.trace_budget, seed=seed)
            context.record(run, row="block", block=name, trace=found.value, trace_spread=found.error, trace_bound=bound)
        context.progress(place + 1, len(runs))


def _bounds(members: Members, place: int) -> tuple[dict[str, tuple[list[int], float]], float]:
    """For each block the numbers of its weights and the bound on its trace; log₁₀ of (12).

    A layer of the GCN is a block. The other networks use U and W in all l − 1 layers: their trace in the shared weights
    is at most (l − 1) times the sum of those that the layers would have with weights of their own. The readouts are one
    block, and count with the largest norm of one of them.
    """
    run, data = members.run, members.data
    weights = [weight[place : place + 1].detach() for weight in members.weights]
    if run.model != "gcn":
        weights = [*weights[:2], max(weights[2:], key=lambda one: float(torch.linalg.matrix_norm(one, 2)))]
    norms = norms_of(run.model, weights, run.depth)
    spectral, frobenius = norms["layer_spectral"], norms["layer_frobenius"]
    factor = float((spectral_mean if run.model == "gin" else spectral_power)(data.diffusion_norm, run.depth))
    graphs: dict[str, Any] = {"neurons": members.neurons, "feature_norm": data.feature_matrix_norm}
    layers = layer_trace_bounds(spectral, graph_factor=factor, **graphs)[0].tolist()
    examples = int(members.training[place].sum())
    ours = spectral_bound(spectral, frobenius, diffusion_norm=factor, diffusions=1, examples=examples, **graphs)
    if run.model == "gcn":
        blocks = {f"layer {number + 1}": ([number], bound) for number, bound in enumerate(layers)}
    else:
        shared = (run.depth - 1) * sum(layers[:-1])
        readouts = list(range(2, len(members.weights)))
        blocks = {"shared layers": ([0, 1], shared), "readout": (readouts, layers[-1])}
    return blocks, float(ours.log10())


def _distance(members: Members, place: int) -> dict[str, float]:
    """‖W − W⁽⁰⁾‖ and ‖W‖ over all weights."""
    pairs = [
        (weight[place].detach(), start[place]) for weight, start in zip(members.weights, members.initial, strict=True)
    ]
    moved = torch.cat([(weight - start).flatten() for weight, start in pairs])
    ended = torch.cat([weight.flatten() for weight, _ in pairs])
    return {"distance": float(moved.norm()), "weight_norm": float(ended.norm())}
