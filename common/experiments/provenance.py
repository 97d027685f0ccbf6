"""Where a result comes from: commit, locks, versions, device, cost."""

import hashlib
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from common.experiments import calibration

_PACKAGES = ("torch", "numpy", "pydantic", "safetensors", "torchvision", "torch-geometric", "scipy", "numba")
LOCKS = ("requirements-torch.txt", "requirements.lock")
GENERATED = ("reports", "dvc.lock", "dvc.yaml")
"""Tracked paths that the workflow writes: a change there does not make a tree dirty."""
SOURCE = ("common", "replications", "data")


@cache
def commit(root: Path) -> str:
    """The commit of the checkout, `REPLICATIONS_COMMIT` where there is no .git, else "unknown"."""
    return _git(root, ["rev-parse", "HEAD"]) or os.environ.get("REPLICATIONS_COMMIT", "unknown")


@cache
def dirty(root: Path) -> bool | None:
    """Whether source differs from the commit, files that git does not know included; None if it cannot be told."""
    if not _git(root, ["rev-parse", "HEAD"]):
        return None
    excluded = [f":(exclude){path}" for path in GENERATED]
    changed = _git(root, ["status", "--porcelain", "--untracked-files=no", "--", ".", *excluded])
    return bool(changed or _git(root, ["ls-files", "--others", "--exclude-standard", "--", *SOURCE]))


def file_at(root: Path, commit: str, path: Path) -> str | None:
    """The text of a file of the checkout as it stands in a commit; None where it is not in it."""
    command = ["git", "-C", str(root), "show", f"{commit}:{path.relative_to(root).as_posix()}"]
    done = subprocess.run(command, capture_output=True, text=True)
    return None if done.returncode else done.stdout


def _git(root: Path, arguments: Sequence[str]) -> str:
    """What git says, without taking the lock that a user's own git call may need; empty where it fails."""
    command = ["git", "--no-optional-locks", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def lock_digests(root: Path) -> dict[str, str]:
    """sha256 of each lock file."""
    return {name: hashlib.sha256((root / name).read_bytes()).hexdigest() for name in LOCKS if (root / name).is_file()}


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that compute."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def device_facts(device: Any) -> dict[str, Any]:
    """Name, driver and determinism of a torch device, the threads of this process, and how fast its cores are."""
    import torch

    facts: dict[str, Any] = {
        "type": device.type,
        "threads": torch.get_num_threads(),
        "deterministic": device.type == "cpu" or torch.are_deterministic_algorithms_enabled(),
        "calibration": dict(calibration.here().seconds),
    }
    if device.type == "cuda":
        facts |= {"name": torch.cuda.get_device_name(device), "cuda": torch.version.cuda, "driver": _driver()}
    else:
        facts |= {"name": _processor()}
    return facts


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


@cache
def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.split("\n")[0].strip() or "unknown"


def peak_memory_mb() -> float:
    """Largest resident set of this process so far, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak / 1024 if sys.platform != "darwin" else peak / 1024**2)
