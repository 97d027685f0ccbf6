"""The same drawing in less SVG: what matplotlib writes, without what no reader sees.

Numbers keep a hundredth of a point. The glyphs that matplotlib places one by one (mathematics) become one text with
a list of places; a glyph of another font than the figure's, such as a tall root, becomes a path, since no other
machine has that font.
"""

import re
from collections.abc import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import TextPath

FONT = "DejaVu Sans"
OF_SEED = "seed-"  # the id of an artist that belongs to one seed begins so
FONT_STACK = f"'{FONT}', Verdana, Geneva, sans-serif"  # Verdana: the same widths, where DejaVu is not installed
NO_BREAK = "\u00a0"  # a space that is not merged with its neighbours

_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_NUMBER = re.compile(r"(?<![\w#.-])-?\d+(?:\.\d+(?:e[-+]?\d+)?|e[-+]?\d+)")
_AROUND_LETTERS = re.compile(r"\s*([A-Za-z])\s*")
_SCALING = re.compile(r"(?:matrix|scale)\([^)]*\)")
_NOT_TURNED = re.compile(r"rotate\(-?0(?:\s[^)]*)?\)")
_REFERENCE = re.compile(r"#([^)\"]+)")
_PLACES = ("x", "y", "width", "height", "x1", "x2", "y1", "y2", "cx", "cy", "r", "points")
_LETTERS = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C", Path.CLOSEPOLY: "z"}

Style = dict[str, str]


def compact(svg: str) -> str:
    """An SVG that matplotlib wrote, smaller, and looking the same.

    Raises:
        xml.etree.ElementTree.ParseError: `svg` is not XML.
    """
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _LINK)
    root = ElementTree.fromstring(svg)
    for metadata in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(metadata)
    root.set("font-family", FONT_STACK)
    for parent in list(root.iter()):
        for text in parent.findall(f"{{{_SVG}}}text"):
            _set_text(parent, text)
    for element in root.iter():
        _shorten(element)
    _say_once(root)
    _keep_seeds(root)
    used = {name for element in root.iter() for value in element.attrib.values() for name in _REFERENCE.findall(value)}
    for element in root.iter():
        if element.get("id") not in used:
            element.attrib.pop("id", None)
    _unwrap(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _set_text(parent: Element, text: Element) -> None:
    """One line of text: its style without the figure's font, its glyphs joined."""
    glyphs = [(glyph, _style(glyph)) for glyph in text]
    if not glyphs:
        style = _style(text)
        style.pop("font-family", None)
        _put_style(text, style)
        text.text = (text.text or "").replace("  ", 2 * NO_BREAK)
        return
    for glyph, _ in glyphs:
        text.remove(glyph)
    text.text = None
    inherited = _style(parent)
    previous: tuple[str, Style] | None = None
    for glyph, style in glyphs:
        if _family(style) != FONT:
            parent.append(_as_path(glyph, style))
            continue
        style = {key: value for key, value in style.items() if key != "font-family" and inherited.get(key) != value}
        if (glyph.get("y", "0"), style) == previous:
            text[-1].text = (text[-1].text or "") + (glyph.text or "")
            text[-1].set("x", f"{text[-1].get('x')} {glyph.get('x')}")
        else:
            _put_style(glyph, style)
            glyph.tail = None
            text.append(glyph)
            previous = (glyph.get("y", "0"), style)


def _family(style: Style) -> str:
    return style.get("font-family", FONT).split(",")[0].strip("' ")


def _as_path(glyph: Element, style: Style) -> Element:
    """A glyph as the outline of its font, which comes with matplotlib."""
    size = float(style["font-size"].removesuffix("px"))
    outline = TextPath((0, 0), glyph.text or "", size=size, prop=FontProperties(family=_family(style)))
    x, y = float(glyph.get("x", "0")), float(glyph.get("y", "0"))
    steps = [
        _LETTERS[code] + " ".join(f"{x + h:.6f} {y - v:.6f}" for h, v in points.reshape(-1, 2))
        if code != Path.CLOSEPOLY
        else "z"
        for points, code in outline.iter_segments(curves=True, simplify=False)
    ]
    path = Element(f"{{{_SVG}}}path", {"d": "".join(steps)})
    _put_style(path, {key: value for key, value in style.items() if key == "fill"})
    return path


def _shorten(element: Element) -> None:
    """Numbers to a hundredth, no space that separates nothing."""
    for name in _PLACES:
        if name in element.attrib:
            element.set(name, _round(element.attrib[name]))
    if "d" in element.attrib:
        element.set("d", _AROUND_LETTERS.sub(r"\1", _round(" ".join(element.attrib["d"].split()))))
    if "style" in element.attrib:
        _put_style(element, {key: _round(value) for key, value in _style(element).items()})
    if "transform" in element.attrib:
        transform = _NOT_TURNED.sub("", element.attrib.pop("transform")).strip()
        if transform:
            element.set("transform", transform if _SCALING.search(transform) else _round(transform))
    if not _shows_text(element):
        element.text = None
    element.tail = None


def _say_once(root: Element) -> None:
    """Markers do not repeat the style of the shape that they use."""
    shapes = {f"#{element.get('id')}": _style(element) for element in root.iter() if "id" in element.attrib}
    for marker in root.iter(f"{{{_SVG}}}use"):
        shape = shapes.get(marker.get(f"{{{_LINK}}}href", ""), {})
        _put_style(marker, {key: value for key, value in _style(marker).items() if shape.get(key) != value})


def _keep_seeds(root: Element) -> None:
    """What belongs to one seed says so (see `common.figures.mark_seed`): its group will go."""
    for group in root.iter(f"{{{_SVG}}}g"):
        if group.get("id", "").startswith(OF_SEED):
            for drawn in group:
                if "clip-path" in drawn.attrib:
                    drawn.set("data-seed", group.get("id", "").removeprefix(OF_SEED))


def _shows_text(element: Element) -> bool:
    return element.tag in {f"{{{_SVG}}}{name}" for name in ("text", "tspan", "style", "title")}


def _round(text: str) -> str:
    return _NUMBER.sub(lambda match: _hundredths(match.group()), text)


def _hundredths(number: str) -> str:
    shown = f"{float(number):.2f}".rstrip("0").rstrip(".")
    return "0" if shown == "-0" else shown


def _style(element: Element) -> Style:
    pairs = (part.split(":", 1) for part in element.get("style", "").split(";") if ":" in part)
    return {key.strip(): value.strip() for key, value in pairs}


def _put_style(element: Element, style: Style) -> None:
    element.attrib.pop("style", None)
    if style:
        element.set("style", ";".join(f"{key}:{value}" for key, value in style.items()))


def _unwrap(parent: Element) -> None:
    """Replace groups that say nothing by what they hold."""
    parent[:] = list(_contents(parent))


def _contents(parent: Element) -> Iterator[Element]:
    for child in parent:
        _unwrap(child)
        if child.tag == f"{{{_SVG}}}g" and not child.attrib:
            yield from child
        else:
            yield child
