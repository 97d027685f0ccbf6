"""HTML that a notebook made, reduced to text and tables."""

import re

import nh3
from markupsafe import Markup

_TABLE = {"table", "thead", "tbody", "tfoot", "tr", "th", "td", "caption"}
_TEXT = {"p", "div", "span", "br", "hr", "ul", "ol", "li", "dl", "dt", "dd", "pre", "blockquote", "h2", "h3", "h4"}
_INLINE = {"a", "b", "strong", "i", "em", "code", "sub", "sup", "small"}
_WITH_CONTENT = {"script", "style", "iframe", "object", "template", "noscript", "title", "head"}
"""Dropped with what they hold; of any other tag the text stays."""
_EMPTY_HEADING = re.compile(r"<th>\s*</th>")  # in the corner of a table; a screen reader would announce it

_cleaner = nh3.Cleaner(
    tags=_TABLE | _TEXT | _INLINE,
    clean_content_tags=_WITH_CONTENT,
    attributes={"*": {"colspan", "rowspan", "scope"}, "a": {"href"}},
    attribute_filter=lambda tag, name, value: value if name != "href" or _leads_outside(value) else None,
    link_rel=None,
)


def _leads_outside(target: str) -> bool:
    """Whether a link leads to the web or within its page: the page stands elsewhere than the notebook did."""
    return target.startswith(("https:", "http:", "#"))


def sanitised(html: str) -> Markup:
    """`html` without scripts, styles, frames, images and event handlers; every tag left open is closed."""
    return Markup(_EMPTY_HEADING.sub("<td></td>", _cleaner.clean(html)))
