"""The registry: typed, with errors that name the line, and easy to extend."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from common.datasets import Registry, digest, load, load_registry, names
from common.errors import UserError
from tests.unit.datasets.dataset_files import described, write_all

ENTRY = """\
digits:
  title: Digits
  version: "1"
  licence: CC0
  citation: none
  format: files
  files:
    - {name: a, size: 1, sha256: %s}
  sources:
    - {kind: npm, package: digits, version: 1.0.0}
"""


def test_the_projects_registry_holds_the_first_three_sets() -> None:
    assert {"mnist", "fashion_mnist", "cifar10"} <= set(names())
    for name in names():
        assert len(load_registry().entry(name).digest) == 64


def test_an_unknown_name_is_one_sentence_with_suggestions() -> None:
    with pytest.raises(UserError, match=r"no data set 'mnsit' .*known: .*cifar10.*did you mean .*mnist") as error:
        load("mnsit")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("broken", "line", "says"),
    [
        ("package: digits, version: 1.0.0", 10, "version"),
        ("kind: npm", 10, "kind"),
        ("title: Digits", 1, "title"),
        ("sha256: " + "a" * 64, 8, "sha256"),
        ("name: a", 8, "name"),
    ],
)
def test_a_mistake_is_reported_with_file_line_and_key(tmp_path: Path, broken: str, line: int, says: str) -> None:
    replacement = {
        "package: digits, version: 1.0.0": "package: digits",
        "kind: npm": "kind: telepathy",
        "title: Digits": "titel: Digits",
        "sha256: " + "a" * 64: "sha256: 12",
        "name: a": "name: ../a",
    }[broken]
    path = tmp_path / "registry.yaml"
    path.write_text((ENTRY % ("a" * 64)).replace(broken, replacement))
    with pytest.raises(UserError) as error:
        load_registry(path)
    assert f"registry.yaml:{line}: " in str(error.value)
    assert says in str(error.value)


@pytest.mark.parametrize("package", ["--registry=x", "../folder", "http://x/y.tgz", "a b", ""])
def test_a_package_name_cannot_be_an_option_an_address_or_a_path(tmp_path: Path, package: str) -> None:
    path = tmp_path / "registry.yaml"
    path.write_text((ENTRY % ("a" * 64)).replace("package: digits", f"package: '{package}'"))
    with pytest.raises(UserError, match=r"registry\.yaml:10"):
        load_registry(path)


def test_an_edited_registry_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "registry.yaml"
    path.write_text(ENTRY % ("a" * 64))
    first = load_registry(path)
    assert load_registry(path) is first
    path.write_text((ENTRY % ("a" * 64)).replace("title: Digits", "title: Numbers"))
    assert load_registry(path).entry("digits").title == "Numbers"


def test_the_digest_follows_what_load_returns_and_nothing_else(registry: Callable[..., Registry]) -> None:
    swapped = {"train": ["test-images", "test-labels"], "test": ["train-images", "train-labels"]}
    base = registry().entry("digits").digest
    assert registry(title="Other", licence="MIT", version="2").entry("digits").digest == base
    assert registry({"kind": "npm", "package": "digits", "version": "1"}).entry("digits").digest == base
    assert registry(splits=swapped).entry("digits").digest != base
    assert registry(classes=4).entry("digits").digest != base


def test_a_set_of_ones_own_is_an_entry_and_two_files(cache: Path, mirror: Path) -> None:
    inputs = torch.arange(2 * 3 * 2 * 2, dtype=torch.uint8).view(2, 3, 2, 2)
    content = {
        "train.safetensors": save({"inputs": inputs, "targets": torch.tensor([0, 1])}),
        "test.safetensors": save({"inputs": inputs[:1].float(), "targets": torch.tensor([1])}),
    }
    write_all(mirror / "mine", content)
    own = Registry.model_validate(
        {
            "mine": {
                "title": "Mine",
                "version": "1",
                "licence": "CC0",
                "citation": "none",
                "format": "safetensors",
                "classes": 2,
                "files": described(content),
                "sources": [{"kind": "mirror", "folders": ["mine"]}],
                "splits": {"train": ["train.safetensors"], "test": ["test.safetensors"]},
            }
        }
    )
    loaded = load("mine", own)
    assert torch.equal(loaded.train.inputs, inputs)
    assert loaded.train.targets.tolist() == [0, 1]
    assert loaded.test.inputs.dtype == torch.float32
    assert digest("mine", registry=own) == loaded.digest
