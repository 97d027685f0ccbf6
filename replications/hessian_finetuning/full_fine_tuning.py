"""All layers fine-tuned by SGD, SAM and NSO, of any network by name. Does what the upper layers show carry over?"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn

from common.datasets.splits import Split
from common.experiments import DatasetName, Field, RunContext
from common.models.initialisation import initialise_uniform

from .shared.fine_tuning import FineTuning, tuning_of
from .shared.measured_tuning import MeasuredTuningParameters, tune_and_measure
from .shared.methods import METHODS
from .shared.named_networks import freeze_below, pretrained
from .shared.systems import Subset, System


class Parameters(MeasuredTuningParameters):
    """Settings of a run; the grid varies the system and the arm."""

    dataset: DatasetName = Field("cifar10", description="data", source="deviation D1")
    weights: DatasetName = Field("mobilenet_v2", description="pretrained weights", source="deviation D1")
    size: int = Field(
        64, ge=1, unit="pixels or tokens", description="side of an image, length of a text", source="deviation D15"
    )
    test_examples: int = Field(600, ge=10, unit="examples", description="of the test split", source="deviation D15")
    trained_from: str = Field(
        "",
        description="module from which on all is trained, by its name in the network; everything if empty",
        source="our choice",
    )
    method: Literal["sgd", "sam", "nso"] = Field("sgd", description="which gradient is taken", source="deviation D15")
    strength: float = Field(
        1.0,
        gt=0,
        description="σ of NSO's noise on every weight, ρ of SAM; SGD has none",
        source="σ: code of the talk's authors; ρ: Foret et al. 2021; deviation D15",
    )
    tried_strengths: tuple[float, ...] = Field(
        (),
        description="strengths that are trained with; that of the lowest validation loss is measured (none: strength)",
        source="deviation D15",
    )


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Fine-tune all seeds of one system and arm together and measure along the way; the weights are not kept.

    Where several strengths are tried, each is trained with to its end first.
    """
    setting = runs[0]
    systems = [whole_system(run, context) for run in runs]

    def tuning_with(strength: float) -> FineTuning:
        return tuning_of(runs, context, METHODS[setting.method](strength), systems, one_by_one=True)

    tried = setting.tried_strengths if setting.method != "sgd" else ()
    tune_and_measure(runs, context, tuning_with, tried or (setting.strength,), setting.method == "nso")


def whole_system(run: Parameters, context: RunContext) -> System:
    """The pretrained network with a new head; training, validation and test examples are the seed's own."""
    backbone, network, files = pretrained(run.weights)
    freeze_below(network, run.trained_from)
    data, seed = context.data(run.dataset), context.stream_seed(run, "split")
    train = data.train.subset(run.train_examples + run.validation_examples, seed)
    test = data.test.subset(run.test_examples, seed)
    classes = int(train.targets.max()) + 1
    head = nn.Linear(backbone.width, classes)
    initialise_uniform(head, context.generator(run, "init"))

    def part(split: Split, rows: range) -> Subset:
        places = torch.arange(rows.start, rows.stop)
        read = backbone.inputs(split.inputs[places], files, run.size).to(context.device)
        return Subset((read, split.targets[places].to(context.device)), torch.arange(len(rows), device=context.device))

    return System(
        nn.Sequential(*network, head).to(context.device).eval(),
        train=part(train, range(run.train_examples)),
        validation=part(train, range(run.train_examples, len(train))),
        test=part(test, range(len(test))),
        classes=classes,
        source={},  # the records hold the parameters `dataset` and `weights`
    )
