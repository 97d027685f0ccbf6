"""Recurrent layers in parts give what they give whole, and the rules of linear layers hold for their weights."""

from itertools import product
from typing import Any

import pytest
import torch
from torch import nn

from common.hessian import Hessian, Problem, dense, per_sample_gradient_norms, trace
from common.hessian.probes import hessian_quadratic_forms, probed_names
from common.hessian.random import generator
from common.hessian.recurrent import layers_in_parts

KINDS = {
    "LSTM": lambda **how: nn.LSTM(3, 4, **how),
    "LSTM, projected": lambda **how: nn.LSTM(3, 4, proj_size=2, **how),
    "GRU": lambda **how: nn.GRU(3, 4, **how),
    "RNN": lambda **how: nn.RNN(3, 4, **how),
    "RNN, ReLU": lambda **how: nn.RNN(3, 4, nonlinearity="relu", **how),
}


class Reader(nn.Module):
    """Classes from the last output."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer, self.readout = layer, nn.Linear((layer.proj_size or layer.hidden_size), 3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.readout(self.layer(inputs)[0][:, -1])
        return result


def problem(kind: str, count: int = 6) -> Problem:
    torch.manual_seed(0)
    model = Reader(KINDS[kind](batch_first=True)).double()
    data = torch.randn(count, 5, 3, dtype=torch.float64), torch.arange(count) % 3
    return Problem(model, nn.CrossEntropyLoss(), data)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("layers", "both", "first", "bias"), [*product((1, 2), *[(False, True)] * 3)])
def test_in_parts_it_gives_outputs_and_states_as_whole(kind, layers, both, first, bias) -> None:
    torch.manual_seed(0)
    layer = KINDS[kind](num_layers=layers, bidirectional=both, batch_first=first, bias=bias).double()
    inputs = torch.randn(2, 5, 3, dtype=torch.float64)
    outputs, state = layer(inputs)
    start = tuple(map(torch.randn_like, state)) if isinstance(state, tuple) else torch.randn_like(state)
    whole = (outputs, state), layer(inputs, start)
    with layers_in_parts(layer) as modules:
        torch.testing.assert_close((layer(inputs), layer(inputs, start)), whole)
    assert len(modules) == 1 + layers * (2 if both else 1) * (3 if "projected" in kind else 2)
    torch.testing.assert_close(layer(inputs), whole[0], rtol=0, atol=0)


def test_what_has_no_axis_of_examples_goes_through_the_layer_as_it_is() -> None:
    layer = KINDS["GRU"](batch_first=True)
    inputs = torch.randn(2, 5, 3)
    packed = nn.utils.rnn.pack_padded_sequence(inputs, torch.tensor([5, 3]), batch_first=True)
    alone, ragged = layer(inputs[0]), layer(packed)
    with layers_in_parts(layer):
        torch.testing.assert_close(layer(inputs[0]), alone, rtol=0, atol=0)
        torch.testing.assert_close(layer(packed)[0].data, ragged[0].data, rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_a_layer_whose_weights_are_computed_from_others_stays_whole() -> None:
    torch.manual_seed(0)
    layer = nn.utils.weight_norm(KINDS["LSTM"](batch_first=True), "weight_hh_l0")
    with layers_in_parts(layer) as modules:
        assert modules == [layer]
    data = torch.randn(4, 5, 3, dtype=torch.float64), torch.arange(4) % 3
    own = Problem(Reader(layer).double(), nn.CrossEntropyLoss(), data)
    exact = float(dense(Hessian(own)).trace())
    found = trace(own, relative_error=0.1, budget=2000)
    assert found.value == pytest.approx(exact, abs=4 * found.standard_error)


def test_a_layer_is_whole_again_after_an_error() -> None:
    layer = KINDS["LSTM"]()
    with pytest.raises(KeyError), layers_in_parts(layer):
        raise KeyError
    assert "forward" not in vars(layer)


@pytest.mark.parametrize("kind", KINDS)
def test_no_parameter_is_outside_of_layers_with_a_rule(kind: str) -> None:
    own = problem(kind)
    assert own.structure.outside == ()
    assert probed_names(own) == own.names
    per_sample_gradient_norms(own)
    assert not own.verified.looped
    assert own.structure.outside == ()  # nor does any rule turn out to differ


@pytest.mark.parametrize("kind", KINDS)
def test_a_draw_of_each_example_has_the_trace_of_its_hessian_as_its_mean(kind: str) -> None:
    copies, few = 3000, problem(kind, 3)
    inputs, targets = few.chunks.first.inputs, few.chunks.first.targets
    exact = torch.stack(
        [
            dense(Hessian(Problem(few.model, nn.CrossEntropyLoss(), (inputs[k : k + 1], targets[k : k + 1])))).trace()
            for k in range(3)
        ]
    )
    data = inputs.repeat(copies, 1, 1), targets.repeat(copies)
    many = Problem(few.model, nn.CrossEntropyLoss(), data, chunk=3 * copies)
    draws = hessian_quadratic_forms(many, many.chunks.first, many.names, generator(0)).view(copies, 3)
    error = draws.std(0) / copies**0.5
    assert bool(((draws.mean(0) - exact).abs() < 4.5 * error).all())
    assert bool((error < 0.1 * exact.abs() + 0.05).all())


def test_the_trace_of_an_lstm_is_drawn_by_sample_signs() -> None:
    found = trace(problem("LSTM", 40), relative_error=0.05, budget=400)
    assert found.method == "sample signs"
    exact = float(dense(Hessian(problem("LSTM", 40))).trace())
    assert found.value == pytest.approx(exact, abs=4 * found.standard_error)
