"""The sample checkout, and replications with their sources alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.reports.samples import sample_checkout, write_paper


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample checkout, made once; tests that change it copy it."""
    return sample_checkout(tmp_path_factory.mktemp("checkout"))


@pytest.fixture
def fresh(tmp_path: Path) -> Callable[..., Path]:
    """Makes replications/<name> with its sources alone and returns the checkout."""

    def make(name: str = "pacgen", **changes: Any) -> Path:
        write_paper(tmp_path, name, **changes)
        return tmp_path

    return make
