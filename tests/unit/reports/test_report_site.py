"""The site: what a page and the index say, that they load nothing, and that what is missing is named."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from common.errors import UserError
from common.reports import build_index, build_page, open_paper
from common.reports.drawing import CLASSES
from tests.unit.reports import samples
from tests.unit.reports.pages import Outline, copy, outline

LIMIT = 1_500_000
HOSTILE = '<script>alert("x")</script><img src=x onerror=alert(1)>'


def page_of(root: Path) -> Path:
    return build_page(root / "replications" / "pacgen", "laptop", root)


@pytest.fixture(scope="module")
def page(checkout: Path) -> Path:
    return page_of(checkout)


@pytest.fixture(scope="module")
def index(checkout: Path, page: Path) -> Path:
    return build_index(checkout, "laptop")


def entry_of(index: Path, statement: str) -> str:
    """The line of the ledger that holds a statement, of the paper that was run."""
    lines = index.read_text().split('<li class="entry ')[1:]
    return next(line for line in lines if statement in line and "pacgen" in line)


def test_pages_lie_where_the_contract_says(checkout: Path, page: Path, index: Path) -> None:
    assert page == checkout / "reports" / "site" / "pacgen.html"
    assert index == checkout / "reports" / "index.html"


def test_how_a_page_is_read_lies_beside_the_pages_where_the_checkout_says_it(checkout: Path, tmp_path: Path) -> None:
    root = copy(checkout, tmp_path)
    assert "how-to-read" not in page_of(root).read_text() + build_index(root, "laptop").read_text()
    (root / "docs").mkdir()
    (root / "docs" / "read-a-report.md").write_text(
        "# Reading\n\nSee [the form](../form.yml), [a site](https://a.b).\n"
    )
    assert '<a href="how-to-read.html">' in page_of(root).read_text()
    assert '<a href="site/how-to-read.html">' in build_index(root, "laptop").read_text()
    guide = (root / "reports" / "site" / "how-to-read.html").read_text()
    assert "<h1>Reading</h1>" in guide
    assert "See the form, <a" in guide
    assert "form.yml" not in guide


def test_pages_are_well_formed_with_unique_ids_and_forbid_what_lies_elsewhere(page: Path, index: Path) -> None:
    for path in (page, index):
        ids = list(outline(path).attributes("id"))
        assert len(ids) == len(set(ids))
        assert "default-src 'none'" in path.read_text()


def test_a_page_shows_every_claim_with_statement_estimate_interval_n_verdict_and_reason(page: Path) -> None:
    text = outline(page).text
    for judged in samples.VERDICTS:
        assert judged["statement"].split("$")[0].strip() in text
        seen_in_the_drawing = judged["verdict"] == "reproduced"
        assert seen_in_the_drawing or judged["reason"] in text
    assert "0.83 (0.61 to 1 at 95 %, five seeds)" in text
    assert "0.97 to ∞" in text
    assert "reported: 1.02" in text
    labels = list(outline(page).attributes("aria-label"))
    assert "estimate 0.83, interval 0.61 to 1, accepted: above 0" in labels


def test_a_page_begins_with_its_question_and_findings_by_how_far_to_believe_them(page: Path) -> None:
    html, text = page.read_text(), outline(page).text
    assert "<h1>Does the metric follow the gap?</h1>" in html
    gist = Outline("<main>" + html.split('id="gist"')[1].split(">", 1)[1].split("</section>")[0] + "</main>")
    assert "their ranks correlate by 0.83 (0.61 to 1 at 95 %, five seeds)." in gist.text
    assert gist.text.index("Believe") < gist.text.index("Not supported")
    assert {"#claim-fig3-gap-and-metric-agree", "#claim-floor-dominates"} <= set(gist.attributes("href"))
    changed = "it says 'believe', but fig1-bounds-similar is not decidable at this scale"
    assert f"The verdicts have changed since this was written: {changed}." in gist.text
    assert "Identifying Generalization Properties in Neural Networks" in text


def test_a_figure_of_a_finding_is_shown_at_the_top_without_its_bytes(checkout: Path, tmp_path: Path) -> None:
    root = copy(checkout, tmp_path)
    shutil.rmtree(root / "reports" / "published" / "workstation" / "pacgen")
    html = page_of(root).read_text()
    assert html.count('id="figure-batch_size-fig3-drawing"') == 1
    assert '<use href="#figure-batch_size-fig3-drawing"/>' in html.split('id="story"')[0]


def test_beside_a_finding_stands_the_figure_of_the_largest_scale(page: Path) -> None:
    assert 'href="#figure-batch_size-fig3"' in page.read_text().split('id="story"')[0]
    published = page.parents[1] / "published" / "workstation" / "pacgen"
    drawn = next(path for path in published.rglob("*.svg") if "fig3" in path.name)
    assert (page.parent / "pacgen" / "batch_size-fig3.svg").read_bytes() == drawn.read_bytes()


def test_a_figure_has_its_verdicts_beside_it(page: Path) -> None:
    card = page.read_text().split('id="figure-batch_size-fig3"')[1].split("</figure>")[0]
    assert 'href="#claim-fig3-given-training-loss"' in card
    assert "<strong>Fig. 3 · gap &amp; metric</strong>" in card
    assert "−0.12 (−0.31 to 0.07 at 95\u00a0%, five seeds; asked: above 0.3)" in card


def test_a_verdict_of_another_scale_than_its_figure_says_so(page: Path) -> None:
    card = page.read_text().split('id="figure-batch_size-fig3"')[1].split("</figure>")[0]
    verdict = card.split('href="#claim-fig3-given-training-loss"')[1].split("</li>")[0]
    assert "judged at laptop scale, figure of workstation scale" in verdict
    assert card.count("judged at") == 1


def test_claims_of_the_document_come_first_theorems_and_arithmetic_last(fresh: Callable[..., Path]) -> None:
    root = fresh()
    claim, control, ours = samples.VERDICTS[0], samples.VERDICTS[-2], samples.VERDICTS[-1]
    theorem = samples.VERDICTS[1] | {"nature": "theorem"}
    keys = ("id", "statement", "polarity", "nature", "experiment", "source", "decidable_from")
    written = [{key: one[key] for key in keys} for one in (theorem, control, ours, claim)]
    samples.write_yaml(root / "replications" / "pacgen" / "claims.yaml", written)
    html = page_of(root).read_text()
    places = [
        'id="claims"', "claim-fig3-gap", 'id="findings"', "claim-floor", "claim-control-planted", 'id="provenance"',
        'id="appendix"', "claim-fig3-given",
    ]  # fmt: skip
    assert sorted(places, key=html.index) == places


def test_the_index_has_a_card_a_replication_what_we_know_and_a_line_a_claim(index: Path) -> None:
    found, html = outline(index), index.read_text()
    assert "Does the metric follow the gap?" in found.text
    assert "Believe: Larger batches give a larger metric: their ranks correlate by 0.83" in found.text
    assert any('<image href="site/pacgen/batch_size-fig3.svg"' in card for card in html.split('class="picture"')[1:])
    known = html.split('id="synthesis"')[1].split("</section>")[0]
    assert "With care:" in known
    assert 'href="site/pacgen.html#figure-batch_size-fig3"' in known
    assert '<image href="site/pacgen/batch_size-fig3.svg"' in known
    assert 'href="site/pacgen/fig3-gap-and-metric-agree.html"' in known
    assert html.count('<li class="entry ') == 3 * len(samples.VERDICTS)


def test_the_index_lists_what_turns_without_which_seed(index: Path, fresh: Callable[..., Path]) -> None:
    html = index.read_text()
    listed = html.split('<details class="fragile">')[1].split("</details>")[0]
    assert "1 fragile verdict: what turns without which seed" in listed
    assert "pacgen: seeds 1, 3, <i>n</i> = 5, laptop scale" in listed
    assert html.count('<li class="entry contradicted" data-verdict="contradicted" data-fragile ') == 1
    assert "what turns without" not in build_index(fresh(), "laptop").read_text()


def test_the_index_leads_to_the_page_of_a_claim_where_there_is_one(checkout: Path, tmp_path: Path) -> None:
    root = copy(checkout, tmp_path)
    page = root / "reports" / "site" / "pacgen" / "floor-dominates.html"
    page_of(root)
    page.write_text("<p>floor</p>")
    page_of(root)
    assert page.is_file()
    assert 'href="pacgen/floor-dominates.html"' in page_of(root).read_text()
    assert 'href="site/pacgen/floor-dominates.html"' in build_index(root, "laptop").read_text()


def test_a_page_shows_story_figures_deviations_coverage_outcomes_provenance_and_cost(page: Path) -> None:
    found = outline(page)
    for expected in (
        "What the metric sees",
        "2,000 training images instead of 60,000.",
        "the maximum varies by a factor of 4",
        "14 completed",
        "1 diverged",
        "the loss was NaN in epoch 7",
        "10 data unavailable",
        samples.COMMIT,
        samples.DIGEST,
        "torch 2.13.0",
        "cpu (2 threads)",
        "2 min 51 s",
        "2 min 30 s (1 min 15 s to 5 min 0 s)",
        "812 MB",
        "make reports SCALE=laptop",
    ):
        assert expected in found.text, expected
    assert page.read_text().count("<figure ") == 6  # with this machine's of one published at a larger scale
    assert len([tag for tag, attributes in found.elements if tag == "svg" and "viewbox" in attributes]) >= 4


def test_a_figure_that_the_story_shows_is_not_shown_again(page: Path) -> None:
    ids = list(outline(page).attributes("id"))
    assert ids.count("figure-batch_size-fig3") == 1
    html = page.read_text()
    assert html.index('id="figure-batch_size-fig3"') < html.index('id="figures"') < html.index('id="figure-toy-fig1"')


def test_figures_follow_the_colours_of_the_page(page: Path) -> None:
    drawing = page.read_text().split('id="figure-batch_size-fig3"')[1].split("</figure>")[0]
    assert f'class="{CLASSES["fill:var(--figure-ink)"]}"' in drawing
    assert "var(--figure-blue)" in drawing
    assert "#1d2530" not in drawing


def test_the_files_of_a_figure_and_the_notebook_lie_beside_the_page(page: Path) -> None:
    beside = page.with_suffix("")
    names = {path.name for path in beside.iterdir()}
    assert {f"laptop-batch_size-fig3.{kind}" for kind in ("svg", "png", "csv")} | {"report.ipynb"} <= names
    cells = json.loads((beside / "report.ipynb").read_text())["cells"]
    assert any(cell.get("outputs") for cell in cells)


def test_published_evidence_of_the_largest_scale_stands_beside_the_live_verdict(page: Path, index: Path) -> None:
    claim = page.read_text().split('id="claim-fig3-largest-batch-is-worst"')[1].split("</tbody>")[0]
    text = Outline(claim.split(">", 1)[1]).text
    assert "inconclusive" in text
    assert "this machine, laptop scale" in text
    assert "reproduced" in text
    assert f"published, workstation scale, commit {samples.PUBLISHED_COMMIT[:10]}" in text
    assert "smoke" not in text
    assert 'data-verdict="reproduced"' in entry_of(index, "The largest batch")
    assert "judged at workstation and laptop scale" in outline(page).text
    assert "· workstation and laptop scale" in outline(index).text


def test_a_published_verdict_of_a_smaller_scale_does_not_replace_the_live_one(index: Path) -> None:
    assert 'data-verdict="reproduced"' in entry_of(index, "Larger batches")


def test_the_index_counts_claims_by_verdict_and_lists_papers_not_yet_run(index: Path) -> None:
    text = outline(index).text
    assert "3 reproduced, 1 contradicted, 1 not decidable at this scale and 1 not run" in text
    assert text.count("not yet run") == 2
    assert "1 of 1 as expected" in text
    assert "workstation" in text


def test_building_twice_gives_equal_pages(checkout: Path, tmp_path: Path) -> None:
    root = copy(checkout, tmp_path)
    built = [page_of(root).read_bytes() for _ in range(2)]
    assert built[0] == built[1]
    assert build_index(root, "laptop").read_bytes() == build_index(root, "laptop").read_bytes()


def test_files_of_figures_that_are_gone_are_removed(checkout: Path, tmp_path: Path) -> None:
    root = copy(checkout, tmp_path)
    page_of(root)
    entries = json.loads((root / "analysis" / "laptop" / "pacgen" / "figures.json").read_text())
    samples.write_json(root / "analysis" / "laptop" / "pacgen" / "figures.json", entries[:1])
    page_of(root)
    beside = (root / "reports" / "site" / "pacgen").iterdir()
    names = {path.name for path in beside if path.suffix not in (".html", ".pdf")}
    assert names == {f"laptop-batch_size-fig3.{kind}" for kind in ("svg", "png", "csv")} | {"batch_size-fig3.svg"}


def test_runs_whose_reasons_differ_in_numbers_alone_are_listed_together(fresh: Callable[..., Path]) -> None:
    root = fresh()
    reasons = ["loss 1.2e+12 at step 3", "loss 4.5e+11 at step 17", "no batch fits"]
    runs = [
        {"experiment": "toy", "run": f"seed={seed}", "outcome": "diverged", "reason": reason}
        for seed, reason in enumerate(reasons)
    ]
    samples.write_json(root / "analysis" / "laptop" / "pacgen" / "runs.json", runs)
    text = outline(page_of(root)).text
    assert "diverged toy : for example: loss 1.2e+12 at step 3 2 runs" in text
    assert "seed=1: loss 4.5e+11 at step 17" in text
    assert "diverged toy : no batch fits 1 run" in text


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    samples.write_hostile(tmp_path, "hostile", HOSTILE)
    for path in (
        build_page(tmp_path / "replications" / "hostile", "laptop", tmp_path),
        build_index(tmp_path, "laptop"),
    ):
        found = outline(path)
        assert HOSTILE in found.text
        scripts = [tag for tag, _ in found.elements if tag == "script"]
        assert len(scripts) == 1
        assert not list(found.attributes("onerror"))
        assert not [a for tag, a in found.elements if tag == "img" and a.get("src") == "x"]


def test_a_paper_without_any_analysis_has_a_readable_page(fresh: Callable[..., Path]) -> None:
    root = fresh()
    text = outline(page_of(root)).text
    assert "No run of this paper has been analysed at laptop scale yet." in text
    assert text.count("no run of this claim has been analysed yet") == len(samples.VERDICTS)


def test_an_index_without_papers_says_so(tmp_path: Path) -> None:
    assert "There are no replications yet." in outline(build_index(tmp_path, "laptop")).text


def test_large_figures_are_loaded_as_files_so_that_a_page_stays_small(fresh: Callable[..., Path]) -> None:
    root = fresh()
    folder = root / "analysis" / "laptop" / "pacgen"
    entries = []
    for number in range(8):
        points = "".join(f"<path d='M{number} {step}' id='p{step}'/>" for step in range(9000 - 500 * number))
        (folder / "figures").mkdir(parents=True, exist_ok=True)
        (folder / "figures" / f"f{number}.svg").write_text(f'<svg viewBox="0 0 400 300">{points}</svg>')
        entries.append(
            {"experiment": "toy", "name": f"f{number}", "title": f"F{number}", "svg": f"figures/f{number}.svg"}
        )
    samples.write_json(folder / "figures.json", entries)
    page = page_of(root)
    assert page.stat().st_size < LIMIT
    pictures = [a["src"] for tag, a in outline(page).elements if tag == "img"]
    assert "pacgen/toy-f0.svg" in pictures
    assert "pacgen/toy-f7.svg" not in pictures


def metrics_of(root: Path) -> object:
    return open_paper("pacgen", "laptop").metrics("toy")


@pytest.mark.parametrize(
    ("name", "content", "sentence", "read"),
    [
        ("verdicts.json", '[{"id": "a"}]', r"verdicts.json: entry 0.statement: Field required", page_of),
        (
            "verdicts.json",
            '[{"id": "a", "statement": "s", "verdict": "maybe"}]',
            r"verdicts.json: entry 0.verdict",
            page_of,
        ),
        ("runs.json", "{", r"runs.json:1: not JSON", page_of),
        ("metrics.json", "[]", r"metrics.json: Input should be a valid dictionary", metrics_of),
    ],
)
def test_a_broken_file_of_the_analysis_is_named(
    name: str,
    content: str,
    sentence: str,
    read: Callable[[Path], object],
    fresh: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = fresh()
    folder = root / "analysis" / "laptop" / "pacgen"
    folder.mkdir(parents=True)
    (folder / name).write_text(content)
    monkeypatch.setenv("REPLICATIONS_ROOT", str(root))
    with pytest.raises(UserError, match=sentence):
        read(root)


def test_a_slip_in_paper_yaml_is_named_with_its_line(fresh: Callable[..., Path]) -> None:
    root = fresh(coverage=[{"item": "Fig. 1", "status": "replicate"}])
    with pytest.raises(UserError, match=r"paper.yaml:\d+: coverage.Fig. 1.status"):
        build_index(root, "laptop")


def test_claims_that_only_claims_yaml_knows_are_listed_as_not_run(fresh: Callable[..., Path]) -> None:
    root = fresh()
    samples.write_json(root / "analysis" / "laptop" / "pacgen" / "verdicts.json", samples.VERDICTS)
    path = root / "replications" / "pacgen" / "claims.yaml"
    samples.write_yaml(path, [{"id": "new", "statement": "A claim written down today."}])
    text = outline(build_index(root, "laptop")).text
    assert "not run A claim written down today." in text
    assert "Larger batches" in text


def test_an_unknown_field_of_the_analysis_does_not_break_the_page(fresh: Callable[..., Path]) -> None:
    root = fresh()
    extra: list[dict[str, Any]] = [samples.VERDICTS[0] | {"estimator_error": 0.1}]
    samples.write_json(root / "analysis" / "laptop" / "pacgen" / "verdicts.json", extra)
    assert page_of(root).is_file()
