"""Numbers, prose, mathematics, drawings and the cleaning of HTML."""

import math
import re
from typing import Any
from xml.etree import ElementTree

import pytest

from common.claims.verdicts import Verdict
from common.figures.style import FACE, GRID, INK, MUTED, PALETTE
from common.reports.drawing import PAGE_COLOURS, accepted_text, inline_svg, interval_drawing, slug, thumbnail
from common.reports.render import TEMPLATES
from common.reports.sanitise import sanitised
from common.reports.text import (
    brief,
    duration,
    first_sentence,
    interval_text,
    markdown,
    math_to_mathml,
    memory,
    number,
    prose,
    ranges,
    shared_beginning,
    with_names,
    without_exponents,
)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (5, "5"),
        (21840, "21\u202f840"),
        (0.83, "0.83"),
        (-0.5, "−0.5"),
        (0.00123456, "0.00123"),
        (1234.5, "1234"),
        (-82261.4, "−82\u202f300"),
        (101234.0, "101\u202f000"),
        (0.9996, "1"),
        (1.2e-7, "1.2 × 10⁻⁷"),
        (-3.456e12, "−3.46 × 10¹²"),
        (math.inf, "∞"),
        (math.nan, "not a number"),
        (None, "—"),
        ("1 of 1", "1 of 1"),
        (1e-300, "10⁻³⁰⁰"),
    ],
)
def test_numbers_are_written_to_three_digits(value: object, shown: str) -> None:
    assert number(value) == shown


def test_a_thumbnail_shows_the_first_row_of_panels_without_the_legend_above_and_the_row_below() -> None:
    clip = '<clipPath id="{}"><rect x="{}" y="{}" width="100" height="80"/></clipPath>'
    panels = [("a", 50, 90), ("b", 200, 90), ("c", 50, 230)]
    drawing = f'<svg viewBox="0 0 400 350">{"".join(clip.format(*panel) for panel in panels)}</svg>'
    shown = thumbnail(drawing, "site/a.svg", "A & B")
    assert 'viewBox="0 70 310 132"' in shown
    assert '<image href="site/a.svg" x="0" y="0" width="400" height="350"/>' in shown
    assert 'aria-label="A &amp; B"' in shown
    assert 'viewBox="0 0 400 350"' in thumbnail('<svg viewBox="0 0 400 350"></svg>', "a.svg", "A")


def test_a_thumbnail_keeps_the_names_at_the_left_and_a_title_of_two_lines() -> None:
    panel = '<clipPath id="a"><rect x="150" y="90" width="100" height="80"/></clipPath>'
    texts = (
        '<text x="145" y="100" style="text-anchor:end">training loss, in nats</text>',
        '<text x="150.05" y="52">of the legend</text>',
        '<text style="fill:#000" transform="translate(150 66.5)">Gap by</text><text x="150" y="84">method</text>',
    )
    shown = thumbnail(f'<svg viewBox="0 0 400 350">{panel}{"".join(texts)}</svg>', "a.svg", "A")
    assert 'viewBox="0 54.5 260 147.5"' in shown


def test_sentences_have_no_exponents() -> None:
    assert without_exponents("[−2.12e+05, 1e-09] at e5 seeds") == "[−212\u202f000, 10⁻⁹] at e5 seeds"


def test_no_line_begins_with_a_dash_between_words() -> None:
    assert prose("test − training – both, 3 - 2") == "test\u00a0− training\u00a0– both, 3 - 2"


def test_durations_memory_and_intervals_read_as_people_write_them() -> None:
    assert [duration(seconds) for seconds in (0.01, 4.21, 59.6, 200, 7500, None)] == [
        "< 0.1 s",
        "4.2 s",
        "60 s",
        "3 min 20 s",
        "2 h 5 min",
        "—",
    ]
    assert [memory(value) for value in (310.4, 2100, None)] == ["310 MB", "2.1 GB", "—"]
    assert [interval_text(bounds) for bounds in ((0.1, 0.3), (None, 2.0), (1.0, None), None)] == [
        "0.1 to 0.3",
        "−∞ to 2",
        "1 to ∞",
        "—",
    ]


