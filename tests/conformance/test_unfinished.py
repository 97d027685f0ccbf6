"""Finished runs of unfinished campaigns (reports/unfinished) can be taken over, and are evidence of nothing yet."""

import json
import shutil
from pathlib import Path

import pytest

from common.claims.metric_rows import rows_of
from common.workflow.adopt import adopt
from common.workflow.discovery import find
from common.workflow.state import Folders
from tests.conftest import ROOT

PLACES = sorted((ROOT / "reports" / "unfinished").glob("*/*/*"))


@pytest.mark.parametrize("place", PLACES, ids=lambda place: "-".join(place.parts[-3:]))
def test_the_runs_of_an_unfinished_campaign_are_those_of_this_checkout(place: Path, tmp_path: Path) -> None:
    scale, paper, experiment = place.parts[-3:]
    source = tmp_path / "unfinished"
    shutil.copytree(place, source / scale / paper / experiment)
    report = adopt(find(ROOT, paper), scale, Folders(ROOT, tmp_path / "results"), source)
    assert report.refused == []
    assert report.taken == len(list(place.iterdir())), "a run that is of no grid, or did not end"


@pytest.mark.parametrize("place", PLACES, ids=lambda place: "-".join(place.parts[-3:]))
def test_what_is_published_in_full_is_unfinished_no_longer(place: Path) -> None:
    """A grid that has grown since it was published, or has other runs, is unfinished again."""
    scale, paper, experiment = place.parts[-3:]
    path = ROOT / "reports" / "published" / scale / paper / "metrics.json"
    rows = rows_of(json.loads(path.read_text())) if path.is_file() else {}
    wanted = {run.name for job in find(ROOT, paper).jobs(scale) for run in job.runs if run.experiment == experiment}
    assert not wanted <= {row["run"] for row in rows.get(experiment, [])}
