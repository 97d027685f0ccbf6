"""Small drawings for pages: figures brought into HTML, and an interval on its accepted region."""

import math
import re
import zlib
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from common.claims.schema import Accept
from common.claims.verdicts import Verdict
from common.reports.drawn_runs import Row
from common.reports.interaction import attribute, plot_data
from common.reports.text import interval_text, number
from common.reports.units import Writing

# Colours of the figure style that a page exchanges for its own, light or dark (see common/figures/style.py).
PAGE_COLOURS = {
    "#1d2530": "var(--figure-ink)",
    "#5c6674": "var(--figure-muted)",
    "#dbe0e6": "var(--figure-grid)",
    "#fefefe": "var(--figure-face)",
    "#3260db": "var(--figure-blue)",
    "#b5431d": "var(--figure-vermilion)",
    "#19a363": "var(--figure-green)",
    "#a648a3": "var(--figure-purple)",
    "#c28a14": "var(--figure-ochre)",
    "#6c7271": "var(--figure-grey)",
}
_NEAR_BLACK = re.compile(r"#([0-3][0-9a-f])\1\1\b")  # not of the style, and lost on a dark page

_ID = re.compile(r'\bid="([^"]+)"')
_REFERENCE = re.compile(r'(url\(#|href="#)([^)"]+)')
_STYLE = re.compile(r'style="[^"]*"')
_ROOT = re.compile(r"<svg\b[^>]*>", re.DOTALL)
_NOT_DRAWN = re.compile(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->|<(metadata|style)\b.*?</\1>", re.DOTALL)

# Styles that thousands of elements share: a page names them by a class (see `class_rules`).
_INK, _SQUARE = "fill:var(--figure-ink)", "stroke-linecap:square"
_SHARED = (
    f"fill:none;stroke:var(--figure-muted);stroke-width:0.8;stroke-linejoin:miter;{_SQUARE}",
    _INK,
    "font-size:10px",
    f"font-size:10px;text-anchor:start;{_INK}",
    f"font-size:10px;text-anchor:middle;{_INK}",
    f"font-size:10px;text-anchor:end;{_INK}",
    f"font-size:11px;text-anchor:middle;{_INK}",
    f"font-weight:700;font-size:11.5px;text-anchor:start;{_INK}",
    "fill:none;stroke-dasharray:4.8,3.6;stroke-dashoffset:0;stroke:var(--figure-muted);stroke-width:1.2",
    "fill:var(--figure-face);opacity:0.85;stroke:var(--figure-grid);stroke-width:0.6;stroke-linejoin:miter",
    *(f"fill:none;stroke:{colour};stroke-width:1.8;{_SQUARE}" for colour in PAGE_COLOURS.values()),
)
CLASSES = {style: f"f{number}" for number, style in enumerate(_SHARED)}
_GRID = re.compile(r'(<path [^>]*?) clip-path="[^"]*" style="fill:none;stroke:var\(--figure-grid\);[^"]*"')
_TICK = re.compile(r'<path id="([^"]+)" d="M0 0L[-\d.]+ [-\d.]+" style="stroke:')
_MARKS = re.compile(r'(<g clip-path="[^"]*")>((?:<use [^>]*/>){2,})</g>')
_INHERITED = re.compile(r'style="((?:fill|stroke|fill-opacity|stroke-opacity|stroke-width):[^;"]*;?)+"')

_CLIP = re.compile(r"<clipPath[^>]*>\s*<rect ([^>]*)/>")
_PLACES = re.compile(r'\b(x|y|width|height)="(-?[\d.]+)"')
_TEXTS = re.compile(r'<text [^>]*?(?:x="(-?[\d.]+)" y="|translate\((-?[\d.]+)[ ,])(-?[\d.]+)')
_ABOVE, _BELOW, _RIGHT = 20.0, 32.0, 10.0  # points around panels: title of one line, axis with its label, last tick
_LINE, _LINES = 12.0, 40.0  # a line of a title, and titles of the most lines

WIDTH, HEIGHT, MARGIN = 220.0, 44.0, 8.0
_CURVE, _HUNDREDTHS = re.compile(r' d="[^"]{60,}"'), re.compile(r"-?\d+\.\d{2,}")
"""Paths of many points, of which nobody sees a tenth of a pixel: a page stays small."""


def inline_svg(content: str, prefix: str, title: str, rows: Sequence[Row] = ()) -> Markup:
    """An SVG file as an element of a page: ids numbered under a digest of `prefix`, colours the page's, named `title`.

    What the page's script shows of it stands in the attribute `data-plot`; `rows` are the metrics of its runs.

    Raises:
        ValueError: `content` has no <svg> element with a viewBox.
    """
    body = _NOT_DRAWN.sub("", content)
    opening = _ROOT.search(body)
    box = re.search(r'viewBox="([-\d. ]+)"', opening.group()) if opening else None
    if opening is None or box is None:
        raise ValueError(f"{title}: not an SVG with a viewBox.")
    width, height = (float(part) for part in box.group(1).split()[2:])
    body = body[opening.end() :].rstrip()
    short = f"i{zlib.crc32(prefix.encode()):x}"  # thousands of markers refer to it
    names = {name: f"{short}-{number}" for number, name in enumerate(dict.fromkeys(_ID.findall(body)))}
    body = _ID.sub(lambda match: f'id="{names[match.group(1)]}"', body)
    body = _REFERENCE.sub(lambda match: match.group(1) + names.get(match.group(2), match.group(2)), body)
    body = body.replace(" xlink:href=", " href=").replace(" />", "/>")
    body = _STYLE.sub(lambda match: _page_colours(match.group()), body)
    body = _CURVE.sub(lambda match: _HUNDREDTHS.sub(_tenths, match.group()), body)
    body = _say_once(body)
    font = re.search(r' font-family="[^"<>]*"', opening.group())
    marks = (font.group() if font else "") + (" data-wide" if width > 480 else "")
    marks += attribute(plot_data(content, rows))
    head = Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" role="img" aria-label="{title}"{marks} '
        'style="aspect-ratio:{width:.0f}/{height:.0f};max-width:{most:.0f}px;min-width:{least:.0f}px">'
    ).format(
        box=box.group(1),
        title=title,
        marks=Markup(marks),
        width=width,
        height=height,
        most=1.6 * width,
        least=least_width(width),
    )
    return head + Markup(body)


