"""Fig. 3: SGD, SGD with twice the epochs, WP-SGD and NSO: the Hessian and validation results along fine-tuning."""

from collections.abc import Sequence
from typing import Literal

from common.experiments import Field, RunContext

from .shared.fine_tuning import tuning_of
from .shared.measured_tuning import MeasuredTuningParameters, tune_and_measure
from .shared.methods import METHODS
from .shared.pointwise import with_linear_layers
from .shared.rise import rise_under_noise
from .shared.systems import load_systems


class Parameters(MeasuredTuningParameters):
    """Settings of a run; the grid varies the system and the arm."""

    method: Literal["sgd", "wp_sgd", "nso"] = Field(
        "sgd", description="which gradient is taken", source="Zhang 2024, Fig. 3"
    )
    noise_scale: float = Field(
        0.01,
        gt=0,
        description="σ of the noise on every trained weight",
        source="code of the talk's authors, CIFAR-10 and MRPC",
    )
    tried_scales: tuple[float, ...] = Field(
        (),
        description="values of σ that are trained with; that of the lowest validation loss over seeds is measured "
        "(none: noise_scale)",
        source="deviation D12",
    )
    rise_directions: int = Field(
        10,
        ge=1,
        description="directions of noise, each taken both ways, along which every arm's rise of the loss is measured",
        source="deviation D13",
    )
    rise_scale: float = Field(0.01, gt=0, description="σ of that noise", source="deviation D13")


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Fine-tune all seeds of one system and arm together and measure along the way.

    Where several σ are tried, each is trained with to its end first.
    """
    setting = runs[0]
    systems = load_systems(setting.system, runs, context)
    for system in systems:
        with_linear_layers(system.model)  # a step of ten members of MobileNetV2's last stages: 0.11 s, not 0.51
    noisy = setting.method != "sgd"
    tuning = tune_and_measure(
        runs,
        context,
        lambda scale: tuning_of(runs, context, METHODS[setting.method](scale if noisy else 1.0), systems),
        setting.tried_scales if noisy and setting.tried_scales else (setting.noise_scale,),
        noisy,
        lambda problem, seed: {
            "rise": rise_under_noise(problem, setting.rise_scale, directions=setting.rise_directions, seed=seed)
        },
    )
    for member, run in enumerate(runs):
        context.save(run, "weights", dict(tuning.module(member).named_parameters()))
