"""Where things stand is said of a results folder that is there, or that can be made."""

from pathlib import Path

import pytest

from common.errors import UserError
from common.workflow.state import Folders


def test_a_link_to_a_results_folder_that_is_gone_is_one_sentence(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.symlink_to(tmp_path / "disk" / "results")
    with pytest.raises(UserError, match=r"results is a link to .*disk/results, which is not there; make that folder"):
        Folders(tmp_path, results)
    (tmp_path / "disk" / "results").mkdir(parents=True)
    assert Folders(tmp_path, results).results == results


@pytest.mark.parametrize("text", ["", "[", "{}", "[3]", "\xff"])
def test_notes_of_problems_that_cannot_be_read_are_none(tmp_path: Path, text: str) -> None:
    folders = Folders(tmp_path, tmp_path / "results")
    place = folders.analysis("smoke", "decay")
    place.mkdir(parents=True)
    (place / "problems.json").write_bytes(text.encode("latin-1"))
    assert folders.problems("smoke", "decay") == []
