"""A claim's own page: what its seeds say, its rule and history, how to cite and dispute it; and the whole board."""

import csv
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from common.claims.parts import Part
from common.claims.verdicts import Verdict
from common.reports import build_index, build_page
from common.reports.evidence import Evidence
from common.reports.seed_plot import MOST_ROWS, WIDTH, Axis, dot_plot
from common.reports.verdict_page import write_verdict_pages
from tests.unit.reports import samples
from tests.unit.reports.pages import Outline, copy, outline

CLAIM = "fig3-largest-batch-is-worst"
ADDRESS = "https://example.org/replications"


@pytest.fixture
def root(checkout: Path, tmp_path: Path) -> Path:
    """The sample checkout with known gaps: seed k has (k + 1) / 100 more at batch 1024 than at batch 64."""
    made = copy(checkout, tmp_path)
    path = made / "analysis" / "laptop" / "pacgen" / "metrics.json"
    tables = yaml.safe_load(path.read_text())
    for row in tables["batch_size"]:
        row["gap"] = 0.1 if row["batch_size"] == 64 else 0.11 + 0.01 * row["seed"]
    samples.write_json(path, tables)
    return made


def amend(root: Path, **fields: Any) -> None:
    path = root / "replications" / "pacgen" / "claims.yaml"
    claims = yaml.safe_load(path.read_text())
    next(claim for claim in claims if claim["id"] == CLAIM).update(fields)
    samples.write_yaml(path, claims)


def page(root: Path, claim: str = CLAIM) -> Outline:
    folder = root / "reports" / "site" / "pacgen"
    folder.mkdir(parents=True, exist_ok=True)
    names = write_verdict_pages(Evidence(root / "replications" / "pacgen", "laptop", root), folder)
    assert names == {f"{verdict['id']}.html" for verdict in samples.VERDICTS}
    return outline(folder / f"{claim}.html")


def test_a_page_shows_what_each_seed_says_beside_every_scale_and_machine(root: Path) -> None:
    found = page(root)
    assert [f"{seed} 0.0{seed + 1}" in found.text for seed in range(5)] == [True] * 5
    for heading in ("Workstation scale, published", "Laptop scale, this machine", "Smoke scale, published"):
        assert heading in found.text
    labels = [label for label in found.attributes("aria-label") if label.startswith("5 seeds")]
    assert labels == ["5 seeds from 0.01 to 0.05; estimate 0.004, interval −0.011 to 0.019; accepted: above 0"]
    assert found.text.count("no longer hold what this verdict was read from") == 2  # published without metrics


def test_a_page_has_the_rule_in_words_and_as_data_the_command_and_a_citation_with_its_commit(root: Path) -> None:
    text = page(root).text
    assert "Paired difference of gap, batch_size=1024 minus batch_size=64 , above 0." in text
    assert "kind: paired_difference" in text
    assert "replicate run pacgen/batch_size --scale workstation" in text
    assert "@misc{pacgen:fig3-largest-batch-is-worst, author = {{hessian-replications}}" in text
    assert "Replication of Wang et al. (2018), claim fig3-largest-batch-is-worst: reproduced" in text
    assert "estimate 0.012 nats; 95\\% interval 0.007 to 0.018; 40 seeds; workstation scale; commit " in text
    assert f"commit {samples.PUBLISHED_COMMIT}" in text
    assert "year = {2026}" in text
    assert "2026-02-03 the first rule compared unsorted ranks" in page(root, "control-planted").text


def test_the_history_says_what_the_rule_was_what_it_gave_and_what_had_been_seen(root: Path) -> None:
    before = {"accept": {"above": 0.5}}
    amend(root, amended=[{"date": "2026-02-03", "reason": "a slip", "former": before, "seen": {"laptop": [0, 1]}}])
    path = root / "analysis" / "laptop" / "pacgen" / "verdicts.json"
    verdicts = yaml.safe_load(path.read_text())
    rule = "paired difference of gap, batch_size=1024 minus batch_size=64, above 0.5"
    former = {"date": "2026-02-03", "rule": rule, "verdict": "contradicted", "reason": "", "estimate": 0.004}
    next(verdict for verdict in verdicts if verdict["id"] == CLAIM)["former"] = [former]
    samples.write_json(path, verdicts)
    text = page(root).text
    assert "2026-02-03 a slip Before: paired difference of gap" in text
    assert re.search(r"By the rule before, laptop scale, this machine: ✕ ?contradicted 0\.004", text)
    assert "Seen by then at laptop scale: seeds 0, 1." in text


def test_a_statement_said_otherwise_before_is_not_repeated_as_data(root: Path) -> None:
    amend(root, amended=[{"date": "2026-02-03", "reason": "clearer", "former": {"statement": "It was so."}}])
    text = page(root).text
    assert "Before: statement “It was so.”" in text
    assert "What it was, as data" not in text
    amend(root, amended=[{"date": "2026-02-03", "reason": "a slip", "former": {"accept": {"above": 0.5}}}])
    assert "What it was, as data" in page(root).text


def test_a_dispute_is_linked_and_shows_on_every_page_until_it_is_settled(root: Path) -> None:
    text = page(root).text
    assert "Copy the questions of .github/ISSUE_TEMPLATE/dispute.yml from the checkout" in text
    assert f"for the claim pacgen/{CLAIM}" in text
    author = {"family-names": "Doe", "given-names": "Ann"}
    about = {"title": "Replications: 100 % of them", "authors": [author], "repository-code": ADDRESS}
    samples.write_yaml(root / "CITATION.cff", about)
    amend(root, disputed={"url": f"{ADDRESS}/issues/7", "since": "2026-02-03"})
    found = page(root)
    links = list(found.attributes("href"))
    assert f"{ADDRESS}/issues/7" in links
    form = next(link for link in links if link.startswith(f"{ADDRESS}/issues/new?"))
    assert form.endswith(f"&claim=pacgen%2F{CLAIM}")
    assert "author = {Doe, Ann}, " in found.text
    assert "Replications: 100 \\% of them" in found.text
    pages = [build_page(root / "replications" / "pacgen", "laptop", root), build_index(root, "laptop")]
    assert ["disputed since 2026-02-03" in outline(path).text for path in pages] == [True, True]


