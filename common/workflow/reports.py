"""`replicate reports`: the whole workflow on this machine, with progress and the time left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from common.errors import UserError, needs
from common.experiments.identity import Identities
from common.experiments.replication import Replication
from common.files import peek_json, status_of
from common.workflow import ownership
from common.workflow.discovery import chosen
from common.workflow.plan import JobPlan, duration_text, plan, time_left
from common.workflow.progress import duration, in_flight
from common.workflow.run import check_retry
from common.workflow.schedule import computing_seconds
from common.workflow.state import Folders, run_states
from common.workflow.tables import counts_text

QUIET_SECONDS = 60
"""After so long without a line of a log there is one that says how far the build is."""


@dataclass(frozen=True)
class Work:
    """What a build has to do, and where it shows."""

    folders: Folders
    scale: str
    cores: int
    jobs: Sequence[JobPlan]

    @property
    def log(self) -> Path:
        """What Snakemake says."""
        return self.folders.root / "logs" / "snakemake.log"

    @property
    def index(self) -> Path:
        """The report's first page."""
        return self.folders.root / "reports" / "index.html"


def build(
    folders: Folders,
    scale: str,
    papers: Sequence[str],
    *,
    cores: int,
    retry: frozenset[str],
    pages: bool = True,
    wait: bool = False,
) -> int:
    """Bring the report (without `pages`: metrics, figures and verdicts) up to date with Snakemake.

    A Snakemake profile in the environment (SNAKEMAKE_PROFILE) says where jobs run; without one, here. At a signal
    that asks it to end, jobs save their checkpoints first.

    Args:
        wait: for another build of this checkout, or what is left of one.

    Returns:
        0; 1 if a run or a step failed; 2 if files of a replication are not in order; 128 and the number of a signal
        that ended it. Everything that can be built is built all the same.

    Raises:
        UserError: Snakemake is not installed; another build is at work in this checkout, and nobody wants to wait for
            it.
    """
    check_retry(retry)
    needs("snakemake")
    root = folders.root
    replications, broken = chosen(root, papers, scale)
    if not replications:
        raise UserError(f"{root / 'replications'}: no replication there; a directory with a paper.yaml is one.")
    cores = cores or os.cpu_count() or 1
    ownership.end_with(ownership.owners(os.environ, ownership.MAKE))  # from here on: it may wait for long
    with ownership.checkout(folders.results, lambda sentence: _waits(sentence, wait)):
        jobs = [job for replication in replications.values() for job in plan(replication, scale, folders.store)]
        due = _due_markers(folders, replications, scale, retry)
        work = Work(folders, scale, cores, jobs)
        _announce(work, due)
        work.log.parent.mkdir(parents=True, exist_ok=True)
        targets = list(papers) or ["all"]
        if not pages:
            targets = [f"analysis/{scale}/{name}/verdicts.json" for name in replications]
        command = [sys.executable, "-m", "snakemake", "--keep-going", "--rerun-incomplete", "--nolock", "--nocolor"]
        command += [] if "SNAKEMAKE_PROFILE" in os.environ else ["--cores", str(cores)]
        command += ["--forcerun", *due] if due else []
        command += ["--config", f"scale={scale}", "--", *targets]
        code, asked = _execute(command, work)
        if asked:
            return 128 + asked
        failed = _conclude(code, work, replications)
    return 1 if failed else 2 if broken else 0


def _waits(sentence: str, wait: bool) -> bool:
    """Whether to wait for who is at work: as the option says, else on a terminal as its user answers."""
    if wait:
        print(f"Waiting: {sentence}", flush=True)
    elif sys.stdin is not None and sys.stdin.isatty() and sys.stdout is not None and sys.stdout.isatty():
        print(f"{sentence[0].upper()}{sentence[1:]}")
        with suppress(EOFError):
            return input("Wait for it? [Y/n] ").strip().lower() in ("", "y", "yes")
    return wait


