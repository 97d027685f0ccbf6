"""What a replication says of its own files."""

import pytest

from tests.conftest import Project

CONFIG = """descent:
  base: {steps: 40}
  grid:
    learning_rate:
      - 0.1
      - 0.5
    length: {short: {steps: 2}, as_stated: {}}
    seed: 2
  scales:
    smoke:
      steps: 20
      grid:
        length:
          tiny:
            steps: 1
        seed: 1
    paper:
      steps: 80
"""


@pytest.mark.parametrize(
    ("scale", "run", "parameter", "line"),
    [
        ("laptop", "learning_rate=0.5,length=short,seed=1", "steps", 7),
        ("laptop", "learning_rate=0.5,length=as_stated,seed=1", "steps", 2),
        ("laptop", "learning_rate=0.5,length=short,seed=1", "learning_rate", 6),
        ("laptop", "learning_rate=0.1,length=short,seed=1", "learning_rate", 5),
        ("laptop", "learning_rate=0.5,length=short,seed=1", "seed", 8),
        ("paper", "learning_rate=0.5,length=as_stated,seed=1", "steps", 18),
        ("smoke", "learning_rate=0.5,length=tiny,seed=0", "steps", 15),
        ("smoke", "learning_rate=0.5,length=tiny,seed=0", "seed", 16),
        ("laptop", "learning_rate=0.1,length=short,seed=0", "pause", None),
    ],
)
def test_a_value_is_blamed_on_the_line_that_gives_it_to_the_run_else_on_the_file(
    scale: str, run: str, parameter: str, line: int | None, project: Project
) -> None:
    project.file("config.yaml").write_text(CONFIG)
    replication = project.replication()
    (chosen,) = [one for one in replication.runs("descent", scale) if one.name == run]
    place = f"{project.file('config.yaml')}:{line}" if line else str(project.file("config.yaml"))
    assert replication.line_of_parameter(chosen, parameter) == place
