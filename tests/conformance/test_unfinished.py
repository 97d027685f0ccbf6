"""Finished runs of unfinished campaigns (reports/unfinished) can be taken over, and are evidence of nothing yet."""

import json
import shutil
from pathlib import Path

import pytest

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
    """A grid that has grown since it was published is unfinished again."""
    scale, paper, experiment = place.parts[-3:]
    provenance = ROOT / "reports" / "published" / scale / paper / "provenance.json"
    published = json.loads(provenance.read_text())["experiments"] if provenance.is_file() else {}
    wanted = sum(run.experiment == experiment for job in find(ROOT, paper).jobs(scale) for run in job.runs)
    assert published.get(experiment, {"runs": 0})["runs"] < wanted
