"""What a Slurm cluster says: to a job of itself, and of the profile before anything is submitted."""

import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from common.errors import UserError, suggestion
from common.output import SECONDS, said

ADDED = 64
"""MB; the plug-in adds one to each array of 30."""
_LEFT = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)")


def inside_a_job() -> bool:
    """Whether this process belongs to a Slurm job."""
    return "SLURM_JOB_ID" in os.environ


def minutes_left() -> float | None:
    """Minutes until Slurm ends this job; None outside of one, without a limit, or where Slurm does not say."""
    if not inside_a_job():
        return None
    return as_minutes((said(["squeue", "-h", "-j", os.environ["SLURM_JOB_ID"], "-o", "%L"]) or "").strip())


def queue_again(turns: int) -> bool:
    """Have Slurm put this job back into its queue; whether it does.

    Args:
        turns: how often it may begin; each time that it was preempted counts.
    """
    begun = 1 + int(os.environ.get("SLURM_RESTART_COUNT", "0"))
    if not inside_a_job() or begun >= turns:
        return False
    array = os.environ.get("SLURM_ARRAY_JOB_ID")  # the number of the array is that of an element, too
    job = f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}" if array else os.environ["SLURM_JOB_ID"]
    print(f"Its partition ends it early: Slurm is asked to queue it again (turn {begun + 1} of {turns}).", flush=True)
    return said(["scontrol", "requeue", job]) is not None


def as_minutes(text: str) -> float | None:
    """Slurm's `[[days-]hours:]minutes:seconds` in minutes; None for its words (UNLIMITED, INVALID, …)."""
    found = _LEFT.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return 60.0 * (24 * days + hours) + minutes + seconds / 60


def of_profile(profile: Path, key: str, otherwise: str) -> str:
    """What the profile of this file says of the plug-in, which Snakemake tells only when it submits."""
    content = yaml.safe_load(profile.read_text()) if profile.is_file() else None
    return str((content or {}).get(key, otherwise))


def check_cluster(partitions: Iterable[str], status_command: str = "squeue", account: str | None = None) -> None:
    """Compare the profile with the cluster; nothing where the cluster does not answer.

    Args:
        partitions: names, or several that a comma joins, of which Slurm takes the one where a job starts first.

    Raises:
        UserError: a partition that `sinfo` does not show, or accounts asked for where none are kept.
    """
    known = (said(["sinfo", "-h", "-o", "%R"]) or "").split()
    for name in (one for names in partitions for one in names.split(",")) if known else ():
        if name not in known:
            raise UserError(f"the cluster has no partition {name!r} (slurm/config.yaml){suggestion(name, known)}")
    if status_command != "sacct" and account is None:
        return
    if "accounting_storage/none" in (said(["scontrol", "show", "config"]) or ""):
        mended = "take `slurm_account` out of" if account else "set `slurm-status-command: squeue` in"
        asks = "" if account else ", which sacct asks for"
        raise UserError(f"the cluster keeps no accounts{asks}: {mended} slurm/config.yaml.")


def time_limit(partitions: str) -> int | None:
    """Minutes after which Slurm ends jobs of partitions that commas join, by the strictest; None if none does."""
    names = partitions.split(",")
    stated = (line.split() for line in (said(["sinfo", "-h", "-o", "%R %l"]) or "").splitlines())
    limits = [as_minutes(limit) for name, limit in stated if name in names]
    return min((int(limit) for limit in limits if limit is not None), default=None)


def node_memory(partitions: str) -> int | None:
    """MB of the largest node of partitions that commas join, by the smallest of these; None if Slurm does not say.

    Less `ADDED`: what the plug-in adds to what the jobs of an array ask for.
    """
    names = partitions.split(",")
    stated = (line.split() for line in (said(["sinfo", "-h", "-o", "%R %m"]) or "").splitlines())
    largest: dict[str, int] = {}
    for name, memory in (line for line in stated if len(line) == 2):
        if name in names and memory.rstrip("+").isdigit():
            largest[name] = max(largest.get(name, 0), int(memory.rstrip("+")) - ADDED)
    return min(largest.values(), default=None)


def check_submitting() -> None:
    """Refuse to begin where nothing can be submitted.

    Raises:
        UserError: there is no `sbatch` here.
    """
    if shutil.which("sbatch") is None:
        raise UserError("there is no `sbatch` here: load the module that has it, or go to where jobs are submitted.")


def request(resources: Mapping[str, Any], cores: int) -> tuple[str, ...]:
    """What the plug-in has `sbatch` ask for a job, as far as Slurm may refuse it.

    Args:
        resources: of the job, by the plug-in's names.
        cores: of a task, or for each GPU.
    """
    gpus = resources.get("gpu", 0)
    options = {
        "--partition": resources.get("slurm_partition"),
        "--account": resources.get("slurm_account"),
        "--qos": resources.get("qos"),
        "--constraint": resources.get("constraint"),
        "--gres": resources.get("gres"),
        "--gpus": gpus,
        "--mem": resources.get("mem_mb"),
        "--time": resources.get("runtime"),
        "--cpus-per-gpu" if gpus else "--cpus-per-task": cores,
    }
    return tuple(f"{name}={value}" for name, value in options.items() if value)


def check_requests(requests: Mapping[tuple[str, ...], str]) -> None:
    """Refuse to begin where Slurm would refuse a job: all its attempts would be gone within a second.

    A trial that fails may mean no more than that nodes are down for now: only a job that Slurm does not put into its
    queue counts. It may begin in a day at the earliest, and is taken out at once.

    Args:
        requests: options of `sbatch`, each with the name of what asks for them.

    Raises:
        UserError: Slurm refuses one, with Slurm's reason.
    """
    for options, name in requests.items():
        trial = _sbatch("--test-only", *options)
        if not trial.returncode:
            continue
        queued = _sbatch("--parsable", "--begin=now+1day", "--output=/dev/null", *options)
        if not queued.returncode:
            said(["scancel", queued.stdout.strip().partition(";")[0]])
            print(f"replicate: {name} waits in the queue for now: {trial.stderr.strip()}", file=sys.stderr)
        elif "submit limit" not in queued.stderr:  # as many jobs as allowed are there already: it may wait for these
            reason = (queued.stderr.strip().splitlines() or ["no reason given"])[-1].rpartition("failed: ")[2]
            raise UserError(f"Slurm refuses what {name} asks for ({' '.join(options)}): {reason}")


def _sbatch(*options: str) -> "subprocess.CompletedProcess[str]":
    command = ["sbatch", *options, "--wrap", "true"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"sbatch did not answer in {SECONDS} s")


def check_arrays(jobs: Mapping[tuple[str, str], int], array_jobs: str) -> None:
    """Refuse arrays whose elements the cluster cannot number: the plug-in counts on from one array to the next.

    Args:
        jobs: how many an experiment of a paper has.
        array_jobs: `slurm-array-jobs` of the profile.

    Raises:
        UserError: an experiment has more jobs than the largest number that an element may have.
    """
    found = re.search(r"MaxArraySize\s*=\s*(\d+)", said(["scontrol", "show", "config"]) or "") if array_jobs else None
    largest = int(found[1]) - 1 if found else math.inf
    for (paper, experiment), count in jobs.items():
        if count > largest:
            raise UserError(
                f"{paper}/{experiment} has {count} jobs, and this cluster numbers those of an array up to {largest} "
                "(MaxArraySize): take `slurm-array-jobs` out of slurm/config.yaml, which submits each by itself, or "
                "put more runs into a job (`per_job`)."
            )
