"""Figures as PDF for a manuscript: vector, of the figure's size, with its fonts."""

import re
from pathlib import Path

import pytest

from common.reports import pdf
from common.reports.pdf import pdf_of

typst = pytest.importorskip("typst")

SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 144 72" width="144pt" height="72pt" '
    "font-family=\"'DejaVu Sans', Verdana\"><path d='M0 0L144 72' stroke='#3260db'/><text x='9' y='30'>{}</text></svg>"
)


def test_a_pdf_has_the_size_and_the_letters_of_its_svg_and_is_equal_for_equal_figures(tmp_path: Path) -> None:
    svg = tmp_path / "fig1.svg"
    svg.write_text(SVG.format("loss"))
    made = pdf_of(svg)
    assert made is not None
    assert made.startswith(b"%PDF-")
    assert re.search(rb"/MediaBox ?\[ ?0 0 144 72 ?\]", made)
    assert b"DejaVuSans" in made
    assert pdf_of(svg) == made
    svg.write_text(SVG.format("gap"))
    assert pdf_of(svg) != made


def test_without_the_font_or_from_what_is_no_drawing_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    svg = tmp_path / "fig1.svg"
    svg.write_text("<svg")
    assert pdf_of(svg) is None
    assert "fig1.svg: no PDF" in caplog.text
    svg.write_text(SVG.format("loss"))
    monkeypatch.setattr(pdf, "FONT", "A font that nobody has")
    pdf._fonts.cache_clear()
    try:
        assert pdf_of(svg) is None
    finally:
        pdf._fonts.cache_clear()
