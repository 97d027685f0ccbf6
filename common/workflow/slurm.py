"""What a Slurm cluster says: to a job of itself, and of the profile before anything is submitted."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

import yaml

from common.errors import UserError, suggestion
from common.output import said

_LEFT = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)")


def inside_a_job() -> bool:
    """Whether this process belongs to a Slurm job."""
    return "SLURM_JOB_ID" in os.environ


def minutes_left() -> float | None:
    """Minutes until Slurm ends this job; None outside of one, without a limit, or where Slurm does not say."""
    if not inside_a_job():
        return None
    return as_minutes((said(["squeue", "-h", "-j", os.environ["SLURM_JOB_ID"], "-o", "%L"]) or "").strip())


def as_minutes(text: str) -> float | None:
    """Slurm's `[[days-]hours:]minutes:seconds` in minutes; None for its words (UNLIMITED, INVALID, …)."""
    found = _LEFT.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return 60.0 * (24 * days + hours) + minutes + seconds / 60


def status_command(profile: Path) -> str:
    """The command by which the profile of this file has jobs looked after; Snakemake tells it only when it submits."""
    content = yaml.safe_load(profile.read_text()) if profile.is_file() else None
    return str((content or {}).get("slurm-status-command", "squeue"))


def check_cluster(partitions: Iterable[str], status_command: str = "squeue", account: str | None = None) -> None:
    """Compare the profile with the cluster; nothing where the cluster does not answer.

    Raises:
        UserError: a partition that `sinfo` does not show, or accounts asked for where none are kept.
    """
    known = (said(["sinfo", "-h", "-o", "%R"]) or "").split()
    for name in partitions if known else ():
        if name not in known:
            raise UserError(f"the cluster has no partition {name!r} (slurm/config.yaml){suggestion(name, known)}")
    if status_command != "sacct" and account is None:
        return
    if "accounting_storage/none" in (said(["scontrol", "show", "config"]) or ""):
        mended = "take `slurm_account` out of" if account else "set `slurm-status-command: squeue` in"
        asks = "" if account else ", which sacct asks for"
        raise UserError(f"the cluster keeps no accounts{asks}: {mended} slurm/config.yaml.")
