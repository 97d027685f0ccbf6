"""A command imports and reads what it needs, so that it starts at once."""

import json
import subprocess
import sys
from collections import Counter

from tests.conftest import ROOT, Project

HEAVY = {"torch", "numpy", "pandas", "scipy", "matplotlib", "pydantic", "yaml", "rich", "snakemake", "dvc"}
LISTED = """
import ast, json, sys
import yaml
opened, parsed = [], []
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
ast.parse = lambda *given, **more: parsed.append(more.get("filename"))
from common import cli, sources
sources._Loader = lambda text: parsed.append("YAML")
sys.argv = ["replicate", "list", "--json"]
try:
    cli.main()
finally:
    print(json.dumps({"opened": opened, "parsed": parsed, "imported": sorted(sys.modules)}), file=sys.stderr)
"""


def test_the_command_line_is_imported_without_what_its_commands_need() -> None:
    code = "import common.cli, sys; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stdout.split())


def test_a_list_of_unchanged_files_parses_none_and_opens_none_over_and_over(project: Project) -> None:
    first = project.command(sys.executable, "-m", "common.cli", "list", "--json")
    again = project.command(sys.executable, "-c", LISTED)
    assert again.stdout == first.stdout, again.stderr
    seen = json.loads(again.stderr.splitlines()[-1])
    assert not seen["parsed"]
    code = str(project.root / "common")  # Python opens these files, too
    counts = Counter(path for path in seen["opened"] if str(project.root) in path and not path.startswith(code))
    assert counts, "the hook saw nothing"
    assert max(counts.values()) <= 2, counts.most_common(3)
    assert not {"torch", "pandas", "common.claims.schema", "common.datasets"} & set(seen["imported"])
