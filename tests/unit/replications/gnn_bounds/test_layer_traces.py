"""Traces of blocks of weights, their bounds, and what is made of them."""

import math
from typing import Any

import pandas as pd
import pytest
import torch

from common.bounds.graph_networks import layer_trace_bounds, spectral_bound
from common.hessian import Hessian, dense
from common.workflow.pretended_gpu import GPU, PretendedGpu
from replications.gnn_bounds import layer_traces
from replications.gnn_bounds.analysis import layer_traces as analysis
from replications.gnn_bounds.shared.training import Members, graphs_of
from tests.context import MemoryContext
from tests.unit.replications.resuming import same_when_resumed

SMALL: dict[str, Any] = {"source": "generated", "graphs": 24, "width": 5, "steps": 4, "folds": 4, "trace_budget": 3.0}


def parameters(**changes: Any) -> layer_traces.Parameters:
    return layer_traces.Parameters(**{**SMALL, "depth": 4, **changes})


def recorded(*runs: layer_traces.Parameters) -> pd.DataFrame:
    context = MemoryContext("layer_traces", axes=lambda run: {"model": run.model, "labels": run.labels})
    for run in runs:
        layer_traces.run([run], context)
    return pd.DataFrame(context.rows)


def test_the_terms_of_the_bound_are_made_of_the_layers_traces() -> None:
    spectral, frobenius = torch.tensor([[2.0, 0.5, 3.0]]), torch.tensor([[4.0, 1.0, 3.5]])
    neurons, graphs = torch.tensor([5.0, 5.0, 2.0]), {"feature_norm": 1.5}
    traces = layer_trace_bounds(spectral, neurons=neurons, graph_factor=9.0, **graphs)
    assert float(traces[0, 1]) == pytest.approx(5 * 1.5**2 * 81 * 4 * 9)
    whole = spectral_bound(spectral, frobenius, neurons=neurons, diffusion_norm=3.0, examples=7, **graphs)
    assert float((frobenius * traces.sqrt()).sum()) / math.sqrt(7) == pytest.approx(float(whole))


@pytest.mark.parametrize("model", ["gcn", "mpnn", "sage", "gin"])
def test_blocks_hold_every_weight_once_and_their_traces_sum_to_that_of_the_network(model: str) -> None:
    run = parameters(model=model)
    members = Members([run], MemoryContext(), graphs_of(run, torch.device("cpu")))
    blocks, _ = layer_traces._bounds(members, 0)
    chosen = [number for numbers, _ in blocks.values() for number in numbers]
    assert sorted(chosen) == list(range(len(members.weights)))
    traces = [dense(Hessian(members.problem_in(0, numbers))).trace() for numbers, _ in blocks.values()]
    whole = dense(Hessian(members.problem(0)[0])).trace()
    torch.testing.assert_close(torch.stack(traces).sum(), whole, rtol=1e-3, atol=1e-5)


def test_a_resumed_run_records_the_same() -> None:
    same_when_resumed(lambda context: layer_traces.run([parameters(model="gin", seed=s) for s in (0, 1)], context))


def test_slack_is_that_of_the_worst_block_and_a_negative_trace_counts_with_its_error() -> None:
    records = recorded(parameters(model="mpnn"))
    blocks = records["row"] == "block"
    records.loc[blocks, ["trace", "trace_spread", "trace_bound"]] = [[10.0, 1.0, 1e3], [-5.0, 0.1, 1e4]]
    row = analysis.metrics(records).iloc[0]
    assert (row["smallest_slack"], row["mean_slack"]) == pytest.approx((2.0, 3.5))
    assert row["log10_norm_over_distance"] > 0


def test_shuffled_classes_need_not_be_learnt_and_the_figure_shows_true_ones() -> None:
    records = recorded(parameters(model="gcn", steps=1), parameters(model="gcn", steps=1, labels="shuffled"))
    assert analysis.metrics(records)["regime_reached"].tolist() == [False, True]
    drawn = analysis.figures(records)["layer_traces"].axes[0].get_lines()
    assert sum(len(line.get_xdata()) for line in drawn if line.get_linestyle() == "None") == 4


@pytest.mark.parametrize("model", ["gcn", "gin"])
def test_bounds_are_computed_where_the_weights_lie(model: str) -> None:
    run = parameters(model=model)
    with PretendedGpu() as gpu:
        context = MemoryContext()
        context.device = GPU
        members = Members([run], context, graphs_of(run, GPU))
        assert {gpu.place(weight) for weight in members.weights} == {"gpu"}
        assert layer_traces._bounds(members, 0)[0]
