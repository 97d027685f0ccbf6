"""A test that needs a program gets it through apt, or says why not."""

from pathlib import Path

import pytest

from tests.conftest import program
from tests.system_packages import require


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of its own: an empty folder of programs, root, and not in CI."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return tmp_path


def apt(folder: Path, *, needs_update: bool = False) -> None:
    """An apt-get that installs a program `viewer`, says what it was asked, and may need its lists first."""
    needed = f'[ -e "{folder}/updated" ] || {{ echo "E: Unable to locate package" >&2; exit 100; }}'
    program(
        folder,
        "apt-get",
        f'echo "$@" >> "{folder}/asked"\n'
        f'case "$*" in *update*) : > "{folder}/updated"; exit 0;; esac\n'
        + (needed if needs_update else ":")
        + f'\n/bin/cp "{folder}/apt-get" "{folder}/viewer"',
    )


def test_a_program_that_is_there_is_taken_and_nothing_installed(machine: Path) -> None:
    apt(machine)
    other = program(machine, "other-viewer", "exit 0")
    assert require("viewer", command="viewer", alternatives=["other-viewer"]) == str(other)
    assert not (machine / "asked").exists()


@pytest.mark.parametrize("needs_update", [False, True])
def test_a_missing_program_is_installed(machine: Path, needs_update: bool) -> None:
    apt(machine, needs_update=needs_update)
    assert require("viewer-package", command="viewer") == str(machine / "viewer")
    asked = (machine / "asked").read_text().splitlines()
    assert asked[0].endswith("install --no-install-recommends viewer-package")
    assert len(asked) == (3 if needs_update else 1)


def test_without_root_the_test_is_skipped_and_says_what_to_do(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apt(machine)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(pytest.skip.Exception, match="takes root; run `apt-get install viewer-package`"):
        require("viewer-package", command="viewer")
    assert not (machine / "asked").exists()


def test_sudo_that_asks_for_no_password_does_as_root(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apt(machine)
    program(machine, "sudo", 'shift; [ "$1" = true ] && exit 0; exec "$@"')
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert require("viewer-package", command="viewer") == str(machine / "viewer")


def test_in_ci_a_program_that_cannot_be_had_is_a_failure(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    program(machine, "apt-get", 'echo "E: no such package" >&2; exit 100')
    with pytest.raises(pytest.fail.Exception, match="apt-get install viewer-package failed: E: no such package"):
        require("viewer-package", command="viewer")


def test_a_machine_without_apt_is_told_so(machine: Path) -> None:
    with pytest.raises(pytest.skip.Exception, match="no apt-get here"):
        require("viewer-package", command="viewer")
