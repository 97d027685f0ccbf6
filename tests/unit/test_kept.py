"""What is kept between processes is believed only where it is whole and of the same content."""

from pathlib import Path

import pytest

from common.kept import FOLDER, content_digest, kept


def refuse() -> object:
    raise AssertionError("it was to be kept")


def test_a_value_is_computed_once_for_a_key(tmp_path: Path) -> None:
    assert kept(tmp_path, "name", "key", lambda: {"a": [1, 2.5, None]}) == {"a": [1, 2.5, None]}
    assert kept(tmp_path, "name", "key", refuse) == {"a": [1, 2.5, None]}
    assert kept(tmp_path, "name", "other key", lambda: "new") == "new"
    assert kept(tmp_path, "name", "key", lambda: "again") == "again"


@pytest.mark.parametrize("spoilt", [0, 70, -2, b"", b"\xff\xfe\n\n", b"one line"])
def test_a_damaged_emptied_or_foreign_file_is_ignored(spoilt: int | bytes, tmp_path: Path) -> None:
    kept(tmp_path, "name", "key", lambda: ["value"])
    path = tmp_path / FOLDER / "name.json"
    content = bytearray(path.read_bytes())
    if isinstance(spoilt, int):
        content[spoilt] ^= 1
    path.write_bytes(content if isinstance(spoilt, int) else spoilt)
    assert kept(tmp_path, "name", "key", lambda: "anew") == "anew"
    assert kept(tmp_path, "name", "key", refuse) == "anew"


def test_where_nothing_can_be_kept_the_value_is_computed(tmp_path: Path) -> None:
    (tmp_path / FOLDER).symlink_to(tmp_path / "nowhere")
    assert [kept(tmp_path, "name", "key", lambda: 1), kept(None, "name", "key", lambda: 2)] == [1, 2]


def test_a_digest_of_contents_tells_bytes_names_and_absence(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    seen = {content_digest([one])}
    one.write_text("")
    seen.add(content_digest([one]))
    one.write_text("a")
    seen.add(content_digest([one]))
    one.rename(two)
    seen |= {content_digest([one]), content_digest([two])}
    assert len(seen) == 4
