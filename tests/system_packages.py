"""Programs that a test needs and that are no Python packages: installed with apt where root is available."""

import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from common.locks import lock

SECONDS = 600


def require(package: str, *, command: str, alternatives: Sequence[str] = ()) -> str:
    """The path of `command`, or of the first of `alternatives` that is there.

    If there is none, `package` is installed with apt, as root or with a sudo that asks for no password. Where that
    cannot be done the test is skipped and says why; in CI (environment variable CI) it fails.
    """
    names = (command, *alternatives)
    found = _find(names)
    if found:
        return found
    with one_apt():
        problem = _install(package)
    found = _find(names)
    if found:
        return found
    reason = f"{command} is needed (package {package}): {problem or 'apt installed the package without it'}"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def one_apt() -> Iterator[None]:
    """Wait for the other tests that use apt: it locks its lists without patience."""
    with lock(Path(tempfile.gettempdir(), f"replications-apt-{os.getuid()}.lock"), seconds_left=lambda: math.inf):
        yield


def _find(names: Sequence[str]) -> str | None:
    return next((path for path in map(shutil.which, names) if path), None)


def _install(package: str) -> str | None:
    """Install a package; the reason if that did not work."""
    if not shutil.which("apt-get"):
        return "there is no apt-get here; install it by hand"
    prefix = _as_root()
    if prefix is None:
        return f"installing it takes root; run `apt-get install {package}`"
    apt = [*prefix, "apt-get", "-y", "-o", "DPkg::Lock::Timeout=300"]
    install = [*apt, "install", "--no-install-recommends", package]
    said: list[str] = []
    for step in (install, [*apt, "update"], install):  # the lists are fetched only where the old ones do not do
        try:
            done = subprocess.run(step, env=_quiet(), capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return f"apt-get took longer than {SECONDS} s"
        if step is install and done.returncode == 0:
            return None
        said = done.stderr.strip().splitlines() or said
    return f"apt-get install {package} failed: {said[-1] if said else 'it did not say why'}"


def _as_root() -> list[str] | None:
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") and subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode == 0:
        return ["sudo", "-n"]
    return None


def _quiet() -> dict[str, str]:
    return {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
