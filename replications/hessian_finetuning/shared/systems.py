"""What is fine-tuned: the upper layers of a pretrained network with a new head, on cached features of the lower ones.

systems = load_systems("image", runs, context)          # runs of several seeds
inputs, labels = systems[0].train.examples()
systems[0].model(inputs)                                # logits of the training examples
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from common.errors import UserError
from common.experiments import ExperimentParameters, Field, RunContext
from common.models import initialise_uniform

from .graph_network import PackedGraphNetwork
from .text_tensors import as_text
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
class Subset:
    """Some rows of a table of examples, which seeds that share it hold once.

    Attributes:
        table: features, float32 [N, …], and labels, int64 [N].
        rows: which of them, int64 [n].
    """

    table: Examples
    rows: Tensor

    def __len__(self) -> int:
        return len(self.rows)

    def examples(self, places: Tensor | slice = slice(None)) -> Examples:
        """A copy of the features and labels at places among these rows."""
        inputs, labels = self.table
        return inputs[self.rows[places]], labels[self.rows[places]]


@dataclass(frozen=True, eq=False)
class System:
    """A network to fine-tune and its data, in memory, on the context's device.

    Attributes:
        model: from features [n, …] to logits [n, classes], in evaluation mode, with the pretrained weights and a head
            drawn from the stream `init`.
        train, validation, test: the first two are disjoint parts of the pool, drawn by the stream `split`; pool and
            test examples are those of all seeds.
        classes: their number.
        source: names of the data (`dataset`) and of the pretrained weights (`weights`).
    """

    model: nn.Module
    train: Subset
    validation: Subset
    test: Subset
    classes: int
    source: dict[str, str]


def load_systems(name: Name, runs: Sequence[SystemParameters], context: RunContext) -> list[System]:
    """The systems of runs of several seeds, from the artifacts of the need `features` (a run of `frozen_features`).

    The frozen stages are passed once for all seeds, which share the pool and the test examples.

    Args:
        runs: alike but for the seed.

    Raises:
        UserError: the pool is too small, or more stages are to be trained than were kept.
    """
    setting = runs[0]
    features = context.artifact(setting, "features", "features")
    kept = context.artifact(setting, "features", "upper")
    wanted, available = setting.train_examples + setting.validation_examples, len(features["pool_labels"])
    if wanted > available:
        raise UserError(
            f"{setting.train_examples} training and {setting.validation_examples} validation examples: the pool of "
            f"{name} has {available}."
        )
    frozen, trained = (part.to(context.device) for part in _parts(kept, setting.trainable_stages))
    passed = features | {split: _passed(frozen, features[split]) for split in ("pool", "test")}
    return [_of_seed(name, run, context, passed, trained if kept else None) for run in runs]


def _of_seed(
    name: Name, run: SystemParameters, context: RunContext, features: dict[str, Tensor], trained: nn.Sequential | None
) -> System:
    """The system of one run; `features` are those after the frozen stages, `trained` the pretrained stages, if any."""
    pool, labels, count = features["pool"], features["pool_labels"], run.train_examples
    order = torch.randperm(len(labels), generator=context.generator(run, "split")).to(labels.device)
    chosen = order[:count], order[count : count + run.validation_examples]
    train, validation = (Subset((pool, labels), part) for part in chosen)
    classes = int(labels.max()) + 1
    model = _with_head(name, deepcopy(trained or nn.Sequential()), run, pool, classes)
    new = model if trained is None else model[-1]  # type: ignore[index]
    initialise_uniform(new, context.generator(run, "init"))
    of_test = features["test"], features["test_labels"]
    test = Subset(of_test, torch.arange(len(of_test[1]), device=labels.device))
    source = {name: as_text(features[name]) for name in ("dataset", "weights")}
    model = model.to(context.device).eval()
    return System(model, train=train, validation=validation, test=test, classes=classes, source=source)


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
