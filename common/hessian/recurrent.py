"""Recurrent layers in parts: the linear maps within nn.LSTM, nn.GRU and nn.RNN as layers of their own.

For autograd such a layer is one fused operation, so that no rule of a layer (`layers.py`) holds for its weights. Step
by step it is made of linear maps, W x of all inputs at once and W h in every step, which have rules: gradients of
single examples follow from one backward pass, and sample signs give a draw of each example.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

_NAME = re.compile(r"(weight|bias)_(ih|hh|hr)_l\d+(_reverse)?")

State = tuple[torch.Tensor, ...]
"""What a step passes on: h of each example, and c of an LSTM."""


@contextmanager
def layers_in_parts(model: nn.Module) -> Iterator[list[nn.Module]]:
    """Within: recurrent layers pass through linear ones that hold the same parameters; all modules, with those."""
    modules = list(model.modules())
    taken = [Recurrence(module) for module in modules if _plain(module)]
    for recurrence in taken:
        recurrence.layer.forward = recurrence.forward
    try:
        yield [*modules, *(part for recurrence in taken for part in recurrence.parts.values())]
    finally:
        for recurrence in taken:
            del recurrence.layer.forward


class Recurrence:
    """A recurrent layer, step by step.

    Attributes:
        layer: whose parameters the parts hold.
        parts: its linear maps by the layer and direction that they belong to: `ih_l0`, `hh_l0_reverse`, `hr_l1`, …
    """

    def __init__(self, layer: Any) -> None:
        self.layer, self._own = layer, layer.forward
        self._step = _STEPS[type(layer)]
        self.parts = {
            name.removeprefix("weight_"): _linear(layer, name.removeprefix("weight_"))
            for name, _ in layer.named_parameters(recurse=False)
            if name.startswith("weight_")
        }

    def forward(self, inputs: Any, state: Any = None) -> Any:
        """What the layer gives; packed sequences and inputs without an axis of examples go through it as it is."""
        layer = self.layer
        if not isinstance(inputs, torch.Tensor) or inputs.ndim != 3:
            return self._own(inputs, state)
        sequence = inputs if layer.batch_first else inputs.transpose(0, 1)
        lstm = isinstance(layer, nn.LSTM)
        given = None if state is None else state if lstm else (state,)
        directions = 2 if layer.bidirectional else 1
        last: list[State] = []
        for depth in range(layer.num_layers):
            read = []
            for direction in range(directions):
                name, place = f"l{depth}{'_reverse' * direction}", depth * directions + direction
                first = self._zeros(sequence) if given is None else tuple(part[place] for part in given)
                outputs, reached = self._along(sequence, first, name, backwards=direction == 1)
                read.append(outputs)
                last.append(reached)
            sequence = torch.cat(read, dim=-1)
        ends = tuple(torch.stack(parts) for parts in zip(*last, strict=True))
        return sequence if layer.batch_first else sequence.transpose(0, 1), ends if lstm else ends[0]

    def _along(self, sequence: torch.Tensor, state: State, name: str, *, backwards: bool) -> tuple[torch.Tensor, State]:
        """Outputs [n, length, width] of one direction of one layer, and the last state."""
        steps = self.parts[f"ih_{name}"](sequence).unbind(1)
        projection, mixing = self.parts.get(f"hr_{name}"), self.parts[f"hh_{name}"]
        outputs = []
        for gates in reversed(steps) if backwards else steps:
            state = self._step(self.layer, gates, mixing(state[0]), state)
            if projection is not None:
                state = (projection(state[0]), *state[1:])
            outputs.append(state[0])
        return torch.stack(outputs[::-1] if backwards else outputs, dim=1), state

    def _zeros(self, sequence: torch.Tensor) -> State:
        layer, count = self.layer, len(sequence)
        hidden = sequence.new_zeros(count, layer.proj_size or layer.hidden_size)
        return (hidden, sequence.new_zeros(count, layer.hidden_size)) if isinstance(layer, nn.LSTM) else (hidden,)


def _plain(module: nn.Module) -> bool:
    """Whether a module is a recurrent layer as torch has it: its weights are parameters, not computed from others."""
    names = [name for name, _ in module.named_parameters(recurse=False)]
    return type(module) in _STEPS and "forward" not in vars(module) and all(map(_NAME.fullmatch, names))


def _linear(layer: Any, name: str) -> nn.Linear:
    """The linear map of `weight_<name>` and `bias_<name>`, which it holds as they are."""
    with torch.device("meta"):
        part = nn.Linear(1, 1, bias=False)
    part.weight = getattr(layer, f"weight_{name}")
    part.register_parameter("bias", getattr(layer, f"bias_{name}", None))
    return part


def _lstm(layer: nn.LSTM, by_input: torch.Tensor, by_state: torch.Tensor, state: State) -> State:
    keep_in, forget, candidate, out = (by_input + by_state).chunk(4, dim=-1)
    cell = forget.sigmoid() * state[1] + keep_in.sigmoid() * candidate.tanh()
    return out.sigmoid() * cell.tanh(), cell


def _gru(layer: nn.GRU, by_input: torch.Tensor, by_state: torch.Tensor, state: State) -> State:
    reset, update, candidate = by_input.chunk(3, dim=-1)
    reset_by, update_by, candidate_by = by_state.chunk(3, dim=-1)
    kept = (update + update_by).sigmoid()
    new = (candidate + (reset + reset_by).sigmoid() * candidate_by).tanh()
    return (new + kept * (state[0] - new),)


def _rnn(layer: nn.RNN, by_input: torch.Tensor, by_state: torch.Tensor, state: State) -> State:
    total = by_input + by_state
    return (total.relu() if layer.nonlinearity == "relu" else total.tanh(),)


_STEPS: dict[type, Callable[[Any, torch.Tensor, torch.Tensor, State], State]] = {
    nn.LSTM: _lstm,
    nn.GRU: _gru,
    nn.RNN: _rnn,
}
"""The next state from W x + b, W h + b and the state before."""
