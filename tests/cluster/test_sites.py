"""What clusters differ in: GPU types, preemption, limits, environments, and login nodes that forbid long processes."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.cluster.accounting import ACCOUNT
from tests.cluster.conftest import PATIENCE, POLLING, Checkout
from tests.cluster.slurm import GPU_TYPE, Cluster, wait_for
from tests.conftest import program

ONE_JOB = "{minutes: 0.1, mem_mb: 300, runtime: 10}"
EIGHT_JOBS = "{minutes: 0.1, mem_mb: 300, runtime: 10, per_job: {learning_rate: 1, seed: 3}}"
FOUR_JOBS = "{minutes: 0.1, mem_mb: 300, runtime: 10, per_job: {learning_rate: 1, seed: 5}}"


@pytest.fixture
def held(cluster: Cluster, tmp_path: Path) -> Iterator[Checkout]:
    """A checkout whose one job waits in its middle."""
    checkout = Checkout(tmp_path / "checkout", cluster, resources=ONE_JOB.replace("{", "{cpus: 6, "))
    yield checkout
    for partition in ("cpu", "spare"):
        cluster.run("scontrol", "update", f"partitionname={partition}", "state=up")
    checkout.close()


def test_a_coordinator_that_is_a_job_submits_to_several_partitions_and_outlives_preemption_and_its_own_end(
    held: Checkout, cluster: Cluster, tmp_path: Path
) -> None:
    """What submits is a job; its job starts where Slurm lets it, reads the node's disk, and goes on elsewhere."""
    cache, scratch = tmp_path / "cache", tmp_path / "scratch"
    (cache / "datasets/made/1").mkdir(parents=True)
    (cache / "datasets/made/1/verified.json").write_text("{}")
    (held.root / ".venv").symlink_to(sys.prefix)
    held.set_in_profile("slurm_partition: cpu ", "slurm_partition: spare,cpu ")
    _allow(cluster, spare="up", cpu="down")
    held.set_in_profile('before_job: ""', f'before_job: ". slurm/node_cache.sh {scratch}"', "site.yaml")
    marker = held.marker("descent")
    submit = ["sbatch", "--parsable", "-p", "urgent", "-D", os.fspath(held.root), "slurm/coordinator.sh", *POLLING]
    first_try = ["--config", "scale=laptop", "--", marker]
    coordinator = _output(held, *submit, *first_try, REPLICATIONS_CACHE=os.fspath(cache)).strip()

    wait_for(lambda: len(held.held()) == 1, PATIENCE, "the job to wait in its middle")
    ((job, first),) = held.held().items()
    assert "Partition=spare" in cluster.run("scontrol", "show", "job", job)
    environment = psutil.Process(first.pid).environ()
    assert environment["TMPDIR"] == f"{cluster.folder}/local/{job}"
    assert Path(environment["REPLICATIONS_CACHE"]).parent == scratch
    assert Path(environment["REPLICATIONS_CACHE"], "datasets/made/1/verified.json").is_file()
    assert environment["SLURM_JOB_ID"] == job != coordinator

    cluster.run("scancel", "--batch", "--signal=USR1", coordinator)  # as Slurm does before its time ends
    wait_for(lambda: cluster.restarts(coordinator) == 1, PATIENCE, "the coordinator to be queued again")

    _allow(cluster, spare="down", cpu="up")
    room = ["-c", "6", "--mem", "100", "-w", first.node]
    cluster.run("sbatch", "-p", "urgent", *room, "-o", "/dev/null", "--wrap", "sleep 2")
    wait_for(lambda: cluster.restarts(job) == 1, PATIENCE, "the job to be preempted")
    # A coordinator that is back before its job submits the run again: whichever starts first computes, the other waits.
    wait_for(lambda: any(one.pid != first.pid for one in held.held().values()), PATIENCE, "the run to go on")
    (again,) = (one for one in held.held().values() if one.pid != first.pid)
    assert again.run == first.run
    assert "Partition=cpu" in cluster.run("scontrol", "show", "job", again.job)

    wait_for(lambda: held.state(coordinator) == "RUNNING", PATIENCE, "the coordinator to run again")
    held.open_gate()
    wait_for(lambda: held.state(coordinator) == "COMPLETED", PATIENCE, "the coordinator to end")
    assert (held.root / marker).is_file()
    starts = held.fresh_starts()
    assert len(starts) == len(set(starts)) == 20, "a run was computed twice"
    assert held.segments(first.run) >= 2
    log = (held.root / "logs/coordinator.log").read_text()
    assert "The time of the coordinator ends: it is queued again." in log
    assert "You are running snakemake in a SLURM job context" not in log


