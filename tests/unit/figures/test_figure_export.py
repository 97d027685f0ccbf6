"""Exported figures: equal bytes for equal data, small, readable as text, and left as they were."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from PIL import Image

from common.figures import (
    SVG_LIMIT,
    attach_data,
    export,
    figure_title,
    note,
    placeholder,
    subplots,
)
from common.figures.compaction import FONT_STACK

SVG = "{http://www.w3.org/2000/svg}"


def curves() -> Figure:
    figure, axes = subplots()
    axes.plot([1, 2, 3], [0.5, 0.25, 0.125], label="train")
    axes.fill_between([1, 2, 3], [0.4, 0.2, 0.1], [0.6, 0.3, 0.2], alpha=0.2)
    axes.set(xlabel="epoch", ylabel="loss", title="Loss")
    axes.legend()
    return figure


def test_svg_and_png_are_equal_across_processes(tmp_path: Path) -> None:
    first = export(curves(), tmp_path / "a", "fig3")
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        f"from test_figure_export import curves\nfrom common.figures import export\nfrom pathlib import Path\n"
        f"export(curves(), Path({str(tmp_path / 'b')!r}), 'fig3')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    for path in first.values():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_svg_holds_no_date_or_version_and_its_words_as_words(tmp_path: Path) -> None:
    text = export(curves(), tmp_path, "fig3")["svg"].read_text()
    root = ElementTree.fromstring(text)
    assert "<dc:date>" not in text
    assert "matplotlib.org" not in text.lower()
    assert {"epoch", "loss", "Loss", "train"} <= {"".join(item.itertext()) for item in root.iter(f"{SVG}text")}
    assert text.count("font-family") == 1
    assert root.get("font-family") == FONT_STACK


@pytest.mark.parametrize("kind", ["line", "scatter", "mesh", "many_lines", "contours", "surface"])
def test_dense_figures_stay_below_the_size_limit(kind: str, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    if kind == "surface":
        figure, axes = subplots(subplot_kw={"projection": "3d"})
        x, y = np.meshgrid(np.linspace(-2, 2, 90), np.linspace(-2, 2, 90))
        axes.plot_surface(x, y, np.sin(3 * x) * y, cmap="viridis", rstride=1, cstride=1)
    else:
        figure, axes = subplots()
        if kind == "line":
            axes.plot(generator.normal(size=30_000))
        elif kind == "scatter":
            axes.scatter(*generator.normal(size=(2, 30_000)))
        elif kind == "mesh":
            axes.pcolormesh(generator.normal(size=(150, 150)))
        elif kind == "contours":
            axes.contour(np.sin(np.outer(np.linspace(0, 9, 300), np.linspace(0, 9, 300))), levels=9)
        else:
            axes.plot(generator.normal(size=(100, 400)).cumsum(0))
    svg = export(figure, tmp_path, "dense")["svg"]
    assert svg.stat().st_size < SVG_LIMIT
    assert "<image" in svg.read_text()


def test_a_sparse_figure_is_drawn_without_pixels(tmp_path: Path) -> None:
    assert "<image" not in export(curves(), tmp_path, "fig3")["svg"].read_text()


def test_text_on_an_image_is_black_on_a_dark_page_too_and_the_figure_is_left_as_it_was(tmp_path: Path) -> None:
    figure, axes = subplots()
    axes.imshow(np.eye(3))
    axes.set_axis_off()
    text = axes.text(1, 1, "minimum")
    (line,) = axes.plot(np.arange(5000) / 2500, np.zeros(5000))
    before = text.get_color(), line.get_rasterized()
    assert "#1d2530" not in export(figure, tmp_path, "fig1")["svg"].read_text()
    assert (text.get_color(), line.get_rasterized()) == before


def test_png_shows_the_figure(tmp_path: Path) -> None:
    image = np.asarray(Image.open(export(curves(), tmp_path, "fig3")["png"]).convert("RGB"), dtype=float)
    assert image.shape[1] == round(5.6 * 160)
    assert (np.abs(image - [0x32, 0x60, 0xDB]).sum(-1) < 30).sum() > 500


@pytest.mark.parametrize("name", ["", "../fig3", "a/b"])
def test_a_name_that_is_a_path_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="plain file name"):
        export(curves(), tmp_path, name)


def test_attached_data_become_the_csv(tmp_path: Path) -> None:
    figure = curves()
    frame = pd.DataFrame({"run": ["a", "b"], "trace": [1.5, 0.1 + 0.2]})
    attach_data(figure, frame)
    written = pd.read_csv(export(figure, tmp_path, "fig3")["csv"])
    pd.testing.assert_frame_equal(written, frame)


def test_a_placeholder_says_why_in_picture_and_survives_odd_text(tmp_path: Path) -> None:
    figure = placeholder("Figure $5", "CIFAR-10: no source delivered <script>alert(1)</script> --> $x_{")
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert "Not drawn" in texts
    assert any("no source delivered" in text for text in texts)
    text = export(figure, tmp_path, "fig5")["svg"].read_text()
    ElementTree.fromstring(text)
    assert "<script>" not in text


def test_notes_stack_and_stay_inside_the_figure() -> None:
    figure = curves()
    note(figure, "D2: Fashion-MNIST instead of TIMIT, which is licensed", "substitution")
    note(
        figure,
        "one network width, and a text that is long enough to need a second line on this figure",
        "reduced",
    )
    figure.draw_without_rendering()
    assert figure.get_supxlabel().startswith("Substitution · D2")
    assert "Reduced scale · one" in figure.get_supxlabel()
    box = figure._supxlabel.get_window_extent()
    assert box.x0 >= 0
    assert box.y0 >= 0
    assert box.x1 <= figure.bbox.width
    assert box.y1 <= figure.axes[0].xaxis.get_tightbbox().y0


def test_the_title_is_the_figures_else_the_first_axes() -> None:
    figure = curves()
    assert figure_title(figure) == "Loss"
    figure.suptitle("Figure 3")
    assert figure_title(figure) == "Figure 3"
    assert figure_title(subplots()[0]) == ""
