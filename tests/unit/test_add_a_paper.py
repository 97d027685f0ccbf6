"""docs/add-a-paper.md quotes a replication as it is: names, settings and rules, not the wording of its sentences."""

import re
from typing import Any

import pytest
import yaml

from common.experiments.paper import Coverage, Deviation, Finding, Paper, pieces
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "add-a-paper.md").read_text(encoding="utf-8")
FOLDER = ROOT / "replications" / "cohen2021edge"
WORDING = {"statement", "answer", "text"}


def quoted(language: str, start: str) -> str:
    """The block of code on the page that begins so."""
    [found] = [block for block in re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL) if block.startswith(start)]
    return found


def read(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))


def differs(quote: Any, whole: Any, place: str = "") -> list[str]:
    """Where what is quoted is not so; of `resources`, which measurements rewrite, names alone are compared."""
    if isinstance(quote, dict) and isinstance(whole, dict):
        known = (quote.keys() & whole.keys()) - WORDING
        deeper = [found for key in known for found in differs(quote[key], whole[key], f"{place}/{key}")]
        return [f"{place}/{key}" for key in quote.keys() - whole.keys()] + deeper
    return [] if quote == whole or "/resources/" in place else [place]


def test_the_quoted_experiment_stands_in_its_config() -> None:
    assert differs(yaml.safe_load(quoted("yaml", "momentum_thresholds:")), read("config.yaml")) == []


def test_the_quoted_claim_stands_in_its_ledger() -> None:
    [claim] = yaml.safe_load(quoted("yaml", "- id:"))
    [whole] = [one for one in read("claims.yaml") if one["id"] == claim["id"]]
    assert differs(claim, whole) == []


def test_the_quoted_finding_stands_in_its_paper() -> None:
    quote, whole = yaml.safe_load(quoted("yaml", "question:")), read("paper.yaml")
    [finding] = quote.pop("findings")
    assert differs(quote, whole) == []
    assert any(differs(finding, one) == [] for one in whole["findings"])
    assert pieces(Finding(**finding).text)


def test_the_quoted_figure_stands_in_its_report() -> None:
    assert quoted("python", "paper.figure(") in (FOLDER / "report.py").read_text(encoding="utf-8")


def test_the_loop_is_that_of_the_example() -> None:
    code = (ROOT / "tests" / "example" / "decay" / "descent.py").read_text(encoding="utf-8").splitlines()
    lines = ["    " + re.sub(r"  +# .*", "", line) for line in quoted("python", "rates = ").splitlines()]
    assert [line for line in lines if line not in code] == []


@pytest.mark.parametrize("model", [Paper, Coverage, Deviation])
def test_every_field_of_a_paper_is_explained(model: Any) -> None:
    table = PAGE[PAGE.index("| field | holds |") :]
    assert [name for name in model.model_fields if f"`{name}`" not in table] == []
