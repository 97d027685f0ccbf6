"""A command is found by its name: docs/architecture.md says where, and it is so."""

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from common import workflow
from common.cli import app
from tests.conftest import ROOT, Project

FOLDER = Path(workflow.__file__).parent
ELSEWHERE = {"list": "tables", "status": "tables"}
LOWER = {"data": "datasets/fetching.py", "diff": "reports/comparison.py"}
LACKING = """
import sys
from common import cli

finders = list(sys.meta_path)


class Finder:
    @staticmethod
    def find_spec(name, *more):
        found = (one.find_spec(name, *more) for one in finders if name != {module!r})
        return next(filter(None, found), None)


sys.meta_path[:] = [Finder]
sys.argv = ["replicate", *{arguments!r}]
cli.main()
"""
COMMANDS = [command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_help_text_and_a_default_that_is_shown(name: str) -> None:
    assert CliRunner().invoke(app, [name, "-h"]).exit_code == 0
    options: list[Any] = [one for one in get_command(app).commands[name].params if one.param_type_name == "option"]
    for option in options:
        assert option.help, option.name
        shown = option.is_flag or option.required or isinstance(option.show_default, str)
        assert shown or option.default not in (None, "") or "default: " in option.help, option.name


def test_the_version_is_that_of_the_project() -> None:
    shown = CliRunner().invoke(app, ["--version"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (shown.exit_code, shown.output) == (0, f"{project['name']} {project['version']}\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_command_does_is_in_the_file_of_its_name(name: str) -> None:
    path = FOLDER.parent / LOWER[name] if name in LOWER else FOLDER / f"{ELSEWHERE.get(name, name)}.py"
    assert path.is_file()
    if name not in {*LOWER, *ELSEWHERE}:
        assert path.read_text().startswith(f'"""`replicate {name}`'), "its first line names the command"


@pytest.mark.parametrize("option", ["--compare", "--record-minutes"])
def test_what_measures_whole_replications_refuses_a_single_experiment(option: str, in_process: Project) -> None:
    refused = CliRunner().invoke(app, ["plan", "decay/descent", option])
    assert "take whole replications: PAPER." in str(refused.exception)


@pytest.mark.parametrize(
    ("arguments", "module", "package"),
    [
        (["rules"], "pandas", "pandas"),
        (["lint"], "markdown_it", "markdown-it-py"),
        (["reports"], "snakemake", "snakemake"),
        (["pull"], "dvc", "dvc"),
    ],
)
def test_a_package_that_the_environment_lacks_is_named_with_how_to_have_it(
    project: Project, arguments: list[str], module: str, package: str
) -> None:
    done = project.command(sys.executable, "-c", LACKING.format(arguments=arguments, module=module))
    assert done.returncode == 2
    sentence = f"this needs {package}, which the environment lacks: pip install {package}, or make setup for all."
    assert done.stderr.splitlines() == [f"replicate: {sentence}"]


@pytest.mark.parametrize("command", [["accept", "decay/descent", "--reason", "none"], ["plan"], ["status"]])
def test_a_results_folder_that_is_not_there_is_refused(in_process: Project, command: list[str]) -> None:
    refused = CliRunner().invoke(app, [*command, "--out", "reslts"])
    assert str(refused.exception) == "--out reslts: there is no such folder."


@pytest.mark.parametrize(
    ("options", "first", "other"),
    [
        ("--record-minutes --budget 3", "--record-minutes", "--budget"),
        ("--record-counts --compare", "--record-counts", "--compare"),
        ("--json --record-limits", "--record-limits", "--json"),
        ("--compare --device a100", "--compare", "--device"),
        ("--json --gpus 4", "--json", "--gpus"),
    ],
)
def test_an_option_of_plan_that_would_be_passed_over_is_refused(
    in_process: Project, options: str, first: str, other: str
) -> None:
    refused = CliRunner().invoke(app, ["plan", "decay", *options.split()])
    assert str(refused.exception) == f"{first} takes no notice of {other}: call `replicate plan` for each."


@pytest.mark.parametrize("options", ["--json --budget 1", "--record-limits --device a100", "--gpus 2 --device a100"])
def test_options_of_plan_that_go_together_are_heeded(in_process: Project, options: str) -> None:
    done = CliRunner().invoke(app, ["plan", "decay", "--scale", "smoke", *options.split()])
    assert done.exit_code == 0, done.exception
