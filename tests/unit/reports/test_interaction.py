"""Values, arms and runs read back from the drawing of a figure are those that were drawn, or none."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

from common.figures import export, log_axis, mark_seed, mean_band, plotted_data, subplots
from common.figures.style import FACE, GRID
from common.reports import drawn_axes
from common.reports.drawing import inline_svg
from common.reports.drawn_arms import read_artists
from common.reports.drawn_axes import SVG, Axis, Tick, fitted, number
from common.reports.formats import read_metrics
from common.reports.interaction import plot_data, ranges
from tests.conftest import ROOT

PUBLISHED = sorted(ROOT.glob("reports/published/*/*/figures/*.svg"))


def drawn(figure: Any, tmp_path: Path) -> str:
    """The figure's SVG."""
    return export(figure, tmp_path, "figure")["svg"].read_text()


def values(content: str, data: dict[str, Any]) -> list[tuple[float | None, float | None]]:
    """Every point that a page shows, in the order of the drawing."""
    artists = read_artists(ElementTree.fromstring(content))
    clips = list(dict.fromkeys(artist.clip for artist in artists))
    found = []
    for artist in (artists[index] for part in data["points"].split(",") for index in span(part)):
        x, y = (axis and Axis(bool(axis[0]), *axis[1:]) for axis in data["axes"][clips.index(artist.clip)])
        found += [(x.value(left) if x else None, y.value(top) if y else None) for left, top in artist.points]
    return found


def span(part: str) -> range:
    first, _, last = part.partition("-")
    return range(int(first), int(last or first) + 1)


def dots(axes: Axes) -> None:
    axes.plot([1.0, 2.5, 4.0], [3.0, 30.0, 200.0], "o")


