"""DVC over the workflow, and results that travel between machines."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from common.errors import UserError
from common.workflow import archives
from tests.conftest import EXAMPLE, ROOT, Project, make_project

pytestmark = pytest.mark.slow


def dvc(project: Project, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return project.command(sys.executable, "-m", "dvc", *arguments)


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A committed checkout with a remote, its laptop results made by `dvc repro`, recorded and pushed."""
    place = tmp_path_factory.mktemp("tracked")
    project = make_project(place / "checkout", {"decay": EXAMPLE})
    for name in ("requirements-torch.txt", "requirements.lock", ".gitignore", ".dvcignore"):
        shutil.copy(ROOT / name, project.root / name)
    project.git("init", "--quiet")
    assert dvc(project, "init", "--quiet").returncode == 0
    assert dvc(project, "remote", "add", "--default", "folder", str(place / "remote")).returncode == 0
    project.succeeds("sync")
    project.commit("start")
    done = dvc(project, "repro")
    assert done.returncode == 0, done.stdout + done.stderr
    project.commit("results")
    assert dvc(project, "push").returncode == 0
    return project


@pytest.fixture
def copy(tracked: Project, tmp_path: Path) -> Project:
    shutil.copytree(tracked.root, tmp_path / "copy", symlinks=True)
    return Project(tmp_path / "copy")


def test_repro_makes_results_report_and_metric(tracked: Project) -> None:
    assert (tracked.root / "reports/index.html").is_file()
    metric = json.loads((tracked.root / "reports/metrics/laptop/decay.json").read_text())
    assert metric["fig1-larger-steps-descend-faster"]["verdict"] == "reproduced"
    assert "reports/metrics/laptop/decay.json" in tracked.git("ls-files")
    assert "results/" not in tracked.git("ls-files")
    assert "up to date" in dvc(tracked, "status").stdout


def test_pull_after_a_clone_asks_for_what_is_recorded_alone(tracked: Project, tmp_path: Path) -> None:
    tracked.git("clone", "--quiet", str(tracked.root), str(tmp_path / "clone"))
    clone = Project(tmp_path / "clone")
    shutil.copytree(clone.root / "replications/decay", clone.root / "replications/never_recorded")
    done = clone.succeeds("pull")
    assert "30 were current" in done.stdout
    assert "never_recorded-laptop" in (clone.root / "dvc.yaml").read_text()
    assert clone.records() == tracked.records()
    dry = clone.snakemake("--dry-run", "analysis/laptop/decay/verdicts.json")
    assert "Nothing to be done" in dry.stdout + dry.stderr


def test_a_damaged_pull_is_not_adopted(copy: Project) -> None:
    path = copy.root / "results/laptop/decay/descent/learning_rate=0.1,seed=0/records.jsonl"
    text = path.read_text()
    path.unlink()
    path.write_text(text.replace("1", "2", 1))
    done = copy.replicate("adopt")
    assert done.returncode == 1
    assert "records.jsonl does not have the digest" in done.stdout


def test_metrics_diff_shows_what_moved(copy: Project) -> None:
    copy.edit("config.yaml", "base: {steps: 40}", "base: {steps: 30}")
    copy.succeeds("reports", "--scale", "laptop", "--no-pages")
    shown = dvc(copy, "metrics", "diff", "--json")
    assert shown.returncode == 0, shown.stderr
    assert "estimate" in shown.stdout


def test_going_to_another_scale_loses_neither(copy: Project) -> None:
    before = copy.records()
    (copy.root / "params.yaml").write_text("scale: smoke\n")
    copy.succeeds("sync")
    text = (copy.root / "dvc.yaml").read_text()
    assert "decay-smoke" in text
    assert "frozen: true" in text
    done = dvc(copy, "repro")
    assert done.returncode == 0, done.stdout + done.stderr
    lock = (copy.root / "dvc.lock").read_text()
    assert "decay-smoke:" in lock
    assert "decay-laptop:" in lock
    assert copy.records() == before


def test_a_stale_pipeline_file_is_found(copy: Project) -> None:
    copy.succeeds("sync", "--check")
    shutil.copytree(copy.root / "replications/decay", copy.root / "replications/again")
    stale = copy.replicate("sync", "--check")
    assert stale.returncode == 1
    assert "run `replicate sync`" in stale.stdout


def test_track_records_what_make_reports_made_and_refuses_while_something_is_due(copy: Project) -> None:
    copy.edit("descent.py", "1e-6 * kick", "2e-6 * kick")
    refused = copy.replicate("track")
    assert refused.returncode == 2
    assert "decay is not up to date at scale laptop: run `make reports` first." in refused.stderr
    copy.succeeds("reports", "--no-pages")
    done = copy.succeeds("track")
    assert "decay-laptop" in done.stdout
    assert "decay-laptop" not in dvc(copy, "status").stdout


def test_another_scale_than_the_default_is_recorded_too(copy: Project) -> None:
    copy.succeeds("reports", "--scale", "smoke", "--no-pages")
    copy.succeeds("track", "--scale", "smoke")
    assert "decay-smoke:" in (copy.root / "dvc.lock").read_text()


