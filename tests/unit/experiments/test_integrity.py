"""What a run left is what is read: a damaged run is named and computed again, an unusable checkpoint set aside."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from common.errors import UserError
from common.experiments import integrity
from common.experiments.identity import Identities
from common.workflow.accept import accept
from common.workflow.adopt import adopt
from common.workflow.state import RunState, job_state, run_states
from common.workflow.track import track
from tests.conftest import Project
from tests.unit.experiments.test_execution import execute, interrupted, rows, statuses

RUN = "descent/learning_rate=0.1,seed=0"
FOLDER = f"results/smoke/decay/{RUN}"
READER = "measurement/learning_rate=0.1,seed=0"


def states(project: Project) -> dict[str, RunState]:
    found = run_states(project.replication(), "smoke", project.folders.store)
    return {f"{state.run.experiment}/{state.run.name}": state for state in found}


def edited(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "edited records": (lambda f: edited(f / "records.jsonl", "1", "2"), "records.jsonl does not have the digest"),
    "empty records": (lambda f: (f / "records.jsonl").write_text(""), "records.jsonl does not have the digest"),
    "no records": (lambda f: (f / "records.jsonl").unlink(), "records.jsonl is missing"),
    "edited provenance": (
        lambda f: edited(f / "provenance.json", '"steps": 20', '"steps": 21'),
        "provenance.json does not have the digest",
    ),
    "no provenance": (lambda f: (f / "provenance.json").unlink(), "provenance.json is missing"),
    "cut outcome": (lambda f: (f / "outcome.json").write_text('{"status": "comp'), "outcome.json is not JSON"),
    "bytes as outcome": (lambda f: (f / "outcome.json").write_bytes(b"\xff\xfe\x00"), "outcome.json is not JSON"),
    "a list as outcome": (lambda f: (f / "outcome.json").write_text("[]"), "outcome.json is no outcome of a run"),
    "another outcome": (lambda f: (f / "outcome.json").write_text('{"status": 3}'), "outcome.json states no status"),
    "cut artifact": (
        lambda f: (f / "artifacts/weights.safetensors").write_bytes(b"x"),
        "artifacts/weights.safetensors does not have the size",
    ),
    "no artifact": (
        lambda f: (f / "artifacts/weights.safetensors").unlink(),
        "artifacts/weights.safetensors is missing",
    ),
}


def due(project: Project) -> bool:
    """Whether Snakemake sees by itself that the job is to be done again."""
    paper, results = project.replication(), project.folders.store
    return " again " in job_state(paper.jobs("smoke")[0], Identities(paper, results), results)


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_run_is_named_and_computed_again_alone(in_process: Project, name: str) -> None:
    damage, sentence = DAMAGES[name]
    execute(in_process)
    whole, before = in_process.records("smoke"), in_process.modified()
    damage(in_process.root / FOLDER)
    state = states(in_process)[RUN]
    assert (state.current, state.outcome.status) == (False, "damaged")
    assert sentence in state.outcome.reason
    assert due(in_process), "a workflow that nobody tells what is due"
    execute(in_process)
    assert not due(in_process)
    assert in_process.records("smoke") == whole
    assert states(in_process)[RUN].current
    after = in_process.modified()
    assert {path for path in before if after[path] != before[path]} == {f"smoke/decay/{RUN}/outcome.json"}


def test_an_artifact_of_another_content_is_found_where_it_is_read_and_mended_by_the_next_call(
    in_process: Project,
) -> None:
    execute(in_process)
    whole = in_process.records("smoke")
    path = in_process.root / FOLDER / "artifacts/weights.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    shutil.rmtree(in_process.root / "results/smoke/decay/measurement")
    outcomes = execute(in_process)
    assert outcomes[READER].status == "unfinished"
    assert f"it needs decay/{RUN}, which is damaged: its artifacts/weights" in outcomes[READER].reason
    assert statuses(outcomes)["measurement/learning_rate=0.5,seed=0"] == "completed"
    assert "does not have the digest" in states(in_process)[RUN].outcome.reason
    assert execute(in_process)[READER].status == "completed"
    assert in_process.records("smoke") == whole


def older(folder: Path) -> None:
    """The run folder as it was before provenance and sizes were stated."""
    path = folder / "outcome.json"
    content = json.loads(path.read_text())
    del content["provenance"], content["sizes"]
    path.write_text(json.dumps(content))


def test_an_older_run_without_a_digest_of_its_provenance_stays_current_unless_it_is_contradicted(
    in_process: Project,
) -> None:
    execute(in_process)
    older(in_process.root / FOLDER)
    assert states(in_process)[RUN].current
    in_process.edit("descent.py", "1e-6 * kick", "kick * 1e-6")
    accept(in_process.folders, "decay/descent", "smoke", "the factors were swapped")
    assert states(in_process)[RUN].current
    edited(in_process.root / FOLDER / "provenance.json", '"learning_rate": 0.1', '"learning_rate": 0.2')
    edited(in_process.root / FOLDER / "provenance.json", '"steps": 20', '"steps": 21')
    assert states(in_process)[RUN].outcome.reason.startswith("its provenance.json contradicts outcome.json")


def test_a_damaged_run_cannot_be_accepted_or_recorded(in_process: Project) -> None:
    execute(in_process)
    (in_process.root / FOLDER / "records.jsonl").write_text("")
    with pytest.raises(UserError, match=r"learning_rate=0.1,seed=0 is damaged: its records.jsonl does not have"):
        track({"decay": in_process.replication()}, "smoke", in_process.folders)
    in_process.edit("descent.py", "1e-6 * kick", "kick * 1e-6")
    with pytest.raises(UserError, match=r"records.jsonl does not have the digest .* so it has to be computed again"):
        accept(in_process.folders, f"decay/{RUN}", "smoke", "the factors were swapped")


@pytest.mark.parametrize("forged", [True, False])
def test_adopt_refuses_a_run_whose_provenance_is_forged_or_absent(in_process: Project, forged: bool) -> None:
    execute(in_process)
    whole = in_process.records("smoke")
    box = in_process.root / "box"
    (in_process.root / "results").rename(box)
    path = box / f"smoke/decay/{RUN}/provenance.json"
    if forged:
        edited(path, '"dirty": ', '"dirty":  ')
    else:
        path.unlink()
    report = adopt(in_process.replication(), "smoke", in_process.folders, box)
    assert [sentence.split(": ")[0] for sentence in report.refused] == [f"decay/{RUN}"]
    assert "provenance.json" in report.refused[0]
    assert report.taken == len([path for path in whole if path.endswith("records.jsonl")]) - 1


def test_an_artifact_that_is_brought_back_is_no_longer_damaged_after_adopt(in_process: Project) -> None:
    execute(in_process)
    (in_process.root / FOLDER / integrity.MARK).write_text("its artifacts/weights.safetensors does not have the digest")
    assert not states(in_process)[RUN].current
    assert not adopt(in_process.replication(), "smoke", in_process.folders, None).refused
    assert states(in_process)[RUN].current


def test_a_marker_that_cannot_be_read_is_written_again(in_process: Project) -> None:
    execute(in_process)
    markers = sorted(in_process.root.glob("results/.jobs/**/*.json"))
    texts = [path.read_text() for path in markers]
    for path, content in zip(markers, [b"", b"\xff", b'{"runs": 3}', b"[]"], strict=False):
        path.write_bytes(content)
    assert states(in_process)[RUN].current
    execute(in_process)
    assert [json.loads(path.read_text())["runs"] for path in markers] == [json.loads(text)["runs"] for text in texts]


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "another", "records"])
def test_a_checkpoint_that_cannot_be_used_is_set_aside_and_the_call_starts_afresh(
    in_process: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    import torch

    whole, work = interrupted(in_process, monkeypatch)
    checkpoint = work / "checkpoint.pt"
    if damage == "records":
        next((work / "runs").glob("*/records.jsonl")).write_text("")
    elif damage == "another":
        torch.save([1, 2], checkpoint)
    else:
        content = {"cut": checkpoint.read_bytes()[:-50], "empty": b"", "text": b"no checkpoint"}[damage]
        checkpoint.write_bytes(content)
    assert execute(in_process)[RUN].status == "completed"
    assert in_process.records("smoke") == whole
    assert [row["step"] for row in rows(in_process, f"smoke/decay/{RUN}")] == list(range(1, 21))
    said = [line for line in capsys.readouterr().out.splitlines() if "its checkpoint cannot be used" in line]
    assert len(said) == 1
    assert "checkpoint.damaged.pt" in said[0]


@pytest.mark.parametrize("name", ["manifest.json", "commit.json"])
def test_a_workspace_whose_notes_cannot_be_read_starts_afresh(
    in_process: Project, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    whole, work = interrupted(in_process, monkeypatch)
    (work / name).write_bytes(b'{"cut')
    execute(in_process)
    assert in_process.records("smoke") == whole
