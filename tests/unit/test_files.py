"""Files that are never half-written or half-read: writers' temporary files, and readers that meet writers."""

import ast
import errno
import json
import os
import threading
import time
from pathlib import Path

import pytest

from common import files
from common.errors import UserError
from common.files import (
    atomic_path,
    peek_json,
    published,
    read_entries,
    remove_abandoned,
    remove_temporary_files,
    status_of,
    write_atomically,
    write_json,
)

ROOT = Path(__file__).parents[2]
LISTINGS = {"glob", "rglob", "iglob", "iterdir", "listdir", "scandir", "walk"}
# Files that list folders themselves, and why no writer can be at work there.
ALONE = {
    "common/files.py": "the place that does it for all",
    "common/locks.py": "names of locks, which are made whole",
    "common/experiments/syntax.py": "sources",
    "common/experiments/call.py": "artifacts of a run folder that this process holds alone",
    "common/datasets/archives.py": "a scratch folder of this process",
    "common/datasets/clients.py": "a scratch folder of this process",
    "common/datasets/decoding.py": "a folder of the user's or a scratch folder of this process",
    "common/datasets/graph_decoding.py": "a folder of the user's or a scratch folder of this process",
    "common/datasets/image_collections.py": "a folder of the user's or a scratch folder of this process",
    "common/datasets/store.py": "leftovers of other processes, under the lock that they held",
    "common/datasets/homes.py": "an installed package",
    "common/workflow/made_data.py": "a scratch folder of this process",
    "common/reports/index.py": "sources",
    "common/reports/render.py": "sources",
    "common/reports/scoreboard.py": "sources",
    "common/workflow/discovery.py": "sources",
    "common/workflow/graph.py": "sources",
    "common/workflow/lint.py": "sources",
    "common/workflow/new.py": "sources",
    "common/workflow/archives.py": "parts of an archive that the user names",
    "common/reports/paper_view.py": "names for a message",
}
SOURCES = sorted((ROOT / "common").rglob("*.py"))


def calls(path: Path, names: set[str]) -> list[ast.Call]:
    """Calls in a file of functions or methods of these names."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if name in names and not (name == "walk" and "ast" in ast.unparse(function)):
                found.append(node)
    return found


def patterns() -> list[str]:
    """Every pattern that the project lists files by, with `x` in the place of what is filled in."""
    found = set()
    for path in SOURCES:
        for call in calls(path, {"published", "glob", "rglob"}):
            for argument in call.args:
                for node in [argument] if isinstance(argument, ast.Constant | ast.JoinedStr) else []:
                    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
                    text = "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in parts)
                    found.add(f"**/{text}" if getattr(call.func, "attr", "") == "rglob" else text)
    return sorted(found - {".*x", "**/.*"})  # those of `files` itself, which are after temporary files


def test_a_folder_where_a_writer_may_be_at_work_is_listed_in_one_place() -> None:
    found = {str(path.relative_to(ROOT)) for path in SOURCES if calls(path, LISTINGS)}
    assert found - ALONE.keys() == set(), "list it with common.files.published, or say why nobody writes there"


def test_the_patterns_of_readers_are_found() -> None:
    assert {"*/*.json", "*/verdicts.json", "**/*", "*.parquet"} <= set(patterns())


@pytest.mark.parametrize("pattern", patterns())
def test_no_pattern_of_a_reader_matches_a_temporary_file(tmp_path: Path, pattern: str) -> None:
    parts = [part for part in pattern.split("/") if part != "**"]
    names = [part.replace("*", "a").replace("[0-9]", "0") for part in parts]
    for depth in range(3):
        folder = tmp_path / str(depth)
        with atomic_path(folder.joinpath(*"abc"[:depth], *names)) as temporary:
            assert temporary.is_file()
            assert temporary not in published(folder, pattern)
            if parts[-1] != "*":
                assert temporary not in set(folder.glob(pattern)), "pathlib's patterns match dot-files"
    assert tmp_path.joinpath("0", *names) in published(tmp_path / "0", pattern)


def test_what_is_published_is_sorted_and_whole_and_a_missing_folder_holds_nothing(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", "c/d.json"):
        write_json(tmp_path / name, 1)
    assert published(tmp_path, "*.json") == [tmp_path / "a.json", tmp_path / "b.json"]
    assert published(tmp_path, "**/*.json")[-1] == tmp_path / "c" / "d.json"
    assert published(tmp_path / "nowhere", "*/*.json") == []


@pytest.mark.parametrize("content", [b"", b'{"fraction": 0.', b"\xff\xfe"])
def test_what_is_empty_or_half_written_is_not_there_yet(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "job.json"
    assert peek_json(path) is None
    path.write_bytes(content)
    assert peek_json(path) is None
    write_json(path, {"fraction": 0.5})
    assert peek_json(path) == {"fraction": 0.5}


def test_a_file_that_went_away_on_nfs_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stale(self: Path, *arguments: object, **options: object) -> object:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr(Path, "read_text", stale)
    monkeypatch.setattr(Path, "stat", stale)
    assert peek_json(tmp_path / "job.json") is None
    assert status_of(tmp_path / "job.json") is None


def test_a_reader_beside_writers_at_the_highest_rate_never_sees_a_part(tmp_path: Path) -> None:
    path = tmp_path / "laptop" / "decay" / "job.json"
    content = {"text": "x" * 5000}
    ended = threading.Event()

    def write() -> None:
        while not ended.is_set():
            write_atomically(path, json.dumps(content))
            path.unlink(missing_ok=True)

    writers = [threading.Thread(target=write) for _ in range(3)]
    for writer in writers:
        writer.start()
    seen = []
    until = time.process_time() + 0.5
    while time.process_time() < until:
        for found in published(tmp_path, "*/*/*"):
            assert found == path
            seen.append(peek_json(found))
            status_of(found)
    ended.set()
    for writer in writers:
        writer.join()
    assert all(one in (None, content) for one in seen)
    assert content in seen


def test_temporary_files_that_a_killed_process_left_go_and_those_of_a_living_one_stay(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "old.svg") as old, atomic_path(tmp_path / "new.svg") as new:
        long_ago = time.time() - 2 * files.ABANDONED_SECONDS
        os.utime(old, (long_ago, long_ago))
        remove_abandoned(tmp_path)
        assert not old.exists()
        assert new.exists()
        old.touch()
        remove_temporary_files(tmp_path)
        assert not old.exists()
        assert not new.exists()
        old.touch()
        new.touch()
    assert {path.name for path in published(tmp_path)} == {"old.svg", "new.svg"}


def test_a_file_is_as_readable_as_its_owner_wants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.umask(0o077)
    try:
        files._umask.cache_clear()
        write_atomically(tmp_path / "private", "mine")
    finally:
        os.umask(before)
        files._umask.cache_clear()
    write_atomically(tmp_path / "plain", "ours")
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "plain").stat().st_mode & 0o777 == 0o666 & ~before


@pytest.mark.parametrize("content", [b"null", b"{}", b"[1]", b'[{"a": 1}, null]', b"[", b"\xff\xfe[]"])
def test_what_lists_no_entries_is_one_sentence_that_names_the_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "entries.json"
    assert read_entries(path) == []
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"entries\.json.*: not .*; delete the file to have it rebuilt\.$"):
        read_entries(path)
    write_json(path, [{"a": "é"}])
    assert read_entries(path) == [{"a": "é"}]