@pytest.mark.parametrize("place", ["box", "box.tar.gz"])
def test_results_of_a_box_without_the_workflow_are_adopted_elsewhere(
    project: Project, tmp_path: Path, place: str
) -> None:
    box = tmp_path / place
    project.succeeds("run", "decay", "--scale", "laptop", "--out", str(box))
    assert not (project.root / "results").exists()
    if box.suffix:
        shutil.rmtree(tmp_path / "box")
    done = project.succeeds("adopt", str(box), "--scale", "laptop")
    assert "30 runs taken over" in done.stdout
    wrong = project.replicate("adopt", str(box), "--scale", "workstation")
    assert wrong.returncode != 0
    assert "holds no run of any paper at scale workstation: name the folder that holds workstation/" in wrong.stderr
    dry = project.snakemake("--dry-run", "results/.jobs/laptop/decay/measurement/6114e4c5aeca.json")
    assert "Nothing to be done" in dry.stdout + dry.stderr


def test_results_of_other_code_are_refused_with_the_reason(project: Project, tmp_path: Path) -> None:
    box = tmp_path / "box"
    project.succeeds("run", "decay", "--scale", "smoke", "--out", str(box))
    project.edit("descent.py", "1e-6 * kick", "2e-6 * kick")
    done = project.replicate("adopt", str(box), "--scale", "smoke")
    assert done.returncode == 1
    assert "it was computed with other code" in done.stdout


@pytest.mark.parametrize(
    ("name", "folder", "archive"),
    [
        ("box", "box", None),
        ("box.v2", "box.v2", None),
        (".tar", ".tar", None),
        ("box.tar", "box", "box.tar"),
        ("box.tar.gz", "box", "box.tar.gz"),
        ("box.tgz", "box", "box.tgz"),
    ],
)
def test_an_archive_is_told_from_a_folder_by_its_name(
    tmp_path: Path, name: str, folder: str, archive: str | None
) -> None:
    assert archives.archive_place(tmp_path / name) == (
        tmp_path / folder,
        None if archive is None else tmp_path / archive,
    )


@pytest.mark.parametrize("name", ["box.zip", "box.tar.xz"])
def test_an_archive_that_is_not_made_is_one_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"of archives only .tar, .tar.gz, .tgz are made"):
        archives.archive_place(tmp_path / name)


def test_an_archive_is_split_and_read_back_and_a_damaged_one_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "results"
    (results / "smoke").mkdir(parents=True)
    (results / "smoke" / "file").write_bytes(bytes(range(256)) * 40)
    monkeypatch.setattr(archives, "PART_BYTES", 200)
    parts = archives.write_archive(results, tmp_path / "x.tar")
    assert len(parts) > 1
    with archives.opened(tmp_path / "x.tar") as folder:
        assert (folder / "smoke" / "file").read_bytes() == bytes(range(256)) * 40
    parts[-1].unlink()
    with pytest.raises(UserError, match="damaged archive"), archives.opened(tmp_path / "x.tar"):
        pass


def _published(place: Path) -> dict[str, Any]:
    verdicts = json.loads((place / "verdicts.json").read_text())
    (verdict,) = [verdict for verdict in verdicts if verdict["id"] == "fig1-larger-steps-descend-faster"]
    return dict(verdict)


