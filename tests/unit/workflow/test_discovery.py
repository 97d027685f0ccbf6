"""A replication whose files are not in order is named in a sentence, and the others are built."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from common.errors import UserError
from common.experiments.config import RESERVED
from common.experiments.grid import MOST_RUNS
from common.experiments.replication import Replication
from common.workflow import discovery
from common.workflow.discovery import discover, healthy
from common.workflow.graph import default_scale
from common.workflow.plan import plan
from common.workflow.sync import pipeline_text
from tests.conftest import EXAMPLE, ROOT, Project, make_project


@pytest.fixture
def two(tmp_path: Path) -> Project:
    """A checkout with the example and a second one to break, whose `file` is the second's."""
    return make_project(tmp_path / "checkout", {"whole": EXAMPLE, "decay": EXAMPLE})


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("config.yaml", "a: 1".encode("utf-16"), "config.yaml:1: not UTF-8 text"),
        ("config.yaml", b"descent: " + b"[" * 5000, "config.yaml: not valid YAML: it is nested too deeply"),
        ("config.yaml", b"descent:\n  grid: {seed: 100000000}", "config.yaml:2: descent.grid: axis 'seed' has 100,"),
        ("config.yaml", b"class: {}", "config.yaml:1: class.[key]: 'class' cannot name an experiment"),
        ("paper.yaml", b"key: \x07", "paper.yaml:1: not valid YAML"),
        ("claims.yaml", b"<<<<<<< HEAD\n- id: a\n=======", "claims.yaml:"),
        ("descent.py", "x = 1".encode("utf-16"), "descent.py:1: not UTF-8 text"),
        ("descent.py", b"x = '\x00'", "descent.py"),
        ("descent.py", b"x = " + b"(" * 500 + b")" * 500, "descent.py"),
        ("descent.py", b"Parameters = dict", "descent.py:1: Parameters is no class"),
        ("descent.py", b"class Parameters(Parameters):\n    pass", "descent.py:1: class Parameters inherits"),
        ("descent.py", b"class A(Parameters): pass\nclass Parameters(A): pass", "descent.py:2: class Param"),
        ("measurement.py", b"import replications.decay.helper as helper\n", "measurement.py: no class Parameters"),
        ("analysis/descend.py", b"", "analysis/descend.py: an analysis has the name of its experiment"),
        ("report.py", b"text = '\xe9'", "report.py:1: not UTF-8 text"),
    ],
)  # fmt: skip
def test_one_broken_file_is_a_sentence_and_leaves_the_other_replication_whole(
    name: str, content: bytes, sentence: str, two: Project
) -> None:
    two.file(name).write_bytes(content)
    good, broken = healthy(discover(two.root), "laptop")
    assert list(good) == ["whole"]
    assert list(broken) == ["decay"]
    assert broken["decay"].startswith(f"{two.root}/replications/decay/{sentence}"), broken
    assert "\n" not in broken["decay"]
    assert healthy(discover(two.root), "laptop")[1] == broken, "a second look says the same"


def test_metrics_beside_the_run_are_shown_their_place(two: Project) -> None:
    with two.file("descent.py").open("a") as file:
        file.write("\n\ndef metrics(records):\n    return records\n")
    broken = healthy(discover(two.root), "laptop")[1]
    assert broken["decay"].endswith(f"move it to {two.file('analysis/descent.py')}.")


