"""The CSV beside a figure holds what the axes show."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from common.figures import log_axis, mark_seed, mean_band, plotted_data, reference_line, subplots


def rows(frame: pd.DataFrame, kind: str) -> pd.DataFrame:
    return frame[frame["kind"] == kind].reset_index(drop=True)


def test_lines_of_all_panels_are_kept_with_names_and_axis_labels() -> None:
    figure, (left, right) = subplots(1, 2)
    left.plot([1, 2], [3.0, 4.0], label="train")
    left.set(title="Loss", xlabel="epoch", ylabel="loss")
    right.plot([5, 6], [7.0, np.nan])
    frame = plotted_data(figure)
    assert frame[["panel", "series", "x", "y"]].values.tolist()[:2] == [
        ["Loss", "train", 1, 3],
        ["Loss", "train", 2, 4],
    ]
    assert frame["panel"].tolist()[2:] == ["panel 2", "panel 2"]
    assert frame["x_label"][0] == "epoch"
    assert np.isnan(frame["y"][3])


SHOWN: dict[str, tuple[Callable[[Any], object], list[str], list[list[object]]]] = {
    "bars keep categories and heights": (
        lambda axes: axes.bar(["SGD", "SAM"], [0.1, 0.2], label="gap"),
        ["kind", "series", "label", "y"],
        [["bar", "gap", "SGD", 0.1], ["bar", "gap", "SAM", 0.2]],
    ),
    "error bars keep both bounds and are not listed twice": (
        lambda axes: axes.errorbar([1, 2], [5.0, 6.0], yerr=[[0.5, 1.0], [0.25, 2.0]], label="measured", capsize=3),
        ["kind", "x", "y", "low", "high"],
        [["points", 1, 5, 4.5, 5.25], ["points", 2, 6, 5, 8]],
    ),
    "points keep positions and colour values": (
        lambda axes: axes.figure.colorbar(axes.scatter([1, 2, 3], [4, 5, 6], c=[7, 8, 9])),
        ["kind", "x", "y", "value"],
        [["points", 1, 4, 7], ["points", 2, 5, 8], ["points", 3, 6, 9]],
    ),
    "mesh values stand at cell centres": (
        lambda axes: axes.pcolormesh([0, 1, 3], [0, 2, 4], np.array([[1.0, 2.0], [3.0, 4.0]])),
        ["x", "y", "value"],
        [[0.5, 1, 1], [2, 1, 2], [0.5, 3, 3], [2, 3, 4]],
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_what_is_drawn_is_kept(name: str) -> None:
    draw, columns, expected = SHOWN[name]
    figure, axes = subplots()
    draw(axes)
    assert plotted_data(figure)[columns].values.tolist() == expected


@pytest.mark.parametrize("origin", ["upper", "lower"])
def test_image_values_stand_where_they_are_drawn(origin: str) -> None:
    figure, axes = subplots()
    axes.imshow(np.array([[1.0, 2.0], [3.0, 4.0]]), origin=origin, extent=(0, 2, 10, 14))
    frame = plotted_data(figure).set_index(["x", "y"])["value"]
    top_left = 1.0 if origin == "upper" else 3.0
    assert frame[(0.5, 13.0)] == top_left
    assert len(frame) == 4


def test_reference_lines_and_steps_are_told_apart_from_data() -> None:
    figure, axes = subplots()
    axes.plot([0, 1], [0, 1])
    reference_line(axes, y=2.0, label="2/η")
    axes.stairs([3.0, 4.0], [0, 1, 2], label="histogram")
    frame = plotted_data(figure)
    assert rows(frame, "reference")[["series", "y"]].values.tolist() == [["2/η", 2.0]]
    assert rows(frame, "steps")[["x", "y"]].values.tolist() == [[0, 3], [1, 4]]
    with pytest.raises(ValueError, match="exactly one"):
        reference_line(axes, label="nothing")


def test_contours_keep_their_level() -> None:
    figure, axes = subplots()
    axes.contour(np.add.outer(np.arange(5.0), np.arange(5.0)), levels=[2.0, 3.0])
    assert sorted(rows(plotted_data(figure), "contour")["value"].unique()) == [2.0, 3.0]


def test_an_empty_figure_gives_a_table_without_rows() -> None:
    assert plotted_data(subplots()[0]).empty


def seeds(values: dict[int, list[float]]) -> pd.DataFrame:
    return pd.DataFrame(
        [{"seed": s, "epoch": e, "loss": v} for s, series in values.items() for e, v in enumerate(series, 1)]
    )


def test_mean_band_draws_the_mean_and_its_t_interval() -> None:
    figure, axes = subplots()
    values = {0: [1.0, 2.0], 1: [3.0, 5.0], 2: [5.0, 2.0]}
    mean_band(axes, seeds(values), "epoch", "loss")
    frame = plotted_data(figure)
    assert rows(frame, "line")["y"].tolist() == [3.0, 3.0]
    low, high = stats.t.interval(0.95, 2, loc=3.0, scale=stats.sem([1, 3, 5]))
    band = rows(frame, "band")
    assert np.allclose(band.loc[0, ["low", "high"]].to_numpy(dtype=float), [low, high])


def test_mean_band_in_logarithms_is_the_geometric_mean() -> None:
    figure, axes = subplots()
    mean_band(axes, seeds({0: [1.0], 1: [100.0]}), "epoch", "loss", log=True)
    assert np.isclose(rows(plotted_data(figure), "line")["y"][0], 10.0)
    with pytest.raises(ValueError, match="not positive"):
        mean_band(axes, seeds({0: [0.0], 1: [1.0]}), "epoch", "loss", log=True)


def test_mean_band_says_when_seeds_end_early_and_does_not_draw_a_band_there() -> None:
    figure, axes = subplots()
    mean_band(axes, seeds({0: [1, 2, 3, 4], 1: [2, 3, np.inf, np.nan], 2: [3, 4, 5, 6]}), "epoch", "loss")
    label = axes.get_legend_handles_labels()[1][0]
    assert "1 of 3 seeds end early" in label
    frame = plotted_data(figure)
    assert rows(frame, "band")["x"].tolist() == [1, 2]
    solid, dotted = axes.lines
    assert dotted.get_linestyle() == ":"
    assert np.isfinite(dotted.get_ydata()).sum() == 3
    assert np.isfinite(solid.get_ydata()).sum() == 2


def test_mean_band_has_one_line_a_group_and_no_band_for_one_seed() -> None:
    figure, axes = subplots()
    frame = pd.concat([seeds({0: [1, 2]}).assign(arm="a"), seeds({0: [3, 4]}).assign(arm="b")])
    lines = mean_band(axes, frame, "epoch", "loss", group="arm", labels={"a": "none"})
    assert [line.get_label() for line in lines.values()] == ["none", "b"]
    assert rows(plotted_data(figure), "band").empty


def test_log_axis_shows_plain_numbers_at_the_given_ticks() -> None:
    figure, axes = subplots()
    axes.plot([64, 128, 256], [1, 2, 3])
    log_axis(axes, "x", ticks=[64, 128, 256])
    figure.draw_without_rendering()
    assert [text.get_text() for text in axes.get_xticklabels()] == ["64", "128", "256"]


def test_a_series_without_a_label_is_named_by_the_legend_of_its_colour_and_by_its_seed() -> None:
    figure, (axes, other) = subplots(1, 2)
    for colour, name in (("#aa0000", "SGD"), ("#00aa00", "SAM"), ("#0000aa", "NSO"), ("#0000aa", "WP-SGD")):
        axes.plot([0, 1], [0, 1], color=colour, label=name)
    mark_seed(axes.plot([0, 1], [2, 3], color="#aa0000", linewidth=0.5), 7)
    axes.scatter([0], [4], color="#00aa00", alpha=0.3)
    axes.plot([0, 1], [5, 5], color="#0000aa")  # two entries have this colour
    axes.axhline(6, color="#aa0000")
    axes.plot([0, 1], [7, 7], color="#00aa00", label="_mean")
    axes.legend()
    other.plot([0, 1], [8, 8], color="#aa0000")
    frame = plotted_data(figure)
    names = {y: frame.loc[frame["y"] == y, "series"].iloc[0] for y in range(2, 9)}
    of_seed = dict.fromkeys((2, 3), "SGD, seed 7")
    assert names == of_seed | {4: "SAM", 5: "line 6", 6: "reference", 7: "mean", 8: "line 1"}
    figure.legend(*axes.get_legend_handles_labels())
    assert plotted_data(figure).iloc[-1]["series"] == "SGD"


def test_the_band_of_a_mean_bears_the_name_of_its_line() -> None:
    figure, axes = subplots()
    table = {"x": [1, 1, 2, 2], "seed": [0, 1, 0, 1], "y": [1.0, 2.0, 3.0, 4.0], "arm": ["SAM"] * 4}
    mean_band(axes, pd.DataFrame(table), "x", "y", group="arm")
    assert set(rows(plotted_data(figure), "band")["series"]) == {"SAM interval"}