def _allow(cluster: Cluster, **states: str) -> None:
    for partition, state in states.items():
        cluster.run("scontrol", "update", f"partitionname={partition}", f"state={state}")


def _output(checkout: Checkout, *command: str, **environment: str) -> str:
    done = checkout.project.command(*command, **{**checkout.environment, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_job_asks_for_its_type_of_gpu_and_is_tried_again_where_no_environment_reaches_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The cluster gives jobs nothing of the submitting environment, and the first attempt is killed."""
    checkout = Checkout(tmp_path / "checkout", cluster, resources=ONE_JOB.replace("{", "{gpus: 1, "), hold=False)
    checkout.set_in_profile("  # gpu_gres: gpu:a100 ", f"  gpu_gres: gpu:{GPU_TYPE} ")
    checkout.set_in_profile('  # gpu_constraint: "a100|h100" ', '  gpu_constraint: "large" ')
    checkout.project.edit(
        "descent.py",
        "    rates = torch",
        "    import os, signal\n"
        "    names = ('CUDA_VISIBLE_DEVICES', 'SLURMD_NODENAME', 'SUBMITTED_WITH', 'SLURM_JOB_ID')\n"
        "    open('seen', 'a').write(' '.join(os.environ.get(name, '-') for name in names) + '\\n')\n"
        "    if len(open('seen').readlines()) == 1:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    rates = torch",
    )
    sbatch = checkout.project.command("which", "sbatch").stdout.strip()
    script = f'for a; do shift; [ "$a" = --export=ALL ] && a=--export=NONE; set -- "$@" "$a"; done; exec {sbatch} "$@"'
    program(tmp_path, "sbatch", script)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", os.fspath(tmp_path), prepend=os.pathsep)
            patch.setenv("SUBMITTED_WITH", "something")
            process = checkout.submit("--", checkout.marker("descent"))
        wait_for(lambda: process.poll() is not None, PATIENCE, "the workflow to end")
        assert process.returncode == 0, checkout.log
        seen = [line.split() for line in (checkout.root / "seen").read_text().splitlines()]
        assert {tuple(line[:3]) for line in seen} == {("0", "node2", "-")}
        first, second = dict.fromkeys(line[3] for line in seen)
        assert int(first) < int(second)
        asked = cluster.run("scontrol", "show", "job", second)
        assert re.search(rf"TresPerNode=gres:gpu:{GPU_TYPE}:1\b", asked), asked
        assert "Features=large" in asked
        assert "Attempt 2 of 3 on" in next((checkout.root / "logs/run/laptop/decay").glob("*.attempts.log")).read_text()
    finally:
        checkout.close()


def test_a_job_asks_for_no_more_time_than_its_partition_allows_and_is_queued_again_until_it_has_had_its_own(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Slurm would leave a job that asks for more in the queue for ever."""
    checkout = Checkout(tmp_path / "checkout", cluster, resources=ONE_JOB)
    cluster.run("scontrol", "update", "partitionname=cpu", "MaxTime=3")
    try:
        process = checkout.submit("--", checkout.marker("descent"))
        wait_for(lambda: bool(checkout.held()) or process.poll() is not None, PATIENCE, "the job to start")
        ((job, held),) = checkout.held().items()
        assert "TimeLimit=00:03:00" in cluster.run("scontrol", "show", "job", job)
        told = psutil.Process(held.pid).cmdline()
        assert [told[told.index(name) + 1] for name in ("--runtime", "--wanted")] == ["3", "10"]
        wait_for(lambda: cluster.restarts(job) == 1, PATIENCE, "its partition to end the job")
        wait_for(lambda: any(one.pid != held.pid for one in checkout.held().values()), PATIENCE, "the job to go on")
        assert set(checkout.held()) == {job}
        checkout.open_gate()
        wait_for(lambda: process.poll() is not None, PATIENCE, "the workflow to end")
        assert process.returncode == 0, checkout.log
        assert "Trying to restart" not in checkout.log
        assert checkout.segments(held.run) == 2
        attempts = next((checkout.root / "logs/run/laptop/decay").glob("*.attempts.log")).read_text()
        assert attempts.count("Attempt 1 of 3 on") == 2
        assert "Slurm is asked to queue it again (turn 2 of 4)" in attempts
    finally:
        cluster.run("scontrol", "update", "partitionname=cpu", "MaxTime=INFINITE")
        checkout.close()


def test_more_jobs_than_an_array_may_number_are_refused_before_anything_is_submitted(
    cluster: Cluster, tmp_path: Path
) -> None:
    checkout = Checkout(tmp_path / "checkout", cluster, resources=EIGHT_JOBS, hold=False)
    try:
        process = checkout.submit("--", "analysis/laptop/decay/verdicts.json")
        wait_for(lambda: process.poll() is not None, PATIENCE, "Snakemake to refuse")
        assert process.returncode == 1
        assert "decay/descent has 8 jobs, and this cluster numbers those of an array up to 4" in checkout.log
        assert "sbatch" not in checkout.log
    finally:
        checkout.close()


def test_a_request_that_slurm_refuses_is_named_before_anything_is_submitted(cluster: Cluster, tmp_path: Path) -> None:
    """The nodes are drained at first: a job that may run on them later only waits, and is told to."""
    checkout = Checkout(tmp_path / "checkout", cluster, resources=ONE_JOB, hold=False)
    nodes = ("scontrol", "update", "nodename=node1,node2")
    cluster.run(*nodes, "state=drain", "reason=test")
    try:
        process = checkout.submit("--", checkout.marker("descent"))
        wait_for(lambda: "has been submitted" in checkout.log, PATIENCE, "the job to be submitted")
        assert "decay/descent waits in the queue for now" in checkout.log
        cluster.run(*nodes, "state=resume")
        wait_for(lambda: process.poll() is not None, PATIENCE, "the workflow to end")
        assert process.returncode == 0, checkout.log
        checkout.set_in_profile("slurm_partition: cpu ", "constraint: imagined\n  slurm_partition: cpu ")
        process = checkout.submit("--", checkout.marker("measurement"))
        wait_for(lambda: process.poll() is not None, PATIENCE, "Snakemake to refuse")
        assert process.returncode == 1
        assert "Slurm refuses what decay/measurement asks for" in checkout.log
        assert "Invalid feature specification" in checkout.log
        assert checkout.log.count("has been submitted") == 1
    finally:
        cluster.run(*nodes, "state=resume", check=False)
        checkout.close()


def test_a_limit_on_submitted_jobs_is_kept_to(accounted: Cluster, tmp_path: Path) -> None:
    """Four jobs under a quality of service that lets a user have two in the queue."""
    accounted.run("sacctmgr", "-i", "add", "qos", "two", "MaxSubmitJobsPerUser=2")
    accounted.run("sacctmgr", "-i", "modify", "user", "root", "set", "qos+=two")
    checkout = Checkout(tmp_path / "checkout", accounted, resources=FOUR_JOBS, hold=False)
    checkout.set_in_profile("  # qos: normal", "  qos: two")
    checkout.set_in_profile("  # slurm_account: project123", f"  slurm_account: {ACCOUNT}")
    markers = [f"results/{job.marker.as_posix()}" for job in checkout.project.replication().jobs("laptop")]
    wanted = [marker for marker in markers if "/descent/" in marker]
    checkout.set_in_profile("slurm-array-jobs: all", "# slurm-array-jobs: all")
    checkout.set_in_profile("jobs: 10000 ", "jobs: 2 ")
    with pytest.raises(RuntimeError, match="MaxSubmitJob"):
        accounted.run("sbatch", "-A", ACCOUNT, "--qos", "two", "--array=1-4", "-o", "/dev/null", "--wrap", "true")
    try:
        process = checkout.submit("--", *wanted)
        wait_for(lambda: process.poll() is not None, PATIENCE, "the workflow to end")
        assert process.returncode == 0, checkout.log
        assert checkout.log.count("has been submitted with SLURM jobid") == len(wanted) == 4
        assert "Trying to restart" not in checkout.log
    finally:
        checkout.close()
