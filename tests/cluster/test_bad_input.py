"""On a real cluster: what is wrong with profile or machine is said in a sentence, before or instead of a hang."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import PATIENCE, Checkout
from tests.cluster.slurm import Cluster, wait_for
from tests.conftest import Project

RESOURCES = "{minutes: 0.1, mem_mb: 300, runtime: 10}"


@pytest.fixture
def checkout(cluster: Cluster, tmp_path: Path) -> Iterator[Checkout]:
    checkout = Checkout(tmp_path / "checkout", cluster, resources=RESOURCES, hold=False)
    yield checkout
    checkout.close()


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "slurm_partition: cpu ",
            "slurm_partition: cpus ",
            "the cluster has no partition 'cpus' (slurm/config.yaml); did you mean 'cpu'?",
        ),
        (
            "slurm-status-command: squeue",
            "slurm-status-command: sacct",
            "the cluster keeps no accounts, which sacct asks for: set `slurm-status-command: squeue` in "
            "slurm/config.yaml.",
        ),
    ],
)
def test_what_the_cluster_lacks_is_named_before_anything_is_submitted(
    checkout: Checkout, old: str, new: str, sentence: str
) -> None:
    path = checkout.root / "slurm/config.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    process = checkout.submit("--", "analysis/laptop/decay/verdicts.json")
    wait_for(lambda: process.poll() is not None, PATIENCE, "Snakemake to refuse")
    assert process.returncode == 1
    assert sentence in checkout.log
    assert "sbatch" not in checkout.log


def test_a_gpu_job_goes_to_the_gpu_partition_with_its_gpu_after_what_the_profile_puts_before_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    """On a cluster without accounting, which this one is."""
    checkout = Checkout(tmp_path / "checkout", cluster, resources=RESOURCES.replace("{", "{gpus: 1, "), hold=False)
    checkout.project.edit(
        "descent.py",
        "    rates = torch",
        "    import os\n"
        "    names = ('CUDA_VISIBLE_DEVICES', 'MODULE', 'REPLICATIONS_OFFLINE', 'SLURM_JOB_ID')\n"
        "    open('seen', 'w').write(' '.join(os.environ.get(name, '-') for name in names))\n"
        "    rates = torch",
    )
    checkout.set_in_profile('before_job: ""', 'before_job: "export MODULE=loaded$UNSET"', "site.yaml")
    try:
        process = checkout.submit("--", checkout.marker("descent"))
        wait_for(lambda: process.poll() is not None, PATIENCE, "the job to end")
        assert process.returncode == 0, checkout.log
        device, module, offline, job = (checkout.root / "seen").read_text().split()
        assert (device, module, offline) == ("0", "loaded", "1")
        assert "Partition=gpu" in cluster.run("scontrol", "show", "job", job)
    finally:
        checkout.close()


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB."""
    folder = tmp_path / "full"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", os.fspath(folder)], capture_output=True)
    if done.returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", os.fspath(folder)], check=True)


@pytest.mark.parametrize("when", ["at the start", "at a checkpoint"])
def test_a_full_disk_is_one_sentence_and_no_half_run_is_left(project: Project, full_disk: Path, when: str) -> None:
    if when == "at a checkpoint":
        project.edit("descent.py", '"weights": torch', '"ballast": torch.zeros(20000), "weights": torch')
    done = project.replicate(
        "run", "decay", "--scale", "laptop", "--out", os.fspath(full_disk), REPLICATIONS_CHECKPOINT_SECONDS="0"
    )
    assert done.returncode == 1
    assert done.stderr == (
        f"replicate: {full_disk}: the disk is full; make room, or name another folder with --out. What is complete is "
        "kept, and the same command continues.\n"
    )
    for folder in full_disk.glob("laptop/decay/*/*"):
        assert (folder / "outcome.json").is_file()
    if when == "at a checkpoint":
        subprocess.run(["mount", "-o", "remount,size=16m", os.fspath(full_disk)], check=True)
        project.succeeds("run", "decay", "--scale", "laptop", "--out", os.fspath(full_disk))