def thumbnail(content: str, address: str, title: str) -> Markup:
    """The first row of panels of an SVG file at `address`, without what stands around them; all where there is none.

    Raises:
        ValueError: `content` has no <svg> element with a viewBox.
    """
    opening = _ROOT.search(content)
    found = re.search(r'viewBox="([-\d. ]+)"', opening.group()) if opening else None
    if found is None:
        raise ValueError(f"{title}: not an SVG with a viewBox.")
    left, top, width, height = (float(part) for part in found[1].split())
    box = _first_row(content, (left, top, left + width, top + height))
    wide, high = box[2] - box[0], box[3] - box[1]
    window = f'width="{wide:g}" height="{high:g}" viewBox="{box[0]:g} {box[1]:g} {wide:g} {high:g}"'
    frame = f'x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}"'
    inside = Markup('<svg {}><image href="{}" {}/></svg>').format(Markup(window), address, Markup(frame))
    shown = Markup('<svg viewBox="0 0 {:g} {:g}" role="img" aria-label="{}">{}</svg>')  # the inner one cuts
    return shown.format(wide, high, title, inside)


def _first_row(content: str, page: tuple[float, ...]) -> tuple[float, ...]:
    """Left, top, right and bottom of the first row of panels with titles and labels."""
    rects = [{name: float(place) for name, place in _PLACES.findall(rect)} for rect in _CLIP.findall(content)]
    boxes = [(r["x"], r["y"], r["x"] + r["width"], r["y"] + r["height"]) for r in rects if len(r) == 4]
    if not boxes:
        return page
    end = min(bottom for _, _, _, bottom in boxes)
    row = [box for box in boxes if box[1] < end]
    texts = [(float(at[1] or at[2]), float(at[3])) for at in _TEXTS.finditer(content)]
    titles = [y for x, y in texts for left, top, _, _ in row if x == left and 0 < top - y < _LINES]
    lower = min((top - _ABOVE for _, top, _, _ in boxes if top >= end), default=math.inf)
    upper = min([min(box[1] for box in row) - _ABOVE, *(y - _LINE for y in titles)])
    inner = (page[0], upper)  # labels at the left may be names, as long as they like
    outer = (max(box[2] for box in row) + _RIGHT, min(max(box[3] for box in row) + _BELOW, lower))
    return (*map(max, inner, page[:2]), *map(min, outer, page[2:]))


def least_width(width: float) -> float:
    """Below so many CSS pixels the text of a drawing, `width` points wide, is too small: then it scrolls sideways."""
    return (0.78 if width <= 480 else 1.0) * width


def class_rules() -> str:
    """The style sheet of what `inline_svg` names by a class."""
    grid = "fill:none;stroke:var(--figure-grid);stroke-width:0.7"
    return "\n".join(f"svg .{name}{{{style}}}" for style, name in [(grid, "fg"), *CLASSES.items()])


def _say_once(body: str) -> str:
    """Shared styles as classes, those of marks on their group, none on ticks; lines of the grid need no clipping."""
    body = _GRID.sub(r'\1 class="fg"', body)
    ticks = "|".join(map(re.escape, dict.fromkeys(_TICK.findall(body))))
    if ticks:
        body = re.sub(rf'(<use href="#(?:{ticks})"[^>]*?) style="fill:[^"]*"', r"\1", body)
    body = _MARKS.sub(_style_of_group, body)
    return _STYLE.sub(_as_class, body)


def _as_class(style: re.Match[str]) -> str:
    name = CLASSES.get(style.group()[7:-1])
    return f'class="{name}"' if name else style.group()


