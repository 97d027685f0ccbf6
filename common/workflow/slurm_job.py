"""On a node: the Snakemake that a Slurm job's script starts gives way to the one that executes the job.

Snakemake's Slurm plug-in 2.8 has the script start a Snakemake that starts another one as a step of the job (`srun`),
which costs as much again. Of an array, that first one would also wait for the files of the first element, and call
the others failed where that is slower (snakemake-executor-plugin-slurm, issue 447).
"""

import base64
import json
import os
import shlex
import sys
import zlib
from collections.abc import Mapping, MutableMapping, Sequence

from common.errors import UserError

_ELEMENTS = "--slurm-jobstep-array-execs"
_STEP = " --executor slurm-jobstep --jobs 1"


def job_command(arguments: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """The command that executes the job of this process, here; None where the process is no such script's.

    Args:
        arguments: of the Snakemake that the script started: they name its job, and of an array the one of the first
            element and, packed, the commands of all others.

    Raises:
        UserError: an element of an array whose commands were too long to be passed on (plug-in 2.8).
    """
    own, packed = _without_elements(arguments)
    command = shlex.join([sys.executable, "-m", "snakemake", *own])
    if _STEP not in command or "SLURM_JOB_ID" not in environment:
        return None
    elements = json.loads(base64.b64decode(packed.strip("'\""))) if packed else {}
    element = environment.get("SLURM_ARRAY_TASK_ID", "")
    if not packed and element != environment.get("SLURM_ARRAY_TASK_MIN", element):
        raise UserError(
            "the array has more elements than its script can name, and this one does not know its command: put a "
            "smaller `slurm-array-limit` into slurm/config.yaml."
        )
    if element in elements:
        command = zlib.decompress(bytes.fromhex(elements[element])).decode()
    return command.replace(_STEP, "")


def _without_elements(arguments: Sequence[str]) -> tuple[list[str], str]:
    """The arguments after the program's name but for the packed commands, and these."""
    own: list[str] = []
    packed = ""
    rest = iter(arguments[1:])
    for argument in rest:
        name, _, value = argument.partition("=")
        if name == _ELEMENTS:
            packed = value or next(rest, "")
        else:
            own.append(argument)
    return own, packed


def become_own_job(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Replace this process by the one that executes its job, where it is a Slurm job's first Snakemake."""
    try:
        command = job_command(arguments, environment)
    except UserError as error:
        sys.exit(f"replicate: {error}")
    if command is not None:
        os.execv("/bin/sh", ["sh", "-c", command])


def leave_own_job(environment: MutableMapping[str, str]) -> None:
    """Of a submitting process that is a job itself: forget that, so that what it submits inherits none of its limits.

    The plug-in does the same later, and takes the name of slurm.conf away as well, without which nothing is submitted
    where the cluster is known by it alone.
    """
    if "SLURM_JOB_ID" in environment:
        for name in [name for name in environment if name.startswith("SLURM_") and name != "SLURM_CONF"]:
            del environment[name]
