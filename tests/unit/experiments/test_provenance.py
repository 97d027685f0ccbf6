"""Asking git disturbs nobody who uses it."""

import os
from pathlib import Path

import pytest

from common.experiments import provenance
from tests.conftest import Project


@pytest.fixture
def checkout(tmp_path: Path) -> Project:
    """A committed file in each folder of sources."""
    for folder in provenance.SOURCE:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file.py").write_text("one = 1\n")
    project = Project(tmp_path)
    project.commit("all")
    provenance.dirty.cache_clear()
    return project


def test_asking_whether_the_tree_is_dirty_leaves_the_index_alone(checkout: Project) -> None:
    index = checkout.root / ".git" / "index"
    os.utime(checkout.root / "common" / "file.py", (1e9, 1e9))  # git would note that it is unchanged all the same
    before = index.read_bytes()
    assert provenance.dirty(checkout.root) is False
    assert index.read_bytes() == before
    checkout.git("status")
    assert index.read_bytes() != before, "the test would not notice"


def test_a_lock_that_a_users_git_holds_hides_nothing(checkout: Project) -> None:
    (checkout.root / ".git" / "index.lock").touch()
    (checkout.root / "common" / "file.py").write_text("one = 2\n")
    assert provenance.dirty(checkout.root) is True
