"""On a real Slurm cluster: whatever is killed, records and verdicts are those of an undisturbed run.

One workflow meets all misfortunes, since each submission costs its start-up; every test looks at one of them.
"""

import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.cluster.conftest import PATIENCE, Checkout, Held, undisturbed
from tests.cluster.slurm import Cluster, wait_for
from tests.conftest import Project

# Of the 8 processors of a node two jobs leave room for the short one, not for a third.
RESOURCES = "{minutes: 0.1, cpus: 3, mem_mb: 300, runtime: 60, per_job: {learning_rate: 1, seed: 5}}"
TIMED = "{minutes: 0.1, mem_mb: 100, runtime: 4, per_job: {learning_rate: 1, seed: 5}}"
VERDICTS = "analysis/laptop/decay/verdicts.json"


@dataclass
class Storm:
    """What happened to the workflow.

    Attributes:
        hit: the process that each misfortune met.
        exit_code: of the second Snakemake, which followed the one that was killed.
        orphans: jobs that were in the queue when the first Snakemake was killed.
        status: what `replicate status` said while all jobs waited in their middle.
    """

    checkout: Checkout
    hit: dict[str, Held] = field(default_factory=dict)
    exit_code: int | None = None
    orphans: int = 0
    status: str = ""


@pytest.fixture(scope="module")
def reference(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The replication computed in one go."""
    return undisturbed(tmp_path_factory.mktemp("undisturbed") / "checkout", cluster, RESOURCES)


@pytest.fixture(scope="module")
def storm(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storm]:
    """Let every misfortune happen to one workflow, and wait until it has ended."""
    checkout = Checkout(tmp_path_factory.mktemp("storm") / "checkout", cluster, resources=RESOURCES)
    _add_a_job_with_a_short_limit(checkout)
    storm = Storm(checkout)
    try:
        _rage(storm, cluster)
        yield storm
    finally:
        print(checkout.log)
        checkout.close()


def _add_a_job_with_a_short_limit(checkout: Checkout) -> None:
    """A second paper with one job, whose time ends while it waits."""
    timed = checkout.root / "replications" / "timed"
    shutil.copytree(checkout.root / "replications" / "decay", timed)
    text = (timed / "config.yaml").read_text()
    assert "learning_rate: [0.1, 0.25, 0.5, 3.0]" in text
    text = text.replace("learning_rate: [0.1, 0.25, 0.5, 3.0]", "learning_rate: [0.1, 0.5]").replace(RESOURCES, TIMED)
    (timed / "config.yaml").write_text(
        text.split("measurement:")[0].replace("learning_rate: 1, ", "learning_rate: 2, ")
    )
    for name in ("measurement.py", "analysis/measurement.py"):
        (timed / name).unlink()


def _rage(storm: Storm, cluster: Cluster) -> None:
    checkout = storm.checkout
    targets = (VERDICTS, checkout.marker("descent", paper="timed"))
    first = checkout.submit("--", *targets)

    def held(paper: str = "decay") -> list[Held]:
        assert first.poll() is None, "the workflow ended too early"
        return [one for one in checkout.held().values() if one.run.startswith(paper)]

    wait_for(lambda: len(held()) == 4, PATIENCE, "four array elements to wait in their middle")
    for one in held():
        assert "_" in one.job, "an experiment's jobs are no array"

    wait_for(lambda: len(held("timed")) == 1, PATIENCE, "the short job to wait in its middle")
    storm.hit["time"] = held("timed")[0]

    storm.status = checkout.project.replicate("status", "--scale", "laptop").stdout
    storm.hit["controller"] = held()[0]
    _restart_controller(cluster, storm.hit["controller"].job)

    one, other = (held_on for held_on in held() if held_on.node == "node1")
    storm.hit["killed"], storm.hit["cancelled"] = one, other
    os.kill(one.pid, signal.SIGKILL)
    cluster.run("scancel", other.job)

    lost = [held_on for held_on in held() if held_on.node == "node2"]
    storm.hit["node"] = lost[0]
    cluster.kill_node(2)
    wait_for(lambda: all(cluster.restarts(was.job) for was in lost), PATIENCE, "Slurm to miss the node")
    cluster.start_node(2)
    wait_for(lambda: all(back(checkout, was) for was in lost), PATIENCE, "the jobs of the lost node to run again")
    wait_for(lambda: len(held()) == 4, PATIENCE, "all jobs to run again")

    before = {one.job: one for one in held()}
    room = ["--cpus-per-task=5", "-w", checkout.held()[lost[1].job].node]
    cluster.run("sbatch", "--parsable", "-p", "urgent", *room, "-o", "/dev/null", "--wrap", "sleep 2")
    wait_for(lambda: any(back(checkout, was) for was in before.values()), PATIENCE, "a preempted job to run again")
    storm.hit["preempted"] = next(was for was in before.values() if back(checkout, was))
    wait_for(lambda: len(held()) == 4, PATIENCE, "all jobs to run again")

    short = storm.hit["time"].job
    wait_for(lambda: any(one.job != short for one in held("timed")), PATIENCE, "the short job to be continued")

    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    storm.orphans = len(cluster.run("squeue", "-h", "-r", "-o", "%i").split())
    second = checkout.submit("--", *targets)
    wait_for(
        lambda: len(cluster.run("squeue", "-h", "-r", "-o", "%i").split()) > storm.orphans or second.poll() is not None,
        PATIENCE,
        "the second Snakemake to submit",
    )
    checkout.open_gate()
    wait_for(lambda: second.poll() is not None, PATIENCE, "the workflow to end")
    storm.exit_code = second.returncode


def _restart_controller(cluster: Cluster, job: str) -> None:
    cluster.kill_controller(job)
    cluster.start_controller()
    wait_for(lambda: "node" in cluster.run("sinfo", "-h", "-N", check=False), PATIENCE, "slurmctld to answer")


def back(checkout: Checkout, was: Held) -> bool:
    """Whether another process has taken over the same job."""
    now = checkout.held().get(was.job)
    return now is not None and now.pid != was.pid


def test_the_workflow_that_was_killed_and_started_again_ends_well(storm: Storm) -> None:
    assert storm.orphans > 0
    assert storm.exit_code == 0, storm.checkout.log


def test_records_and_verdicts_are_those_of_an_undisturbed_run(storm: Storm, reference: Project) -> None:
    records = storm.checkout.project.records()
    mine = {path: content for path, content in records.items() if path.startswith("decay")}
    assert mine == reference.records()
    assert len(mine) > 40
    assert storm.checkout.verdicts() == (reference.root / VERDICTS).read_text()


def test_no_run_is_computed_twice(storm: Storm) -> None:
    starts = Counter(storm.checkout.fresh_starts())
    assert len(starts) == 20 + 10
    assert set(starts.values()) == {1}


@pytest.mark.parametrize("misfortune", ["killed", "cancelled", "node", "preempted"])
def test_a_job_continues_from_its_checkpoint(storm: Storm, misfortune: str) -> None:
    assert storm.checkout.segments(storm.hit[misfortune].run) >= 2


def test_a_killed_process_and_a_cancelled_array_element_are_tried_again(storm: Storm) -> None:
    assert storm.hit["killed"].job != storm.hit["cancelled"].job
    assert storm.checkout.log.count("Trying to restart job") >= 3  # … and the one whose time ended


def test_a_job_that_was_preempted_or_lost_its_node_costs_no_retry(storm: Storm) -> None:
    for misfortune in ("node", "preempted"):
        job = storm.hit[misfortune].job
        assert f"SLURM-job '{job}' failed" not in storm.checkout.log


def test_a_restart_of_the_controller_disturbs_nobody(storm: Storm) -> None:
    assert "Unable to get the status" not in storm.checkout.log
    assert storm.hit["controller"].run.startswith("decay")


def test_a_job_whose_time_ends_is_unfinished_in_time_and_continued(storm: Storm) -> None:
    assert "TIMEOUT" not in storm.checkout.log
    assert f"SLURM-job '{storm.hit['time'].job}' failed, SLURM status is: 'FAILED'" in storm.checkout.log
    assert storm.checkout.segments(storm.hit["time"].run) >= 2


def test_the_status_of_jobs_in_flight_tells_how_far_they_are(storm: Storm) -> None:
    assert "0 of 50 runs done, 0 failed; 5 jobs running." in storm.status
    for misfortune in ("killed", "cancelled", "node", "time"):
        assert f"running: {storm.hit[misfortune].run}: " in storm.status


def test_the_log_of_a_job_keeps_all_its_attempts(storm: Storm) -> None:
    logs = [path.read_text() for path in (storm.checkout.root / "logs/run/laptop").rglob("*.attempts.log")]
    assert len(logs) == 6
    assert sum("Attempt 1 of 3 on" in log and "Attempt 2 of 3 on" in log for log in logs) >= 3


def test_no_job_holds_what_an_interrupted_one_left(storm: Storm) -> None:
    work = storm.checkout.root / "results" / ".work"
    assert [path for path in work.rglob("*") if path.is_file() and path.suffix != ".lock"] == []