def test_prose_keeps_emphasis_and_mathematics_and_escapes_the_rest() -> None:
    html = prose("*SGD* finds $\\lambda_1$ < 2 & <em>it</em>")
    assert "<em>SGD</em>" in html
    assert "<math" in html
    assert "&lt; 2 &amp; &lt;em&gt;it" in html


def test_what_statements_begin_with_together_is_said_once() -> None:
    setting = "Modulo 97, with one layer (D2), "
    assert shared_beginning([f"{setting}noise calms, too.", f"{setting}decay does not."]) == setting.strip()
    assert shared_beginning([f"{setting}noise calms.", "On images noise calms."]) == ""
    assert shared_beginning([f"{setting}noise calms."]) == ""
    assert shared_beginning(["At 5 %, it falls.", "At 5 %, it rises."]) == ""
    inside = "On the large network (thin, with a"
    assert shared_beginning([f"{inside} b), it falls.", f"{inside} c), it rises."]) == ""


def test_a_card_says_the_first_sentence_of_the_answer() -> None:
    first = "Much less, at 0.5 (Liao et al. have more)."
    assert first_sentence(f"{first}\nNo bound holds.") == first
    assert first_sentence("Not yet") == "Not yet"


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("It falls (worse of two; see (8)), by 2(1 + β)/((1 + 2β)η) (D3).", "It falls, by 2(1 + β)/((1 + 2β)η)."),
        ("On graphs (D8) it lies below (unlimited, D5), f(D3).", "On graphs it lies below (unlimited), f(D3)."),
        ("On images (D1 to D3, D5) it falls.", "On images it falls."),
        ("On images (D2, D5; decay 1) it falls (at η; D4).", "On images (decay 1) it falls (at η)."),
        ("SGD (all of them do) and f(x)", "SGD and f(x)"),
        ("On graphs (ReLU; on 60 of all 100) it falls (ours; mean over seeds).", "On graphs (ReLU) it falls."),
        ("With 2 (a − the printed trace) it falls.", "With 2 (a − the printed trace) it falls."),
        ("It lies below (activations limited to 1, D5), always.", "It lies below (activations limited to 1), always."),
        ("On molecules (laptop scale; workstation: films and actors; D2) it falls.", "On molecules it falls."),
        ("never closed (as it is", "never closed (as it is"),
    ],
)
def test_a_statement_in_brief_leaves_out_remarks_and_keeps_formulas(statement: str, said: str) -> None:
    assert brief(statement) == said


def test_a_statement_in_brief_names_the_data_of_its_verdict() -> None:
    of_both = "molecules (laptop scale; workstation: films, actors; D2)"
    inside = "molecules (workstation: films, actors)"
    assert brief(f"On {of_both} it falls.", "workstation") == f"On {inside} it falls."
    assert brief(f"All (means over {of_both}; all runs).", "workstation") == "All (workstation: films, actors)."
    assert brief("It falls (workstation scale: 500 images of one film, D2).", "workstation") == "It falls."


def test_names_of_metrics_and_axes_are_code() -> None:
    said = with_names("Mean of final_loss < 1 at batch_size=64, arm=none")
    assert said == "Mean of <code>final_loss</code> &lt; 1 at <code>batch_size=64</code>, <code>arm=none</code>"


def test_seeds_are_written_as_ranges() -> None:
    assert ranges([3, 0, 1, 2, 7, 9, 10]) == "0 to 3, 7, 9, 10"
    assert ranges([]) == ""


def test_prices_and_names_with_underscores_are_not_mathematics_or_emphasis() -> None:
    assert prose("costs 5$ or 6$ in large_decay_nso") == "costs 5$ or 6$ in large_decay_nso"
    assert "<em>" not in prose("‖G‖_F is at most 2 ‖θ‖²_{2,√d}")


@pytest.mark.parametrize("source", ["\\text{<script>alert(1)</script>}", "\\text{<img src=x onerror=alert(1)>}"])
def test_mathematics_brings_in_no_other_elements(source: str) -> None:
    html = math_to_mathml(source)
    assert "<script" not in html
    assert "<img" not in html


