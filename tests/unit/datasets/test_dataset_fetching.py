"""Fetching: sources in order, every file checked whatever its source, nothing silent, nothing half-written."""

import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from common.datasets import FetchReport, Registry, digest, fetch, files, load
from common.errors import DataUnavailable
from tests.unit.datasets.dataset_files import described, find_program, tar_gz, write_all

MIRROR = {"kind": "mirror", "folders": ["digits", "elsewhere"]}
NPM = {"kind": "npm", "package": "digits-data", "version": "1.0.0", "inside": "package/data"}
APT = {"kind": "apt", "package": "dataset-digits", "inside": "usr/share/digits"}
PIP = {"kind": "pip", "package": "tiny-digits", "version": "1.0", "inside": "tiny_digits/data"}
Make = Callable[..., Registry]
Client = Callable[[str, str], Path]


def outcomes(report: FetchReport) -> list[tuple[str, str]]:
    return [(attempt.source, attempt.outcome) for attempt in report.attempts]


@pytest.fixture
def npm(tmp_path: Path, digits: dict[str, bytes], client: Client) -> Path:
    """A client that brings `digits` as npm does; returns its notes of calls."""
    prepare_npm(digits, tmp_path, client)
    return tmp_path / "npm.calls"


# --- what happens when nothing can be reached


