"""Folders that two processes write and sweep at once: neither takes what the other is writing."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from common.files import ABANDONED_SECONDS, atomic_path, published
from common.reports.page import _forget_others
from common.workflow.analyse import _remove_others
from common.workflow.timings import _mb


def left_by(sweep: Callable[[], None], folder: Path) -> list[str]:
    """What a sweep leaves beside a writer of fig2.svg, where a killed one left a file and fig9.svg is of no use."""
    killed = folder / ".fig0.svg.x1.partial"
    for path in (killed, folder / "fig9.svg"):
        path.touch()
    os.utime(killed, (time.time() - 2 * ABANDONED_SECONDS,) * 2)
    with atomic_path(folder / "fig2.svg") as temporary:
        temporary.write_text("by another process")
        sweep()
    assert not killed.exists()
    return [path.name for path in published(folder)]


def test_a_sweep_of_figures_takes_what_is_no_more_and_nothing_that_is_being_written(tmp_path: Path) -> None:
    (tmp_path / "fig1.svg").touch()
    shown = [{"svg": "figures/fig1.svg", "png": None, "csv": None}]
    assert left_by(lambda: _remove_others(tmp_path, shown), tmp_path) == ["fig1.svg", "fig2.svg"]


def test_a_sweep_beside_a_page_takes_what_is_no_more_and_nothing_that_is_being_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "report.ipynb").touch()
    kept = ["fig2.svg", "folder", "report.ipynb"]
    assert left_by(lambda: _forget_others(tmp_path, [], notebook=True), tmp_path) == kept


def test_the_size_of_a_folder_leaves_out_what_goes_away_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "records.jsonl").write_bytes(b"x" * 1000)
    (tmp_path / "artifacts" / "w.safetensors").write_bytes(b"x" * 3000)
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")  # listed, and not there
    assert _mb(tmp_path) == 0.004
