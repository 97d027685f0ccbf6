"""An experiment below the scale that it is run from: no run, no verdict, and nothing published of it is lost."""

import shutil

import pytest
import torch

from common.errors import UserError
from common.experiments.call import Conditions
from common.experiments.execution import execute_job
from common.files import read_json, write_json
from common.reports.evidence import Evidence
from common.workflow.analyse import analyse
from common.workflow.discovery import find, healthy
from common.workflow.plan import plan
from common.workflow.publish import publish
from common.workflow.run import run_target
from common.workflow.state import Folders
from tests.conftest import ROOT, Project

FROM_WORKSTATION = "it is run from workstation scale on"
MOVED = "fig1-larger-steps-descend-faster"
"""A claim that was published of `measurement`, and is one of `descent` since."""
CLAIM = """
- id: kept
  statement: Kept.
  nature: empirical
  source: {document: example2026decay, locator: Fig. 2, reported: null}
  experiment: measurement
  estimate: {kind: mean, metric: distance, where: {learning_rate: 0.1}}
  accept: {below: 1}
"""


@pytest.fixture
def folders(in_process: Project) -> Folders:
    """The example, whose `measurement` was published at laptop scale and is now run from workstation scale on."""
    root = in_process.root
    path = root / "replications/decay/config.yaml"
    text = path.read_text().replace("measurement:\n", "measurement:\n  run_from: workstation\n")
    path.write_text(text.rsplit("    laptop:", 1)[0])
    with (root / "replications/decay/claims.yaml").open("a") as claims:
        claims.write(CLAIM)
    paper = root / "replications/decay/paper.yaml"
    covered = "coverage:\n  - {item: Fig. 2, status: replicated, experiment: measurement, figure: fig2}"
    paper.write_text(paper.read_text().replace("coverage:", covered))
    published = root / "reports/published/laptop/decay"
    write_json(
        published / "provenance.json",
        {"experiments": {"measurement": {"commit": "earlier", "runs": 15, "finished": "2026-01-01T00:00:00+00:00"}}},
    )
    figure = {"experiment": "measurement", "name": "fig2", "title": "earlier", "svg": "figures/measurement-fig2.svg"}
    write_json(published / "figures.json", [figure])
    write_json(published / "metrics.json", {"measurement": [{"run": "single"}]})
    of_measurement = {"experiment": "measurement", "statement": "earlier", "verdict": "not run"}
    write_json(published / "verdicts.json", [{"id": name, **of_measurement} for name in ("kept", MOVED)])
    (published / "figures").mkdir()
    (published / "figures/measurement-fig2.svg").write_text("<svg/>")
    return in_process.folders


def test_at_a_smaller_scale_its_claims_say_from_where_it_is_run_and_nothing_of_it_is_due(folders: Folders) -> None:
    paper = find(folders.root, "decay")
    assert not healthy({"decay": paper}, "laptop")[1]
    assert {job.experiment for job in plan(paper, "laptop", folders.store)} == {"descent"}
    assert {job.experiment for job in plan(paper, "workstation", folders.store)} == {"descent", "measurement"}
    assert not analyse(paper, "laptop", folders)
    written = folders.analysis("laptop", "decay")
    verdict = next(entry for entry in read_json(written / "verdicts.json") if entry["id"] == "kept")
    assert (verdict["verdict"], verdict["reason"]) == ("not run", f"measurement: {FROM_WORKSTATION}.")
    with pytest.raises(UserError, match=FROM_WORKSTATION):
        run_target(folders, "decay/measurement", "laptop", None, frozenset())


def test_the_page_shows_the_figure_that_was_published_and_without_one_why_there_is_none(folders: Folders) -> None:
    analyse(find(folders.root, "decay"), "laptop", folders)
    entry = next(e for e in read_json(folders.analysis("laptop", "decay") / "figures.json") if e["name"] == "fig2")
    assert entry["problem"] == FROM_WORKSTATION
    shown = Evidence(folders.root / "replications/decay", "laptop", folders.root).figures
    (picture,) = [picture for picture in shown if picture.entry.name == "fig2"]
    assert (picture.published, picture.scale, picture.commit) == (True, "laptop", "earlier")


def test_publishing_the_others_keeps_what_was_published_of_it(folders: Folders) -> None:
    paper, root = find(folders.root, "decay"), folders.root
    for name in ("requirements-torch.txt", "requirements.lock", ".gitignore"):
        shutil.copy(ROOT / name, root / name)
    Project(root).commit("start")
    for job in paper.jobs("laptop"):
        execute_job(job, Conditions(paper, folders.store, torch.device("cpu")))
    analyse(paper, "laptop", folders)
    place = publish(paper, list(paper.experiments), "laptop", folders)
    assert set(read_json(place / "provenance.json")["experiments"]) == {"descent", "measurement"}
    assert {"descent", "measurement"} <= set(read_json(place / "metrics.json"))
    assert (place / "figures/measurement-fig2.svg").is_file()
    experiments: dict[str, list[str]] = {}
    for verdict in read_json(place / "verdicts.json"):
        experiments.setdefault(verdict["id"], []).append(verdict["experiment"])
    assert experiments["kept"] == ["measurement"]
    assert experiments[MOVED] == ["descent"], "a claim that moved has one verdict"
    with pytest.raises(UserError, match=FROM_WORKSTATION):
        publish(paper, ["measurement"], "laptop", folders)
