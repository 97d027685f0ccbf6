"""The site in headless Chromium: it shows all, reads well, works by keyboard, and asks nothing of a network."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from common.reports import build_index, build_page
from common.reports.render import generator
from tests.conftest import ROOT
from tests.unit.reports import samples
from tests.workflow.browser import DESKTOP, PHONE, View, chromium, dead_links, survey, window

LARGEST_PAGE = 1_500_000
HOSTILE = '<script>window.hostile = 1; alert(1)</script><img src=x onerror="window.hostile = 1; alert(2)">'


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def sample_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with every verdict and outcome, published evidence, papers without runs, and one full of hostile text."""
    root = samples.sample_checkout(tmp_path_factory.mktemp("site"))
    samples.write_hostile(root, "hostile", HOSTILE)
    (root / "analysis" / "laptop" / "hostile" / "figures.json").unlink()  # its figure has no picture to be seen
    for path in sorted(root.glob("replications/*/paper.yaml")):
        build_page(path.parent, "laptop", root)
    build_index(root, "laptop")
    return root / "reports"


def _pages(reports: Path) -> list[Path]:
    """The index, the page of every paper, and of each paper's claims the largest and the smallest page."""
    papers = sorted((reports / "site").glob("*.html"))
    claims = [sorted(page.with_suffix("").glob("*.html"), key=lambda path: path.stat().st_size) for page in papers]
    return [reports / "index.html", *papers, *(path for of in claims if of for path in {of[0], of[-1]})]


def _built_here() -> list[Path]:
    """The pages of this checkout that were made with the site's present sources."""
    return [path for path in _pages(ROOT / "reports") if path.is_file() and generator() in path.read_text()]


@pytest.fixture(scope="module", params=["sample", "built here"] if _built_here() else ["sample"])
def views(request: pytest.FixtureRequest, browser: Browser) -> list[View]:
    """Every page at three widths, light, dark and without scripts: of the sample site, and of the report built here."""
    if request.param == "sample":
        return survey(browser, _pages(request.getfixturevalue("sample_site")))
    return survey(browser, _built_here())


@pytest.mark.parametrize("wrong", ["complaints", "faint", "nameless", "barriers"])
def test_nothing_goes_wrong_reads_badly_or_bars_anybody(views: list[View], wrong: str) -> None:
    assert {str(view): getattr(view, wrong) for view in views if getattr(view, wrong)} == {}


def test_a_page_loads_nothing_but_files_beside_it(views: list[View]) -> None:
    for view in views:
        assert view.requests[0] == view.path.as_uri()
        beside = (view.path.parent.as_uri() + "/", "data:")
        assert [address for address in view.requests if not address.startswith(beside)] == []


def test_every_figure_is_visible(views: list[View]) -> None:
    figures = [(str(view), figure) for view in views for figure in view.figures]
    assert figures
    hidden = [(view, f) for view, f in figures if not f["drawn"] or f["width"] < 150 or f["height"] < 80]
    assert hidden == []


def test_every_link_leads_somewhere(views: list[View]) -> None:
    assert any(view.links for view in views)
    dead = {view.path.name: dead_links(view) for view in views if view.size == PHONE and view.scheme == "light"}
    assert {name: links for name, links in dead.items() if links} == {}


def test_no_page_is_wider_than_its_window(views: list[View]) -> None:
    assert {str(view): view.width for view in views if view.width > view.size[0]} == {}


def test_a_page_is_small(views: list[View]) -> None:
    sizes = {view.path.name: view.path.stat().st_size for view in views}
    assert {name: size for name, size in sizes.items() if size > LARGEST_PAGE} == {}


@pytest.fixture
def index(browser: Browser, sample_site: Path) -> Iterator[Page]:
    """The index of the sample site in a fresh window."""
    with window(browser) as page:
        page.goto((sample_site / "index.html").as_uri())
        yield page


def shown(page: Page) -> int:
    return page.locator(".entry:visible").count()


