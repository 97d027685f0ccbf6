"""A page as its elements and text, and a checkout to change."""

import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

INLINE = {"i", "sub", "sup"}  # part of the word that they stand in
VOID = {"meta", "link", "br", "hr", "img", "input", "wbr"}


class Outline(HTMLParser):
    """The elements of a page, their attributes and text; checks that every tag is closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._part(tag)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag, f"</{tag}> crosses another element"
        self._part(tag)

    def _part(self, tag: str) -> None:
        if tag not in INLINE:
            self.words.append(" ")

    def handle_data(self, data: str) -> None:
        if "style" not in self._open and "script" not in self._open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())

    def attributes(self, name: str) -> Iterator[str]:
        return (value for _, attributes in self.elements for key, value in attributes.items() if key == name and value)


def outline(path: Path) -> Outline:
    return Outline(path.read_text())


def copy(checkout: Path, target: Path) -> Path:
    """A copy of a checkout, without the narrative, whose execution takes seconds and is tested elsewhere."""
    shutil.copytree(checkout, target, dirs_exist_ok=True)
    (target / "replications" / "pacgen" / "report.py").unlink()
    return target
