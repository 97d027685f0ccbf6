"""Executing a job: which calls of `run()` it takes, and the marker that says how each run ended."""

import importlib
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

import pydantic

from common.errors import UserError, told
from common.experiments.call import Call, Conditions
from common.experiments.grid import Job, Run, together
from common.experiments.outcomes import Outcome
from common.experiments.parameters import ExperimentParameters
from common.experiments.replication import Replication

Report = Callable[[Run, float, str], None]
"""Called with the first run of the call under way, the fraction of the job done, and a message."""


@dataclass(frozen=True)
class _Teller:
    """Reports how far a call is as how far the job is."""

    report: Report
    first: Run
    number: int
    calls: int

    def __call__(self, fraction: float, message: str) -> None:
        self.report(self.first, (self.number + min(fraction, 1.0)) / self.calls, message)


def execute_job(
    job: Job, conditions: Conditions, report: Report = lambda run, fraction, message: None
) -> dict[str, Outcome]:
    """Bring every run of a job to an outcome; current ones are left alone. Writes the job's marker.

    Returns:
        Outcome by `experiment/run name`.

    Raises:
        UserError: a parameter is out of range or a need matches no run; nothing has been computed then.
        OSError: the results folder cannot be written, ENOSPC or EDQUOT where its disk is full.
    """
    started = time.monotonic()
    replication, results = conditions.replication, conditions.results
    broken = _broken_modules(job, replication)
    parameters = {run.key: parameters_of(run, replication) for run in job.runs if run.experiment not in broken}
    previous = results.marker(job)
    outcomes: dict[str, Outcome] = {}
    computed = False
    calls = _calls(job, replication)
    for number, runs in enumerate(calls):
        call = Call(runs, conditions, parameters, previous, _Teller(report, runs[0], number, len(calls)))
        if (problem := broken.get(runs[0].experiment)) is not None:
            outcomes |= call.all("failed", problem)
        else:
            outcomes |= call.settle()
        computed |= call.computed
    if outcomes != previous or computed:
        results.write_marker(job, outcomes, time.monotonic() - started)
    return outcomes


def _broken_modules(job: Job, replication: Replication) -> dict[str, str]:
    """Experiments whose file cannot be imported, with the reason."""
    broken = {}
    for experiment in dict.fromkeys(run.experiment for run in job.runs):
        try:
            importlib.import_module(replication.module(experiment))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever the file does, SystemExit included
            traceback.print_exc(file=sys.stderr)
            broken[experiment] = f"its file cannot be imported: {told(error, replication.root)}"
    return broken


def _calls(job: Job, replication: Replication) -> list[list[Run]]:
    by_experiment: dict[str, list[Run]] = {}
    for run in job.runs:
        by_experiment.setdefault(run.experiment, []).append(run)
    return [
        runs
        for experiment, members in by_experiment.items()
        for runs in together(members, replication.experiment(experiment))
    ]


def parameters_of(run: Run, replication: Replication) -> ExperimentParameters:
    """The parameters of a run, whose experiment can be imported.

    Raises:
        UserError: config.yaml gives one a value that it cannot have; names the line.
    """
    module = importlib.import_module(replication.module(run.experiment))
    try:
        parameters: ExperimentParameters = module.Parameters(**run.settings)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        raise UserError(
            f"{replication.line_of_parameter(run, name)}: {run.experiment}.{name} = "
            f"{first['input']!r} at scale {run.scale}: {first['msg']}."
        ) from error
    replication.needed(run)
    return parameters