def test_search_and_filters_narrow_the_claims_and_say_how_many_are_left(index: Page) -> None:
    everything, output = shown(index), index.locator(".filters output")
    expect(output).to_contain_text(f"{everything} claims")
    index.get_by_role("searchbox").fill("largest BATCH gap")
    assert shown(index) == index.locator(".entry", has_text="The largest batch has the largest gap.").count()
    assert 0 < shown(index) < everything
    expect(output).to_contain_text(f"{shown(index)} of {everything} claims")
    index.get_by_role("searchbox").fill("no claim says this")
    assert shown(index) == 0
    expect(index.get_by_text("No claim fits.")).to_be_visible()
    index.get_by_role("searchbox").fill("")

    index.get_by_role("checkbox", name="contradicted").check()
    contradicted = shown(index)
    assert contradicted == index.locator(".entry[data-verdict=contradicted]").count() > 0
    index.get_by_role("checkbox", name="not run").check()
    either = shown(index)
    assert either > contradicted
    index.get_by_role("combobox", name="Replication").select_option("pacgen")
    assert 0 < shown(index) < either
    assert set(index.locator(".entry:visible").evaluate_all("all => all.map(e => e.dataset.paper)")) == {"pacgen"}
    index.get_by_role("combobox", name="Replication").select_option("")
    index.get_by_role("checkbox", name="contradicted").uncheck()
    index.get_by_role("checkbox", name="not run").uncheck()

    index.get_by_role("combobox", name="Whose").select_option("Our hypotheses")
    assert 0 < shown(index) == index.locator(".entry", has=index.get_by_text("our hypothesis", exact=True)).count()


def test_a_count_at_the_head_leads_to_as_many_claims(index: Page) -> None:
    counts = index.locator(".legend a")
    assert counts.count() == 5
    for count in counts.all():
        count.click()
        assert shown(index) == int(count.locator("strong").inner_text())


def test_a_search_without_a_full_match_shows_what_has_most_of_its_words(index: Page) -> None:
    index.get_by_role("searchbox").fill("largest batches gap terribly")
    closest = index.locator(".entry", has_text="The largest batch has the largest gap.").count()
    expect(index.locator(".filters output")).to_contain_text("with 3 of the 4 words")
    assert shown(index) >= closest > 0
    index.get_by_role("searchbox").fill("entirely elsewhere")
    assert shown(index) == 0


def test_a_search_begins_with_what_we_find_on_it(index: Page) -> None:
    answers, search = index.locator(".answers"), index.get_by_role("searchbox")
    expect(answers).to_be_hidden()
    before = index.locator(".entry").evaluate_all("all => all.map(e => e.textContent)")
    search.fill("ranks correlate")
    expect(answers.locator(".answer:visible")).to_contain_text(["Larger batches give a larger metric"])
    expect(answers.get_by_role("link").first).to_have_attribute("href", "site/pacgen.html#gist")
    index.get_by_role("checkbox", name="contradicted").check()
    expect(answers).to_be_hidden()
    index.get_by_role("checkbox", name="contradicted").uncheck()
    search.fill("")
    assert index.locator(".entry").evaluate_all("all => all.map(e => e.textContent)") == before


def test_a_dark_screen_prints_on_white(browser: Browser, sample_site: Path) -> None:
    with window(browser, scheme="dark") as page:
        page.goto((sample_site / "index.html").as_uri())
        colour = "getComputedStyle(document.body).backgroundColor"
        assert page.evaluate(colour) == "rgb(17, 21, 26)"
        page.emulate_media(media="print")
        assert page.evaluate(colour) == "rgb(255, 255, 255)"
        assert page.locator(".picture").first.evaluate("e => getComputedStyle(e).filter") == "none"


def test_the_ledger_can_show_fragile_verdicts_alone(index: Page) -> None:
    index.get_by_role("checkbox", name="fragile").check()
    assert shown(index) == index.locator(".entry[data-fragile]").count() > 0
    listed = index.locator("details.fragile")
    listed.locator("summary").click()
    expect(listed.locator("li").first).to_contain_text("seed")


