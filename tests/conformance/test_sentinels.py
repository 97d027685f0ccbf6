"""No metric holds a number that stands for something else: nothing published repeats to the bit across seeds.

A value that several seeds share, where others differ, is a constant in the place of a result (the 10¹² of a run that
was lost), unless the quantity is discrete: whole numbers below a million are taken for a count, every other one stands
below, with why.
"""

from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from common.claims.metric_rows import rows_of
from common.files import read_json
from tests.conftest import ROOT

PLACES = sorted(path.parent for path in (ROOT / "reports" / "published").glob("*/*/metrics.json"))

ROUNDING = 1e-12
COUNTED = 1e6

DISCRETE = {
    "*accuracy*": "a share of a few thousand examples",
    "*_error": "a share of a few thousand examples",
    "error_gap*": "a difference of two such shares",
    "test_error_rise": "a difference of two such shares",
    "*violations": "a share of pairs of examples",
    "*share*": "a share of a few draws",
    "cohen2021edge/quadratic_*": "set by the grid, up to the start",
    "gnn_bounds/graph_dependence/*": "degrees, and norms that they determine",
    "gnn_bounds/sensitivity/*": "powers of degrees of small graphs",
    "gnn_bounds/toy_linear/radius_slope": "exact up to rounding",
    "grokking/*/*fluctuation*": "a deviation of shares of the pairs, most of them equal",
    "grokking/*/delay": "a difference of two evaluated steps",
    "grokking/*/delay_ratio": "a ratio of two evaluated steps",
    "grokking/*/log_delay_of_grokking": "a ratio of two evaluated steps",
    "grokking/*/time_to_fit": "an evaluated step",
    "grokking/*_to_grok": "an evaluated step, its share of the run, or its logarithm",
    "hessian_finetuning/full_fine_tuning*/sigma": "one of four candidates",
    "hessian_finetuning/noise_injection/sigma": "one of a few candidates",
    "hessian_finetuning/seven_methods/distance": "the radius that the distance-based method projects on",
    "hessian_finetuning/seven_methods/*_without_method": "a rank correlation",
    "pacgen/perturbed_training/gap": "a difference of two accuracies",
    "pacgen/*/matched_log_training_loss": "the loss at which gaps are compared, the same for all",
    "pacgen/perturbation_tradeoff/complexity_fall": "read at points of a grid",
    "pacgen/toy_landscape/boundary_complexity_*": "a share of points of a grid",
    "pacgen/toy_landscape/training_error_*": "a share of a hundred points",
    "pacgen/toy_landscape/population_error_*": "a share of twenty thousand fresh points",
    "sgd_stability/gd_against_sgd*/chosen_*": "one of a few candidates",
    "sgd_stability/pac_bayes_flatness/free_best": "set by the number of images where no rise of the loss is found",
    "sgd_stability/pac_bayes_theorem/*": "a share of draws",
}


@pytest.mark.parametrize("place", PLACES, ids=lambda place: "-".join(place.parts[-2:]))
def test_no_value_repeats_across_seeds(place: Path) -> None:
    found = []
    for experiment, rows in rows_of(read_json(place / "metrics.json")).items():
        for name in sorted({name for row in rows for name in row} - {"run", "seed", "outcome", "reason"}):
            quantity = f"{place.name}/{experiment}/{name}"
            if any(fnmatch(quantity, f"*/{pattern}") or fnmatch(quantity, pattern) for pattern in DISCRETE):
                continue
            found += [f"{quantity}: {value!r} in {seeds} seeds" for value, seeds in _repeated(rows, name)]
    assert not found, "If it can take few values only, say so in DISCRETE:\n" + "\n".join(found)


def test_a_sentinel_is_found() -> None:
    lost = [{"run": f"arm=a,seed={seed}", "seed": seed, "decades": 18.0 if seed > 2 else seed / 7} for seed in range(5)]
    assert list(_repeated(lost, "decades")) == [(18.0, 2)]
    steps = [{"run": f"seed={seed}", "seed": seed, "steps": 1e12 if seed > 2 else 100.0 * seed} for seed in range(5)]
    assert list(_repeated(steps, "steps")) == [(1e12, 2)]


def test_counts_repeat_by_themselves() -> None:
    outliers = [{"run": f"seed={seed}", "seed": seed, "outliers": 5.0 + seed % 3} for seed in range(5)]
    assert list(_repeated(outliers, "outliers")) == []


def _repeated(rows: list[dict[str, Any]], name: str) -> list[tuple[float, int]]:
    """Values that two seeds or more of a setting share while others differ beyond rounding.

    0 and 1 are what nothing and all come to; a column of whole numbers below a million is a count.
    """
    column = [value for row in rows if isinstance(value := row.get(name), float)]
    if all(value.is_integer() and abs(value) < COUNTED for value in column):
        return []
    settings: dict[str, list[float]] = {}
    for row in rows:
        value = row.get(name)
        if "seed" in row and isinstance(value, float) and value != 1.0 and abs(value) > ROUNDING:
            point = ",".join(part for part in row["run"].split(",") if not part.startswith("seed="))
            settings.setdefault(point, []).append(value)
    return [
        (value, count)
        for values in settings.values()
        for value, count in Counter(values).items()
        if count > 1 and max(values) - min(values) > ROUNDING * max(abs(value) for value in values)
    ]
