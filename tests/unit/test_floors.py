"""A floor of `common` imports only what lies below it, and computing needs no analysis package."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from common.experiments.outcomes import Results
from common.workflow.discovery import find
from common.workflow.state import run_states
from tests.conftest import Project

ROOT = Path(__file__).parents[2]
# Lowest first; what stands in one tuple may not import one another.
FLOORS = (
    ("errors", "files", "kept", "locks", "output", "sources"),
    ("hessian", "bounds", "models", "datasets", "optim"),
    ("training",),
    ("experiments",),
    ("claims", "figures"),
    ("reports",),
    ("workflow",),
    ("cli",),
)
HEIGHT = {name: height for height, names in enumerate(FLOORS) for name in names}
# Packages that a bare GPU box lacks.
ANALYSIS = ("pandas", "pyarrow", "seaborn", "matplotlib", "scipy", "snakemake", "dvc", "jupytext", "jinja2", "numba")


def imported(path: Path) -> set[str]:
    """Floors of `common` that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
            names += [f"common.{alias.name}" for alias in node.names if node.module == "common"]
        found |= {name.split(".")[1] for name in names if name.startswith("common.")}
    return found


def test_every_part_of_common_has_a_floor() -> None:
    parts = {
        path.stem for path in (ROOT / "common").iterdir() if path.stem != "__init__" and path.stem != "__pycache__"
    }
    assert parts <= set(HEIGHT)


@pytest.mark.parametrize("path", sorted((ROOT / "common").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_no_floor_above_or_beside_its_own(path: Path) -> None:
    floor = path.relative_to(ROOT / "common").parts[0].removesuffix(".py")
    if floor == "__init__":
        assert not imported(path)
        return
    for other in imported(path) - {floor}:
        below = HEIGHT[other] < HEIGHT[floor] or {floor, other} <= set(FLOORS[0])
        assert below, f"{path.relative_to(ROOT)} imports common.{other}"


def top_imports(path: Path) -> set[str]:
    """What a file imports at its top: packages, and files beside it as ".name"."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".")[0]
            names |= {f".{module}"} if node.level and module else {module}
            names |= {f".{alias.name}" for alias in node.names if node.level and not module}
    return names


@pytest.mark.parametrize("folder", sorted(path.parent for path in (ROOT / "replications").glob("*/paper.yaml")))
def test_a_replication_imports_analysis_packages_only_in_files_that_none_of_its_own_imports_at_the_top(
    folder: Path,
) -> None:
    files = [path for path in sorted(folder.glob("*.py")) if path.stem != "report"]
    heavy = {f".{path.stem}" for path in files if top_imports(path) & set(ANALYSIS)}
    light = [path for path in files if f".{path.stem}" not in heavy]
    assert light
    for path in light:
        assert not top_imports(path) & heavy, f"{path.relative_to(ROOT)} imports {top_imports(path) & heavy} at its top"


BLOCKED = """
import sys

from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] in {names!r} else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without
sys.argv = ["replicate", *sys.argv[1:]]
from common.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "paper", ["decay", *sorted(p.parent.name for p in (ROOT / "replications").glob("*/paper.yaml"))]
)
def test_a_box_without_the_analysis_packages_computes(project: Project, paper: str) -> None:
    if paper != "decay":
        (project.root / "replications" / paper).symlink_to(ROOT / "replications" / paper)
    script = BLOCKED.format(names=set(ANALYSIS))
    done = project.command(sys.executable, "-c", script, "run", paper, "--scale", "smoke")
    assert "completed" in done.stdout, done.stdout + done.stderr
    states = run_states(find(project.root, paper), "smoke", Results(project.root / "results"))
    wrong = [state for state in states if state.outcome.status in ("failed", "missing", "unfinished")]
    assert all("need the package" in state.outcome.reason for state in wrong), [state.outcome for state in wrong]
    assert done.returncode == int(bool(wrong)), done.stdout + done.stderr


def test_importing_common_loads_neither_torch_nor_pydantic() -> None:
    script = "import sys, common; print([m for m in ('torch', 'numpy', 'pydantic', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.stdout.strip() == "[]"


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
