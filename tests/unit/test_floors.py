"""A floor of `common` imports only what lies below it, and computing needs no analysis package."""

import ast
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
import yaml

from common.workflow.agreement import ANALYSIS_PACKAGES
from tests.conftest import ROOT, Project

# Lowest first; what stands in one tuple may not import one another.
FLOORS = (
    ("complaints", "errors", "files", "kept", "locks", "memory", "output", "signals", "sources"),
    ("hessian", "bounds", "models", "datasets", "optim"),
    ("training",),
    ("experiments",),
    ("claims", "figures"),
    ("reports",),
    ("workflow",),
    ("steps",),
    ("cli",),
)
HEIGHT = {name: height for height, names in enumerate(FLOORS) for name in names}
REPLICATIONS = sorted(path.parent for path in (ROOT / "replications").glob("*/paper.yaml"))
# Analyses that draw a function of the experiment, not its records alone.
WITH_TORCH = {"replications.grokking.analysis.update_step"}


def test_every_part_of_common_has_a_floor() -> None:
    parts = {
        path.stem for path in (ROOT / "common").iterdir() if path.stem != "__init__" and path.stem != "__pycache__"
    }
    assert parts <= set(HEIGHT)


def imports(path: Path, anywhere: bool = True) -> Iterator[tuple[str, list[str]]]:
    """Full name of each module that a file imports, at its top or anywhere, with what it takes out of it."""
    tree = ast.parse(path.read_text())
    package = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(tree) if anywhere else tree.body:
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module, [alias.name for alias in node.names]


def reached(path: Path, anywhere: bool = True) -> set[str]:
    """Full names of what a file imports, at its top or anywhere; of `from a import b` both `a` and `a.b`."""
    return {name for module, names in imports(path, anywhere) for name in (module, *(f"{module}.{n}" for n in names))}


def packages(names: set[str]) -> set[str]:
    """The packages of full names."""
    return {name.split(".")[0] for name in names}


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported(path: Path) -> set[str]:
    """Floors of `common` that a file imports, anywhere in it."""
    return {name.split(".")[1] for name in reached(path) if name.startswith("common.")}


@pytest.mark.parametrize("path", sorted((ROOT / "common").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_no_floor_above_or_beside_its_own(path: Path) -> None:
    floor = path.relative_to(ROOT / "common").parts[0].removesuffix(".py")
    if floor == "__init__":
        assert not imported(path)
        return
    for other in imported(path) - {floor}:
        below = HEIGHT[other] < HEIGHT[floor] or {floor, other} <= set(FLOORS[0])
        assert below, f"{path.relative_to(ROOT)} imports common.{other}"


def test_no_file_imports_itself_through_others() -> None:
    files = {module_of(path): path for top in ("common", "replications") for path in (ROOT / top).rglob("*.py")}
    graph: dict[str, set[str]] = {}
    for file, path in files.items():  # imports for types alone count, too
        named = {f"{module}.{name}": module for module, names in imports(path) for name in names}
        found = {full if full in files else module for full, module in named.items()}
        graph[file] = (found | {module for module, names in imports(path) if not names}) & set(files)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


@pytest.mark.parametrize("folder", REPLICATIONS, ids=lambda folder: folder.name)
def test_the_top_of_a_replication_lists_its_experiments_and_each_analysis_bears_the_name_of_one(folder: Path) -> None:
    experiments = set(yaml.safe_load((folder / "config.yaml").read_text()))
    assert {path.stem for path in folder.glob("*.py")} == experiments | {"report"}
    assert {path.stem for path in (folder / "analysis").glob("*.py")} <= experiments


@pytest.mark.parametrize("folder", REPLICATIONS, ids=lambda folder: folder.name)
def test_what_computes_imports_no_analysis_and_analysis_packages_only_where_they_are_needed(folder: Path) -> None:
    files = [*folder.glob("*.py"), *(folder / "shared").rglob("*.py")]
    files = [path for path in files if path.stem != "report"]
    heavy = {module_of(path) for path in files if packages(reached(path, anywhere=False)) & set(ANALYSIS_PACKAGES)}
    for path in files:
        assert not {name for name in reached(path) if name.startswith(f"replications.{folder.name}.analysis")}, path
        if module_of(path) not in heavy:
            assert not reached(path, anywhere=False) & heavy, f"{path} imports {heavy} at its top"
    assert not {module_of(path) for path in folder.glob("*.py")} & heavy


@pytest.mark.parametrize("folder", REPLICATIONS, ids=lambda folder: folder.name)
def test_an_analysis_sees_records_alone(folder: Path) -> None:
    experiments = {module_of(path) for path in folder.glob("*.py")}
    for path in (folder / "analysis").rglob("*.py"):
        assert not reached(path) & experiments, f"{path} imports an experiment"
        assert "torch" not in packages(reached(path)) or module_of(path) in WITH_TORCH, path


def test_listing_and_planning_import_no_experiment_and_no_torch(project: Project) -> None:
    script = (
        "import sys\n"
        "sys.argv = ['replicate', 'plan', '--scale', 'laptop']\n"
        "from common.cli import app\n"
        "try:\n    app()\nexcept SystemExit:\n    pass\n"
        "print([m for m in sys.modules if m == 'torch' or m.startswith('replications')])"
    )
    done = project.command(sys.executable, "-c", script)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr
