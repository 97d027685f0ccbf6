"""Where a result comes from: commit, locks, versions, device, cost."""

import hashlib
import os
import platform
import resource
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from common.experiments import calibration
from common.output import said

_PACKAGES = ("torch", "numpy", "pydantic", "safetensors", "torchvision", "torch-geometric", "scipy", "numba")
LOCKS = ("requirements-torch.txt", "requirements.lock")
GENERATED = ("reports", "dvc.lock", "dvc.yaml")
"""Tracked paths that the workflow writes: a change there does not make a tree dirty."""
SOURCE = ("common", "replications", "data")


def git(root: Path, *arguments: str) -> str | None:
    """What git says, without taking the lock that a user's own git call may need; None where it fails."""
    return said(["git", "--no-optional-locks", "-C", str(root), *arguments])


@cache
def commit(root: Path) -> str:
    """The commit of the checkout, `REPLICATIONS_COMMIT` where there is no .git, else "unknown"."""
    return (git(root, "rev-parse", "HEAD") or os.environ.get("REPLICATIONS_COMMIT", "unknown")).strip()


@cache
def dirty(root: Path) -> bool | None:
    """Whether source differs from the commit, files that git does not know included; None if it cannot be told."""
    return bool(uncommitted(root)) if git(root, "rev-parse", "HEAD") else None


def uncommitted(root: Path) -> list[str]:
    """The files of the source, and all others that git knows, that differ from the commit."""
    excluded = [f":(exclude){path}" for path in GENERATED]
    changed = git(root, *("status", "--porcelain", "--untracked-files=no", "--", ".", *excluded)) or ""
    unknown = git(root, *("ls-files", "--others", "--exclude-standard", "--", *SOURCE)) or ""
    return [*(line[3:] for line in changed.splitlines()), *unknown.splitlines()]


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
        facts |= {"name": calibration.cpu_facts().get("model name", platform.machine())}
    return facts


@cache
def _driver() -> str:
    told = said(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]) or ""
    return told.split("\n")[0].strip() or "unknown"


def peak_memory_mb() -> float:
    """Largest resident set of this process so far, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak / 1024 if sys.platform != "darwin" else peak / 1024**2)