def test_an_error_that_nobody_foresaw_breaks_its_own_replication_alone(
    two: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = discovery._check

    def broken_check(replication: Replication, scale: str) -> None:
        if replication.name == "decay":
            raise ZeroDivisionError("nobody thought of it")
        check(replication, scale)

    monkeypatch.setattr(discovery, "_check", broken_check)
    good, broken = healthy(discover(two.root), "laptop")
    assert list(good) == ["whole"]
    assert "ZeroDivisionError: nobody thought of it" in broken["decay"]


def test_the_verdict_on_the_files_is_looked_for_again_when_one_of_them_changes(two: Project) -> None:
    assert not healthy(discover(two.root), "laptop")[1]
    claims = two.file("claims.yaml").read_text()
    two.file("claims.yaml").write_text("- id: a\n")
    assert "claims.yaml" in healthy(discover(two.root), "laptop")[1]["decay"]
    two.file("claims.yaml").write_text(claims)
    assert not healthy(discover(two.root), "laptop")[1]


def test_a_file_that_could_not_be_read_once_is_read_again(two: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(path: Path) -> str:
        raise UserError(f"{path}: cannot be read: Stale file handle.")

    with monkeypatch.context() as patch:
        patch.setattr(discovery, "read_source", unreadable)
        assert "Stale file handle" in healthy(discover(two.root), "laptop")[1]["decay"]
    assert not healthy(discover(two.root), "laptop")[1]


@pytest.mark.parametrize("name", ["tiny;touch x;", "Tiny", "a b", "a.b", "a__b", "$(x)", *RESERVED, "class", "-n"])
def test_the_name_of_a_folder_reaches_no_command_unless_it_is_a_plain_word(name: str, two: Project) -> None:
    (two.root / "replications" / "decay").rename(two.root / "replications" / name)
    good, broken = healthy(discover(two.root), "laptop")
    assert list(good) == ["whole"]
    assert f"{name!r} cannot name a replication" in broken[name]
    assert name not in pipeline_text(two.root).replace("class:", "").split()
    assert f"reports {name}" not in pipeline_text(two.root)


def test_a_grid_of_too_many_points_is_refused_before_they_are_listed(project: Project) -> None:
    project.edit("config.yaml", "    seed: 5\n  together", "    seed: 90000\n  together")
    broken = healthy(discover(project.root), "laptop")[1]
    assert f"the grid has 270,000 points; an experiment may have {MOST_RUNS:,} runs at most" in broken["decay"]


@pytest.mark.parametrize("content", [b"<<<<<<< HEAD\nscale: smoke\n=======\n", b"\xff\xfes", b"[]", b"scale: [a]"])
def test_a_params_file_that_names_no_scale_is_a_sentence(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_bytes(content)
    with pytest.raises(UserError):
        default_scale(tmp_path)


def test_a_lock_of_dvc_with_conflict_marks_is_a_sentence(project: Project) -> None:
    (project.root / "dvc.lock").write_text("stages:\n<<<<<<< HEAD\n  a: 1\n=======\n  a: 2\n>>>>>>> x\n")
    with pytest.raises(UserError, match=r"dvc\.lock:\d: not valid YAML"):
        pipeline_text(project.root)


def test_every_rule_that_the_workflow_has_of_its_own_is_reserved() -> None:
    rules = re.findall(r"^rule (\w+):", (ROOT / "Snakefile").read_text(), re.MULTILINE)
    assert sorted([*rules, "small"]) == sorted(RESERVED)


def test_checks_hold_under_optimisation_and_for_a_nonsensical_number_of_cores(two: Project) -> None:
    paper = two.file("paper.yaml").read_text()
    two.file("paper.yaml").write_text(paper.replace("experiment: descent", "experiment: ascent"))
    done = two.command(sys.executable, "-O", "-m", "common.cli", "list")
    assert "decay has no experiment 'ascent'" in done.stderr
    done = two.replicate("reports", "--cores", "-3")
    assert done.returncode == 2
    assert "Invalid value for '--cores': Input should be greater than or equal to 0" in done.stderr


def test_a_user_without_a_home_has_a_cache_among_the_temporary_files() -> None:
    code = "from common.datasets.store import cache_folder, shown; print(cache_folder()); shown(cache_folder())"
    environment = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")}
    environment.pop("REPLICATIONS_CACHE", None)
    preamble = "import pwd\ndef nobody(uid): raise KeyError(uid)\npwd.getpwuid = nobody\n"
    done = subprocess.run([sys.executable, "-c", preamble + code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith(f"hessian-replications-{os.getuid()}")


def test_an_experiment_is_asked_for_by_its_path_and_refused_where_a_replication_is_taken(two: Project) -> None:
    first, second = discover(two.root)
    found, asked = discovery.targeted(two.root, [f"{first}/descent", second], "smoke")
    assert list(found) == [first, second]
    assert asked(first, "descent")
    assert asked(second, "measurement")
    assert not asked(first, "measurement")
    plans = plan(found[first], "smoke", two.folders.store, asked)
    assert sum(job.runs for job in plans) == len(found[first].runs("descent", "smoke"))
    assert discovery.targeted(two.root, [], "smoke")[1](second, "descent")
    with pytest.raises(UserError, match=f"^{first}/descent: a whole replication is taken here: {first}.$"):
        discovery.find(two.root, f"{first}/descent")
    with pytest.raises(UserError, match="has no experiment 'decsent'; did you mean 'descent'"):
        discovery.targeted(two.root, [f"{first}/decsent"], "smoke")
