"""What a warm process cannot give is left to a fresh one."""

import pytest

from tests import warm


@pytest.mark.parametrize("name", ["LC_ALL", "PYTHONOPTIMIZE", "TMPDIR", "HOME"])
def test_an_environment_that_python_reads_at_its_start_takes_a_fresh_process(name: str) -> None:
    assert warm.differs({**warm.START, name: "of this command"})


def test_a_variable_that_is_missing_takes_a_fresh_process() -> None:
    assert warm.differs({name: value for name, value in warm.START.items() if name != "HOME"})


def test_variables_of_the_project_need_no_fresh_process() -> None:
    ours = {"REPLICATIONS_OFFLINE": "1", "COLUMNS": "200", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    assert not warm.differs({**warm.START, **ours})
