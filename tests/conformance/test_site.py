"""The whole site is built from the published evidence alone, by what `make site` installs."""

import importlib.metadata
import os
import re
import shutil
from pathlib import Path

import pytest
import yaml

from common.files import read_json
from tests.conftest import ROOT, make_project

PAPERS = {path.parent.name: path.parent for path in sorted((ROOT / "replications").glob("*/paper.yaml"))}
BLOCK = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {modules!r}:
            raise ModuleNotFoundError(f"{{name}} is not among requirements-site.txt")

sys.meta_path.insert(0, Missing())
"""


def _installed() -> set[str]:
    """The distributions that requirements-site.txt brings along, by their normalised names."""
    lines = (ROOT / "requirements-site.txt").read_text().splitlines()
    due = [line.strip() for line in lines if line and not line.startswith("#")]
    found: set[str] = set()
    while due:
        name = re.split(r"[\s\[;<>=!~]", due.pop())[0]
        normal = re.sub(r"[-_.]+", "-", name).lower()
        if normal in found:
            continue
        try:
            needed = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # of another system
        found.add(normal)
        due += [line for line in needed if "extra ==" not in line]
    return found


def _others() -> set[str]:
    """The modules of distributions that `make site` does not install."""
    there = _installed()
    return {
        module
        for module, owners in importlib.metadata.packages_distributions().items()
        if not there & {re.sub(r"[-_.]+", "-", owner).lower() for owner in owners} and module != "common"
    }


@pytest.fixture(scope="module")
def reports(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of the published evidence, built by what `make site` installs without a word of complaint.

    Where only tests of some papers were asked for (`-k cohen2021edge`), it is the site of these.
    """
    mine = [item for item in request.session.items if item.nodeid.startswith(request.node.nodeid)]
    called = [getattr(item, "callspec", None) for item in mine]
    papers = {str(spec.params["paper"]) if spec else "" for spec in called}
    asked = PAPERS if "" in papers else {name: PAPERS[name] for name in PAPERS if name in papers}
    tmp_path = tmp_path_factory.mktemp("site")
    project = make_project(tmp_path / "checkout", asked)
    shutil.copytree(ROOT / "reports" / "published", project.root / "reports" / "published")
    others = _others()
    assert {"torch", "snakemake", "matplotlib"} <= others
    startup = tmp_path / "startup"
    startup.mkdir()
    (startup / "sitecustomize.py").write_text(BLOCK.format(modules=others))
    path = os.pathsep.join(filter(None, [str(startup), os.environ.get("PYTHONPATH")]))
    done = project.command("replicate", "site", PYTHONPATH=path)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return project.root / "reports"


def test_every_page_is_built_from_the_published_evidence_by_what_make_site_installs(reports: Path) -> None:
    index = (reports / "index.html").read_text()
    for paper in PAPERS:
        assert f"site/{paper}.html" in index
        page = (reports / "site" / f"{paper}.html").read_text()
        assert "could not be computed" not in page
        assert "<figure " in page, f"{paper}: its page has no figure"


@pytest.mark.parametrize("paper", PAPERS)
def test_every_published_claim_has_a_page_and_every_page_a_claim(reports: Path, paper: str) -> None:
    verdicts = [read_json(path) for path in ROOT.glob(f"reports/published/*/{paper}/verdicts.json")]
    published = {verdict["id"] for of_scale in verdicts for verdict in of_scale}
    written = {claim["id"] for claim in yaml.safe_load((PAPERS[paper] / "claims.yaml").read_text())}
    pages = {page.stem: page.read_text() for page in (reports / "site" / paper).glob("*.html")}
    if not published:
        pytest.skip(f"nothing of {paper} is published yet: `replicate publish`")
    assert pages.keys() == published | written
    assert [name for name, page in pages.items() if f"<title>{name} · {paper}</title>" not in page] == []
    links = set(re.findall(rf'href="site/{paper}/([^"]+)\.html"', (reports / "index.html").read_text()))
    assert links == pages.keys()
