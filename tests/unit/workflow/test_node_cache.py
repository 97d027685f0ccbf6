"""Data on the node's own disk: a job reads them there where they can be copied, and starts all the same where not."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT, program

SET = "datasets/made/1"
FULL = 'mkdir "$3"; echo partial > "$3/values"; echo "cp: error writing: No space left on device" >&2; exit 1'


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A cache with one complete data set."""
    folder = tmp_path / "shared"
    (folder / SET).mkdir(parents=True)
    for name in ("values", "verified.json"):
        (folder / SET / name).write_text("{}")
    return folder


def sourced(scratch: Path, shared: Path, programs: Path) -> tuple[str, str]:
    """What a job takes for its cache, in Snakemake's shell after its `before_job`, and what was said."""
    script = f"set -euo pipefail; set +u; . slurm/node_cache.sh {scratch}; set -u; printenv REPLICATIONS_CACHE"
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "SLURM_JOB_ID": "1", "REPLICATIONS_CACHE": os.fspath(shared)}
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def test_a_full_scratch_is_one_sentence_and_the_job_reads_the_shared_cache(shared: Path, tmp_path: Path) -> None:
    scratch, programs = tmp_path / "scratch", tmp_path / "programs"
    programs.mkdir()
    copy = program(programs, "cp", FULL)
    own = scratch / f"hessian-replications-{os.getuid()}"
    cache, said = sourced(scratch, shared, programs)
    assert cache == os.fspath(shared)
    assert said == (
        f"slurm/node_cache.sh: data are read from {shared}, not from {own} "
        "(cp: error writing: No space left on device).\n"
    )
    assert not list((own / SET).parent.iterdir()), "what was copied in part is left"

    copy.unlink()  # there is room again
    assert sourced(scratch, shared, programs) == (os.fspath(own), "")
    assert (own / SET / "values").read_text() == "{}"
    assert (own / "calibration").resolve() == shared / "calibration"


def test_a_scratch_that_is_not_there_stops_no_job(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache, said = sourced(tmp_path / "file", shared, tmp_path)
    assert cache == os.fspath(shared)
    assert said.startswith("slurm/node_cache.sh: ")
    assert said.count("\n") == 1
