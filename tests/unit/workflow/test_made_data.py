"""What is made in the place of data that cannot be had has its form."""

from pathlib import Path

import pytest
import torch

from common.datasets import files
from common.datasets.graphs import read_collection
from common.datasets.text_collections import text_of
from common.errors import DataUnavailable
from common.workflow.made_data import files_or_made, made_dataset


@pytest.mark.parametrize(("name", "shape"), [("mnist", (10_000, 1, 28, 28)), ("cifar10", (10_000, 3, 32, 32))])
def test_images_have_the_shape_of_the_set_and_all_its_classes(name: str, shape: tuple[int, ...]) -> None:
    made = made_dataset(name)
    assert made is not None
    assert made.test.inputs.shape == shape
    assert made.test.inputs.dtype == torch.uint8
    assert len(made.test.targets.unique()) == made.classes == 10


def test_texts_are_words_and_those_of_pairs_are_pairs() -> None:
    made = made_dataset("mrpc")
    assert made is not None
    first, second = text_of(made.train.inputs[:1])[0].split("\t")
    assert len(first.split()) > 3
    assert len(second.split()) > 3


def test_a_set_whose_form_is_not_known_is_not_made() -> None:
    assert made_dataset("movie_reviews") is None


def test_graphs_that_cannot_be_had_are_made_as_a_file_that_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(name: str, *_: object) -> dict[str, Path]:
        raise DataUnavailable(f"{name}: not here")

    monkeypatch.setattr("common.datasets.files", refused)
    made: list[str] = []
    (path,) = files_or_made(tmp_path, made)("imdb_multi").values()
    graphs = read_collection("imdb_multi", path.read_bytes())
    assert made == ["imdb_multi"]
    assert len(graphs.sizes) == 1_500
    assert int(graphs.sizes.max()) == 89
    assert graphs.targets.unique().tolist() == [0, 1, 2]
    assert int(graphs.edges.max()) < 89
    assert files is not refused
