"""What is fine-tuned: the upper layers of a pretrained network with a new head, on cached features of the lower ones.

system = load_system("image", run, context)
system.model(system.train[0])              # logits of the training examples
"""

from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from common.errors import UserError
from common.experiments import ExperimentParameters, Field, RunContext
from common.models import initialise_uniform

from .graph_network import PackedGraphNetwork
from .upper_layers import upper_layers

Name = Literal["image", "text", "digits", "molecules"]
Examples = tuple[Tensor, Tensor]
CHUNK = 200
"""Examples that pass the frozen layers at once."""


class SystemParameters(ExperimentParameters):
    """How much of a network is trained, on how many examples."""

    trainable_stages: int = Field(
        2,
        ge=1,
        description="uppermost stages that are trained besides the head; text: 1 pooler, 2 and the last feed-forward "
        "part, 3 and the last attention, …; image: 1 only the mean, 2 and the last convolution, 3 and the last block",
        source="deviation D3",
    )
    train_examples: int = Field(200, ge=4, unit="examples", description="n", source="deviation D2")
    validation_examples: int = Field(
        200, ge=0, unit="examples", description="on which choices are made", source="deviation D2"
    )
    width: int = Field(
        128, ge=1, unit="neurons", description="hidden width of digits and molecules", source="code of the authors"
    )
    depth: int = Field(
        2, ge=1, description="layers of digits; molecules always has three", source="code of the authors"
    )
    activation: Literal["relu", "tanh"] = Field(
        "relu", description="of digits and molecules", source="ReLU: code of the authors; tanh: our addition"
    )


@dataclass(frozen=True, eq=False)
class System:
    """A network to fine-tune and its data, in memory, on the context's device.

    Attributes:
        model: from features [n, …] to logits [n, classes], in evaluation mode, with the pretrained weights and a head
            drawn from the stream `init`.
        train, validation, test: features, float32 [n, …], and labels, int64 [n]. The first two are disjoint parts of
            the pool, drawn by the stream `split`; the test examples are those of all seeds.
        classes: their number.
    """

    model: nn.Module
    train: Examples
    validation: Examples
    test: Examples
    classes: int


def load_system(name: Name, parameters: SystemParameters, context: RunContext) -> System:
    """The system of a run, from the artifacts of the need `features` (a run of `frozen_features`).

    Raises:
        UserError: the pool is too small, or more stages are to be trained than were kept.
    """
    features = context.artifact(parameters, "features", "features")
    kept = context.artifact(parameters, "features", "upper")
    count, held_out = parameters.train_examples, parameters.validation_examples
    pool, labels = features["pool"], features["pool_labels"]
    if count + held_out > len(labels):
        raise UserError(f"{count} training and {held_out} validation examples: the pool of {name} has {len(labels)}.")
    frozen, trained = (part.to(context.device) for part in _parts(kept, parameters.trainable_stages))
    order = torch.randperm(len(labels), generator=context.generator(parameters, "split")).to(labels.device)
    chosen = order[:count], order[count : count + held_out]
    train, validation = ((_passed(frozen, pool[part]), labels[part]) for part in chosen)
    classes = int(labels.max()) + 1
    model = _with_head(name, trained, parameters, train[0], classes)
    initialise_uniform(model[-1] if kept else model, context.generator(parameters, "init"))  # type: ignore[index]
    test = _passed(frozen, features["test"]), features["test_labels"]
    return System(model.to(context.device).eval(), train, validation, test, classes)


def _parts(kept: dict[str, Tensor], trainable: int) -> tuple[nn.Sequential, nn.Sequential]:
    """The kept stages that stay frozen, and those that are trained."""
    upper = list(upper_layers(kept))
    if kept and trainable > len(upper):
        raise UserError(f"{trainable} stages are to be trained, but frozen_features kept {len(upper)}.")
    cut = len(upper) - trainable if kept else 0
    return nn.Sequential(*upper[:cut]), nn.Sequential(*upper[cut:])


@torch.no_grad()
def _passed(frozen: nn.Sequential, features: Tensor) -> Tensor:
    """Features after the frozen stages, in float32 (tokens, which are integers, stay as they are)."""
    parts = [frozen(part.float() if part.is_floating_point() else part) for part in features.split(CHUNK)]
    return torch.cat(parts)


def _with_head(name: Name, trained: nn.Sequential, run: SystemParameters, features: Tensor, classes: int) -> nn.Module:
    """The trained stages with a linear head; for digits and molecules the network of Fig. 1."""
    if name == "molecules":
        labels = features.shape[2] - features.shape[1]
        return PackedGraphNetwork(labels, run.width, classes, _ACTIVATIONS[run.activation]())
    if name == "digits":
        widths = [features.shape[1], *[run.width] * (run.depth - 1)]
        hidden = [(nn.Linear(a, b), _ACTIVATIONS[run.activation]()) for a, b in pairwise(widths)]
        return nn.Sequential(*chain.from_iterable(hidden), nn.Linear(widths[-1], classes))
    with torch.no_grad():
        width = trained(features[:1]).shape[1]
    return nn.Sequential(*trained, nn.Linear(width, classes))


_ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}