def test_what_is_known_and_the_first_card_begin_on_the_first_screen(index: Page) -> None:
    known = index.locator("#synthesis").bounding_box()
    assert known["y"] + known["height"] <= DESKTOP[1]
    assert known["y"] + known["height"] <= index.locator(".card").first.bounding_box()["y"] <= DESKTOP[1]


def test_the_index_prints_without_controls_and_fits_the_sheet(index: Page) -> None:
    index.emulate_media(media="print")
    index.set_viewport_size({"width": 718, "height": 1000})  # A4 within its margins
    assert index.locator("form.filters").is_hidden()
    assert index.evaluate("document.documentElement.scrollWidth") <= 718


@pytest.mark.parametrize("name", ["pacgen.html", "pacgen/fig3-gap-and-metric-agree.html"])
def test_a_printed_page_fits_the_sheet(browser: Browser, sample_site: Path, name: str) -> None:
    with window(browser, (718, 1000)) as page:
        page.goto((sample_site / "site" / name).as_uri())
        page.emulate_media(media="print")
        assert page.evaluate("document.documentElement.scrollWidth") <= 718


def test_a_line_of_the_ledger_leads_to_the_claims_page_with_seeds_rule_and_command(index: Page) -> None:
    entry = index.locator(".entry[data-paper=pacgen]", has_text="Larger batches give a larger gap").first
    entry.get_by_role("link").click()
    assert index.url.endswith("site/pacgen/fig3-gap-and-metric-agree.html")
    assert index.locator("svg.seeds circle").count() == 5
    assert index.locator("svg.seeds").first.bounding_box()["width"] > 300
    expect(index.locator("main")).to_contain_text("0.83 (95 % interval 0.61 to 1, n = 5)", use_inner_text=True)
    for text in ("above 0", "kind: correlation", "replicate run pacgen/batch_size --scale laptop", "@misc{pacgen:fig3"):
        expect(index.locator("main")).to_contain_text(text, use_inner_text=True)
    index.get_by_role("link", name="D1").click()
    assert index.url.endswith("site/pacgen.html#D1")


def test_searching_finds_signs_however_they_are_written(index: Page) -> None:
    index.get_by_role("searchbox").fill("n = 40")
    one = shown(index)
    index.get_by_role("searchbox").fill("N = ⁴⁰")
    assert shown(index) == one > 0


def test_a_figure_is_found_however_its_number_is_written(index: Page) -> None:
    index.get_by_role("searchbox").fill("fig3")
    named = shown(index)
    of_figure = ".entry[data-words*='Fig. 3']"
    assert index.locator(f"{of_figure}:visible").count() == index.locator(of_figure).count() > 0
    for words in ("Fig. 3", "figure 3"):
        index.get_by_role("searchbox").fill(words)
        assert shown(index) == named
    index.get_by_role("searchbox").fill("figure 30")
    assert shown(index) == 0


FOCUSED = "(e => [e.name ? `${e.name} ${e.value}`.trim() : e.localName, e.href])(document.activeElement)"
RING = "(e => getComputedStyle(e.closest('.chip') ?? e).outlineStyle)(document.activeElement)"


def test_the_index_works_by_keyboard_alone(index: Page) -> None:
    order: list[str] = []
    links: list[str] = []
    while "whose" not in order and len(order) < 60:
        index.keyboard.press("Tab")
        name, link = index.evaluate(FOCUSED)
        order.append(name)
        links.append(link)
        assert index.evaluate(RING) == "solid", f"{name} does not show that it has the focus"
        if name == "verdict contradicted":
            index.keyboard.press("Space")
    assert links[0].endswith("#main")
    assert any(link and link.endswith("site/pacgen.html") for link in links)
    verdicts = ["reproduced", "contradicted", "inconclusive", "not-decidable", "not-run"]
    assert order[-9:] == ["words", *(f"verdict {name}" for name in verdicts), "fragile on", "paper", "whose"]
    assert shown(index) == index.locator(".entry[data-verdict=contradicted]").count() > 0
    index.keyboard.press("Tab")
    index.keyboard.press("Enter")
    index.wait_for_url("**/site/pacgen/fig3-given-training-loss.html")


