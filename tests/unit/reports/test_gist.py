"""Findings: their form, what was measured in words, and verdicts that no longer bear them out."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from markupsafe import Markup
from pydantic import ValidationError

from common.claims.verdicts import Verdict
from common.experiments.paper import Finding, Synthesis
from common.reports.amounts import amount_text, measured_text, only_too_small
from common.reports.formats import ClaimStub
from common.reports.gist import Told, misfit, open_points, tell_findings
from common.reports.judgements import ClaimRow, Judged
from common.reports.text import answer_to
from tests.unit.reports import samples

ARMS = {"metric": "m", "of": {"arm": "a"}, "minus": {"arm": "b"}}
KINDS: dict[str, dict[str, Any]] = {
    "paired_difference": ARMS,
    "difference_at_equal": {**ARMS, "equal": "l"},
    "ratio_of_means": {"metric": "m", "of": {"arm": "a"}, "to": {"arm": "b"}},
    "earlier": {"metric": "m", "of": {"arm": "a"}, "than": {"arm": "b"}},
    "proportion": {"metric": "m"},
    "mean": {"metric": "m"},
    "exact": {"metric": "m"},
    "worst_case": {"metric": "m", "over": ["depth"]},
    "correlation": {"x": "a", "y": "b", "given": ["c"], "over": ["depth"], "method": "spearman"},
    "slope": {"x": "a", "y": "b", "over": ["depth"]},
}


def row(kind: str = "mean", polarity: str = "claim", level: float | None = None, **measured: Any) -> ClaimRow:
    stub = ClaimStub(id="a", statement="A.", polarity=polarity, estimate={"kind": kind, **KINDS[kind]})
    return ClaimRow(stub, Judged(Verdict("a", "A.", **measured), "laptop", level=level), None)


@pytest.mark.parametrize(
    ("kind", "measured", "said"),
    [
        ("paired_difference", {"estimate": -11.1, "interval": (-19.3, -2.8), "n": 5, "unit": "points"},
         "lower by 11.1 points (2.8 to 19.3 at 95 %, five seeds)"),
        ("difference_at_equal", {"estimate": 0.2, "interval": (-0.1, 0.5), "n": 20, "unit": "nats"},
         "higher by 0.2 nats (0.1 lower to 0.5 higher at 95 %, 20 seeds)"),
        ("paired_difference", {"estimate": -0.2, "interval": (-0.5, 0.1), "n": 1},
         "lower by 0.2 (0.1 higher to 0.5 lower at 95 %, one seed)"),
        ("paired_difference", {"estimate": -math.log(2), "interval": (-math.log(4), None), "n": 5,
         "unit": "natural logarithm"}, "lower by a factor of 2 (−∞ to 4 at 95 %, five seeds)"),
        ("paired_difference", {"estimate": -1.0, "interval": (-1.0, 0.0), "n": 5, "unit": "powers of ten"},
         "lower by a factor of 10 (1 to 10 at 95 %, five seeds)"),
        ("paired_difference", {"estimate": -3.9e-16, "interval": (-4e-16, 0.0), "n": 5}, "no difference"),
        ("paired_difference", {"estimate": -1.4e-15, "interval": (-0.41, 0.41), "n": 10, "unit": "percentage points"},
         "no difference in the mean (0.41 higher to 0.41 lower at 95 %, ten seeds)"),
        ("mean", {"estimate": -0.5, "interval": (-1.0, None), "n": 13, "unit": "powers of ten"},
         "a factor of 0.316 (0.1 to ∞ at 95 %, 13 seeds)"),
        ("ratio_of_means", {"estimate": 0.5, "interval": (0.4, 0.6), "n": 5},
         "0.5 times (0.4 to 0.6 at 95 %, five seeds)"),
        ("proportion", {"estimate": 0.9, "interval": (0.555, 0.9975), "n": 10, "unit": "share of seeds"},
         "nine of ten seeds (56 to 100 % at 95 %)"),
        ("earlier", {"estimate": 8 / 9, "interval": (0.5, 1.0), "n": 10},
         "89 % of the seeds that decide (50 to 100 % at 95 %)"),
        ("mean", {"estimate": 10720.0, "interval": (8207.99, 13232.0), "n": 5, "unit": "steps"},
         "10\u202f700 steps (8210 to 13\u202f200 at 95 %, five seeds)"),
        ("exact", {"estimate": -3.9e-16, "interval": (-3.9e-16, -3.9e-16)}, "0"),
        ("exact", {"estimate": 0.661, "accept": {"below": 1.0}}, "0.661 (asked: below 1)"),
        ("exact", {"estimate": 1.0, "accept": {"above": 0.999999}}, "1"),
        ("exact", {"estimate": 6.7e-12, "accept": {"below": 1e-6}, "unit": "nats"},
         "nearly 0 nats (asked: below 10⁻⁶)"),
        ("exact", {"estimate": -3.5e-7, "accept": {"below": -3.0}}, "nearly 0 (asked: below −3)"),
        ("exact", {"estimate": 2.45e-9, "accept": {"above": 0.0}}, "2.45 × 10⁻⁹ (asked: above 0)"),
        ("exact", {"estimate": 0.0, "interval": (0.0, 1e-12)}, "0"),
        ("paired_difference", {"estimate": -8e-6, "interval": (-2e-4, 1.8e-4), "n": 5,
         "accept": {"within": (-0.005, 0.005)}},
         "nearly no difference (0.00018 higher to 0.0002 lower at 95 %, five seeds)"),
        ("paired_difference", {"estimate": 0.001, "interval": (0.0, 0.002), "n": 5, "unit": "natural logarithm"},
         "higher by a factor of 1.00 (1 to 1 at 95 %, five seeds)"),
        ("mean", {"estimate": 0.5, "interval": (0.4, 0.6), "n": 5, "accept": {"above": 0.0}},
         "0.5 (0.4 to 0.6 at 95 %, five seeds)"),
        ("mean", {"estimate": 0.0391, "interval": (0.027, 0.0512), "n": 5, "accept": {"below": 0.2},
         "unit": "of the bound"}, "3.91 % of the bound (2.7 to 5.12 % at 95 %, five seeds; asked: below 20 %)"),
        ("mean", {"estimate": 9.5, "interval": (9.0, 10.0), "n": 5, "unit": "of the bound"},
         "9.5 times the bound (9 to 10 at 95 %, five seeds)"),
        ("mean", {"estimate": 0.789, "n": 5, "unit": "share"}, "78.9 %"),
        ("paired_difference", {"estimate": -0.03, "interval": (-0.137, 0.0767), "n": 5, "unit": "of the bound"},
         "lower by 3 % of the bound (7.67 % higher to 13.7 % lower at 95 %, five seeds)"),
        ("exact", {"estimate": 1.00004, "accept": {"within": (0.99, 1.01)}, "unit": "times the formula"},
         "equal to the formula to three digits (asked: within 0.99 to 1.01)"),
        ("exact", {"estimate": 2.99, "accept": {"within": (2.5, 3.5)}, "unit": "order in ρ"},
         "order 2.99 in ρ (asked: within 2.5 to 3.5)"),
        ("worst_case", {"estimate": -1.0, "interval": (-2.0, 0.5), "n": 5, "accept": {"above": 0.0},
         "unit": "powers of ten"}, "at worst a factor of 0.1 (0.01 to 3.16 at 95 %, five seeds; asked: above 1)"),
        ("mean", {"estimate": 1.0, "n": 5, "unit": "powers of two a doubling"}, "a factor of 2 a doubling"),
        ("correlation", {"estimate": 0.7, "interval": (0.5, 0.9), "n": 5, "accept": {"above": 0.0}},
         "partial rank correlation 0.7 (0.5 to 0.9 at 95 %, five seeds)"),
        ("slope", {"estimate": -0.4, "interval": (-0.5, -0.3), "n": 5, "accept": {"below": -0.45}},
         "slope −0.4 (−0.5 to −0.3 at 95 %, five seeds; asked: below −0.45)"),
        ("mean", {}, ""),
    ],
)  # fmt: skip
def test_what_was_measured_reads_as_a_sentence_says_it(kind: str, measured: dict[str, Any], said: str) -> None:
    assert measured_text(row(kind, **measured)) == said


def test_an_amount_leaves_the_direction_to_the_sentence() -> None:
    lower = row("paired_difference", estimate=-11.1, interval=(-19.3, -2.8), n=5, unit="points")
    assert amount_text(lower) == "11.1 points (2.8 to 19.3 at 95 %, five seeds)"


@pytest.mark.parametrize(
    ("level", "unit", "said"),
    [
        (171000.0, None, "; 97 % of the other arm's 171\u202f000"),
        (16600.0, "nats", "; 10 times the other arm's 16\u202f600"),
        (171000.0, "points", ""),
        (1e9, None, ""),
        (None, None, ""),
    ],
)
def test_an_amount_without_a_scale_is_said_beside_the_other_arm(
    level: float | None, unit: str | None, said: str
) -> None:
    lower = row("difference_at_equal", level=level, estimate=-166000.0, interval=(-2e5, -1e5), n=5, unit=unit)
    named = f" {unit}" if unit else ""
    amount = f"166\u202f000{named} (100\u202f000 to 200\u202f000 at 95 %, five seeds{said})"
    assert (measured_text(lower), amount_text(lower)) == (f"lower by {amount}", amount)


@pytest.mark.parametrize(
    ("other", "open_", "excluded"),
    [
        ({}, "the direction", "0.2 points"),
        ({"unit": "natural logarithm"}, "the direction", "a factor of 1.22"),
        ({"accept": {"above": 0.1}}, "on which side of 0.1 it lies", "0.2 points"),
        ({"interval": (-0.4, -0.1)}, "", ""),
        ({"verdict": "inconclusive"}, "", ""),
        ({"smallest_effect": None}, "", ""),
    ],
)
def test_a_contradiction_by_size_alone_says_so(other: dict[str, Any], open_: str, excluded: str) -> None:
    small = {"verdict": "contradicted", "accept": {"above": 0.0}, "interval": (-0.4, 0.13), "smallest_effect": 0.2}
    said = f"the interval leaves {open_} open, but excludes an effect of {excluded}, the smallest that counts"
    assert only_too_small(Verdict("a", "A.", **({"unit": "points"} | small | other))) == said * bool(open_)


def test_verdicts_under_a_sentence_are_said_together_and_ours_apart() -> None:
    rows = [row(verdict="reproduced"), row(verdict="reproduced"), row(polarity="our_finding", verdict="reproduced")]
    told = Told(finding("with care"), Markup(""), [(one, "") for one in [*rows, row(verdict="inconclusive")]], None, [])
    assert [(said, len(found)) for said, _, found in told.groups] == [
        ("2 claims reproduced", 2),
        ("our hypothesis reproduced", 1),
        ("inconclusive", 1),
    ]


def test_a_question_of_ours_is_answered_by_yes_or_no() -> None:
    question = "We ask whether it falls."
    verdicts = ("contradicted", "contradicted", "reproduced", "inconclusive")
    ours = row(polarity="our_finding")
    rows = [replace(ours, live=Judged(Verdict("a", question, verdict=name), "laptop")) for name in verdicts]
    told = Told(finding("with care"), Markup(""), [(one, "") for one in rows], None, [])
    assert [said for said, _, _ in told.groups] == [
        "2 of our questions: no",
        "our question: yes",
        "our question: inconclusive",
    ]
    assert answer_to("contradicted", "It falls.") == "contradicted"


def finding(belief: str, text: str = "It falls by {a}.", **other: Any) -> Finding:
    return Finding.model_validate({"belief": belief, "text": text, "claims": ["a"]} | other)


def test_a_text_has_its_amounts_in_place_and_mathematics_left_alone() -> None:
    parts = finding("believe", "By {a} at $\\frac{1}{2}$, {not this} but {a}.").parts
    assert [text for text, claim in parts if claim] == ["a", "a"]
    assert "".join("*" if claim else text for text, claim in parts) == "By * at $\\frac{1}{2}$, {not this} but *."


def test_a_text_that_speaks_of_another_claim_or_an_eleventh_finding_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"speaks of \{b\}, which is not among the claims"):
        finding("believe", "By {b}.")
    with pytest.raises(ValidationError, match="at most 10"):
        Synthesis.model_validate([{"belief": "believe", "text": "t", "claims": ["a"]}] * 11)


@pytest.mark.parametrize(
    ("belief", "polarity", "verdict", "fits"),
    [
        ("believe", "claim", "reproduced", True),
        ("believe", "our_finding", "reproduced", True),
        ("believe", "claim", "contradicted", False),
        ("believe", "claim", "inconclusive", False),
        ("believe", "claim", "not run", False),
        ("not supported", "claim", "contradicted", True),
        ("not supported", "our_finding", "reproduced", True),
        ("not supported", "our_finding", "contradicted", False),
        ("not supported", "claim", "reproduced", False),
        ("not supported", "claim", "inconclusive", False),
        ("with care", "claim", "not run", True),
    ],
)
def test_how_far_a_finding_may_be_believed_is_held_against_its_verdicts(
    belief: str, polarity: str, verdict: str, *, fits: bool
) -> None:
    said = misfit(finding(belief), {"a": row(polarity=polarity, verdict=verdict)})
    assert said == (None if fits else f"it says {belief!r}, but a is {verdict}")


def test_lint_names_a_paper_without_findings_and_findings_that_name_what_is_not_there(
    fresh: Callable[..., Path],
) -> None:
    root = fresh()
    folder = root / "replications" / "pacgen"
    assert [line.split(": ")[1] for line in open_points(root, [folder])] == ["no question", "no findings"]
    named = {"belief": "believe", "text": "So it is."}
    findings = [
        named | {"claims": ["fig3-gap-and-metrics-agree"]},
        named | {"claims": ["fig3-gap-and-metric-agree"], "figure": "batch_size/fig33"},
        named | {"claims": ["fig3-given-training-loss"], "figure": "batch_size/fig3"},
        named | {"claims": ["fig3-gap-and-metric-agree"]},
    ]
    samples.write_paper(root, "pacgen", question="Does it?", findings=findings)
    samples.publish(root, "pacgen", "laptop", samples.VERDICTS, ("fig3",))
    place = "replications/pacgen/paper.yaml: finding"
    assert open_points(root, [folder]) == [
        f"{place} 1: there is no claim 'fig3-gap-and-metrics-agree'; did you mean 'fig3-gap-and-metric-agree'?",
        f"{place} 2: there is no figure 'batch_size/fig33'; did you mean 'batch_size/fig3'?",
        f"{place} 3: it says 'believe', but fig3-given-training-loss is contradicted.",
    ]


def test_lint_looks_at_what_the_replications_come_to_together(fresh: Callable[..., Path]) -> None:
    root = fresh()
    samples.publish(root, "pacgen", "laptop", samples.VERDICTS, ("fig3",))
    folders = [root / "replications" / "pacgen"]
    assert open_points(root, folders, together=True) == []
    said = {"belief": "not supported", "text": "So it is."}
    good = said | {"claims": ["pacgen/fig3-given-training-loss"], "figure": "pacgen/batch_size/fig3"}
    samples.write_yaml(root / "replications" / "synthesis.yaml", [good, said | {"claims": ["pacgen/floor"]}])
    sentence, *more = open_points(root, folders, together=True)
    assert sentence.startswith("replications/synthesis.yaml: finding 2: there is no claim 'pacgen/floor'")
    assert more == []


def test_a_deviation_that_a_finding_names_leads_to_where_it_is_told() -> None:
    (told,) = tell_findings([finding("with care", "It holds (D3), not D4.")], {}, [], str, {"D3": "page.html#D3"})
    assert str(told.text) == 'It holds (<a href="page.html#D3">D3</a>), not D4.'
