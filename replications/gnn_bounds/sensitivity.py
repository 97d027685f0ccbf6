"""Which factor makes a bound vacuous: the bounds of trained networks taken apart, and moved one factor at a time."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch

from common.experiments import ExperimentParameters, Field, RunContext

from .shared.bound_setting import Setting, setting_of

SAME = "as in bound_comparison"


class Parameters(ExperimentParameters):
    """Settings of the trained network whose bounds are taken apart."""

    model: Literal["gcn", "mpnn"] = Field("gcn", description="the network", source=SAME)
    depth: int = Field(2, ge=2, description="number of layers l", source=SAME)
    fold: int = Field(0, ge=0, description="test fold of the network", source=SAME)
    width: int = Field(128, ge=1, description="hidden width h", source=SAME, unit="neurons")
    margin: float = Field(1.0, gt=0, description="γ", source=SAME)
    delta: float = Field(0.1, gt=0, lt=1, description="δ", source=SAME)
    factors: tuple[float, ...] = Field(
        (0.25, 0.5, 1.0, 2.0, 4.0), description="what degree, weights and width are multiplied by", source="our choice"
    )
    more_layers: tuple[int, ...] = Field((0, 2, 4, 6), description="layers added", source="our choice")


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Factors of each bound, and log₁₀ of the bounds along each axis."""
    for number, run in enumerate(runs):
        setting = _setting(run, context.artifact(run, "network", "network"))
        for bound, value in _logarithms(setting).items():
            context.record(run, row="factors", bound=bound, log10_bound=value, **_factors(setting, bound))
        for axis, amount, moved in _moved(run, setting):
            context.record(run, row="sweep", axis=axis, amount=amount, **_logarithms(moved))
        context.progress(number + 1, len(runs))


def _setting(run: Parameters, kept: dict[str, torch.Tensor]) -> Setting:
    """The setting of a kept network."""
    count = sum(name.startswith("weight") for name in kept)
    weights = [kept[f"weight{number}"][None] for number in range(count)]
    degree, diffusion_norm, feature_matrix_norm, examples = kept["graphs"].tolist()
    return setting_of(
        run,
        weights,
        kept["neurons"],
        degree=degree,
        diffusion_norm=diffusion_norm,
        feature_matrix_norm=feature_matrix_norm,
        examples=int(examples),
    )


def _logarithms(setting: Setting) -> dict[str, float]:
    return {name: float(value) for name, value in setting.logarithms().items()}


def _factors(setting: Setting, bound: str) -> dict[str, float]:
    """log₁₀ by which a bound falls when factors are set to one, in turn: graph, weights, features, width; the rest."""
    settings = [setting, setting.without_graph()]
    settings.append(settings[-1].unit_weights())
    settings.append(settings[-1].unit_features())
    settings.append(replace(settings[-1], width=1, neurons=torch.ones_like(setting.neurons)))
    values = [_logarithms(each)[bound] for each in settings]
    names = ("graph", "weights", "features", "width")
    falls = {name: values[place] - values[place + 1] for place, name in enumerate(names)}
    return falls | {"rest": values[-1], "without_graph": values[1]}


def _moved(run: Parameters, setting: Setting) -> list[tuple[str, float, Setting]]:
    """The setting with one factor moved: degree and ‖P‖₂ together, all weights, width, depth."""
    moved: list[tuple[str, float, Setting]] = []
    for factor in run.factors:
        degree = replace(setting, degree=setting.degree * factor, diffusion_norm=setting.diffusion_norm * factor)
        if setting.model == "gcn":  # its ‖P‖₂ is 1 on every graph
            degree = replace(setting, degree=setting.degree * factor)
        moved.append(("degree", factor, degree))
        moved.append(("weights", factor, setting.scaled_weights(factor)))
        if factor >= 1:
            moved.append(("width", factor, setting.wider(int(factor))))
    return moved + [("depth", float(run.depth + layers), setting.deeper(layers)) for layers in run.more_layers]
