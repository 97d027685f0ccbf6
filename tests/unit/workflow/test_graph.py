"""What Snakemake is told of very many jobs, and of a cluster's arrays and partitions."""

import base64
import hashlib
import json
import shlex
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from common.errors import UserError
from common.workflow.graph import GATHERED, Graph
from common.workflow.slurm import (
    check_arrays,
    check_cluster,
    check_requests,
    check_submitting,
    node_memory,
    request,
)
from common.workflow.slurm_job import job_command, leave_own_job
from tests.conftest import ROOT, Project, program


@pytest.fixture
def wide(project: Project, monkeypatch: pytest.MonkeyPatch) -> Graph:
    """300 jobs of descent, each with its own run, and one that needs them all."""
    rates = ", ".join(f"0.{number:03}" for number in range(1, 61))
    project.edit("config.yaml", "[0.1, 0.5, 3.0]", f"[{rates}]")
    project.edit(
        "config.yaml",
        "    laptop: {minutes: 0.6}\nmeasurement",
        "    laptop: {per_job: {learning_rate: 1, seed: 1}}\nmeasurement",
    )
    project.file("claims.yaml").write_text("[]\n")
    monkeypatch.chdir(project.root)
    return Graph(Path(), "laptop")


def test_a_job_waits_for_the_jobs_of_the_runs_that_it_needs_and_for_no_other(wide: Graph) -> None:
    markers = {job.experiment: marker for marker, job in wide.jobs.items()}
    last = _wildcards(markers["measurement"])
    assert set(wide.job_inputs(last)) == {marker for marker, job in wide.jobs.items() if job.experiment == "descent"}
    assert wide.job_inputs(_wildcards(markers["descent"])) == []


