"""A digest changes with what an entry point computes, and with nothing else."""

import ast
import subprocess
from pathlib import Path

import pytest

from common.errors import UserError
from common.experiments import digests
from common.experiments.digests import canonical, code_digest, short_digest
from common.experiments.syntax import Key, Sources
from common.workflow.discovery import find, healthy
from tests.conftest import ROOT, Project

EXPERIMENT = '''
"""An experiment."""
from common.experiments import ExperimentParameters, Field
from .helper import double
from .tools import colours

SCALE = 3
UNUSED = 4


class Parameters(ExperimentParameters):
    """Parameters."""
    size: int = Field(1, description="size", source="ours")


def run(runs, context):
    """Run."""
    for run in runs:
        context.record(run, value=double(run.size) * SCALE)


def metrics(records):
    return records.groupby("run").last()


def figures(records):
    from . import tools
    return {"fig1": tools.draw(records)}
'''
HELPER = "from .deep import OFFSET\n\ndef double(x):\n    return 2 * x + OFFSET\n\ndef unrelated():\n    return 0\n"
DEEP = "TABLE = {}\nTABLE['k'] = 0\nOFFSET = TABLE['k']\n"
TOOLS = "colours = ['red']\n\ndef draw(records):\n    return colours\n"


@pytest.fixture
def paper(tmp_path: Path) -> Path:
    folder = tmp_path / "replications" / "paper"
    folder.mkdir(parents=True)
    for name, text in (("shows", EXPERIMENT), ("helper", HELPER), ("deep", DEEP), ("tools", TOOLS)):
        (folder / f"{name}.py").write_text(text)
    return folder


def digest(paper: Path, entry: str) -> str:
    return code_digest(Sources(paper.parents[1]), "replications.paper.shows", entry)


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("shows", '"""Run."""', '"""Compute."""', set()),
        ("shows", "SCALE = 3", "SCALE = 3  # three", set()),
        ("shows", "UNUSED = 4", "UNUSED = 5", set()),
        ("shows", "SCALE = 3", "SCALE = 4", {"run"}),
        ("shows", "Field(1,", "Field(2,", {"run"}),
        ("shows", 'description="size"', 'description="how large", unit="cm"', set()),
        ("shows", "UNUSED = 4", "TABLE = {}\nTABLE['k'] = 1", set()),
        ("shows", "def run(runs, context)", "def run(runs: list, context: object) -> None", set()),
        ("shows", ".last()", ".first()", {"metrics"}),
        ("helper", "2 * x", "3 * x", {"run"}),
        ("helper", "return 0", "return 1", set()),
        ("deep", "TABLE['k'] = 0", "TABLE['k'] = 1", {"run"}),
        ("tools", "red", "blue", {"figures"}),
        ("tools", "def draw(records):\n", "def draw(records):\n    # draw\n\n", set()),
    ],
)
def test_only_the_entry_points_that_use_an_edit_change(
    paper: Path, file: str, old: str, new: str, changed: set[str]
) -> None:
    before = {entry: digest(paper, entry) for entry in ("run", "metrics", "figures")}
    path = paper / f"{file}.py"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    after = {entry: digest(paper, entry) for entry in before}
    assert {entry for entry in before if before[entry] != after[entry]} == changed


def test_a_module_used_as_a_value_counts_whole(paper: Path) -> None:
    path = paper / "shows.py"
    path.write_text(
        path.read_text()
        .replace("double(run.size)", "vars(tools)")
        .replace("from .tools import colours", "from . import tools")
    )
    before = digest(paper, "run")
    (paper / "tools.py").write_text(TOOLS + "extra = 1\n")
    assert digest(paper, "run") != before


def test_a_star_import_of_ours_is_refused_since_it_hides_what_is_used(paper: Path) -> None:
    (paper / "helper.py").write_text("from .deep import *\n\ndef double(x):\n    return 2 * x + OFFSET\n")
    with pytest.raises(UserError, match=r"helper.py:1: import the names that are used instead of \*"):
        digest(paper, "run")


def test_reading_a_data_set_and_deriving_seeds_are_part_of_every_run() -> None:
    reached = Sources(ROOT).reachable(list(digests._BEHIND_THE_CONTEXT))
    assert {("common.datasets.formats", "read_idx"), ("common.experiments.seeds", "SHARED_STREAMS")} <= reached.keys()


def test_digests_are_equal_on_every_python_at_hand() -> None:
    """The canonical tree of our own code, computed by each interpreter from 3.11 to 3.13 that is installed."""
    script = (
        "import sys, hashlib, ast, pathlib\n"
        "source = pathlib.Path(sys.argv[1]) / 'common' / 'experiments' / 'digests.py'\n"
        "text = source.read_text()\n"
        "start, end = text.index('_SAYING_NOTHING ='), text.index('def short_digest')\n"
        "start2 = text.index('def canonical')\n"
        "space = {'ast': ast, 'Any': object}\n"
        "exec(text[start:text.index('\\n', start)], space)\n"
        "exec(text[start2:end], space)\n"
        "files = sorted((pathlib.Path(sys.argv[1]) / 'common').rglob('*.py'))\n"
        "whole = repr([space['canonical'](ast.parse(f.read_text())) for f in files])\n"
        "print(hashlib.sha256(whole.encode()).hexdigest())\n"
    )
    versions = Path.home() / ".pyenv" / "versions"
    candidates = [
        "python3.11",
        "python3.12",
        "python3.13",
        *map(str, sorted(versions.glob("3.1[123]*/bin/python"))),
    ]
    results = set()
    for python in candidates:
        try:
            done = subprocess.run([python, "-c", script, str(ROOT)], capture_output=True, text=True, timeout=120)
        except FileNotFoundError:
            continue
        if done.returncode == 0:
            results.add(done.stdout)
        else:
            assert "command not found" in done.stderr, done.stderr  # a pyenv shim without a version behind it
    assert len(results) == 1, "no interpreter, or the digests differ"