def test_published_evidence_names_its_commit_and_refuses_what_cannot_be_traced(copy: Project) -> None:
    start = copy.git("rev-parse", "HEAD~1")
    copy.succeeds("publish", "decay")
    place = copy.root / "reports/published/laptop/decay"
    verdicts = json.loads((place / "verdicts.json").read_text())
    assert {verdict["commit"] for verdict in verdicts} == {start}
    figures = json.loads((place / "figures.json").read_text())
    assert all((place / figure[kind]).is_file() for figure in figures for kind in ("svg", "csv"))

    copy.edit(
        "claims.yaml",
        "accept: {below: 0}\n  decidable_from: laptop\n- id: control",
        "accept: {below: 9}\n  decidable_from: laptop\n- id: control",
    )
    uncommitted = copy.replicate("publish", "decay")
    assert uncommitted.returncode == 2
    assert "files differ from the commit (" in uncommitted.stderr
    copy.git("commit", "--quiet", "--all", "--message", "another rule")
    copy.succeeds("reports", "--no-pages")
    changed = copy.replicate("publish", "decay")
    assert changed.returncode == 2
    assert "of claim fig1-larger-steps-descend-faster the rule changed since its evidence" in changed.stderr
    why = "{date: 2026-01-01, reason: a slip, former: {accept: {below: 0}}, seen: {laptop: [0, 1, 2, 3, 4]}}"
    copy.edit("claims.yaml", "accept: {below: 9}", f"accept: {{below: 9}}\n  amended: [{why}]")
    copy.git("commit", "--quiet", "--all", "--message", "amended")
    copy.succeeds("reports", "--no-pages")
    copy.succeeds("publish", "decay")

    verdict = _published(place)
    assert verdict["rule"].endswith("below 9")
    assert verdict["rule_commit"] == copy.git("rev-parse", "HEAD~1")
    assert (verdict["seen"], verdict["former"][0]["verdict"]) == ([0, 1, 2, 3, 4], "reproduced")
    why_again = "{date: 2026-01-02, reason: another, former: {accept: {below: 9}}, seen: {laptop: [0, 1, 2, 3, 4]}}"
    copy.edit("claims.yaml", f"amended: [{why}]", f"amended: [{why}, {why_again}]")
    copy.edit("claims.yaml", "accept: {below: 9}\n", "accept: {below: -1e9}\n")
    partly = copy.replicate("publish", "decay/descent", "--verdicts")
    assert partly.returncode == 2
    assert "takes a whole paper: replicate publish decay --verdicts." in partly.stderr
    metrics = copy.root / "reports/metrics/laptop/decay.json"
    metrics.write_text(json.dumps({**json.loads(metrics.read_text()), "a-claim-that-was-dropped": {}}))
    again = copy.succeeds("publish", "decay", "--verdicts")
    assert "Changed: fig1-larger-steps-descend-faster\n" in again.stdout
    assert "a-claim-that-was-dropped" not in json.loads(metrics.read_text())
    verdicts = json.loads((place / "verdicts.json").read_text())
    assert {verdict["commit"] for verdict in verdicts} == {start}
    assert [v["verdict"] for v in verdicts if v["id"] == "fig1-larger-steps-descend-faster"] == ["contradicted"]
    why_back = why_again.replace("below: 9", "below: -1e9")
    copy.edit("claims.yaml", f"amended: [{why}, {why_again}]", f"amended: [{why}, {why_again}, {why_back}]")
    copy.edit("claims.yaml", "accept: {below: -1e9}\n", "accept: {below: 9}\n")
    copy.succeeds("publish", "decay", "--verdicts")

    made_otherwise = '{date: 2999-01-01, reason: a slip, former: {metrics: "judged after half"}}'
    copy.edit("claims.yaml", f"{why_again}, {why_back}]", f"{why_again}, {why_back}, {made_otherwise}]")
    copy.succeeds("publish", "decay", "--verdicts")
    assert _published(place)["verdict"] == "reproduced"  # by the code of today
    copy.edit("analysis/descent.py", 'last["distance"] < 1)', 'last["distance"] < 1.5)')
    copy.succeeds("publish", "decay", "--verdicts")
    older = _published(place)
    assert (older["verdict"], older["n"]) == ("not run", None)
    assert "was made otherwise (judged after half)" in older["reason"]
    copy.edit("analysis/descent.py", 'last["distance"] < 1.5)', 'last["distance"] < 1)')

    copy.edit("descent.py", "1e-6 * kick", "2e-6 * kick")
    copy.succeeds("reports", "--no-pages")
    copy.git("commit", "--quiet", "--all", "--message", "other code, computed before it was committed")
    copy.succeeds("publish", "decay")
    made = json.loads((place / "provenance.json").read_text())["experiments"]["descent"]
    assert (made["commit"], made["rules_at"]) == (copy.git("rev-parse", "HEAD"), copy.git("rev-parse", "HEAD~1"))
    copy.edit("claims.yaml", f", {made_otherwise}]", "]")
    copy.edit("claims.yaml", "accept: {below: 9}", "accept: {below: 10}")
    copy.git("commit", "--quiet", "--all", "--message", "a rule younger than its runs")
    copy.succeeds("reports", "--no-pages")
    refused = copy.replicate("publish", "decay")
    assert refused.returncode == 2
    assert "the rule" in refused.stderr


def test_published_evidence_of_other_settings_is_not_judged_by_the_rule_of_now(copy: Project) -> None:
    copy.succeeds("publish", "decay")
    copy.edit("config.yaml", "base: {steps: 40}", "base: {steps: 41}")
    untold = copy.replicate("publish", "decay", "--verdicts")
    assert (untold.returncode, "settings that it selects changed" in untold.stderr) == (2, True)

    why = '{date: 2026-01-01, reason: longer, former: {settings: "40 steps"}, seen: {laptop: [0, 1, 2, 3, 4]}}'
    copy.edit("claims.yaml", "decidable_from: laptop\n", f"decidable_from: laptop\n  amended: [{why}]\n")
    place = copy.root / "reports/published/laptop/decay"
    for changed in ("Changed: fig1-larger-steps-descend-faster", "Changed: nothing"):  # what was found stays known
        assert changed in copy.succeeds("publish", "decay", "--verdicts").stdout
        verdict = _published(place)
        assert (verdict["verdict"], verdict["estimate"]) == ("not run", None)
        assert "has other settings (40 steps): it is judged with the next evidence" in verdict["reason"]

    copy.succeeds("reports", "--no-pages")
    copy.git("commit", "--quiet", "--all", "--message", "longer runs")
    copy.succeeds("publish", "decay")
    assert _published(place)["verdict"] == "reproduced"
