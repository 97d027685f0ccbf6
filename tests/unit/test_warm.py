"""What a warm process cannot give is left to a fresh one."""

import pytest

from tests import warm

OURS = {"REPLICATIONS_OFFLINE": "1", "COLUMNS": "200", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}


@pytest.mark.parametrize("name", ["LC_ALL", "PYTHONOPTIMIZE", "TMPDIR", "HOME"])
def test_an_environment_that_python_reads_at_its_start_takes_a_fresh_process(name: str) -> None:
    assert warm.differs({**warm.START, name: "of this command"})


def test_a_missing_variable_takes_a_fresh_process_and_variables_of_the_project_need_none() -> None:
    assert warm.differs({name: value for name, value in warm.START.items() if name != "HOME"})
    assert not warm.differs({**warm.START, **OURS})