def _style_of_group(group: re.Match[str]) -> str:
    styles = set(_STYLE.findall(group[2]))
    if len(styles) != 1 or group[2].count("style=") != group[2].count("<use ") or not _INHERITED.fullmatch(min(styles)):
        return group.group()
    return f"{group[1]} {min(styles)}>{_STYLE.sub('', group[2]).replace(' />', '/>')}</g>"


def _tenths(number: re.Match[str]) -> str:
    return f"{float(number.group()):.1f}".removesuffix(".0")


def _page_colours(style: str) -> str:
    for colour, variable in PAGE_COLOURS.items():
        style = style.replace(colour, variable)
    return _NEAR_BLACK.sub("var(--figure-ink)", style)


def accepted_text(accept: dict[str, Any]) -> str:
    """The accepted region in words: "below 0", "within 0.9 to 1.1"."""
    if not accept:
        return "no accepted region"
    low, high = Accept(**accept).ends
    if math.isinf(high):
        return f"above {number(low)}"
    return f"below {number(high)}" if math.isinf(low) else f"within {number(low)} to {number(high)}"


def interval_drawing(verdict: Verdict) -> Markup:
    """The estimate and its interval on the accepted region, as a small SVG; nothing without an estimate.

    The shaded part is what the rule accepts, its ends written as in sentences: of a logarithm as a factor. An end that
    lies beyond the drawing, or is infinite, is an arrow.
    """
    if verdict.estimate is None or not math.isfinite(verdict.estimate) or not verdict.accept:
        return Markup("")
    region = Accept(**verdict.accept).ends
    low, high = verdict.interval or (verdict.estimate, verdict.estimate)
    ends = (-math.inf if low is None else low, math.inf if high is None else high)
    finite = [value for value in (*region, *ends, verdict.estimate) if math.isfinite(value)]
    span = (max(finite) - min(finite)) or abs(verdict.estimate) or 1.0
    left, right = min(finite) - 0.18 * span, max(finite) + 0.18 * span

    def place(value: float) -> float:
        inside = min(max(value, left), right)
        return MARGIN + (inside - left) / (right - left) * (WIDTH - 2 * MARGIN)

    bounds = [bound for bound in region if math.isfinite(bound)]
    writing = Writing.of(verdict.unit, verdict.estimate)
    names = [f"{number(writing.number(bound))}{writing.sign}" for bound in bounds]
    if len(set(names)) < len(names):
        names = [number(bound, 6) for bound in bounds]
    anchors = ["end", "start"] if len(bounds) == 2 and place(bounds[1]) - place(bounds[0]) < 70 else ["middle"] * 2
    label = (
        f"estimate {number(verdict.estimate)}, interval {interval_text(verdict.interval)}, "
        f"accepted: {accepted_text(verdict.accept)}"
    )
    parts = [
        Markup('<svg class="interval {}" viewBox="0 0 {:g} {:g}" role="img" aria-label="{}">').format(
            slug(verdict.verdict), WIDTH, HEIGHT, label
        ),
        Markup('<rect class="region" x="{:.1f}" y="4" width="{:.1f}" height="22"/>').format(
            place(region[0]), place(region[1]) - place(region[0])
        ),
        Markup('<line class="axis" x1="{:g}" x2="{:g}" y1="26" y2="26"/>').format(MARGIN, WIDTH - MARGIN),
    ]
    for bound, anchor, name in zip(bounds, anchors, names, strict=False):
        parts.append(
            Markup(
                '<line class="bound" x1="{0:.1f}" x2="{0:.1f}" y1="4" y2="30"/>'
                '<text x="{0:.1f}" y="41" text-anchor="{1}">{2}</text>'
            ).format(place(bound), anchor, name)
        )
    parts.append(_bar(place(ends[0]), place(ends[1]), math.isfinite(ends[0]), math.isfinite(ends[1])))
    parts.append(Markup('<circle cx="{:.1f}" cy="15" r="4"/></svg>').format(place(verdict.estimate)))
    return Markup("").join(parts)


def _bar(left: float, right: float, closed_left: bool, closed_right: bool) -> Markup:
    """The interval as a bar with caps; an open end is an arrow head."""
    caps = [Markup('<line class="bar" x1="{:.1f}" x2="{:.1f}" y1="15" y2="15"/>').format(left, right)]
    for at, closed, direction in ((left, closed_left, -1), (right, closed_right, 1)):
        shape = "M{0:.1f} 10.5V19.5" if closed else "M{1:.1f} 11L{0:.1f} 15L{1:.1f} 19"
        caps.append(Markup('<path class="bar" d="{}"/>').format(shape.format(at, at - 5 * direction)))
    return Markup("").join(caps)


def slug(verdict: str) -> str:
    """The class name of a verdict or outcome: "not-decidable" for "not decidable at this scale"."""
    return "not-decidable" if verdict.startswith("not decidable") else verdict.replace(" ", "-").replace("_", "-")
