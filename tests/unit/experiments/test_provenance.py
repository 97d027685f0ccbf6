"""Asking git disturbs nobody who uses it."""

import os
import subprocess
from pathlib import Path

from common.experiments import provenance


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True)


def test_asking_whether_the_tree_is_dirty_leaves_the_index_alone(tmp_path: Path) -> None:
    for folder in provenance.SOURCE:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file.py").write_text("one = 1\n")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "all")
    index = tmp_path / ".git" / "index"
    os.utime(tmp_path / "common" / "file.py", (1e9, 1e9))  # git would note that it is unchanged all the same
    before = index.read_bytes()
    provenance.dirty.cache_clear()
    assert provenance.dirty(tmp_path) is False
    assert index.read_bytes() == before
    subprocess.run(["git", "-C", str(tmp_path), "status"], check=True, capture_output=True)
    assert index.read_bytes() != before, "the test would not notice"


def test_a_lock_that_a_users_git_holds_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "file.py").write_text("one = 1\n")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "all")
    (tmp_path / ".git" / "index.lock").touch()
    (tmp_path / "common" / "file.py").write_text("one = 2\n")
    provenance.dirty.cache_clear()
    assert provenance.dirty(tmp_path) is True
