"""A problem of every family with its dense matrices."""

import pytest

from common.hessian import Problem
from tests.unit.hessian.networks import FAMILIES, Dense, matrices_of, problem_of


@pytest.fixture(params=FAMILIES)
def case(request: pytest.FixtureRequest) -> tuple[Problem, Dense]:
    return problem_of(request.param), matrices_of(request.param)


@pytest.fixture
def tanh() -> tuple[Problem, Dense]:
    return problem_of("tanh"), matrices_of("tanh")
