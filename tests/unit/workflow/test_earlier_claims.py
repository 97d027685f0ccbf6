"""claims.yaml of a commit is read entry by entry, as YAML reads the whole."""

from pathlib import Path

import pytest
import yaml

from common.workflow.earlier_claims import entries_at
from tests.conftest import EXAMPLE, Project, make_project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = make_project(tmp_path, {"decay": EXAMPLE})
    made.commit("start")
    return made


@pytest.mark.parametrize(
    "written",
    [
        "# before\n- id: a\n  reason: >-\n    - no entry\n    # no comment\n\n# between\n- id: b\n",
        "- id: a\n  accept: &one {below: 0}\n- id: b\n  accept: *one\n",
        "  - id: a\n  - id: b\n",
        "[{id: a}, {id: b}]\n",
        "",
    ],
)
def test_entries_are_those_that_yaml_reads_in_the_whole_file(project: Project, written: str) -> None:
    replication = project.replication()
    (replication.folder / "claims.yaml").write_text(written)
    commit = project.commit("written")
    assert entries_at(replication, commit) == (yaml.safe_load(written) or [])


def test_a_commit_without_the_file_has_no_entries(project: Project) -> None:
    replication = project.replication()
    (replication.folder / "claims.yaml").unlink()
    assert entries_at(replication, project.commit("gone")) == []
