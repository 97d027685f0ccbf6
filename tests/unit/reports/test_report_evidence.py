"""What stands beside a verdict: published evidence, the estimators' own errors, amendments, controls and chance."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from common.claims.estimates import AnyEstimate
from common.claims.verdicts import Verdict, VerdictName
from common.errors import UserError
from common.reports import build_index, build_page, open_paper
from common.reports.estimators import EstimatorError, estimator_errors
from common.reports.evidence import Evidence
from common.reports.formats import ClaimStub
from common.reports.judgements import Changed, ClaimRow, Judged, changed, controls_text
from common.reports.text import short_commits
from tests.unit.reports import samples
from tests.unit.reports.pages import Outline, copy, outline

FAILED, STRADDLES, SMALL, ABSENT = "contradicted", "inconclusive", "not decidable at this scale", "not run"


def page_text(root: Path) -> str:
    return outline(build_page(root / "replications" / "pacgen", "laptop", root)).text


def claim_on_page(root: Path, identifier: str) -> str:
    html = build_page(root / "replications" / "pacgen", "laptop", root).read_text()
    return Outline(html.split(f'id="claim-{identifier}"')[1].split(">", 1)[1].split("</tbody>")[0]).text


def own_page(root: Path, identifier: str) -> str:
    folder = build_page(root / "replications" / "pacgen", "laptop", root).with_suffix("")
    return outline(folder / f"{identifier}.html").text


@pytest.fixture
def analysed(fresh: Callable[..., Path]) -> Callable[..., Path]:
    """A checkout with one analysed claim; `rule` adds to claims.yaml, `rows` is its table of metrics."""

    def make(rule: dict[str, Any], rows: list[dict[str, Any]] | None = None, **verdict: Any) -> Path:
        root = fresh()
        known = samples.VERDICTS[0] | verdict
        entry = {key: known[key] for key in ("id", "statement", "polarity", "nature", "experiment", "source")}
        samples.write_yaml(root / "replications" / "pacgen" / "claims.yaml", [entry | rule])
        folder = root / "analysis" / "laptop" / "pacgen"
        samples.write_json(folder / "verdicts.json", [known])
        digest = {"code_digest": "c" * 16}
        run = {"experiment": known["experiment"], "run": "seed=0", "outcome": "completed"} | digest
        samples.write_json(folder / "runs.json", [run])
        samples.write_json(folder / "metrics.json", {known["experiment"]: rows or []})
        return root

    return make


def test_a_claim_is_reproduced_at_a_scale_at_which_its_experiment_is_run(analysed: Callable[..., Path]) -> None:
    root = analysed({})
    command = f"replicate run pacgen/{samples.VERDICTS[0]['experiment']} --scale"
    config = root / "replications" / "pacgen" / "config.yaml"
    for run_from, scale in (("smoke", "laptop"), ("workstation", "workstation")):
        samples.write_yaml(config, {samples.VERDICTS[0]["experiment"]: {"run_from": run_from, "grid": {"seed": 2}}})
        assert f"{command} {scale}" in own_page(root, samples.VERDICTS[0]["id"])


@pytest.mark.parametrize(
    ("estimate", "expected"),
    [
        ({"kind": "mean", "metric": "trace", "where": {"arm": "plain"}}, {"trace": 2.0}),
        ({"kind": "mean", "metric": "trace"}, {"trace": 3.0}),
        (
            {"kind": "paired_difference", "metric": "trace", "of": {"arm": "plain"}, "minus": {"arm": "noise"}},
            {"trace": 3.0},
        ),
        ({"kind": "correlation", "x": "trace", "y": "gap", "over": "arm"}, {"trace": 3.0}),
        ({"kind": "slope", "x": "rate", "y": "sharpness", "over": "rate"}, {"sharpness": 0.5}),
        ({"kind": "mean", "metric": "gap"}, {}),
    ],
)
def test_an_estimators_error_is_the_median_over_the_runs_that_a_claim_uses(
    estimate: dict[str, Any], expected: dict[str, float]
) -> None:
    rows = [
        {"arm": arm, "rate": 0.1, "trace_standard_error": error, "sharpness_standard_error": 0.5}
        for arm, error in [
            ("plain", 1.0),
            ("plain", 2.0),
            ("plain", 3.0),
            ("noise", 4.0),
            ("noise", 5.0),
            ("none", None),
        ]
    ]
    parsed: Any = TypeAdapter(AnyEstimate).validate_python(estimate)
    assert estimator_errors(parsed, rows) == tuple(EstimatorError(*pair) for pair in expected.items())


@pytest.mark.parametrize(("kind", "told"), [("mean", "times the norm"), ("proportion", None)])
def test_numbers_of_a_claim_without_a_unit_are_what_paper_yaml_says(
    analysed: Callable[..., Path], kind: str, told: str | None
) -> None:
    rule = {"estimate": {"kind": kind, "metric": "trace"}}
    root = analysed(rule, [], unit=None)
    folder = root / "replications" / "pacgen"
    with (folder / "paper.yaml").open("a") as paper:
        paper.write("units: {trace: times the norm}\n")
    row = next(row for row in Evidence(folder, "laptop", root).claims if row.id == "fig3-gap-and-metric-agree")
    assert row.shown.unit == told


def test_the_estimators_error_stands_beside_the_interval(analysed: Callable[..., Path]) -> None:
    rule = {"estimate": {"kind": "mean", "metric": "trace"}}
    rows = [{"run": f"seed={seed}", "trace": 1.0, "trace_standard_error": 0.012 + seed / 1000} for seed in range(3)]
    root = analysed(rule, rows)
    shown = own_page(root, "fig3-gap-and-metric-agree")
    assert re.search(r"95 % interval 0\.61 to 1, n = 5\).*own estimator error in trace : ±0\.013 \(median\)", shown)
    assert "estimator error" not in own_page(analysed(rule, rows[:0]), "fig3-gap-and-metric-agree")


def test_an_exact_number_is_not_shown_with_a_confidence(analysed: Callable[..., Path]) -> None:
    root = analysed({}, estimate=0.25, interval=[0.25, 0.25], n=None)
    assert "95 %" not in claim_on_page(root, "fig3-gap-and-metric-agree")
    assert "95 % interval" not in own_page(root, "fig3-gap-and-metric-agree")


def test_an_amended_rule_is_marked(analysed: Callable[..., Path]) -> None:
    rule = {"amended": [{"date": "2026-03-04", "reason": "the first rule compared unsorted ranks"}]}
    assert "amended" in claim_on_page(analysed(rule), "fig3-gap-and-metric-agree")
    assert "amended" not in claim_on_page(analysed({}), "fig3-gap-and-metric-agree")


def test_a_verdict_says_what_it_stands_on(analysed: Callable[..., Path]) -> None:
    """Seeds that had been seen, a seed that turns it, and its size beside the reported one."""
    size = {"ratio": 0.07, "interval": [0.05, 0.09], "judgement": "smaller", "text": "0.07 times the reported effect"}
    root = analysed({}, seen=[0, 1], turns_without=[3], size={**size, "predicted": False})
    for shown in (claim_on_page(root, "fig3-gap-and-metric-agree"), own_page(root, "fig3-gap-and-metric-agree")):
        assert "fragile: without seed 3 the verdict would be another" in shown
        assert "its rule is younger than these results (seeds seen: 0, 1)" in shown
        assert "smaller: 0.07 times the reported effect; outside the interval" in shown


def test_theorems_and_printed_numbers_are_counted_apart(analysed: Callable[..., Path]) -> None:
    root = analysed({"nature": "theorem"}, nature="theorem")
    assert "theorems and printed numbers: 1 of 1 hold" in outline(build_index(root, "laptop")).text


@pytest.mark.parametrize(
    ("published", "live", "shown"),
    [
        (("workstation", FAILED), ("laptop", "reproduced"), "published"),
        (("workstation", STRADDLES), ("laptop", "reproduced"), "published"),
        (("workstation", SMALL), ("laptop", "reproduced"), "live"),
        (("workstation", SMALL), ("laptop", SMALL), "published"),
        (("workstation", ABSENT), ("laptop", SMALL), "live"),
        (("laptop", FAILED), ("laptop", "reproduced"), "live"),
    ],
)
def test_the_verdict_of_the_largest_scale_that_decides_is_shown(
    published: tuple[str, VerdictName], live: tuple[str, VerdictName], shown: str
) -> None:
    stub = ClaimStub(id="a", statement="A.")
    known = {
        name: Judged(Verdict("a", "A.", verdict=verdict), scale, published=name == "published")
        for name, (scale, verdict) in {"published": published, "live": live}.items()
    }
    assert ClaimRow(stub, known["live"], known["published"]).headline is known[shown]


def test_what_this_machine_found_again_stands_once_and_what_differs_beside_it() -> None:
    stub = ClaimStub(id="a", statement="A.")
    found = Verdict("a", "A.", verdict="reproduced", estimate=0.5, interval=(0.4, 0.6))
    published = Judged(found, "laptop", published=True, commit="abc")
    again, larger = Judged(found, "laptop"), Judged(found, "workstation")
    other = Judged(replace(found, estimate=0.51), "laptop")
    assert ClaimRow(stub, again, published).judgements == [published]
    assert ClaimRow(stub, again, published).headline is published, "what is cited has a commit"
    for live in (other, larger):
        row = ClaimRow(stub, live, published)
        assert (row.judgements, row.headline) == ([live, published], live)


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ({"reproduced": 2}, "2 of 2 as expected"),
        ({}, "none"),
        ({SMALL: 2}, "2 not decidable"),
        ({"reproduced": 1, SMALL: 1}, "1 of 2 as expected, 1 not decidable"),
        ({FAILED: 1, ABSENT: 1}, "0 of 2 as expected, 1 failed, 1 not run"),
        ({STRADDLES: 1}, "1 inconclusive"),
    ],
)
def test_controls_that_could_not_be_decided_do_not_look_like_failures(counts: dict[str, int], text: str) -> None:
    every = dict.fromkeys(("reproduced", FAILED, STRADDLES, SMALL, ABSENT), 0)
    assert controls_text(every | counts) == text


def test_the_false_verdicts_that_chance_alone_gives_are_named(checkout: Path) -> None:
    decided = [v for v in samples.VERDICTS if v["n"] and v["verdict"] in ("reproduced", FAILED, STRADDLES)]
    sentence = f"{len(decided)} verdicts here rest on an interval over seeds. "
    sentence += f"On average chance alone makes at most {0.025 * len(decided):.2g} of them false: 2.5 % each"
    assert sentence in outline(build_index(checkout, "laptop")).text
    assert len(decided) == 6


def test_rules_that_changed_after_results_had_been_seen_are_counted() -> None:
    seen = {"date": "2026-11-01", "reason": "r", "seen": {"laptop": [0]}}
    rule, words = {"former": {"accept": {"above": 1}}}, {"former": {"statement": "B."}}
    turned = [{"date": "2026-11-01", "rule": "above 1", "verdict": FAILED}]

    def row(verdict: VerdictName, amended: list[dict[str, Any]], polarity: str = "claim", **told: Any) -> ClaimRow:
        stub = ClaimStub(id="a", statement="A.", polarity=polarity, amended=amended)
        return ClaimRow(stub, Judged(Verdict("a", "A.", verdict=verdict, **told), "laptop"), None)

    claims = [
        row("reproduced", []),
        row("reproduced", [seen | words]),
        row("reproduced", [{key: value for key, value in (seen | rule).items() if key != "seen"}]),
        row("reproduced", [seen | words, seen | rule], former=turned),
        row(FAILED, [seen | rule], former=turned, seen=[0]),
        row(STRADDLES, [seen | rule]),
        row("reproduced", [seen | rule], "our_finding"),
    ]
    assert changed(claims) == Changed(decided=5, after=2, unseen=1, otherwise=1)


def test_chance_is_not_spoken_of_before_anything_is_decided(fresh: Callable[..., Path]) -> None:
    assert "chance alone" not in outline(build_index(fresh(), "laptop")).text


@pytest.mark.parametrize(("code", "answer"), [("c" * 16, "no"), ("d" * 16, "yes")])
def test_a_published_verdict_says_whether_the_code_has_changed_since(
    analysed: Callable[..., Path], code: str, answer: str
) -> None:
    root = analysed({})
    samples.publish(root, "pacgen", "workstation", samples.VERDICTS[:1], code=code)
    origin = f"published, workstation scale, commit {samples.PUBLISHED_COMMIT[:10]} · code since changed: {answer}"
    assert origin in own_page(root, "fig3-gap-and-metric-agree")
    evidence = page_text(root).split("Published evidence")[1]
    for expected in (f"code since changed: {answer}", "NVIDIA H100", "240", "2 h 15 min", "5.2 GB", "torch 2.13.0"):
        assert expected in evidence


def test_code_is_not_compared_where_nothing_was_run_here(fresh: Callable[..., Path]) -> None:
    root = fresh()
    samples.publish(root, "pacgen", "workstation", samples.VERDICTS[:1])
    assert "code since changed" not in page_text(root)


def test_a_fresh_clone_shows_what_was_published(fresh: Callable[..., Path]) -> None:
    root = fresh()
    samples.publish(root, "pacgen", "laptop", samples.VERDICTS[:2], ("fig3", "fig3_matched"))
    samples.publish(root, "pacgen", "workstation", samples.VERDICTS[:2], ("fig3",))
    (root / "replications" / "pacgen" / "report.py").write_text(
        "# %%\nfrom common.reports import open_paper\nopen_paper().figure('fig3')\n"
    )
    page = build_page(root / "replications" / "pacgen", "laptop", root)
    found = outline(page)
    assert f"batch_size · published, workstation scale, commit {samples.PUBLISHED_COMMIT[:10]}" in found.text
    assert "fig3_matched, laptop scale" in found.text
    assert "fig3, laptop scale" not in found.text
    assert found.text.count("published, workstation scale") == 3
    assert "could not be computed" not in found.text
    for name in ("batch_size-fig3.svg", "batch_size-fig3_matched.svg", "report.ipynb"):
        assert (page.parent / "pacgen" / name).is_file()
    assert 'href="#figure-batch_size-fig3"' in page.read_text()
    assert "1 reproduced, 1 contradicted" in outline(build_index(root, "laptop")).text


def test_an_experiment_without_a_result_here_shows_its_published_figures(checkout: Path, tmp_path: Path) -> None:
    root = copy(checkout, tmp_path)
    runs = root / "analysis" / "laptop" / "pacgen" / "runs.json"
    samples.write_json(runs, [r for r in json.loads(runs.read_text()) if r["experiment"] != "batch_size"])
    page = build_page(root / "replications" / "pacgen", "laptop", root)
    text = outline(page).text
    assert "fig3, workstation scale" in text
    assert "Figure 3: gap and metric over batch sizes" not in text
    assert "This machine's figures" not in text


def test_the_story_shows_a_figure_at_the_scale_of_its_verdicts_and_this_machines_below(
    checkout: Path, tmp_path: Path
) -> None:
    root = copy(checkout, tmp_path)
    page = build_page(root / "replications" / "pacgen", "laptop", root)
    html = page.read_text()
    story, own = html.split("This machine's figures, laptop scale")
    assert 'id="figure-batch_size-fig3"' in story
    assert "fig3, workstation scale" in story
    assert 'href="#figure-laptop-batch_size-fig3"' in story
    assert 'id="figure-laptop-batch_size-fig3"' in own
    assert "Figure 3: gap and metric over batch sizes" in own
    assert (page.parent / "pacgen" / "laptop-batch_size-fig3.svg").is_file()


@pytest.mark.parametrize(("published", "expected"), [("workstation", [0.5]), ("laptop", [0.3, 0.2])])
def test_numbers_of_the_story_are_of_the_scale_of_its_figures(
    checkout: Path, tmp_path: Path, published: str, expected: list[float]
) -> None:
    root = copy(checkout, tmp_path)
    own, other = ({"batch_size": [{"gap": gap} for gap in gaps]} for gaps in ([0.3, 0.2], [0.5]))
    samples.write_json(root / "analysis" / "laptop" / "pacgen" / "metrics.json", own)
    samples.publish(root, "pacgen", published, samples.VERDICTS[:1])
    samples.write_json(root / "reports" / "published" / "workstation" / "pacgen" / "metrics.json", {})
    samples.write_json(root / "reports" / "published" / published / "pacgen" / "metrics.json", other)
    found = Evidence(root / "replications" / "pacgen", "laptop", root).metrics["batch_size"]
    assert [row["gap"] for row in found] == expected


def test_records_that_were_published_as_metrics_alone_are_said_to_be_elsewhere(
    fresh: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = fresh()
    samples.publish(root, "pacgen", "workstation", samples.VERDICTS[:1])
    monkeypatch.setenv("REPLICATIONS_ROOT", str(root))
    paper = open_paper("pacgen", "laptop")
    assert paper.metrics("batch_size").empty
    with pytest.raises(UserError, match=r"records of pacgen/batch_size were not computed here; only its metrics"):
        paper.records("batch_size")


def test_commits_are_shortened_each() -> None:
    assert short_commits("a" * 40) == "a" * 10
    assert short_commits(f"{'a' * 40}, {'b' * 40}") == f"{'a' * 10}, {'b' * 10}"


def test_a_summary_gives_statement_verdict_and_what_was_measured(
    fresh: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = fresh()
    words = {"estimate": 0.25, "interval": [0.125, 0.5], "n": 5}
    exact = {"estimate": 2.0, "interval": [2.0, 2.0], "n": None}
    samples.publish(
        root,
        "pacgen",
        "workstation",
        [
            samples.verdict("one", "It holds.", "reproduced", **words),
            samples.verdict("two", "So.", "reproduced", **exact),
        ],
    )
    monkeypatch.setenv("REPLICATIONS_ROOT", str(root))
    claims = root / "replications" / "pacgen" / "claims.yaml"
    claims.write_text("- {id: one, statement: It holds.}\n- {id: two, statement: So.}\n")
    paper = open_paper("pacgen", "laptop")
    one, two = (
        "- It holds. **Reproduced**: 0.25 (0.125 to 0.5 at 95 %, five seeds).",
        "- So. **Reproduced**: 2 (asked: above 0).",
    )
    assert str(paper.summary(["one", "two"])) == str(paper.summary(["*"])) == f"{one}\n{two}"
    assert str(paper.summary(["t*", "*"])) == f"{two}\n{one}"
    with pytest.raises(UserError, match="has no claim 'three'"):
        paper.summary(["three"])
