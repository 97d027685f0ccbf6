"""The narrative: executed by the running Python, failures named, and what it has in hand."""

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from markupsafe import Markup

from common.errors import UserError
from common.reports import build_page, open_paper
from common.reports.notebook import run_notebook, tell
from common.reports.paper_view import VERDICTS_MIME
from tests.unit.reports import samples

ROOT = Path(__file__).parents[3]

SCRIPT = """# %% [markdown]
# # A story
# with $\\lambda_1$.

# %%
import os, sys
print(sys.executable, os.environ["WHO"], os.getcwd())

# %%
raise KeyError("no such <b>metric</b>")

# %% tags=["show"]
6 * 7

# %%
import pandas
pandas.DataFrame({"name": ["<script>alert(1)</script>"]})

# %%
from common.reports import open_paper
paper = open_paper("pacgen")
paper.figure("fig3", ["fig3-gap-*"], see="It *falls*.", printed="Printed: a line.")

# %%
paper.summary(["fig3-given-*"])
"""

SVG = '<svg viewBox="0 0 300 200"><path id="a" d="M0 0L1 1"/></svg>'


class Cards:
    """What a narrative asks its page to show, as text."""

    def figure(self, shown: dict[str, Any]) -> Markup:
        return Markup("FIGURE {experiment} {name} {see} {printed} {claims}").format(**shown)

    def verdicts(self, claims: list[str]) -> Markup:
        return Markup("VERDICTS {}").format(claims)


