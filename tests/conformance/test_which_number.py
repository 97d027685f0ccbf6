"""The page that says which number to take points to claims that there are."""

import re

from tests.conftest import ROOT

PAGE = ROOT / "docs" / "which-number.md"


def test_every_claim_that_the_page_names_begins_at_the_line_that_it_links() -> None:
    links = re.findall(r"\[([^\]]+)\]\((\.\./replications/\w+/claims\.yaml)(?:#L(\d+))?\)", PAGE.read_text())
    assert len(links) > 20
    for claim, ledger, line in links:
        lines = (PAGE.parent / ledger).read_text().splitlines()
        assert f"- id: {claim}" in lines, claim
        assert lines[int(line or 1) - 1] == f"- id: {claim}", f"{claim}: `replicate sync` renews the lines"


def test_its_example_prints_what_it_says() -> None:
    [block] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(block.replace("print(", "found = ("), str(PAGE), "exec"), names)
    adaptive = names["found"][0]
    with names["torch"].no_grad():
        model = names["model"]
        model[0].weight.mul_(8), model[0].bias.mul_(8), model[2].weight.div_(8)
    again = names["eigenpairs"](names["Adaptive"](names["problem"])).values[0]
    plain = names["eigenpairs"](names["Hessian"](names["problem"])).values[0]
    assert abs(float(again / adaptive) - 1) < 0.02
    assert abs(float(plain / adaptive) - 1) > 0.5