@pytest.mark.parametrize(
    "source",
    ["\\Psi = \\sum_i \\log(|w_i| + \\kappa_i)", "\\|H\\|_F^2", "a < b", "\\frac{\\sigma^2}{2}\\mathrm{Tr} H"],
)
def test_usual_mathematics_becomes_mathml(source: str) -> None:
    html = math_to_mathml(source)
    assert html.startswith("<math")
    ElementTree.fromstring(html)


def test_mathematics_that_cannot_be_converted_is_shown_as_its_source() -> None:
    assert math_to_mathml("\\frac{1") == "<code>\\frac{1</code>"


def test_headings_of_a_story_go_below_the_title_of_the_page() -> None:
    assert "<h2>One</h2>" in markdown("# One")
    assert "<h3>Two</h3>" in markdown("## Two")


def test_display_mathematics_inside_a_paragraph_is_a_block() -> None:
    assert 'display="block"' in markdown("The metric is\n$$\\Psi = 1$$\nand no more.")


def test_a_picture_from_elsewhere_becomes_a_link() -> None:
    html = markdown("![a plot](https://example.org/a.png)")
    assert "<img" not in html
    assert '<a href="https://example.org/a.png">a plot</a>' in html


@pytest.mark.parametrize(
    ("html", "kept"),
    [
        (
            '<style>p{}</style><table border="1"><tr><td onclick="x()" colspan="2">a &lt; b</td></tr></table>'
            '<script>bad()</script><img src="https://example.org/x.png"><a href="javascript:bad()">c</a>',
            '<table><tbody><tr><td colspan="2">a &lt; b</td></tr></tbody></table><a>c</a>',
        ),
        ("<div><b>x</div><p>y", "<div><b>x</b></div><p><b>y</b></p>"),  # left open: as a browser reads it
        ('<a href="#x">a</a><!-- b -->', '<a href="#x">a</a>'),
        ('<a href="https://example.org">a</a>', '<a href="https://example.org">a</a>'),
        ('<a href="page.html">a</a><a href=" javascript:bad()">b</a>', "<a>a</a><a>b</a>"),
        ("<table><tr><th></th></tr></table>", "<table><tbody><tr><td></td></tr></tbody></table>"),  # a corner
    ],
)
def test_tables_text_and_links_to_the_web_or_within_the_page_are_kept_and_nothing_else(html: str, kept: str) -> None:
    assert sanitised(html) == kept


@pytest.mark.parametrize(
    "html",
    [
        "<svg><script>bad()</script></svg>",
        '<math><mtext><table><mglyph><style><img src="x" onerror="bad()">',
        '<noscript><p title="</noscript><img src=x onerror=bad()>">',
        '<iframe src="https://example.org"></iframe><object data="x"></object>',
        "<title><img src=x onerror=bad()></title>",
    ],
)
def test_nothing_that_a_browser_would_run_or_load_gets_through(html: str) -> None:
    found = sanitised(html)
    assert not [
        word for word in ("<script", "<img", "<style", "<iframe", "<object", "<svg", 'onerror="') if word in found
    ]


def judged(estimate: float | None, interval: Any, accept: dict[str, Any]) -> Verdict:
    return Verdict(id="c", statement="s", estimate=estimate, interval=interval, accept=accept, verdict="reproduced")


def places(drawing: str) -> dict[str, list[float]]:
    """Horizontal positions of the parts of an interval drawing."""
    root = ElementTree.fromstring(drawing)
    found: dict[str, list[float]] = {}
    for element in root.iter():
        name = element.get("class") or element.tag.split("}")[-1]
        values = [float(element.attrib[key]) for key in ("x", "x1", "x2", "cx") if key in element.attrib]
        if "width" in element.attrib:
            values.append(values[0] + float(element.attrib["width"]))
        found.setdefault(name, []).extend(values)
    return found


@pytest.mark.parametrize("shift", [0.0, 5.0, -300.0])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e4])
def test_an_interval_lies_on_the_accepted_region_just_as_the_numbers_do(shift: float, scale: float) -> None:
    low, high, edge = (shift + scale * value for value in (0.2, 0.6, 0.5))
    at = places(interval_drawing(judged((low + high) / 2, (low, high), {"below": edge})))
    left, right = at["region"]
    assert left <= min(at["bar"]) < at["circle"][0] < right < max(at["bar"])
    assert at["bound"][0] == right
    share = (right - min(at["bar"])) / (max(at["bar"]) - min(at["bar"]))
    assert share == pytest.approx(0.75, abs=0.01)