def test_the_values_of_a_page_are_those_of_the_csv(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    figure, (left, right) = subplots(1, 2, sharey=True)
    rows = [(arm, seed, x) for arm in ("GD", "SGD") for seed in range(4) for x in (2, 3, 7, 20, 55)]
    frame = pd.DataFrame(rows, columns=["arm", "seed", "x"])
    frame["y"] = np.exp(generator.normal(2.0, 1.5, len(frame)))
    mean_band(left, frame, "x", "y", group="arm", log=True, markers=True)
    right.scatter(frame["x"] / 1e5, frame["y"], label="runs")
    left.set_xscale("log")
    left.set_yscale("log")
    content = drawn(figure, tmp_path)
    data = plot_data(content)
    table = plotted_data(figure)
    expected = table[table["kind"].isin(["line", "points"])][["x", "y"]].to_numpy()
    found = values(content, data)
    assert {len(axis) for axes in data["axes"] for axis in axes} == {4}  # unlabelled ticks of a shared axis, too
    assert len(found) == 2 * 2 * 5 + 40  # means as line and as marks, and every run
    for x, y in found:
        distance = np.abs(np.log(expected / np.array([x, y]))).max(axis=1)
        assert distance.min() < 2e-3
    for x, y in expected:
        assert min(max(abs(np.log(x / a)), abs(np.log(y / b))) for a, b in found if a and b) < 2e-3


@pytest.mark.parametrize(
    ("draw", "which"),
    [
        (lambda axes: axes.set_xticks([1, 2.5, 4], ["plain", "SAM", "SGD"]), "x"),
        (lambda axes: axes.set_xticks([1, 2.5, 4], ["16", "64", "512"]), "x"),  # names, neither linear nor log
        (lambda axes: axes.set_xticks([1, 4], ["1", "4"]), "x"),  # two ticks: linear or logarithmic
        (lambda axes: axes.set_yscale("symlog", linthresh=10), "y"),
        (lambda axes: axes.set_yticks([]), "y"),
    ],
)
def test_an_axis_whose_ticks_leave_a_doubt_has_no_values(
    draw: Callable[[Axes], Any], which: str, tmp_path: Path
) -> None:
    figure, axes = subplots()
    dots(axes)
    assert plot_data(drawn(figure, tmp_path))["axes"][0]["xy".index(which)] != 0
    draw(axes)
    found = plot_data(drawn(figure, tmp_path))["axes"][0]
    assert found["xy".index(which)] == 0
    assert found["yx".index(which)] != 0


@pytest.mark.parametrize("spread", [[-0.1, -0.03, 0.03, 0.1], [0.1, 0.1, 0.1]])
def test_points_beside_their_tick_do_not_say_where_they_stand(spread: list[float], tmp_path: Path) -> None:
    figure, axes = subplots()
    for place in (1, 2, 3):
        at = place + np.array(spread) if len(spread) > 3 else np.array([1, 2, 3]) + spread
        axes.plot(at, np.linspace(place, place + 1, len(at)) ** 2, "o")
    axes.set_xticks([1, 2, 3])
    x, y = plot_data(drawn(figure, tmp_path))["axes"][0]
    assert x == 0
    assert y != 0


def test_a_factor_at_the_end_of_an_axis_counts(tmp_path: Path) -> None:
    figure, axes = subplots()
    axes.plot([1.0, 2.0, 3.0], [2e5, 3e5, 9e5], "o")
    axes.ticklabel_format(axis="y", style="sci", scilimits=(0, 0), useMathText=True)
    content = drawn(figure, tmp_path)
    assert "×10" in content
    assert [y for _, y in values(content, plot_data(content))] == pytest.approx([2e5, 3e5, 9e5], rel=1e-3)
    axes.ticklabel_format(axis="y", style="plain", useOffset=1e5)
    content = drawn(figure, tmp_path)
    assert plot_data(content)["axes"][0][1] == 0


def test_small_ticks_tell_a_logarithmic_axis_with_two_labels() -> None:
    ticks = [Tick(0.0, "10^{0}", False), Tick(100.0, "10^{1}", False)]
    small = [Tick(100 * np.log10(head), "", True) for head in range(2, 10)]
    assert fitted(ticks + small) == Axis(True, 0.0, 0.01)
    assert fitted(ticks + [Tick(10.0 * head, "", True) for head in range(2, 10)]) is None


@pytest.mark.parametrize(
    ("label", "value"),
    [("−0.5", -0.5), ("1024", 1024), ("10^{−3}", 1e-3), ("2×10^{3}", 2e3), ("2^{5}", 32), ("a", None), ("1/4", None)],
)
def test_labels_of_ticks_as_numbers(label: str, value: float | None) -> None:
    assert number(label) == (None if value is None else pytest.approx(value))


def test_a_legend_names_what_looks_like_its_entries(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    frame = pd.DataFrame(
        [(a, s, x) for a in ("GD", "SAM") for s in range(3) for x in range(6)], columns=["arm", "s", "x"]
    )
    frame["y"] = generator.normal(size=len(frame))
    figure, (left, right) = subplots(1, 2)
    mean_band(left, frame, "x", "y", group="arm", seed="s", markers=True)
    mean_band(right, frame, "x", "y", group="arm", seed="s")
    right.axhline(0.0, color="#5c6674")
    left.legend()
    content = drawn(figure, tmp_path)
    data = plot_data(content)
    artists = read_artists(ElementTree.fromstring(content))
    children = list(ElementTree.fromstring(content))
    assert [arm[0] for arm in data["arms"]] == ["GD", "SAM"]
    for name, first, last, own, rest in data["arms"]:
        assert children[last].tag == f"{SVG}text"
        assert children[last].text == name
        assert first < last
        kinds = [artists[index].look.kind for part in own.split(",") for index in span(part)]
        assert sorted(kinds) == ["line", "line", "mark"]
        assert [artists[index].look.kind for part in rest.split(",") for index in span(part)] == ["area", "area"]
    assert all(artist.arms == [] for artist in artists if artist.look.colour == "#5c6674")


def test_a_point_is_the_run_whose_metric_it_shows(tmp_path: Path) -> None:
    generator = np.random.default_rng(2)
    rows: list[dict[str, Any]] = [
        {"run": f"arm={arm},seed={seed}", "seed": seed} for arm in ("a", "b") for seed in (3, 5, 8, 9)
    ]
    for row in rows:
        row |= {"log_trace": float(generator.normal()), "steps": 50 * int(generator.integers(2, 4))}
    figure, (left, right) = subplots(1, 2)
    for arm, colour in (("a", "#3260db"), ("b", "#b5431d")):
        own = [row for row in rows if row["run"].startswith(f"arm={arm}")]
        left.plot(np.exp([row["log_trace"] for row in own]), range(len(own)), "o", color=colour)
        right.plot([row["steps"] for row in own], range(len(own)), "o", color=colour)
    right.set_xlim(50, 200)
    content = drawn(figure, tmp_path)
    data = plot_data(content, rows)
    seeds = data["seeds"].split(" ")
    assert sorted(data["runs"]) == [0, 1, 2, 3]
    for runs in data["runs"].values():
        assert [seeds[int(run)] for run in runs.split(" ")] == ["3", "5", "8", "9"]
    assert data["runs"][0] == data["runs"][2] != data["runs"][1] == data["runs"][3]
    rows[1]["log_trace"] += 0.02
    assert 0 not in plot_data(content, rows)["runs"]


def test_a_line_keeps_its_seed_into_the_page(tmp_path: Path) -> None:
    figure, axes = subplots()
    for seed in (0, 1):
        mark_seed(axes.plot([0, 1, 2], [seed, 2, 5], "-o"), seed)
    html = inline_svg(drawn(figure, tmp_path), "figure", "Every seed")
    assert re.findall(r'data-seed="(\d)"', html) == ["0", "0", "1", "1"]


def test_the_page_finds_the_artists_by_their_clip_paths(tmp_path: Path) -> None:
    figure, axes = subplots()
    axes.plot([0, 1, 2], [1, 2, 5], "-o", label="<b> & 'c'")
    log_axis(axes, "y")
    content = drawn(figure, tmp_path)
    html = inline_svg(content, "figure", "One")
    assert len(re.findall(r'clip-path="', html)) == len(read_artists(ElementTree.fromstring(content)))
    attribute = re.search(r"data-plot='([^']*)'", html)
    assert attribute is not None
    text = attribute[1].replace("&#39;", "'").replace("&lt;", "<").replace("&amp;", "&")
    assert json.loads(text) == json.loads(json.dumps(plot_data(content)))
    assert "<b>" not in html


def test_axes_and_legends_are_known_by_the_colours_of_the_style() -> None:
    assert (drawn_axes.FACE, drawn_axes.GRID) == (FACE, GRID)


def test_ranges_of_numbers() -> None:
    assert ranges([0, 1, 2, 5, 7, 8]) == "0-2,5,7-8"
    assert ranges([]) == ""


@pytest.mark.skipif(not PUBLISHED, reason="no figures are published")
def test_most_published_figures_can_be_asked_for_values() -> None:
    some = PUBLISHED[::7]
    asked = [bool(plot_data(path.read_text()).get("points")) for path in some]
    assert sum(asked) > 0.75 * len(some)


FORMULAS = {
    r"$\Vert A\Vert_2^{l-1}$ of all": "‖A‖₂ˡ⁻¹ of all",
    r"$\Vert H\Vert_F$": "‖H‖_F",
    r"$\sqrt{C\,v^T H v/N}$": "√(CvᵀHv/N)",
    r"rest: $1/\sqrt{N}$, logarithms": "rest: 1/√(N), logarithms",
    r"$\frac{1}{2}\sigma^2$ Tr $H$": "¹/₂σ² Tr H",
}


@pytest.mark.parametrize(("label", "read"), FORMULAS.items())
def test_formulas_are_read_as_names_of_arms_and_axes(label: str, read: str, tmp_path: Path) -> None:
    figure, axes = subplots()
    for name in (label, "other"):
        axes.plot([0, 1, 2], [1, 2, 5], label=name)
    axes.set(xlabel=label, ylabel=label, title="a title")
    axes.legend()
    data = plot_data(drawn(figure, tmp_path))
    ((x, y),) = data["axes"]
    assert [data["arms"][0][0], x[3], y[3]] == [read] * 3


def test_seeds_of_a_published_figure() -> None:
    folder = ROOT / "reports" / "published" / "laptop" / "grokking"
    rows = read_metrics(folder)["operations"]
    data = plot_data((folder / "figures" / "operations-operations_fluctuation.svg").read_text(), rows)
    assert len(data["runs"]) == 6
    assert set(data["seeds"].split(" ")) <= {str(row["seed"]) for row in rows}
