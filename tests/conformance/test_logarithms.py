"""A claim whose metric is a logarithm says of which base: pages turn its unit into a factor.

A metric named `log10_…` or `log2_…` is of that base. Of every other logarithm that a claim states the base stands
below, as the code of its analysis has it; where what is published holds the number itself, too (`log2_width` beside
`width`), the two are compared.
"""

import math
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from common.claims import Claim, load_claims
from common.claims.metric_rows import rows_of
from common.files import read_json
from common.workflow.agreement import OF_LOGARITHMS
from tests.conftest import ROOT

PAPERS = sorted(path.parent for path in (ROOT / "replications").glob("*/claims.yaml"))
PLACES = sorted(path.parent for path in (ROOT / "reports" / "published").glob("*/*/metrics.json"))

UNITS = {math.e: "natural logarithm", 10: "powers of ten|orders of magnitude", 2: "powers of two"}
"""How the unit of each base begins."""
NATURAL = {
    "cohen2021edge/momentum_thresholds/log_*",
    "gnn_bounds/toy_linear/*",
    "hessian_finetuning/bounds/log_*",
    "hessian_finetuning/uniform_convergence/*",
    "sgd_stability/*/*log_*",
    "sgd_stability/escape/exponent_over_bound",
}
DECIMAL = {
    "gnn_bounds/layer_traces/*_slack",
    "gnn_bounds/sensitivity/*_weights_minus_graph",
    "gnn_bounds/sensitivity/smallest_without_graph",
    "grokking/*/log_*",
    "grokking/gradient_variance/*_theory_*",
    "hessian_finetuning/bounds/mcallester_over_theorem",
    "hessian_finetuning/bounds/norms_over_theorem",
    "hessian_finetuning/bounds/theorem_over_*",
    "hessian_finetuning/full_fine_tuning*/log_*",
    "hessian_finetuning/noise_injection/log_*",
    "pacgen/*/log_*",
    "pacgen/*/matched_log_*_slope",
    "sgd_stability/escape/rise*",
    "trace_wrn/*/log_trace_ggn",
    "trace_wrn/zero_loss_limit/*_decades",
}
OTHER_NUMBERS = {
    "grokking/*/log_*trace": "a mean of logarithms, beside a median",
    "hessian_finetuning/*/log_*_standard_error": "an error, which is no logarithm",
    "hessian_finetuning/bounds/log_norms_over_theorem": "beside the decimal one",
    "pacgen/reparametrisation/log10_*": "of the ratio to the value at α = 1",
}
"""What is not the logarithm of the number that it is named after, and why."""


def bases(metric: str) -> set[float]:
    """The bases that are known of a metric, given with paper and experiment; none where it is no logarithm."""
    if by_name := re.search(r"[_/]log(10|2)_", metric):
        return {float(by_name.group(1))}
    tables = {math.e: NATURAL, 10.0: DECIMAL}
    return {base for base, names in tables.items() if any(fnmatch(metric, name) for name in names)}


def problem(claim: Claim, paper: str) -> str | None:
    """What is wrong with the unit of a claim; None if nothing is."""
    column = claim.estimate.variables()[0]
    metric = f"{paper}/{claim.experiment}/{column}"
    said = {base for base, words in UNITS.items() if re.match(words, claim.unit or "")}
    if claim.estimate.kind in OF_LOGARITHMS or not (said or re.match(r"(.*_)?log(10|2)?_", column)):
        return None
    if len(known := bases(metric)) != 1:
        return f"{claim.id}: write down here the base of {metric}"
    (base,) = known
    unit = UNITS[base].replace("|", " or ")
    return None if said == known else f"{claim.id}: {metric} has base {base:.3g}: its unit is {claim.unit}, not {unit}"


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_the_unit_of_a_logarithm_is_that_of_its_base(paper: Path) -> None:
    claims = load_claims(paper / "claims.yaml")
    assert [text for claim in claims if (text := problem(claim, paper.name))] == []


def test_a_wrong_unit_is_found() -> None:
    claims = load_claims(ROOT / "replications/hessian_finetuning/claims.yaml")
    claim = next(c for c in claims if c.id == "claim2-training-enlarges-the-difference")
    told = problem(claim.model_copy(update={"unit": "powers of ten"}), "hessian_finetuning")
    assert told is not None
    assert told.endswith("has base 2.72: its unit is powers of ten, not natural logarithm")


def logarithms(place: Path) -> Iterator[tuple[str, float, float]]:
    """Of published runs the name of a logarithm, its value, and that of the number it is named after."""
    for experiment, rows in rows_of(read_json(place / "metrics.json")).items():
        for row in rows:
            for column, value in row.items():
                number = row.get(re.sub(r"^log(10|2)?_", "", column)) if column.startswith("log") else None
                if isinstance(value, float) and isinstance(number, float) and number > 0:
                    yield f"{place.name}/{experiment}/{column}", value, number


@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place.parent.name}-{place.name}")
def test_published_logarithms_have_the_base_that_is_written_down(place: Path) -> None:
    for metric, value, number in logarithms(place):
        if not any(fnmatch(metric, name) for name in OTHER_NUMBERS):
            (base,) = bases(metric) or {math.nan}
            assert value == pytest.approx(math.log(number, base), rel=1e-6, abs=1e-9), (
                f"{metric} is not the logarithm of the metric beside it that bears its name: give one another name"
            )