def test_labels_of_verdicts_stand_on_one_line(index: Page) -> None:
    heights = index.locator(".badge:visible").evaluate_all("all => all.map(e => e.getBoundingClientRect().height)")
    assert len(heights) > 10
    assert max(heights) < 1.5 * min(heights)


@pytest.mark.parametrize("name", ["index.html", "site/hostile.html"])
def test_hostile_text_stays_text(browser: Browser, sample_site: Path, name: str) -> None:
    with window(browser) as page:
        page.on("dialog", lambda dialog: pytest.fail(f"a dialog opened: {dialog.message}"))
        page.goto((sample_site / name).as_uri())
        assert page.evaluate("window.hostile") is None
        assert page.get_by_text(HOSTILE).first.is_visible()
        assert page.locator("img[src=x]").count() == 0


def test_the_site_reads_without_its_script(browser: Browser, sample_site: Path) -> None:
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto((sample_site / "index.html").as_uri())
    expect(page.locator("form.filters")).to_be_hidden()
    assert page.locator(".entry").count() == shown(page) > 0
    page.goto((sample_site / "site" / "pacgen" / "fig3-gap-and-metric-agree.html").as_uri())
    page.locator(".side summary").first.click()
    expect(page.locator(".side .values").first).to_be_visible()
    context.close()


@pytest.fixture
def seeds(browser: Browser, sample_site: Path) -> Iterator[Locator]:
    """A figure of two panels, a line a seed, on a paper's page in a fresh window."""
    with window(browser) as page:
        page.goto((sample_site / "site" / "pacgen.html").as_uri())
        page.locator("#figures summary").click()
        figure = page.locator("#figure-batch_size-seeds svg[data-plot]")
        figure.scroll_into_view_if_needed()
        yield figure


LAST_POINT = """e => {
  const last = e.getPointAtLength(e.getTotalLength());
  const {x, y} = new DOMPoint(last.x, last.y).matrixTransform(e.getScreenCTM());
  return [x, y];
}"""


def test_the_pointer_shows_the_value_and_its_seed_in_every_panel(seeds: Locator) -> None:
    page, line = seeds.page, seeds.locator("path[data-seed='3']").first
    page.mouse.move(*line.evaluate(LAST_POINT))
    shown = page.locator(".tip > div").all_inner_texts()
    assert shown[:2] == ["batch 64, seed 3", "epoch: 10"]
    rows = samples.batch_size_records().query("batch_size == 64 and seed == 3 and epoch == 10")
    name, value = shown[2].split(": ")
    assert name == "gap"
    assert float(value) == pytest.approx(rows["gap"].item(), abs=1e-3)
    near = seeds.locator(".near").evaluate_all("all => all.map(e => e.dataset.seed)")
    assert near == ["3"] * 6
    expect(seeds.locator(".ring")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator(".tip")).to_be_empty()
    expect(seeds.locator(".ring, .near")).to_have_count(0)


def test_a_legend_hides_arms_on_the_screen_and_none_on_paper(seeds: Locator) -> None:
    entry, lines = seeds.get_by_role("button", name="batch 256"), seeds.locator("path[data-seed]")
    everything = lines.count()
    assert everything == 30
    entry.click()
    expect(entry).to_have_attribute("aria-pressed", "false")
    assert lines.locator("visible=true").count() == everything - 10
    seeds.page.emulate_media(media="print")
    assert lines.locator("visible=true").count() == everything
    seeds.page.emulate_media(media="screen")
    entry.click()
    assert lines.locator("visible=true").count() == everything


def test_a_legend_works_by_keyboard(seeds: Locator) -> None:
    page = seeds.page
    seeds.get_by_role("button", name="batch 64").focus()
    page.keyboard.press("ArrowDown")
    expect(seeds.get_by_role("button", name="batch 256")).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.locator(".tip > div").all_inner_texts()[:2] == ["batch 256, seed 0", "epoch: 2"]
    page.keyboard.press("Enter")
    expect(seeds.get_by_role("button", name="batch 256")).to_have_attribute("aria-pressed", "false")
    assert seeds.locator("[tabindex='0']").count() == 1
