"""Claims and tables of runs made up for a test."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from common.claims import Claim, judge


def verdict(claim: Claim, table: pd.DataFrame, scale: str = "laptop") -> Any:
    return judge(claim, table, paper="p", scale=scale)


@pytest.fixture
def claim() -> Callable[..., Claim]:
    def build(estimate: Mapping[str, Any], accept: Mapping[str, Any], **others: Any) -> Claim:
        return Claim.model_validate(
            {
                "id": "made-up",
                "statement": "Something holds.",
                "source": {"document": "someone2020", "locator": "Fig. 1"},
                "experiment": "sweep",
                "estimate": dict(estimate),
                "accept": dict(accept),
                "decidable_from": "smoke",
                "nature": "empirical",
                **others,
            }
        )

    return build


@pytest.fixture
def runs() -> Callable[..., pd.DataFrame]:
    """Completed runs on the full grid of `axes`; each metric is an array with one dimension an axis."""

    def build(axes: Mapping[str, Sequence[Any]], **metrics: Any) -> pd.DataFrame:
        points = list(itertools.product(*axes.values()))
        table = pd.DataFrame(points, columns=list(axes))
        table.insert(0, "run", [",".join(f"{a}={v}" for a, v in zip(axes, p, strict=True)) for p in points])
        table["outcome"], table["reason"], table["regime_reached"] = "completed", None, True
        shape = tuple(len(values) for values in axes.values())
        for name, values in metrics.items():
            table[name] = np.broadcast_to(np.asarray(values), shape).ravel()
        return table

    return build


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(7)