def test_a_region_with_two_edges_is_shaded_between_them() -> None:
    at = places(interval_drawing(judged(1.0, (0.95, 1.05), {"within": [0.9, 1.1]})))
    assert at["region"] == sorted(set(at["bound"]))
    assert min(at["region"]) < min(at["bar"]) < max(at["bar"]) < max(at["region"])


def test_an_open_interval_runs_to_the_edge_with_an_arrow() -> None:
    drawing = interval_drawing(judged(1.0, (0.5, None), {"above": 0.0}))
    assert max(places(drawing)["bar"]) == pytest.approx(212)
    assert re.search(r'd="M[\d.]+ 11L212.0 15L', drawing)


def test_an_estimate_without_interval_is_a_dot_and_nothing_measured_draws_nothing() -> None:
    assert "<circle" in interval_drawing(judged(0.0, None, {"within": [0, 0]}))
    assert interval_drawing(judged(None, None, {"above": 0})) == ""
    assert interval_drawing(judged(math.inf, None, {"above": 0})) == ""


def test_accepted_regions_in_words_where_null_is_no_bound() -> None:
    assert accepted_text({"below": 0}) == "below 0"
    assert accepted_text({"below": None, "above": 0.3, "within": None}) == "above 0.3"
    assert accepted_text({"within": [0.9, 1.1]}) == "within 0.9 to 1.1"


def test_an_inlined_svg_keeps_its_references_and_shares_no_id_with_others() -> None:
    svg = (
        '<?xml version="1.0"?><!DOCTYPE svg PUBLIC "x" "http://www.w3.org/x.dtd">\n<svg width="72pt" '
        'viewBox="0 0 72 36" font-family="Verdana, sans-serif"><!-- --><metadata>m</metadata>'
        f'<defs><style type="text/css">*{{}}</style><path id="a" style="stroke: {INK}"/></defs>'
        '<use xlink:href="#a" clip-path="url(#p1)"/>'
        '<clipPath id="p1"/></svg>'
    )
    html = inline_svg(svg, "toy-fig1", 'a "title"')
    root = ElementTree.fromstring(html)
    assert root.get("aria-label") == 'a "title"'
    assert root.get("font-family") == "Verdana, sans-serif"
    assert re.findall(r'id="([^"]+)"', html) == ["i7936e99-0", "i7936e99-1"]
    assert '<use href="#i7936e99-0"' in html
    assert "url(#i7936e99-1)" in html
    assert "var(--figure-ink)" in html
    assert "metadata" not in html
    assert "<style" not in html
    with pytest.raises(ValueError, match="not an SVG"):
        inline_svg("<html>", "x", "y")


def test_the_page_has_a_light_and_a_dark_equivalent_for_every_colour_of_the_figures() -> None:
    assert set(PAGE_COLOURS) == {INK, MUTED, GRID, FACE, *PALETTE}
    light, dark = (TEMPLATES / "style.css").read_text().split("@media screen and (prefers-color-scheme: dark)")
    for colour, variable in PAGE_COLOURS.items():
        name = variable[4:-1]
        assert name + ":" in light
        if colour != FACE:
            assert f"{name}: {colour}" in light
            assert name + ":" in dark


@pytest.mark.parametrize(
    ("colour", "shown"), [("#000000", "var(--figure-ink)"), ("#111111", "var(--figure-ink)"), ("#888888", "#888888")]
)
def test_black_that_a_figure_did_not_take_from_the_style_follows_the_page_too(colour: str, shown: str) -> None:
    drawn = inline_svg(f'<svg viewBox="0 0 10 10"><path style="fill: none; stroke: {colour}"/></svg>', "x", "y")
    assert f'style="fill: none; stroke: {shown}"' in drawn


def test_each_verdict_has_its_own_class() -> None:
    assert slug("not decidable at this scale") == "not-decidable"
    assert slug("data_unavailable") == "data-unavailable"