def test_an_analysis_of_very_many_jobs_waits_for_files_that_stand_for_all_of_them(wide: Graph) -> None:
    inputs = wide.analysis_inputs("decay")
    assert len(inputs) == -(-301 // GATHERED)
    gathered = [
        marker
        for path in inputs
        for marker in wide.gathered(SimpleNamespace(paper="decay", chunk=path.rpartition("/")[2]))
    ]
    assert gathered == wide.paper_markers("decay")


@pytest.fixture
def graph(project: Project, monkeypatch: pytest.MonkeyPatch) -> Graph:
    """The example's jobs."""
    monkeypatch.chdir(project.root)
    return Graph(Path(), "laptop")


def test_an_analysis_of_few_jobs_waits_for_their_own_markers(graph: Graph) -> None:
    assert graph.analysis_inputs("decay") == graph.paper_markers("decay")


def test_jobs_of_one_rule_ask_for_equal_resources(wide: Graph) -> None:
    for paper, experiment in wide.rules:
        mine = [marker for marker, job in wide.jobs.items() if (job.paper, job.experiment) == (paper, experiment)]
        assert len({wide.job_resources(_wildcards(marker)).model_dump_json() for marker in mine}) == 1


STEP = ["--executor", "slurm-jobstep", "--jobs", "1"]


def test_a_slurm_job_is_executed_by_the_snakemake_that_its_script_starts() -> None:
    arguments = ["/bin/snakemake", "--target-jobs", "one:x=1,y=a b", *STEP, "--mode", "remote"]
    command = job_command(arguments, {"SLURM_JOB_ID": "7"})
    assert command is not None
    assert shlex.split(command) == [sys.executable, "-m", "snakemake", *arguments[1:3], "--mode", "remote"]
    assert job_command(arguments, {}) is None
    assert job_command(["/bin/snakemake", "--mode", "remote"], {"SLURM_JOB_ID": "7"}) is None


def test_every_element_of_an_array_executes_its_own_job() -> None:
    commands = {"2": "python -m snakemake two --executor slurm-jobstep --jobs 1 --mode remote", "3": "echo three"}
    packed = {element: zlib.compress(command.encode()).hex() for element, command in commands.items()}
    payload = base64.b64encode(json.dumps(packed).encode()).decode()
    for carried in (["--slurm-jobstep-array-execs", payload], [f"--slurm-jobstep-array-execs={payload}"]):
        arguments = ["/bin/snakemake", "--target-jobs", "one", *STEP, *carried]
        found = [job_command(arguments, {"SLURM_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": str(n)}) for n in (1, 2, 3)]
        assert found == [
            shlex.join([sys.executable, "-m", "snakemake", "--target-jobs", "one"]),
            "python -m snakemake two --mode remote",
            "echo three",
        ]


def test_elements_whose_commands_were_not_passed_on_are_refused() -> None:
    """As the plug-in's second way to submit leaves them, where the first is too long for a command line."""
    arguments = ["/bin/snakemake", "--target-jobs", "one", *STEP]
    array = {"SLURM_JOB_ID": "7", "SLURM_ARRAY_TASK_MIN": "31"}
    assert job_command(arguments, {**array, "SLURM_ARRAY_TASK_ID": "31"}) is not None
    with pytest.raises(UserError, match="does not know its command: put a smaller `slurm-array-limit`"):
        job_command(arguments, {**array, "SLURM_ARRAY_TASK_ID": "32"})


def test_the_commands_of_an_array_fit_into_one_argument() -> None:
    """Linux takes 128 kB in one; a command that does not pack well is 2 kB in hexadecimal digits and base 64."""
    profile = yaml.safe_load((ROOT / "slurm/config.yaml").read_text())
    command = " ".join(hashlib.sha256(str(number).encode()).hexdigest() for number in range(23))
    packed = {str(number): zlib.compress(command.encode(), 9).hex() for number in range(profile["slurm-array-limit"])}
    assert len(command) > 1400
    assert len(base64.b64encode(json.dumps(packed).encode())) < 128 * 1024 * 2 // 3


def test_the_memory_of_the_largest_node_is_that_of_the_smallest_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster_that_says(
        tmp_path, monkeypatch, sinfo="echo 'gpu 128000'; echo 'gpu 256000+'; echo 'preempt 64000'; echo x"
    )
    assert node_memory("gpu") == 256_000 - 64
    assert node_memory("preempt,gpu") == 64_000 - 64
    assert node_memory("another") is None


def test_nothing_begins_where_nothing_can_be_submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="there is no `sbatch` here"):
        check_submitting()
    program(tmp_path, "sbatch", "true")
    check_submitting()


def test_what_slurm_refuses_is_said_before_anything_is_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job that only waits for its nodes is no refusal, nor is a queue that is full."""
    resources = {
        "slurm_partition": "gpu",
        "slurm_account": "lab",
        "mem_mb": 8000,
        "runtime": 60,
        "gpu": 1,
        "attempt": 1,
    }
    asked = request(resources, 4)
    assert asked == (
        *("--partition=gpu", "--account=lab", "--gpus=1", "--mem=8000", "--time=60"),
        "--cpus-per-gpu=4",
    )
    assert request({"slurm_partition": "cpu", "gpu": 0}, 2) == ("--partition=cpu", "--cpus-per-task=2")

    calls = tmp_path / "calls"
    note = f'echo "$0 $*" >> {calls}; case "$*" in *--test-only*) echo "nodes are down" >&2; exit {{}};; esac; {{}}'
    cluster_that_says(tmp_path, monkeypatch, sbatch=note.format(0, "exit 1"))
    check_requests({asked: "decay/descent"})
    assert "--partition=gpu --account=lab" in calls.read_text()
    assert capsys.readouterr().err == ""

    cluster_that_says(
        tmp_path, monkeypatch, sbatch=note.format(1, "echo 17"), scancel=f'echo "cancelled $*" >> {calls}'
    )
    check_requests({asked: "decay/descent"})
    assert calls.read_text().endswith("cancelled 17\n")
    assert capsys.readouterr().err == "replicate: decay/descent waits in the queue for now: nodes are down\n"

    failed = "echo 'sbatch: error: Batch job submission failed: {}' >&2; exit 1"
    cluster_that_says(tmp_path, monkeypatch, sbatch=note.format(1, failed.format("Invalid account")))
    with pytest.raises(
        UserError, match=r"refuses what decay/descent asks for \(--partition=gpu .*\): Invalid account$"
    ):
        check_requests({asked: "decay/descent"})
    full = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
    cluster_that_says(tmp_path, monkeypatch, sbatch=note.format(1, failed.format(full.replace("'", ""))))
    check_requests({asked: "decay/descent"})


def cluster_that_says(folder: Path, monkeypatch: pytest.MonkeyPatch, **programs: str) -> None:
    """Put scripts in place of Slurm's programs."""
    for name, script in programs.items():
        program(folder, name, script)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_a_partition_that_the_cluster_lacks_is_named_with_those_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster_that_says(tmp_path, monkeypatch, sinfo="echo main\necho gpu-long")
    check_cluster({"main", "gpu-long"})
    with pytest.raises(UserError, match=r"no partition 'gpulong' \(slurm/config.yaml\); did you mean 'gpu-long'\?"):
        check_cluster({"main", "gpulong"})
    check_cluster({"main", "main,gpu-long"})
    with pytest.raises(UserError, match="no partition 'preempt'"):
        check_cluster({"main", "main,preempt"})
    cluster_that_says(tmp_path, monkeypatch, sinfo="exit 1")
    check_cluster({"anything"})


