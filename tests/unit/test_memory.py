"""Memory that does not suffice: fewer runs at a time, with the same results, or a sentence that says what would do."""

import pytest
import torch

from common.memory import Shortage, shortage
from tests.conftest import Project

MESSAGE = (
    "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.25 GiB of which 4.31 GiB is "
    "free. Including non-PyTorch memory, this process has 74.94 GiB memory in use."
)
CPU_MESSAGE = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 8589934592 bytes."
CUBLAS_MESSAGE = "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"


def room_for(project: Project, runs: int) -> None:
    """Have a call with more runs than that end out of memory, in its middle and after a checkpoint."""
    project.edit(
        "descent.py",
        "        time.sleep(runs[0].pause)\n",
        "        context.checkpoint(state)\n"
        f"        if len(runs) > {runs} and state['step'] > 5:\n"
        f"            raise torch.OutOfMemoryError({MESSAGE!r})\n",
    )


def results(project: Project) -> tuple[dict[str, bytes], str]:
    """Records and artifacts, and the verdicts, of the whole replication."""
    done = project.replicate("step", "analyse", "decay", "laptop")
    assert done.returncode == 0, done.stdout + done.stderr
    return project.records(), (project.root / "analysis/laptop/decay/verdicts.json").read_text()


def test_a_call_that_does_not_fit_is_computed_in_halves_with_the_same_records_and_verdicts(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPLICATIONS_CHECKPOINT_SECONDS", "0")
    assert project.replicate("run", "decay", "--scale", "laptop").returncode == 0
    undisturbed = results(project)
    room_for(project, 2)
    done = project.replicate("run", "decay", "--scale", "laptop")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is out of memory" in done.stdout
    assert "with 5 runs at once; they are computed 3 and 2 at a time." in done.stdout
    assert "with 3 runs at once; they are computed 2 and 1 at a time." in done.stdout
    assert "Traceback" not in done.stderr
    assert results(project) == undisturbed
    runs = list((project.root / "results/laptop/decay/descent").glob("*/provenance.json"))
    assert len(runs) == 15
    assert not any('"computed_together": 5' in path.read_text() for path in runs)


def test_a_run_that_does_not_fit_alone_is_failed_with_what_would_do_and_the_others_go_on(project: Project) -> None:
    room_for(project, 2)
    project.edit("descent.py", "if len(runs) > 2", "if (len(runs) > 2 or runs[0].seed == 1)")
    project.edit("config.yaml", "  together: [seed]\n", "")
    done = project.replicate("run", "decay/descent", "--scale", "smoke")
    assert done.returncode == 1
    assert (
        "failed: the GPU is out of memory: 20.0 GiB wanted beyond 74.9 GiB in use, of 79.2 GiB in all; a GPU with at "
        "least 94.9 GiB free would do, or passes over fewer examples at once" in done.stdout
    )
    assert "6 runs: 3 completed, 3 failed" in done.stdout.replace("1 diverged, ", "").replace(
        "2 completed", "3 completed"
    )
    left = [path.parent.name for path in (project.root / "results/smoke/decay").glob("*/*/outcome.json")]
    assert len(left) == 3
    assert all(name.endswith("seed=0") for name in left)


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (torch.OutOfMemoryError(MESSAGE), Shortage(True, 20.0, 74.94, 79.25)),
        (torch.OutOfMemoryError("CUDA error"), Shortage(True, None, None, None)),
        (RuntimeError(CUBLAS_MESSAGE), Shortage(True, None, None, None)),
        (RuntimeError(CPU_MESSAGE), Shortage(False, 8.0, None, None)),
        (MemoryError("Unable to allocate 512. MiB for an array"), Shortage(False, 0.5, None, None)),
        (RuntimeError("shapes cannot be multiplied"), None),
        (ValueError("out of memory"), None),
    ],
)
def test_what_torch_says_of_a_shortage_is_understood(error: Exception, found: Shortage | None) -> None:
    assert shortage(error) == found


def test_the_sentences_hold_what_is_known() -> None:
    unknown = Shortage(True, None, None, None)
    assert unknown.sentence == "the GPU is out of memory: more wanted beyond what was in use"
    assert unknown.remedy(chunked=True) == "a GPU with more memory would do, or a smaller `chunk` in config.yaml"
    here = Shortage(False, 0.5, None, None)
    assert here.sentence == "this machine is out of memory: 512 MiB wanted beyond what was in use"


def test_an_allocation_beyond_this_machine_is_such_a_shortage() -> None:
    with pytest.raises(RuntimeError) as raised:
        torch.empty(2**50, dtype=torch.uint8)
    found = shortage(raised.value)
    assert found is not None
    assert found.wanted == 2**20
    assert not found.on_gpu
