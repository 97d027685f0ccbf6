"""Figure 1: distance to the minimum along gradient descent on a quadratic."""

from collections.abc import Sequence

import torch

from common.experiments import ExperimentParameters, Field, RunContext


class Parameters(ExperimentParameters):
    """Gradient descent on a quadratic of dimension 4."""

    learning_rate: float = Field(0.1, gt=0, description="step size", source="Fig. 1")
    steps: int = Field(40, ge=1, unit="steps", description="length of the run", source="Fig. 1")
    pause: float = Field(0.0, ge=0, unit="s", description="wait after each step, for tests", source="ours")


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Descend from a random start; all runs of a call at once."""
    import time

    rates = torch.tensor([[run.learning_rate] for run in runs], dtype=torch.float64)
    noise = [context.generator(run, "noise") for run in runs]
    state = context.restore()
    if state is None:
        start = [torch.randn(4, generator=context.generator(run, "init"), dtype=torch.float64) for run in runs]
        state = {"step": 0, "weights": torch.stack(start), "noise": [g.get_state() for g in noise]}
    for generator, saved in zip(noise, state["noise"], strict=True):
        generator.set_state(saved)
    while state["step"] < runs[0].steps:
        kick = torch.stack([torch.randn(4, generator=g, dtype=torch.float64) for g in noise])
        state["weights"] = state["weights"] * (1 - rates) + 1e-6 * kick
        state["step"] += 1
        state["noise"] = [g.get_state() for g in noise]
        for run, weights in zip(runs, state["weights"], strict=True):
            context.record(run, step=state["step"], distance=weights.norm().item())
        time.sleep(runs[0].pause)
        context.progress(state["step"], runs[0].steps)
        context.checkpoint(state)
    for run, weights in zip(runs, state["weights"], strict=True):
        if weights.norm() > 10:
            context.diverged(run, f"the distance reached {weights.norm():.3g}")
        context.save(run, "weights", {"w": weights})
