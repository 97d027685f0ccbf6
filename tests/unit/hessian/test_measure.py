"""The table of measures, and the guide."""

import importlib
import re
from pathlib import Path
from typing import get_type_hints

import pytest
import torch
from torch import nn

from common import cli
from common.hessian import MEASURES, Estimate, Problem, measure, non_uniformity
from common.hessian.estimates import square_root
from common.hessian.measure import DEFAULT

ROOT = Path(__file__).parents[3]
GUIDE, PACKAGE = ROOT / "docs" / "toolkit.md", ROOT / "common" / "hessian"


def problem(reduction: str = "mean") -> Problem:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    data = torch.randn(20, 3).double(), torch.randint(0, 2, (20,))
    return Problem(model, nn.CrossEntropyLoss(reduction=reduction), data)


def test_every_measure_gives_an_estimate_that_says_what_it_did():
    rows = measure(problem(), list(MEASURES), relative_error=0.1, budget=100)
    assert [row.name for row in rows] == list(MEASURES)
    for row in rows:
        assert row.estimate is not None, row.problem
        assert row.estimate.method
        assert row.estimate.cost > 0
        assert row.symbol in str(row)


def test_a_measure_that_is_not_defined_says_why_and_the_others_go_on():
    rows = {row.name: row for row in measure(problem("sum"), ["noise_trace", "loss"])}
    assert rows["noise_trace"].estimate is None
    assert "sum" in rows["noise_trace"].problem
    assert rows["loss"].estimate is not None


def test_the_help_of_the_command_names_every_measure():
    (option,) = get_type_hints(cli.measure, include_extras=True)["what"].__metadata__
    named = option.help.partition(": ")[2].rstrip(".").split(", ")
    assert sorted(named) == sorted(MEASURES)
    assert option.show_default == "the first six"
    assert tuple(named[:6]) == DEFAULT


def test_one_measure_is_named_by_itself():
    [row] = measure(problem(), "loss")
    assert row.estimate == measure(problem(), ["loss"])[0].estimate
    assert float(row.estimate) == row.estimate.value


def test_unknown_measure_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="hessian_trace"):
        measure(problem(), ["hesian_trace"])


def test_same_seed_gives_the_same_numbers_and_another_seed_others():
    def traces(seed: int) -> float:
        [row] = measure(problem(), ["hessian_trace"], relative_error=0.2, seed=seed)
        assert row.estimate is not None
        return row.estimate.value

    assert traces(1) == traces(1)
    assert traces(1) != traces(2)


def test_estimates_print_as_many_digits_as_they_have():
    assert str(Estimate(123.456, 2.5, cost=3.0, method="draws")) == "123.5 ± 2.5 (draws, 3.0 gradients)"
    assert "NOT converged" in str(Estimate(1.0, 0.5, method="draws", converged=False))


def test_an_interval_is_twice_the_standard_error_and_the_bound():
    assert Estimate(5.0, 1.0, bound=0.04).interval == pytest.approx((3.0, 7.0))


def test_an_error_bound_survives_a_factor_and_a_square_root():
    largest = Estimate(4.0, 0.2, bound=0.1, passes=3, cost=6.0, seed=1, converged=False, reason="few products")
    doubled, root = largest.scaled(2.0, "doubled"), square_root(largest, "root")
    assert (doubled.value, doubled.standard_error, doubled.bound) == (8.0, 0.4, 0.2)
    assert (root.value, root.standard_error, root.bound) == (2.0, 0.05, 0.025)
    for made in (doubled, root):
        assert (made.passes, made.cost, made.seed, made.converged) == (3, 6.0, 1, False)
        assert made.reason == "few products"
    assert square_root(Estimate(0.0, bound=0.01), "root").bound == pytest.approx(0.1)


def test_the_bound_of_an_eigenvalue_is_carried_into_the_non_uniformity():
    early, late = (non_uniformity(problem(), products=products) for products in (2, 40))
    assert early.bound > late.bound > 0
    assert abs(early.value - late.value) <= early.bound


def test_every_name_of_the_glossary_is_in_the_code():
    rows = GUIDE.read_text().split("## Words")[1].split("## ")[0].splitlines()
    places = [row.rsplit("|", 2)[1] for row in rows if row.startswith("| ") and "---" not in row][1:]
    assert len(places) > 25
    for name in re.findall(r"`([^`]+)`", " ".join(places)):
        if name.endswith(".py"):
            assert (PACKAGE / name).exists(), name
            continue
        owner, _, attribute = name.partition(".")
        modules = [importlib.import_module(f"common.hessian.{path.stem}") for path in PACKAGE.glob("[a-z]*.py")]
        found = [getattr(module, owner) for module in modules if hasattr(module, owner)]
        assert found, name
        assert not attribute or attribute in {*dir(found[0]), *getattr(found[0], "__annotations__", {})}, name


def test_the_first_example_of_the_guide_runs_in_ten_lines(capsys):
    code = GUIDE.read_text().split("```python\n")[1].split("```")[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    exec(compile(code, str(GUIDE), "exec"), {})
    first, second = capsys.readouterr().out.splitlines()
    assert "±" in first
    assert "±" in second