def plainly(root: Path, module: str, entry: str) -> str:
    """The digest by the definition: every definition is walked whenever it is met, and nothing is remembered."""
    found: dict[Key, list[ast.stmt]] = {}
    waiting = [(module, entry)]
    if entry == "run":
        waiting += [(module, "Parameters"), *digests._BEHIND_THE_CONTEXT]
    while waiting:
        key = waiting.pop()
        sources = Sources(root)
        where = sources.module(key[0])
        if key in found or where is None or key[1] not in where.definitions:
            continue
        found[key] = where.definitions[key[1]]
        waiting += sources._used(where, found[key])
    texts = [f"{name}={canonical(statement)!r}" for (_, name), body in found.items() for statement in body]
    return short_digest(sorted(texts))


def test_what_is_remembered_and_kept_gives_the_digests_of_the_plain_algorithm(project: Project) -> None:
    for _ in range(2):  # computed, then kept
        replication = find(project.root, "decay")
        for experiment in replication.experiments:
            for entry in ("run", "metrics", "figures"):
                module = replication.module(experiment) if entry == "run" else replication.analysis_module(experiment)
                expected = plainly(project.root, module, entry)
                assert replication.code_digest(experiment, entry) == expected, (experiment, entry)


@pytest.mark.parametrize("place", ["at the top", "inside"])
def test_a_file_that_is_moved_into_a_folder_changes_no_digest(place: str, paper: Path) -> None:
    text = EXPERIMENT
    if place == "inside":
        text = text.replace("from .helper import double\n", "").replace('"""Run."""', "from .helper import double")
    (paper / "shows.py").write_text(text)
    before = digest(paper, "run")
    (paper / "shared").mkdir()
    for name in ("helper", "deep"):
        (paper / f"{name}.py").rename(paper / "shared" / f"{name}.py")
    (paper / "shows.py").write_text(text.replace("from .helper", "from .shared.helper"))
    assert digest(paper, "run") == before
    (paper / "shared" / "helper.py").write_text(HELPER.replace("2 * x", "3 * x"))
    assert digest(paper, "run") != before


@pytest.mark.parametrize("text", ["from .tools import draw as figures", "from .tools import draw\n\nfigures = draw"])
def test_an_entry_that_lies_elsewhere_is_followed(text: str, paper: Path) -> None:
    (paper / "shows.py").write_text(text)
    before = digest(paper, "figures")
    (paper / "tools.py").write_text(TOOLS.replace("return colours", "return colours[0]"))
    assert digest(paper, "figures") != before


@pytest.mark.parametrize("touched", ["same time", "other time"])
def test_kept_digests_follow_the_content_of_the_files_and_not_their_time(touched: str, project: Project) -> None:
    import os

    path = project.file("descent.py")
    before = {entry: find(project.root, "decay").code_digest("descent", entry) for entry in ("run", "metrics")}
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    project.edit("descent.py", "Field(40,", "Field(41,")
    if touched == "same time":
        os.utime(path, ns=times)
    after = find(project.root, "decay")
    assert after.code_digest("descent", "run") != before["run"]
    assert after.code_digest("descent", "metrics") == before["metrics"]
    project.edit("descent.py", "Field(41,", "Field(40,")
    assert find(project.root, "decay").code_digest("descent", "run") == before["run"]


@pytest.mark.parametrize("helper", ["x = (", f"x = {' + '.join(['1'] * 700)}", "x = 1\n\0"])
def test_code_that_cannot_be_read_is_named_and_leaves_the_digests_of_other_experiments(
    helper: str, project: Project
) -> None:
    before = find(project.root, "decay").code_digest("descent", "run")
    project.file("helper.py").write_text(helper)
    project.edit(
        "measurement.py",
        "def run(",
        "def run(runs, context):\n    from .helper import x\n    return x\n\n\ndef former(",
    )
    replication = find(project.root, "decay")
    assert replication.code_digest("descent", "run") == before
    with pytest.raises(UserError, match=r"helper\.py|measurement\.run"):
        replication.code_digest("measurement", "run")
    assert "decay" in healthy({"decay": replication}, "laptop")[1]


def test_an_imported_base_may_bear_the_name_of_its_heir(project: Project) -> None:
    project.file("more.py").write_text(
        "from replications.decay.descent import Parameters\n\n\nclass Parameters(Parameters):\n    extra: int = 1\n"
    )
    project.file("config.yaml").write_text("more: {}\n")
    fields = find(project.root, "decay").parameter_fields("more")
    assert {"extra", "learning_rate", "seed"} <= fields.keys()