def test_without_network_and_mirror_the_message_holds_each_attempt_and_both_ways_out(
    cache: Path, registry: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    sources = registry(MIRROR, NPM, APT, {"kind": "torchvision", "dataset": "FashionMNIST"})
    report = fetch("digits", sources)
    assert report.digest is None
    assert outcomes(report) == [
        ("cache", "absent"),
        ("mirror", "not set"),
        ("npm digits-data@1.0.0", "not installed"),
        ("apt dataset-digits", "not installed"),
        ("torchvision FashionMNIST", "failed"),
    ]
    assert "Error downloading" in report.attempts[-1].reason
    assert "://" not in report.attempts[-1].reason
    monkeypatch.setenv("REPLICATIONS_OFFLINE", "1")
    with pytest.raises(DataUnavailable) as error:
        load("digits", sources)
    message = str(error.value)
    assert "\n" not in message
    for part in ("npm digits-data@1.0.0: ", "set REPLICATIONS_MIRROR to a folder that holds digits/", str(cache)):
        assert part in message


def test_offline_skips_clients_but_reads_the_mirror(
    cache: Path, registry: Make, mirror: Path, digits: dict[str, bytes], npm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPLICATIONS_OFFLINE", "1")
    report = fetch("digits", registry(NPM))
    assert outcomes(report)[-1] == ("npm digits-data@1.0.0", "skipped")
    assert not npm.exists()
    write_all(mirror / "elsewhere", digits)
    assert outcomes(fetch("digits", registry(NPM, MIRROR)))[-1] == ("mirror", "used")


def test_a_mirror_that_does_not_exist_is_an_attempt(
    cache: Path, registry: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPLICATIONS_MIRROR", "/nowhere/at/all")
    attempt = fetch("digits", registry(MIRROR)).attempts[-1]
    assert (attempt.outcome, attempt.reason) == (
        "absent",
        "REPLICATIONS_MIRROR names /nowhere/at/all, which is no folder",
    )


def test_a_cache_that_cannot_be_made_is_reported_not_raised(
    tmp_path: Path, cache: Path, registry: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("REPLICATIONS_CACHE", str(tmp_path / "file" / "cache"))
    report = fetch("digits", registry(MIRROR))
    assert not report.available
    assert "REPLICATIONS_CACHE chooses another folder" in report.explanation()


# --- each kind of source


def test_a_client_that_is_missing_is_recorded_and_the_next_source_serves(
    cache: Path, registry: Make, npm: Path
) -> None:
    report = fetch("digits", registry(APT, NPM))
    assert outcomes(report)[1:] == [("apt dataset-digits", "not installed"), ("npm digits-data@1.0.0", "used")]
    assert report.attempts[1].reason == "apt-get is not installed"
    assert digest("digits", registry=registry()) == report.digest


def test_the_mirror_wins_over_clients(
    cache: Path, registry: Make, mirror: Path, digits: dict[str, bytes], npm: Path
) -> None:
    write_all(mirror / "digits", digits)
    assert outcomes(fetch("digits", registry(MIRROR, NPM)))[-1] == ("mirror", "used")
    assert not npm.exists()


def test_a_client_gets_the_pin_no_input_and_no_terminal(cache: Path, registry: Make, client: Client) -> None:
    calls = client("npm", 'read line && echo "got input" >&2\n(: </dev/tty) 2>/dev/null && echo "tty" >&2\nexit 3')
    attempt = fetch("digits", registry(NPM)).attempts[-1]
    assert (attempt.outcome, attempt.reason) == ("failed", "npm ended with status 3")
    assert calls.read_text().startswith("pack digits-data@1.0.0 --ignore-scripts")


def test_a_client_that_hangs_is_killed_with_its_children(
    tmp_path: Path, cache: Path, registry: Make, client: Client
) -> None:
    client("npm", f"/bin/sleep 100 &\necho $! > {tmp_path}/child\nwait")
    started = time.monotonic()
    attempt = fetch("digits", registry({**NPM, "time_limit": 2})).attempts[-1]
    assert attempt.outcome == "timed out"
    assert "within 2 s" in attempt.reason
    assert time.monotonic() - started < 60
    process = Path("/proc") / (tmp_path / "child").read_text().strip() / "stat"
    assert not process.exists() or process.read_text().rpartition(")")[2].split()[0] in "ZX"


def test_what_a_client_complains_of_is_the_reason_without_addresses(
    cache: Path, registry: Make, client: Client
) -> None:
    says = [
        "npm error code E404",
        "npm error 404 no such thing at https://user:secret@host/x",
        "npm error at f (x)",
        "npm error A complete log of this run",
    ]
    client("npm", f"echo '{chr(10).join(says)}' >&2\nexit 1")
    assert fetch("digits", registry(NPM)).attempts[-1].reason == "code E404; 404 no such thing at …"


def damaged(digits: dict[str, bytes]) -> dict[str, bytes]:
    """The same files with one byte of the first changed."""
    name = next(iter(digits))
    return {**digits, name: digits[name][:-1] + bytes([digits[name][-1] ^ 1])}


def prepare_mirror(content: dict[str, bytes], tmp_path: Path, **_: Any) -> dict[str, Any]:
    write_all(tmp_path / "mirror" / "digits", content)
    return MIRROR


def prepare_npm(content: dict[str, bytes], tmp_path: Path, client: Client, first: str = "", **_: Any) -> dict[str, Any]:
    package = tar_gz(tmp_path / "p.tgz", {f"package/data/{name}": data for name, data in content.items()})
    client("npm", f"{first}\n/bin/cp {package} digits-data-1.0.0.tgz")
    return NPM


def prepare_apt(content: dict[str, bytes], tmp_path: Path, client: Client, **_: Any) -> dict[str, Any]:
    dpkg = find_program("dpkg-deb")
    if dpkg is None:
        pytest.skip("dpkg-deb is not installed (a Debian system has it)")
    tree = write_all(tmp_path / "deb" / "usr" / "share" / "digits", content).parents[2]
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN" / "control").write_text(
        "Package: dataset-digits\nVersion: 1\nArchitecture: all\nMaintainer: nobody <a@b>\nDescription: digits\n"
    )
    environment = {**os.environ, "PATH": f"{dpkg.parent}:/usr/bin:/bin"}
    subprocess.run([dpkg, "--build", tree, tmp_path / "d.deb"], check=True, env=environment, capture_output=True)
    (tmp_path / "bin" / "dpkg-deb").symlink_to(dpkg)
    client("apt-get", f"/bin/cp {tmp_path}/d.deb dataset-digits_1_all.deb")
    return APT


def prepare_pip(content: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **_: Any) -> dict[str, Any]:
    information = "tiny_digits-1.0.dist-info"
    (tmp_path / "wheels").mkdir()
    with zipfile.ZipFile(tmp_path / "wheels" / "tiny_digits-1.0-py3-none-any.whl", "w") as wheel:
        for name, data in content.items():
            wheel.writestr(f"tiny_digits/data/{name}", data)
        wheel.writestr(f"{information}/METADATA", "Metadata-Version: 2.1\nName: tiny-digits\nVersion: 1.0\n")
        wheel.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{information}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    return PIP


def prepare_home(
    library: str, call: str, content: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **_: Any
) -> None:
    """A library in whose place the child process finds one that copies the files in place of downloading them."""
    package = write_all(tmp_path / "python" / library, {"__init__.py": b""})
    home = write_all(tmp_path / "home", content)
    copying = f"shutil.copytree({str(home)!r}, root + '/Digits/raw')"
    (package / "datasets.py").write_text(f"import shutil\n\ndef {call} and {copying}\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "python"))


def prepare_torchvision(content: dict[str, bytes], **place: Any) -> dict[str, Any]:
    prepare_home("torchvision", "Digits(root, download): assert download", content, **place)
    return {"kind": "torchvision", "dataset": "Digits"}


def prepare_torch_geometric(content: dict[str, bytes], **place: Any) -> dict[str, Any]:
    prepare_home("torch_geometric", "TUDataset(root, name): assert name == 'Digits'", content, **place)
    return {"kind": "torch_geometric", "collection": "Digits"}


@pytest.fixture(
    params=[prepare_mirror, prepare_npm, prepare_apt, prepare_pip, prepare_torchvision, prepare_torch_geometric]
)
def source_of(
    request: pytest.FixtureRequest, tmp_path: Path, mirror: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> Callable[[dict[str, bytes]], dict[str, Any]]:
    """Each kind of source in turn, made to hold the given files."""
    return lambda content: request.param(content, tmp_path=tmp_path, client=client, monkeypatch=monkeypatch)


def test_every_kind_of_source_delivers_and_leaves_nothing_but_the_files(
    cache: Path, registry: Make, digits: dict[str, bytes], source_of: Callable[..., dict[str, Any]]
) -> None:
    source = source_of(digits)
    report = fetch("digits", registry(source))
    assert report.attempts[-1].outcome == "used", report.explanation()
    assert {path.name: path.read_bytes() for path in files("digits", registry(source)).values()} == digits
    left = [path.name for path in cache.parent.rglob("*") if path.is_file()]
    assert sorted(left) == sorted([*digits, "verified.json", "1.lock"])


def test_a_cache_that_is_named_from_the_working_folder_is_filled_by_every_kind_of_source(
    tmp_path: Path,
    cache: Path,
    registry: Make,
    digits: dict[str, bytes],
    source_of: Callable[..., dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPLICATIONS_CACHE", "cache")
    report = fetch("digits", registry(source_of(digits)))
    assert report.attempts[-1].outcome == "used", report.explanation()
    assert (cache / "train-images").read_bytes() == digits["train-images"]


def test_sources_of_one_file_each_are_asked_for_what_is_missing_alone(
    cache: Path, registry: Make, mirror: Path, digits: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def deliver(source: Any, scratch: Path) -> Path:
        asked.append(source.file)
        return write_all(scratch / source.file, {source.file: digits[source.file]})

    monkeypatch.setattr("common.datasets.fetching.deliver", deliver)
    homes = [{"kind": "web", "address": f"https://digits.org/{name}"} for name in digits]
    write_all(mirror / "digits", {"train-images": digits["train-images"]})
    report = fetch("digits", registry(MIRROR, *homes, NPM))
    assert asked == [name for name in digits if name != "train-images"]
    assert [outcome for _, outcome in outcomes(report)] == ["absent", *["used"] * 4]
    assert report.attempts[1].reason == "1 of 4 files have their digests; it does not hold train-labels and 2 more"
    assert report.available


def test_the_digest_is_checked_after_every_kind_of_source(
    cache: Path, registry: Make, digits: dict[str, bytes], source_of: Callable[..., dict[str, Any]]
) -> None:
    report = fetch("digits", registry(source_of(damaged(digits))))
    assert not report.available
    assert report.attempts[-1].outcome == "failed"
    assert report.attempts[-1].reason.startswith("train-images has sha256 ")
    assert not (cache / "train-images").exists()


def test_a_package_other_than_the_pinned_one_is_not_even_unpacked(cache: Path, registry: Make, npm: Path) -> None:
    attempt = fetch("digits", registry({**NPM, "archive_sha256": "0" * 64})).attempts[-1]
    assert attempt.outcome == "failed"
    assert attempt.reason.startswith("digits-data-1.0.0.tgz has sha256 ")


def test_a_package_that_writes_outside_is_an_attempt_and_writes_nothing(
    tmp_path: Path, cache: Path, registry: Make, client: Client
) -> None:
    package = tar_gz(tmp_path / "p.tgz", {"package/data/../../../../../../evil": b"x"})
    client("npm", f"/bin/cp {package} digits-data-1.0.0.tgz")
    attempt = fetch("digits", registry(NPM)).attempts[-1]
    assert attempt.outcome == "failed"
    assert "leads outside" in attempt.reason
    assert not list(tmp_path.rglob("evil"))


def test_apt_without_package_lists_reads_them_into_a_folder_of_its_own(
    tmp_path: Path, cache: Path, registry: Make, digits: dict[str, bytes], client: Client
) -> None:
    prepare_apt(digits, tmp_path, client)
    calls = client(
        "apt-get",
        'case "$*" in\n update*Dir::State::lists=*) ;;\n'
        f" download*lists=*) /bin/cp {tmp_path}/d.deb dataset-digits.deb ;;\n"
        ' *) echo "E: Unable to locate package dataset-digits" >&2; exit 100 ;;\nesac',
    )
    assert fetch("digits", registry(APT)).attempts[-1].outcome == "used"
    assert [line.split()[0] for line in calls.read_text().splitlines()] == ["download", "update", "download"]


# --- the cache


def test_a_second_fetch_reads_the_cache_alone(cache: Path, registry: Make, npm: Path) -> None:
    first = fetch("digits", registry(NPM))
    second = fetch("digits", registry(NPM))
    assert outcomes(second) == [("cache", "used")]
    assert second.digest == first.digest
    assert len(npm.read_text().splitlines()) == 1


@pytest.mark.parametrize("harm", ["changed", "cut", "emptied", "lengthened"])
def test_a_damaged_cached_file_is_put_aside_and_fetched_again(
    cache: Path, registry: Make, npm: Path, digits: dict[str, bytes], harm: str
) -> None:
    load("digits", registry(NPM))
    whole = digits["train-images"]
    bad = {"changed": whole[:-1] + b"\0", "cut": whole[:50], "emptied": b"", "lengthened": whole + b"\0"}[harm]
    assert bad != whole
    (cache / "train-images").write_bytes(bad)
    assert digest("digits", registry=registry()) is None
    report = fetch("digits", registry(NPM))
    assert outcomes(report) == [("cache", "damaged"), ("npm digits-data@1.0.0", "used")]
    assert "put aside as train-images.damaged" in report.attempts[0].reason
    assert (cache / "train-images").read_bytes() == whole
    assert (cache / "train-images.damaged").read_bytes() == bad


def test_bytes_that_were_right_before_the_registry_changed_are_not_current(
    cache: Path, registry: Make, npm: Path, digits: dict[str, bytes]
) -> None:
    load("digits", registry(NPM))
    other = registry(files=described(damaged(digits)))
    assert digest("digits", registry=other) is None
    assert outcomes(fetch("digits", other))[0] == ("cache", "damaged")


def test_damage_that_keeps_size_and_time_is_found_on_loading(
    cache: Path, registry: Make, npm: Path, digits: dict[str, bytes]
) -> None:
    before = load("digits", registry(NPM)).train.inputs
    path = cache / "train-images"
    times = path.stat()
    path.write_bytes(damaged(digits)["train-images"])
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert digest("digits", registry=registry()) is not None  # the cheap look trusts size and time
    assert digest("digits", thorough=True, registry=registry()) is None
    assert torch.equal(load("digits", registry(NPM)).train.inputs, before)
    assert len(npm.read_text().splitlines()) == 2


def test_damage_that_cannot_be_mended_is_one_sentence_and_keeps_the_other_files(
    cache: Path, registry: Make, mirror: Path, digits: dict[str, bytes]
) -> None:
    write_all(mirror / "digits", digits)
    load("digits", registry(MIRROR))
    shutil.rmtree(mirror / "digits")
    (cache / "test-labels").write_bytes(b"cut")
    with pytest.raises(DataUnavailable) as error:
        load("digits", registry(MIRROR))
    assert f"test-labels has 3 bytes instead of {len(digits['test-labels'])} and was put aside" in str(error.value)
    assert "Two ways out" in str(error.value)
    assert "\n" not in str(error.value)
    assert (cache / "train-images").read_bytes() == digits["train-images"]
    write_all(mirror / "digits", {"test-labels": digits["test-labels"]})
    assert load("digits", registry(MIRROR)).test.targets.tolist() == [0, 1, 2, 0, 1]


@pytest.mark.parametrize("placed", ["decoded", "compressed", "archive"])
def test_files_placed_in_the_cache_by_hand_are_taken(
    cache: Path, registry: Make, digits: dict[str, bytes], placed: str
) -> None:
    import gzip

    if placed == "archive":
        cache.mkdir(parents=True)
        tar_gz(cache / "digits.tar.gz", {f"x/{name}": data for name, data in digits.items()})
    else:
        pack, suffix = (bytes, "") if placed == "decoded" else (gzip.compress, ".gz")
        write_all(cache, {f"{name}{suffix}": pack(data) for name, data in digits.items()})
    report = fetch("digits", registry(NPM, archives=["digits.tar.gz"]))
    assert outcomes(report)[-1] == ("cache", "used")
    loaded = load("digits", registry())
    assert (loaded.classes, loaded.train.inputs.shape) == (3, (12, 1, 4, 3))
    assert loaded.train.inputs.dtype == torch.uint8
    assert loaded.train.inputs.numpy().tobytes() == digits["train-images"][16:]
    assert loaded.test.targets.tolist() == [0, 1, 2, 0, 1]
    assert loaded.test.targets.dtype == torch.int64


def test_a_complete_cache_that_cannot_be_written_is_read(
    cache: Path, registry: Make, digits: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_all(cache, digits)

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied", str(cache))

    monkeypatch.setattr("common.datasets.store.write_json", refuse)
    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    assert fetch("digits", registry(NPM)).available
    assert load("digits", registry(NPM)).train.targets.tolist() == [0, 1, 2] * 4


def test_two_processes_that_fetch_at_once_call_the_client_once(
    tmp_path: Path, cache: Path, registry: Make, digits: dict[str, bytes], client: Client
) -> None:
    prepare_npm(digits, tmp_path, client, first="/bin/sleep 0.5")
    described_as = tmp_path / "registry.json"  # JSON is YAML
    described_as.write_text(json.dumps(registry(NPM).model_dump(mode="json")))
    script = (
        "import sys, pathlib; from common.datasets import fetch, load_registry\n"
        f"print(fetch('digits', load_registry(pathlib.Path({str(described_as)!r}))).digest)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    both = [
        subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    printed = {process.communicate(timeout=60)[0].strip() for process in both}
    assert printed == {registry(NPM).entry("digits").digest}
    assert len((tmp_path / "npm.calls").read_text().splitlines()) == 1


def test_what_a_killed_fetch_left_behind_is_cleared(cache: Path, registry: Make, npm: Path) -> None:
    write_all(cache.parent / "1.incoming-abc", {"half": b"x"})
    assert fetch("digits", registry(NPM)).available
    assert not list(cache.parent.glob("*incoming*"))


def test_importing_the_package_loads_no_torch_and_fetching_no_torchvision() -> None:
    script = (
        "import sys, common.datasets\n"
        "heavy = {'torch', 'numpy', 'torchvision', 'pandas', 'PIL', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "from common.datasets import Dataset, Split\n"
        "import common.datasets.formats\n"
        "heavy = {'torchvision', 'pandas', 'PIL', 'matplotlib', 'safetensors'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