def test_the_form_asks_for_the_claim_under_the_name_that_pages_fill_in() -> None:
    path = Path(__file__).parents[3] / ".github" / "ISSUE_TEMPLATE" / "dispute.yml"
    assert yaml.safe_load(path.read_text())["body"][0]["id"] == "claim"


def test_the_result_comes_first_with_its_unit_and_what_it_is_of(root: Path) -> None:
    text = page(root).text
    order = ["0.012 nats", "What was measured", "Paired difference of gap, batch_size=1024", "The rule", "dispute"]
    assert sorted(order, key=text.index) == order
    assert "minus batch_size=64 (nats). Each dot is what one seed says" in text
    assert "shaded is what the rule accepts, above 0." in text
    assert re.search(r"the document says it: Fig\. 3.{0,40} · empirical: the world may disagree", text)
    assert "wang2018identifying" not in text.split("What was measured")[0]


def test_the_history_is_folded(root: Path) -> None:
    amend(root, amended=[{"date": "2026-02-03", "reason": "a slip"}, {"date": "2026-02-04", "reason": "another"}])
    page(root)
    html = (root / "reports" / "site" / "pacgen" / f"{CLAIM}.html").read_text()
    folded = html.split('<details id="history">')[1]
    assert folded.startswith("<summary>Its history: amended 2 times, last on 2026-02-04</summary>")


def test_pages_of_claims_that_are_no_more_are_removed(root: Path) -> None:
    left = root / "reports" / "site" / "pacgen" / "gone.html"
    left.parent.mkdir(parents=True, exist_ok=True)
    left.touch()
    build_page(root / "replications" / "pacgen", "laptop", root)
    assert not left.exists()
    assert left.with_name(f"{CLAIM}.html").is_file()


def test_the_board_has_a_row_for_each_claim_scale_and_machine(root: Path) -> None:
    build_index(root, "laptop")
    with (root / "reports" / "site" / "verdicts.csv").open() as file:
        rows = list(csv.DictReader(file))
    mine = [row for row in rows if (row["paper"], row["claim"]) == ("pacgen", CLAIM)]
    assert [(row["scale"], row["evidence"], row["verdict"], row["headline"]) for row in mine] == [
        ("laptop", "this machine", "inconclusive", "False"),
        ("workstation", "published", "reproduced", "True"),
        ("smoke", "published", "inconclusive", "False"),
    ]
    assert (mine[1]["estimate"], mine[1]["low"], mine[1]["n"]) == ("0.012", "0.007", "40")
    assert {row["page"] for row in mine} == {f"pacgen/{CLAIM}.html"}
    others = [row for row in rows if row["paper"] == "grokking"]
    assert {row["verdict"] for row in others} == {"not run"}
    assert len(others) == len(samples.VERDICTS)


VERDICT = Verdict("x", "X.", estimate=2.0, interval=(1.0, None), n=3, accept={"above": 0.0}, turns_without=[1])


def test_dots_lie_where_their_values_are_and_the_region_is_shaded() -> None:
    parts = [Part("0", 1.0), Part("1", 3.0), Part("2", 2.0, "seen before the rule")]
    drawing = dot_plot(parts, VERDICT, Axis(-1.0, 4.0))
    places = [float(x) for x in re.findall(r'<circle[^>]*cx="([\d.]+)"', drawing)]
    assert places[2] == pytest.approx((places[0] + places[1]) / 2, abs=0.1)
    assert drawing.count('class="seen"') == 1
    assert '<text class="turning"' in drawing
    assert re.search(rf'class="region" x="{Axis(-1.0, 4.0).place(0.0):.1f}"', drawing)
    assert "2 seeds from 1 to 3; estimate 2, interval 1 to ∞; accepted: above 0" in drawing


def test_many_dots_are_stacked_and_none_draws_nothing() -> None:
    many = [Part(str(k), k % 4) for k in range(MOST_ROWS + 1)]
    drawing = dot_plot(many, VERDICT)
    assert drawing.count("<circle") == len(many)
    assert "seed 3" not in drawing
    assert all(0 < float(x) < WIDTH for x in re.findall(r'cx="([\d.]+)"', drawing))
    assert dot_plot([], VERDICT) == ""


@pytest.mark.parametrize(("low", "high"), [(-1.0, 4.0), (0.99999, 1.00001), (1e-9, 2e-9), (-3e6, 5.0)])
def test_ticks_are_few_and_told_from_one_another(low: float, high: float) -> None:
    axis = Axis(low, high)
    assert 2 <= len(axis.ticks) <= 6
    shown = re.findall(r">([^<]+)</text>", dot_plot([Part("0", low), Part("1", high)], Verdict("x", "X.", n=2), axis))
    assert len(set(shown)) == len(shown)


def test_a_claims_page_leads_to_the_figure_that_the_story_shows_it_beside(root: Path) -> None:
    folder = root / "reports" / "site" / "pacgen"
    folder.mkdir(parents=True, exist_ok=True)
    write_verdict_pages(Evidence(root / "replications" / "pacgen", "laptop", root), folder, {CLAIM: [("fig", "a & b")]})
    assert 'Drawn in <a href="../pacgen.html#fig">a &amp; b</a>' in (folder / f"{CLAIM}.html").read_text()
    assert "Drawn in" not in (folder / "control-planted.html").read_text()
