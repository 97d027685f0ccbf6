"""`replicate step …`: the steps of the workflow, which Snakemake calls; each a process of its own."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from common.files import project_root

if TYPE_CHECKING:
    from common.workflow.state import Folders

steps = typer.Typer(hidden=True, help="Steps of the workflow; Snakemake calls them.")


def _here() -> "Folders":
    from common.workflow.state import Folders

    root = project_root()
    return Folders(root, root / "results")


@steps.callback()
def attended() -> None:
    """A step ends with the workflow that started it, and holds the checkout as long as it lives."""
    from common.workflow.ownership import attend

    attend(_here().results)


@steps.command("data")
def step_data(name: str, marker: Path) -> None:
    """Fetch a data set; the marker holds its digest, or why it is not available."""
    from common.experiments.calibration import note_step
    from common.workflow.job import data_step

    data_step(name, marker)
    note_step("data")


@steps.command("job")
def step_job(
    marker: str,
    scale: str,
    attempt: Annotated[int, typer.Option(help="Which attempt this is.")] = 1,
    attempts: Annotated[int, typer.Option(help="After how many the job is given up.")] = 1,
    runtime: Annotated[float, typer.Option(help="Minutes after which the cluster ends the job.")] = 60,
    wanted: Annotated[float, typer.Option(help="Minutes that it may take in all at this attempt.")] = 0,
) -> None:
    """Execute one job; the last attempt ends with exit code 0 whatever the outcomes are."""
    import math

    from common.workflow.job import Attempt, allowed_minutes, job_step

    minutes = allowed_minutes(runtime) if attempts > 1 else None
    which = Attempt(attempt, attempts, turns=math.ceil(wanted / runtime))
    raise typer.Exit(job_step(_here(), marker, scale, which, minutes))


@steps.command("trial")
def step_trial(answer: Path, target: str, scale: str, seconds: float) -> None:
    """Time the first seconds of one call of run()."""
    from common.workflow.trial import trial_step

    trial_step(_here(), answer, target, scale, seconds)


@steps.command("rehearse")
def step_rehearse(task: Path) -> None:
    """Rehearse the calls of a paper."""
    from common.workflow.rehearsal_step import rehearsal_step

    rehearsal_step(_here(), task)


@steps.command("killed")
def step_killed(marker: str, scale: str, code: int) -> None:
    """Note that the process of a job was killed."""
    from common.workflow.job import killed_step

    killed_step(_here(), marker, scale, code)


@steps.command("analyse")
def step_analyse(paper: str, scale: str) -> None:
    """Metrics, figures and verdicts of a paper."""
    from common.experiments.calibration import note_step
    from common.workflow.analyse import analyse
    from common.workflow.discovery import find

    folders = _here()
    for problem in analyse(find(folders.root, paper), scale, folders):
        print(f"problem: {problem}", file=sys.stderr)
    note_step("analyse", of=f"{scale}/{paper}")


@steps.command("page")
def step_page(paper: str, scale: str) -> None:
    """The page of a paper, and the index of the pages that there are."""
    from common.experiments.calibration import note_step
    from common.reports import build_page

    root = project_root()
    build_page(root / "replications" / paper, scale, root)
    step_index(scale)
    note_step("page", of=f"{scale}/{paper}")


@steps.command("index")
def step_index(scale: str) -> None:
    """The index of the pages that there are; one process at a time writes it."""
    import math

    from common.locks import lock
    from common.reports import build_index

    root = project_root()
    with lock(root / "results" / ".index.lock", seconds_left=lambda: math.inf):
        build_index(root, scale)
