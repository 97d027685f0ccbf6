"""`replicate new` takes what it can from the name."""

import datetime
from pathlib import Path

import pytest
import yaml

from common.errors import UserError
from common.workflow.new import new

THIS_YEAR = datetime.date.today().year


@pytest.mark.parametrize(
    ("name", "key", "year"),
    [("blanc2020noise", "blanc2020noise", 2020), ("label_noise", f"label_noise{THIS_YEAR}", THIS_YEAR)],
)
def test_a_year_in_the_name_is_that_of_the_paper(name: str, key: str, year: int, tmp_path: Path) -> None:
    new(tmp_path, name)
    paper = yaml.safe_load((tmp_path / "replications" / name / "paper.yaml").read_text())
    assert (paper["key"], paper["year"]) == (key, year)


@pytest.mark.parametrize("name", ["torch", "json", "2020noise", "data"])
def test_a_name_that_python_could_mistake_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"'{name}' cannot name a replication: "):
        new(tmp_path, name)
    assert not list(tmp_path.iterdir())
