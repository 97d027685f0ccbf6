"""The registry: typed, with errors that name the line, and easy to extend."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from common.datasets import Registry, digest, load, load_registry
from common.errors import UserError
from tests.unit.datasets.dataset_files import described, write_all

NO_PACKAGE = ("--registry=x", "../folder", "http://x/y.tgz", "a b", "")
"""Neither an option nor an address nor a path is the name of a package."""

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


def test_an_unknown_name_is_one_sentence_with_suggestions() -> None:
    with pytest.raises(UserError, match=r"no data set 'mnsit' .*known: .*cifar10.*did you mean .*mnist") as error:
        load("mnsit")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("package: digits, version: 1.0.0", "package: digits", 10, "version"),
        ("kind: npm", "kind: telepathy", 10, "kind"),
        ("title: Digits", "titel: Digits", 1, "title"),
        ("sha256: " + "a" * 64, "sha256: 12", 8, "sha256"),
        ("name: a", "name: ../a", 8, "name"),
        *(("package: digits", f"package: '{name}'", 10, "package") for name in NO_PACKAGE),
    ],
)
def test_a_mistake_is_reported_with_file_line_and_key(tmp_path: Path, old: str, new: str, line: int, says: str) -> None:
    path = tmp_path / "registry.yaml"
    path.write_text((ENTRY % ("a" * 64)).replace(old, new))
    with pytest.raises(UserError, match=rf"registry\.yaml:{line}: .*{says}"):
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


def test_a_set_of_ones_own_is_an_entry_and_two_files(
    cache: Path, mirror: Path, registry: Callable[..., Registry]
) -> None:
    inputs = torch.arange(2 * 3 * 2 * 2, dtype=torch.uint8).view(2, 3, 2, 2)
    content = {
        "train.safetensors": save({"inputs": inputs, "targets": torch.tensor([0, 1])}),
        "test.safetensors": save({"inputs": inputs[:1].float(), "targets": torch.tensor([1])}),
    }
    write_all(mirror / "mine", content)
    splits = {"train": ["train.safetensors"], "test": ["test.safetensors"]}
    source = {"kind": "mirror", "folders": ["mine"]}
    own = registry(source, format="safetensors", classes=2, files=described(content), splits=splits)
    loaded = load("digits", own)
    assert torch.equal(loaded.train.inputs, inputs)
    assert loaded.train.targets.tolist() == [0, 1]
    assert loaded.test.inputs.dtype == torch.float32
    assert digest("digits", registry=own) == loaded.digest


@pytest.mark.parametrize(
    ("inputs", "targets", "says"),
    [
        (torch.zeros(2, 1, dtype=torch.uint8), torch.tensor([0, 2]), "digits/train: a target lies outside 0 to 1"),
        (torch.zeros(2, 1, dtype=torch.uint8), torch.tensor([0, -1]), "digits/train: a target lies outside 0 to 1"),
        (torch.zeros(3, 1, dtype=torch.uint8), torch.tensor([0, 1]), "3 inputs but 2 targets"),
        (torch.zeros(2, 1, dtype=torch.float64), torch.tensor([0, 1]), "not uint8, float32"),
        (torch.zeros(2, 1, dtype=torch.uint8), torch.tensor([0.0, 1.0]), r"not int64 \[n\]"),
        (torch.zeros(2, 1, dtype=torch.uint8), torch.tensor([[0], [1]]), r"not int64 \[n\]"),
    ],
)
def test_a_set_of_ones_own_that_is_no_data_set_is_refused(
    cache: Path, registry: Callable[..., Registry], inputs: torch.Tensor, targets: torch.Tensor, says: str
) -> None:
    content = {"train.safetensors": save({"inputs": inputs, "targets": targets})}
    write_all(cache, content)
    splits = {"train": ["train.safetensors"], "test": ["train.safetensors"]}
    own = registry(format="safetensors", classes=2, files=described(content), splits=splits)
    with pytest.raises(ValueError, match=says):
        load("digits", own)
