"""Folders that two processes write and sweep at once: neither takes what the other is writing."""

import os
import time
from pathlib import Path

from common.files import ABANDONED_SECONDS, atomic_path, published
from common.reports.page import _forget_others
from common.workflow.analyse import _remove_others
from common.workflow.cost import _mb


def abandoned(path: Path) -> Path:
    """A temporary file that a killed process left."""
    long_ago = time.time() - 2 * ABANDONED_SECONDS
    path.touch()
    os.utime(path, (long_ago, long_ago))
    return path


def test_a_sweep_of_figures_takes_what_is_no_more_and_nothing_that_is_being_written(tmp_path: Path) -> None:
    left = abandoned(tmp_path / ".fig0.svg.x1.partial")
    for name in ("fig1.svg", "fig9.svg"):
        (tmp_path / name).touch()
    with atomic_path(tmp_path / "fig2.svg") as temporary:
        temporary.write_text("by another process")
        _remove_others(tmp_path, [{"svg": "figures/fig1.svg", "png": None, "csv": None}])
    assert [path.name for path in published(tmp_path)] == ["fig1.svg", "fig2.svg"]
    assert not left.exists()


def test_a_sweep_beside_a_page_takes_what_is_no_more_and_nothing_that_is_being_written(tmp_path: Path) -> None:
    left = abandoned(tmp_path / ".fig0.svg.x1.partial")
    (tmp_path / "folder").mkdir()
    for name in ("report.ipynb", "fig9.svg"):
        (tmp_path / name).touch()
    with atomic_path(tmp_path / "fig2.svg") as temporary:
        temporary.write_text("by another process")
        _forget_others(tmp_path, [], notebook=True)
    assert [path.name for path in published(tmp_path)] == ["fig2.svg", "folder", "report.ipynb"]
    assert not left.exists()


def test_the_size_of_a_folder_leaves_out_what_goes_away_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "records.jsonl").write_bytes(b"x" * 1000)
    (tmp_path / "artifacts" / "w.safetensors").write_bytes(b"x" * 3000)
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")  # listed, and not there
    assert _mb(tmp_path) == 0.004
