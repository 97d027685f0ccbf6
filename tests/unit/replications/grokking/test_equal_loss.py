"""Curvature is measured at the steps that are named, for all arms at the same ones."""

import math
from pathlib import Path

import pandas as pd
import yaml

from replications.grokking import equal_loss
from replications.grokking.analysis import equal_loss as analysis
from tests.context import MemoryContext
from tests.unit.replications.resuming import same_when_resumed

CONFIG = yaml.safe_load(Path(equal_loss.__file__).with_name("config.yaml").read_text())["equal_loss"]
SMALL = {**CONFIG["base"], **{k: v for k, v in CONFIG["scales"]["smoke"].items() if k != "grid"}}


def test_every_arm_is_measured_at_the_named_steps_and_gives_a_curve() -> None:
    for arm, changes in CONFIG["grid"]["arm"].items():
        context = MemoryContext("equal_loss")
        equal_loss.run([equal_loss.Parameters(**{**SMALL, **changes, "measured": (5, 30)})], context)
        rows = pd.DataFrame(context.rows).assign(arm=arm)
        assert rows.loc[rows["kind"] == "curvature", "step"].tolist() == [5, 30]
        curves = analysis.metrics(rows).iloc[0]
        assert len(curves["log_loss_curve"]) == len(curves["trace_per_nat_curve"]) == 2
        assert all(math.isfinite(value) for value in curves["log_loss_curve"])


def test_a_run_that_does_not_fit_is_outside_the_regime() -> None:
    context = MemoryContext("equal_loss")
    equal_loss.run([equal_loss.Parameters(**{**SMALL, "measured": (5, 30)})], context)
    assert not analysis.metrics(pd.DataFrame(context.rows).assign(arm="large_decay"))["regime_reached"].any()


def test_a_resumed_run_has_the_same_records() -> None:
    runs = [
        equal_loss.Parameters(**{**SMALL, "rule": "nso", "steps": 12, "measured": (5, 12), "seed": k}) for k in range(2)
    ]
    same_when_resumed(lambda context: equal_loss.run(runs, context), times=3)
