"""A change of code that cannot matter: runs that lie here, else what git keeps, stay current with the reason kept."""

from dataclasses import replace

import pytest

from common.errors import UserError
from common.files import read_json, write_json
from common.reports.evidence import Evidence
from common.reports.page import build_page
from common.workflow.accept import accept
from common.workflow.state import run_states
from common.workflow.timings import counted_code, kept_counts_path
from tests.conftest import Project
from tests.unit.experiments.test_execution import execute

SWAPPED = "the factors were swapped"


@pytest.fixture
def published(in_process: Project) -> Project:
    """The example, whose `descent` is published at workstation scale as of a commit; no run of it lies here."""
    paper = in_process.replication()
    facts = {"commit": in_process.commit("as it was computed"), "runs": 15, "data": {}, "devices": [], "versions": {}}
    facts |= {"code": paper.code_digest("descent", "run"), "finished": None, "seconds": 1.0, "peak_memory_mb": 1.0}
    place = in_process.root / "reports/published/workstation/decay"
    write_json(place / "provenance.json", {"scale": "workstation", "experiments": {"descent": facts}})
    rows = [{"run": run.name} for run in paper.runs("descent", "workstation")]
    write_json(place / "metrics.json", {"descent": rows})
    return in_process


def test_runs_whose_code_changed_are_accepted_and_keep_the_reason(in_process: Project) -> None:
    execute(in_process)
    in_process.edit("descent.py", "1e-6 * kick", "kick * 1e-6")
    here = in_process.folders
    assert accept(here, "decay/descent", "smoke", SWAPPED) == "6 of 6 runs accepted at the present code."
    assert all(state.current for state in run_states(in_process.replication(), "smoke", here.store))
    stored = here.store.stored(in_process.replication().runs("descent", "smoke")[0])
    assert stored is not None
    assert stored.accepted[0]["reason"] == SWAPPED
    in_process.edit("config.yaml", "smoke: {steps: 20", "smoke: {steps: 10")
    with pytest.raises(UserError, match="its parameters differ too"):
        accept(here, "decay/descent", "smoke", "no reason")


def test_what_is_published_is_accepted_where_no_run_lies_here_and_the_page_says_so(published: Project) -> None:
    path = published.root / "reports/published/workstation/decay/provenance.json"
    before = read_json(path)["experiments"]["descent"]
    published.edit("descent.py", "1e-6 * kick", "kick * 1e-6")
    said = accept(published.folders, "decay/descent", "workstation", SWAPPED)
    assert said.startswith("What is published of decay/descent at scale workstation, 15 runs, is accepted")
    after = read_json(path)["experiments"]["descent"]
    now = published.replication().code_digest("descent", "run")
    (entry,) = after["accepted"]
    assert (entry["from"], entry["to"], entry["reason"]) == (before["code"], now, SWAPPED)
    assert {**after, "code": before["code"]} == {**before, "accepted": [entry]}
    assert after["code"] == now != before["code"]
    again = accept(published.folders, "decay/descent", "workstation", "once more")
    assert again == "What is published of decay/descent at scale workstation is of the present code."
    assert read_json(path)["experiments"]["descent"] == after
    (shown,) = Evidence(published.root / "replications/decay", "laptop", published.root).published_runs
    assert shown.facts.accepted == [entry]
    published.file("report.py").unlink()
    page = build_page(published.root / "replications/decay", "laptop", published.root)
    assert "accepted as" in page.read_text()
    assert SWAPPED in page.read_text()


