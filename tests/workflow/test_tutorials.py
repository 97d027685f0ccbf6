"""The tutorials run from top to bottom, and show what they say."""

import os
from pathlib import Path

import pytest

from common.reports.notebook import run_notebook
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.py"))


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs_from_top_to_bottom_and_draws_a_figure(path: Path) -> None:
    notebook, failures = run_notebook(path, {"OMP_NUM_THREADS": os.environ["OMP_NUM_THREADS"]}, ROOT)
    assert not failures, failures
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) or "image/svg+xml" in output.get("data", {}) for output in outputs)


def test_the_list_of_tutorials_is_complete() -> None:
    listed = (ROOT / "docs" / "tutorials" / "README.md").read_text()
    assert TUTORIALS
    for path in TUTORIALS:
        assert f"({path.name})" in listed