def _execute(command: Sequence[str], work: Work) -> tuple[int, int]:
    """Snakemake's exit code, and the first signal that asked to end (0: none); afterwards no step lives here."""
    here = "SNAKEMAKE_PROFILE" not in os.environ
    with work.log.open("w") as stream:
        process = subprocess.Popen(
            command,
            cwd=work.folders.root,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env={**os.environ, ownership.BUILD: str(os.getpid())},
        )

    def end(number: int) -> None:
        # Of Ctrl-C Snakemake hears itself; on a cluster it cancels its jobs then, which a second signal would disturb.
        if here or number != signal.SIGINT:
            process.terminate()

    with ownership.passing_on(end) as came:
        try:
            _show(process, work)
        finally:
            process.wait()
        ownership.wait_for_steps(work.folders.results)
    return process.returncode, came[0] if came else 0


def _show(process: "subprocess.Popen[bytes]", work: Work) -> None:
    """Show progress until Snakemake ends or showing it fails, which is one line and ends nothing else."""
    try:
        _watch(process, work)
    except Exception as error:
        what = str(error).splitlines()[0] if str(error) else type(error).__name__
        with suppress(OSError):
            print(f"replicate: progress cannot be shown ({what}); the build goes on.", file=sys.stderr, flush=True)


def _due_markers(
    folders: Folders, replications: Mapping[str, Replication], scale: str, retry: frozenset[str]
) -> list[str]:
    """Markers of the jobs that have a run to compute: told to Snakemake, which sees only its own files.

    A run that failed and has not changed since is not due unless it is to be tried again.
    """
    due = []
    for replication in replications.values():
        identities = Identities(replication, folders.store)
        for job in replication.jobs(scale):
            marked = folders.store.marker(job)
            for run in job.runs:
                before = marked.get(run.key)
                given_up = (
                    before is not None
                    and before.status == "failed"
                    and "failed" not in retry
                    and before.identity == identities.digest(run)
                )
                if not given_up and not identities.current(run):
                    due.append(f"results/{job.marker.as_posix()}")
                    break
    return due


def _announce(work: Work, due: Sequence[str]) -> None:
    count = sum(job.due for job in work.jobs)
    if due:
        takes = (
            f"{count} of {sum(job.runs for job in work.jobs)} runs to compute, {duration_text(work.jobs, work.cores)}"
        )
    else:
        takes = f"{count} runs failed before, nothing else is due" if count else "all runs are current"
    print(f"Scale {work.scale}: {takes}. The report will be at {_shown(work.index)}.", flush=True)