@pytest.fixture
def root(fresh: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one analysed paper, found through the environment as during a build."""
    folder = fresh()
    analysis = folder / "analysis" / "laptop" / "pacgen"
    samples.write_json(analysis / "verdicts.json", samples.VERDICTS)
    figures = [{"experiment": "batch_size", "name": "fig3", "title": "Figure 3", "svg": "fig3.svg"}]
    figures += [{"experiment": name, "name": "both", "svg": None} for name in ("a", "b")]
    samples.write_json(analysis / "figures.json", figures)
    (analysis / "figures").mkdir()
    (analysis / "figures" / "fig3.svg").write_text(SVG)
    records = samples.batch_size_records()
    records.to_parquet(analysis / "batch_size.parquet")
    metrics = {"batch_size": [{"run": "a", "gap": 0.1}, {"run": "b", "gap": None}]}
    samples.write_json(analysis / "metrics.json", metrics)
    monkeypatch.setenv("REPLICATIONS_ROOT", str(folder))
    return folder


def test_a_story_runs_in_this_python_and_names_its_failures(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_PATH", "/nowhere")
    script = root / "replications" / "pacgen" / "report.py"
    script.write_text(SCRIPT)
    notebook, problems = run_notebook(script, {"WHO": "reader", "REPLICATIONS_ROOT": str(root)}, ROOT)
    assert problems == ["report.py: cell 3: KeyError: 'no such <b>metric</b>'"]
    story = tell(notebook, problems, Cards())
    html = "\n".join(story.blocks)
    assert "<h2>A story</h2>" in html
    assert "<math" in html
    assert f"{os.sys.executable} reader {script.parent}" in html  # type: ignore[attr-defined]
    assert "could not be computed: KeyError: &#39;no such &lt;b&gt;metric" in html
    assert '<pre tabindex="0">42</pre>' in html
    assert "6 * 7" in html
    assert "import pandas" not in html
    assert "&lt;script&gt;" in html
    assert "<script" not in html
    assert "FIGURE batch_size fig3 It *falls*. Printed: a line. [&#39;fig3-gap-and-metric-agree&#39;]" in html
    assert html.count("VERDICTS") == 1
    assert "VERDICTS [&#39;fig3-given-training-loss&#39;]" in html
    assert story.figures == {("batch_size", "fig3")}
    assert story.beside == {"fig3-gap-and-metric-agree": [("batch_size", "fig3", "")]}
    assert story.asides == {}
    written = json.loads(story.notebook)
    assert [cell["id"] for cell in written["cells"]][:2] == ["cell-0", "cell-1"]
    picture, words = written["cells"][5]["outputs"]
    assert "image/svg+xml" in picture["data"]
    said = "It *falls*. Printed: a line.\n\n- Larger batches give a larger gap"
    assert "".join(words["data"]["text/markdown"]).startswith(said)
    assert "**Reproduced**: rank correlation 0.83 (0.61 to 1 at 95 %, five seeds)." in "".join(
        words["data"]["text/markdown"]
    )


def test_a_figure_aside_has_its_caption_and_is_left_to_the_end_of_the_page(root: Path) -> None:
    script = root / "replications" / "pacgen" / "report.py"
    script.write_text(
        'from common.reports import open_paper\nopen_paper("pacgen").figure("fig3", see="It falls.", aside=True)\n'
    )
    story = tell(*run_notebook(script, {"REPLICATIONS_ROOT": str(root)}, ROOT), Cards())
    assert "It falls." in story.asides["batch_size", "fig3"]
    assert story.figures == set()
    assert "It falls." not in "".join(story.blocks)


def test_a_story_is_told_where_temporary_folders_have_long_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / ("a-folder-for-temporary-files-" * 4)
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    script = tmp_path / "report.py"
    script.write_text("# %%\nprint(6 * 7)\n")
    notebook, problems = run_notebook(script, {}, ROOT)
    assert problems == []
    assert notebook.cells[0].outputs[0].text == "42\n"


def test_a_failing_story_does_not_keep_the_page_from_being_made(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    (root / "replications" / "pacgen" / "report.py").write_text("# %%\nimport os\nos._exit(3)\n# %%\n1\n")
    with caplog.at_level(logging.ERROR):
        page = build_page(root / "replications" / "pacgen", "laptop", root)
    assert "the kernel died and the rest was not run" in page.read_text()
    assert "the kernel died" in caplog.text
    assert "Larger batches give a larger gap" in page.read_text()


def test_an_open_paper_has_metrics_records_and_figures_in_one_line_each(root: Path) -> None:
    paper = open_paper("pacgen")
    assert (paper.name, paper.scale) == ("pacgen", "laptop")
    assert paper.metrics("batch_size")["run"].tolist() == ["a", "b"]
    assert {"run", "epoch", "gap"} <= set(paper.records("batch_size"))
    assert "8 claims" in repr(paper)
    assert paper.figure("fig3")._repr_mimebundle_()["image/svg+xml"] == SVG
    with pytest.raises(UserError, match="has no claim 'fig3-nothing'"):
        paper.figure("fig3", ["fig3-nothing"])


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda paper: paper.figure("fig9"), "pacgen has no figure 'fig9'; it has both, fig3"),
        (lambda paper: paper.figure("both"), "a figure 'both' in a, b: say which"),
        (lambda paper: paper.summary(["x"]), "pacgen has no claim 'x'; it has control-planted"),
        (lambda paper: paper.metrics("x"), "no experiment 'x'; it has batch_size"),
        (lambda paper: paper.records("x"), "no experiment 'x'; it has batch_size"),
        (lambda _: open_paper("nothing"), "the replications are pacgen"),
        (lambda _: open_paper("pacgen", "smoke").records("x"), "it has none at smoke scale yet"),
    ],
)
def test_asking_for_what_is_not_there_says_what_is(root: Path, ask: Callable[..., object], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        ask(open_paper("pacgen"))


def test_a_figure_of_what_has_not_been_run_here_is_awaited(root: Path) -> None:
    config = {name: {"grid": {"seed": 2}} for name in ("batch_size", "later")}
    samples.write_yaml(root / "replications" / "pacgen" / "config.yaml", config)
    card = open_paper("pacgen").figure("fig9", ["control-planted"])._repr_mimebundle_()
    assert card["text/markdown"].startswith("The figure fig9 is not drawn yet.\n\n- ")
    assert card[VERDICTS_MIME] == {"claims": ["control-planted"]}


def test_the_paper_is_the_folder_one_works_in_and_the_scale_the_largest_analysed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "analysis" / "workstation" / "pacgen").mkdir(parents=True)
    monkeypatch.chdir(root / "replications" / "pacgen")
    assert (open_paper().name, open_paper().scale) == ("pacgen", "workstation")
    monkeypatch.chdir(root)
    with pytest.raises(UserError, match="not inside a replication"):
        open_paper()
