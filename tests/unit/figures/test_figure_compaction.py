"""Figures in less text: the same drawing, words as words, and fonts that another machine has."""

import io
import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import matplotlib
import pytest
from matplotlib.figure import Figure

from common.figures import subplots
from common.figures.compaction import compact

SVG = "{http://www.w3.org/2000/svg}"
FRAME = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 9 9">{}</svg>'


def drawn(figure: Figure) -> str:
    """The SVG as matplotlib writes it."""
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg")
    return buffer.getvalue()


def inside(body: str) -> Element:
    return ElementTree.fromstring(compact(FRAME.format(body)))[0]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("M 47.301099 230.217494 \nL 396.096106 230.217494 \nz\n", "M47.3 230.22L396.1 230.22z"),
        ("M 0 -2.25 C 1e-05 2 -0.001 4.5 12 100", "M0 -2.25C0 2 0 4.5 12 100"),
    ],
)
def test_paths_keep_a_hundredth_of_a_point(path: str, shown: str) -> None:
    assert inside(f'<path d="{path}"/>').get("d") == shown


def test_colours_and_scalings_are_not_numbers_to_be_rounded() -> None:
    path = inside('<path d="M 0 0" transform="scale(0.015625)" style="stroke: #dbe0e6; stroke-width: 0.70001"/>')
    assert path.get("style") == "stroke:#dbe0e6;stroke-width:0.7"
    assert path.get("transform") == "scale(0.015625)"


def test_what_is_referred_to_stays_and_empty_groups_go() -> None:
    body = '<g id="line_1"><defs><path id="m" d="M 0 0"/></defs><g><use id="u" xlink:href="#m"/></g></g>'
    found = ElementTree.fromstring(compact(FRAME.format(body)))
    assert [element.tag.removeprefix(SVG) for element in found.iter()] == ["svg", "defs", "path", "use"]
    assert [element.get("id") for element in found.iter() if element.get("id")] == ["m"]


def test_a_marker_does_not_repeat_what_its_shape_says() -> None:
    shape, style = '<path id="m" style="stroke: #111111"/>', "stroke: #111111; fill: red"
    body = f'<g><defs>{shape}</defs><use xlink:href="#m" style="{style}"/></g>'
    found = ElementTree.fromstring(compact(FRAME.format(body)))
    assert [use.get("style") for use in found.iter(f"{SVG}use")] == ["fill:red"]


def test_glyphs_of_a_formula_are_one_text_at_the_places_where_they_were_set() -> None:
    figure, axes = subplots()
    axes.set(xticks=[], yticks=[], xlabel=r"Tr $\lambda_1$  and <b>")
    before = ElementTree.fromstring(drawn(figure))
    after = ElementTree.fromstring(compact(drawn(figure)))
    glyphs = [(glyph.text, float(glyph.get("x", "nan"))) for glyph in before.iter(f"{SVG}tspan")]
    joined = [(run.text or "", run.get("x", "").split()) for run in after.iter(f"{SVG}tspan")]
    assert len(joined) < len(glyphs) / 3
    letters = [(letter, float(x)) for text, places in joined for letter, x in zip(text, places, strict=True)]
    assert [letter for letter, _ in letters] == [letter for letter, _ in glyphs]
    assert [x for _, x in letters] == pytest.approx([x for _, x in glyphs], abs=0.006)
    assert " " not in {letter for letter, _ in letters}, "a viewer merges spaces, and all places behind move"


def test_a_glyph_of_a_font_that_others_lack_is_an_outline_where_it_stood() -> None:
    figure, axes = subplots()
    axes.set(xticks=[], yticks=[], xlabel=r"$\sqrt{x^2 + 1}$")
    svg = drawn(figure)
    (root_sign,) = (glyph for glyph in ElementTree.fromstring(svg).iter(f"{SVG}tspan") if glyph.text == "√")
    assert "STIX" in root_sign.get("style", "")
    after = ElementTree.fromstring(compact(svg))
    assert "√" not in "".join(after.itertext())
    (group,) = (item for item in after.iter(f"{SVG}g") if item.find(f"{SVG}text") is not None)
    (outline,) = group.findall(f"{SVG}path")
    (bar,) = group.findall(f"{SVG}rect")
    xs = [float(x) for x in re.findall(r"(-?[\d.]+) -?[\d.]+", outline.get("d", ""))]
    assert min(xs) >= float(root_sign.get("x", "nan")) - 0.1
    assert max(xs) == pytest.approx(float(bar.get("x", "nan")), abs=1.0)