def _shown(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _watch(process: "subprocess.Popen[bytes]", work: Work) -> int:
    """Show how far the jobs are until Snakemake ends; returns its exit code.

    On a terminal a bar; in a log a line whenever a job began, ended or failed, and at least once a minute.
    """
    weight = {job.name: job.minutes or 1.0 for job in work.jobs if job.due}
    markers = work.folders.results / ".jobs" / work.scale
    marker = {job.name: markers / job.paper / job.experiment / f"{job.id}.json" for job in work.jobs}
    total = sum(weight.values())
    ahead = time_left(work.jobs, work.cores)
    took: dict[str, float | None] = {}
    started = time.time()
    earlier = {job: _written(path) for job, path in marker.items()}
    console = Console()
    done: set[str] = set()
    failed: set[str] = set()
    said: tuple[object, ...] = ()
    spoke = 0.0
    columns = TextColumn("{task.percentage:>3.0f} %"), BarColumn(), TextColumn("{task.description}")
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("starting", total=1.0)
        while process.poll() is None:
            time.sleep(max(0.3, len(weight) / 3000))  # each look asks for every marker
            running = [one for one in in_flight(work.folders.results, work.scale) if one.id in weight]
            written = {job for job in weight.keys() - done if _written(marker[job]) not in (None, earlier[job])}
            ended = {job for job in written if not _holds(marker[job], "unfinished")}
            failed |= {job for job in ended if _holds(marker[job], "failed")}
            done |= ended
            took |= {job: computing_seconds(marker[job]) for job in ended}
            flying = sum(weight[one.id] * one.fraction for one in running)
            fraction = min((sum(weight[job] for job in done) + flying) / total, 1.0) if total else 1.0
            seconds = time.time() - started
            left = ahead.seconds(seconds, took, running)
            what = ", ".join(f"{one.run.rsplit('/', 1)[0]} {one.fraction:.0%}" for one in running[:4])
            what += f" and {len(running) - 4} more" if len(running) > 4 else ""
            what = what or ("starting" if seconds < 10 and total else "figures, verdicts and pages")
            text = f"{what}  ({duration(left)} left)"
            counts = f"{len(done)} of {len(weight)} jobs done, {len(running)} running, {len(failed)} failed"
            bar.update(task, completed=fraction, description=f"{counts}: {text}")
            state = (len(done), len(failed), *sorted(one.id for one in running))
            if not console.is_terminal and (state != said or seconds - spoke > QUIET_SECONDS):
                said, spoke = state, seconds
                print(f"{fraction:4.0%}  {duration(seconds)} gone, {counts}: {text}", flush=True)
    return process.returncode


def _holds(marker: Path, status: str) -> bool:
    content = peek_json(marker)  # a further attempt takes the marker away
    return content is not None and any(outcome["status"] == status for outcome in content["runs"].values())


def _written(path: Path) -> tuple[int, int] | None:
    """What tells one version of a file from the next, whatever the clocks say; None where there is none."""
    status = status_of(path)
    return None if status is None else (status.st_mtime_ns, status.st_ino)


def _conclude(code: int, work: Work, replications: Mapping[str, Replication]) -> bool:
    """Say how it ended; returns whether something failed or was left undone."""
    undone = False
    folders, scale = work.folders, work.scale
    verdicts: list[str] = []
    for name, replication in replications.items():
        groups: dict[tuple[str, str], list[str]] = {}
        for state in run_states(replication, scale, folders.store):
            if not state.current:
                key = (state.run.experiment, state.outcome.status)
                groups.setdefault(key, []).append(state.outcome.reason)
        for (experiment, status), reasons in groups.items():
            more = f" (and {len(set(reasons)) - 1} reasons more)" if len(set(reasons)) > 1 else ""
            print(f"{name}/{experiment}: {len(reasons)} runs {status.replace('_', ' ')}: {reasons[0]}{more}")
            undone |= status in ("failed", "missing", "damaged", "unfinished")
            if status == "failed":
                print("  unchanged, it is not tried again unless you say so: --retry failed")
        for sentence in folders.problems(scale, name):
            print(f"{name}/{sentence}")
            undone = True
        found = peek_json(folders.analysis(scale, name) / "verdicts.json")
        verdicts += [verdict["verdict"] for verdict in found or []]
    if code:
        killed = f"Snakemake was killed by signal {-code}" if code < 0 else "A step of the workflow failed"
        print(f"{killed} ({_shown(work.log)}):", file=sys.stderr)
        print("\n".join(_errors(folders.root, work.log)), file=sys.stderr)
    stale = " as it was before" if code else ""
    print(f"{len(verdicts)} claims: {counts_text(verdicts)}. The report{stale}: {_shown(work.index)}")
    return bool(code) or undone


def _errors(root: Path, log: Path) -> list[str]:
    """What the failed steps said: the sentences that they printed for the user, else the ends of their logs."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    found = []
    for line in lines:
        name, marked, _ = line.strip().removeprefix("log: ").partition(" (check log file")
        path = root / name
        if marked and path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")  # whatever a job wrote
            said = text.rpartition("Attempt 1 of ")[2].splitlines()  # logs of jobs go further back
            sentences = [line for line in said if line.startswith("replicate: ")]
            found += sentences or [f"{name}: {line}" for line in said[-3:]]
    return list(dict.fromkeys(found)) or lines[-10:]
