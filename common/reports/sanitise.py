"""HTML that a notebook made, reduced to text and tables."""

import re
from html.parser import HTMLParser

from markupsafe import Markup, escape

_TABLE = ("table", "thead", "tbody", "tfoot", "tr", "th", "td", "caption")
_TEXT = (
    "p",
    "div",
    "span",
    "br",
    "hr",
    "ul",
    "ol",
    "li",
    "dl",
    "dt",
    "dd",
    "pre",
    "blockquote",
    "h2",
    "h3",
    "h4",
    "a",
)
_INLINE = ("a", "b", "strong", "i", "em", "code", "sub", "sup", "small")
_TAGS = frozenset((*_TABLE, *_TEXT, *_INLINE))
_VOID = frozenset(("br", "hr"))
_ATTRIBUTES = frozenset(("colspan", "rowspan", "scope", "href"))
_EMPTY_HEADING = re.compile(r"<th>\s*</th>")  # in the corner of a table; a screen reader would announce it
_SILENT = frozenset(("script", "style", "iframe", "object", "template", "noscript", "title", "head"))


class _Reducer(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._open: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self._silent += 1
        elif tag in _TAGS and not self._silent:
            kept = [
                f' {name}="{escape(value or "")}"'
                for name, value in attrs
                if name in _ATTRIBUTES and (name != "href" or (value or "").startswith(("https:", "http:", "#")))
            ]
            self.parts.append(f"<{tag}{''.join(kept)}>")
            if tag not in _VOID:
                self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in _SILENT:
            self._silent = max(0, self._silent - 1)
        elif not self._silent and tag in self._open:
            while (inner := self._open.pop()) != tag:
                self.parts.append(f"</{inner}>")
            self.parts.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.parts.append(str(escape(data)))

    def finish(self) -> str:
        self.close()
        self.parts += [f"</{tag}>" for tag in reversed(self._open)]
        return "".join(self.parts)


def sanitised(html: str) -> Markup:
    """`html` without scripts, styles, frames, images and event handlers; every tag left open is closed."""
    reducer = _Reducer()
    reducer.feed(html)
    return Markup(_EMPTY_HEADING.sub("<td></td>", reducer.finish()))