def test_a_folder_that_was_named_and_holds_no_run_is_no_reason_to_accept_what_is_published(published: Project) -> None:
    before = (path := published.root / "reports/published/workstation/decay/provenance.json").read_text()
    published.edit("descent.py", "1e-6 * kick", "kick * 1e-6")
    elsewhere = replace(published.folders, results=published.root / "reports/unfinished")
    with pytest.raises(UserError, match=r"decay/descent: no run at scale workstation lies in .*unfinished, which was"):
        accept(elsewhere, "decay/descent", "workstation", SWAPPED)
    assert path.read_text() == before


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (("config.yaml", "base: {steps: 40}", "base: {steps: 41}"), "the parameters of what is published differ too"),
        (("config.yaml", "    seed: 5\n  together", "    seed: 6\n  together"), "the runs and parameters of what"),
    ],
)
def test_published_evidence_of_other_parameters_is_not_accepted(
    published: Project, edit: tuple[str, str, str], sentence: str
) -> None:
    path = published.root / "reports/published/workstation/decay/provenance.json"
    published.edit("descent.py", "1e-6 * kick", "kick * 1e-6")
    published.edit(*edit)
    before = path.read_text()
    with pytest.raises(UserError, match=sentence):
        accept(published.folders, "decay/descent", "workstation", SWAPPED)
    assert path.read_text() == before


def test_published_evidence_whose_grid_grew_between_its_commits_is_accepted(published: Project) -> None:
    path = published.root / "reports/published/workstation/decay/provenance.json"
    content = read_json(path)
    late = content["experiments"]["descent"]["commit"]
    published.edit("config.yaml", "    seed: 5\n  together", "    seed: 3\n  together")
    early = published.commit("three seeds")
    published.edit("config.yaml", "    seed: 3\n  together", "    seed: 5\n  together")
    published.edit("descent.py", "1e-6 * kick", "kick * 1e-6")
    for commits, missing in ((early, True), (f"{early}, {late}", False)):
        content["experiments"]["descent"]["commit"] = commits
        write_json(path, content)
        if missing:
            with pytest.raises(UserError, match="the parameters of what is published differ too"):
                accept(published.folders, "decay/descent", "workstation", SWAPPED)
        else:
            assert "15 runs, is accepted" in accept(published.folders, "decay/descent", "workstation", SWAPPED)


def test_published_evidence_of_other_data_is_not_accepted(published: Project) -> None:
    path = published.root / "reports/published/workstation/decay/provenance.json"
    content = read_json(path)
    content["experiments"]["descent"]["data"] = {"mnist": "another digest"}
    write_json(path, content)
    published.edit("descent.py", "1e-6 * kick", "kick * 1e-6")
    with pytest.raises(UserError, match="the data of what is published differ too"):
        accept(published.folders, "decay/descent", "workstation", SWAPPED)


def test_where_nothing_is_published_there_is_nothing_to_accept(published: Project) -> None:
    for target, scale in (("decay/descent", "paper"), ("decay/measurement", "workstation")):
        with pytest.raises(UserError, match="nothing is published or counted, so there is nothing to accept"):
            accept(published.folders, target, scale, SWAPPED)


def test_where_nothing_is_computed_the_counts_that_git_keeps_are_accepted_but_none_of_a_former_counter(
    in_process: Project,
) -> None:
    path = kept_counts_path(in_process.replication(), "paper")
    before = counted_code(in_process.replication(), "descent")
    other = {"experiment": "measurement", "code": "of other code", "settings": ["single"]}
    write_json(path, [{"experiment": "descent", "code": before, "settings": ["single"]}, other])
    in_process.edit("descent.py", "1e-6 * kick", "kick * 1e-6")
    said = accept(in_process.folders, "decay/descent", "paper", SWAPPED)
    assert said.startswith("What was counted of decay/descent at scale paper, calls: 1, is accepted")
    now = counted_code(in_process.replication(), "descent")
    mine, untouched = read_json(path)
    assert untouched == other
    assert mine["code"] == now != before
    assert [(entry["from"], entry["to"], entry["reason"]) for entry in mine["accepted"]] == [(before, now, SWAPPED)]
    again = accept(in_process.folders, "decay/descent", "paper", "once more")
    assert again == "What was counted of decay/descent at scale paper is of the present code."
    write_json(path, [{"experiment": "descent", "code": before.partition("-")[0], "settings": ["single"]}])
    with pytest.raises(UserError, match="counted by a former counter"):
        accept(in_process.folders, "decay/descent", "paper", SWAPPED)