def test_sacct_and_accounts_need_a_cluster_that_keeps_accounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = "echo 'AccountingStorageType   = accounting_storage/{}'"
    cluster_that_says(tmp_path, monkeypatch, sinfo="echo main", scontrol=kept.format("none"))
    check_cluster({"main"}, status_command="squeue")
    with pytest.raises(UserError, match="which sacct asks for: set `slurm-status-command: squeue`"):
        check_cluster({"main"}, status_command="sacct")
    with pytest.raises(UserError, match="keeps no accounts: take `slurm_account` out"):
        check_cluster({"main"}, account="me")
    cluster_that_says(tmp_path, monkeypatch, scontrol=kept.format("slurmdbd"))
    check_cluster({"main"}, status_command="sacct", account="me")


def test_an_experiment_of_more_jobs_than_an_array_can_number_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = {("decay", "descent"): 100, ("decay", "measurement"): 1}
    cluster_that_says(tmp_path, monkeypatch, scontrol="echo 'MaxArraySize            = 101'")
    check_arrays(jobs, "all")
    cluster_that_says(tmp_path, monkeypatch, scontrol="echo 'MaxArraySize            = 100'")
    with pytest.raises(UserError, match=r"decay/descent has 100 jobs, .* up to 99 \(MaxArraySize\)"):
        check_arrays(jobs, "all")
    check_arrays(jobs, "")
    cluster_that_says(tmp_path, monkeypatch, scontrol="exit 1")
    check_arrays(jobs, "all")


def test_a_submitting_process_that_is_a_job_passes_nothing_of_it_on() -> None:
    mine = {"SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "2", "SLURM_CONF": "/etc/slurm.conf", "HOME": "/home/me"}
    leave_own_job(mine)
    assert mine == {"SLURM_CONF": "/etc/slurm.conf", "HOME": "/home/me"}
    outside = {"SLURM_CONF": "/etc/slurm.conf", "SLURM_CLUSTERS": "b"}
    leave_own_job(outside)
    assert outside == {"SLURM_CONF": "/etc/slurm.conf", "SLURM_CLUSTERS": "b"}


def _wildcards(marker: str) -> SimpleNamespace:
    _, _, scale, paper, experiment, job = marker.split("/")
    return SimpleNamespace(scale=scale, paper=paper, experiment=experiment, job=job.removesuffix(".json"))


def test_data_is_looked_for_first_and_what_others_wait_for_before_them(graph: Graph) -> None:
    first, second = (graph.rule_priority("decay", name) for name in ("descent", "measurement"))
    assert graph.data_priority > first > second > 0
