"""The page that says which number to take points to claims that there are."""

import re
from typing import Any

import pytest

from common.hessian import Estimate, sharpness
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "which-number.md"


def test_every_claim_that_the_page_names_begins_at_the_line_that_it_links() -> None:
    links = re.findall(r"\[([^\]]+)\]\((\.\./replications/\w+/claims\.yaml)(?:#L(\d+))?\)", PAGE.read_text())
    assert len(links) > 20
    for claim, ledger, line in links:
        lines = (PAGE.parent / ledger).read_text().splitlines()
        assert f"- id: {claim}" in lines, claim
        assert lines[int(line or 1) - 1] == f"- id: {claim}", f"{claim}: `replicate sync` renews the lines"


def test_its_example_prints_what_a_rescaling_of_layers_keeps() -> None:
    [block] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    printed: list[Estimate] = []
    names: dict[str, Any] = {"print": printed.append}
    exec(compile(block, str(PAGE), "exec"), names)
    adaptive, weighted, _ = printed
    with names["torch"].no_grad():
        model = names["model"]
        model[0].weight.mul_(8), model[0].bias.mul_(8), model[2].weight.div_(8)
    again = names["adaptive_sharpness"](names["problem"]).estimate
    assert again.value == pytest.approx(adaptive.value, rel=0.01)
    rescaled = names["hutchinson_trace"](names["Rescaled"](names["GGN"](names["problem"])))
    assert rescaled.value == pytest.approx(weighted.value, rel=0.1)
    assert abs(sharpness(names["problem"]).estimate.value / adaptive.value - 1) > 0.5
