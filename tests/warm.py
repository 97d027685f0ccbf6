"""Commands that compute, each in a process of its own that has torch and pandas loaded from its start.

Loading them takes longer than what most tests compute. A server that did it once forks a process for each command;
only libraries of others are loaded there, so that a checkout's own `common` and `replications` are read anew.
"""

import multiprocessing
import os
import sys
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    ["torch", "pandas", "scipy.stats", "matplotlib.figure", "matplotlib.backends.backend_svg", "pydantic", "typer"]
)

COMMANDS = ("run", "step")
"""What computes; other commands start as fast without this."""


def start(
    root: Path, arguments: tuple[str, ...], environment: dict[str, str], out: Path, err: Path
) -> "multiprocessing.context.ForkServerProcess":
    """Start `replicate …` in the checkout at `root`; what it says goes to the files `out` and `err`."""
    process = _CONTEXT.Process(target=_command, args=(root, arguments, environment, out, err))
    process.start()
    return process


def differs(environment: dict[str, str]) -> bool:
    """Whether an environment asks other things of Python or the system than the server's: it takes a fresh process."""
    names = {name for name in {*environment, *START} if environment.get(name) != START.get(name)}
    return any(not name.startswith(("REPLICATIONS_", "PYTEST_")) and name not in _OURS for name in names)


START = dict(os.environ)
_OURS = ("PATH", "COLUMNS", "CUBLAS_WORKSPACE_CONFIG", "OMP_NUM_THREADS", "PYDANTIC_DISABLE_PLUGINS")


def _command(root: Path, arguments: tuple[str, ...], environment: dict[str, str], out: Path, err: Path) -> None:
    for number, path in ((1, out), (2, err)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    os.chdir(root)
    os.environ.clear()
    os.environ.update(environment)
    sys.path.insert(0, os.fspath(root))
    sys.argv = ["replicate", *arguments]
    from common.cli import main

    main()
