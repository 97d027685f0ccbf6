"""What several tests of the workflow need."""

import subprocess
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def owner() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that may own others; killed, it stays a zombie until the test ends."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()
