"""Text for pages: Markdown and mathematics without a network, numbers and durations as people write them."""

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import takewhile
from typing import Any
from xml.etree import ElementTree

from markdown_it import MarkdownIt
from markupsafe import Markup, escape
from mdit_py_plugins.dollarmath import dollarmath_plugin

from common.claims.verdicts import CONTRADICTED, REPRODUCED
from common.reports.mathematics import with_mathematics

_WORD = re.compile(r"[A-Za-z]{2,}")
_CONDITION = re.compile(r"\((?!ours;|mean;)([\w-]+);")
_TERM = re.compile(r"^\([^;,]* [−+·] ")
_DASH = re.compile(" ([–—−]) ")
_SENTENCE_END = re.compile(r"(?<=[.?!])\s+(?=[A-Z])")
_INDEX = re.compile("([‖⁰¹²³⁴⁵⁶⁷⁸⁹])_")  # an index, which Markdown takes for the beginning of emphasis
_EXPONENT = re.compile(r"[-−]?\d+(?:\.\d+)?e[-+−]?\d+")
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_TOGETHER = re.compile(r"(?<=\d) (?=%)|(?<=\bTr) (?=[A-Z∇])")
_DEVIATION = re.compile(r"\bD\d+\b")
_TAGS = r"D\d+(?:(?:,| to| and) D\d+)*"
_REMARKED = re.compile(rf" \({_TAGS}\)|(?<=\(){_TAGS}[,;] |[,;] {_TAGS}(?=\))")  # (D8), (D5; limited), (limited, D5)
_CHOICE = re.compile(rf"\([^;,:()]+(?=, {_TAGS}\))")  # (activations limited to 1, D5)
_NAME = re.compile(r"\w+=[^\s,;)]+|\w*_\w+")
LEAST_SHARED = 20


_TOKENS = {"mi", "mn", "mo", "ms", "mtext", "mspace"}
_LAYOUT = {"math", "mrow", "mfrac", "msqrt", "mroot", "mstyle", "merror", "mpadded", "mphantom", "menclose"}
_SCRIPTS = {"msub", "msup", "msubsup", "munder", "mover", "munderover", "mmultiscripts", "mprescripts"}
_MATHML = _TOKENS | _LAYOUT | _SCRIPTS | {"mtable", "mtr", "mtd"}
_ARITY = {"mfrac": 2, "mroot": 2, "msub": 2, "msup": 2, "munder": 2, "mover": 2, "msubsup": 3, "munderover": 3}
_MATHML_SPACE = "{http://www.w3.org/1998/Math/MathML}"


def math_to_mathml(source: str, display: bool = False) -> Markup:
    """LaTeX mathematics as MathML; what cannot be converted is shown as its source.

    A displayed formula can have the focus: on a phone the keyboard scrolls it.
    """
    from latex2mathml.converter import convert

    try:
        result = convert(source, display="block" if display else "inline")
        safe = _only_mathml(result)
    except Exception:  # the converter raises many kinds for LaTeX that it does not know
        safe = False
    if not safe:
        return Markup("<code>{}</code>").format(source)
    return Markup(result.replace(' display="block"', ' display="block" tabindex="0"', 1))


def _only_mathml(result: str) -> bool:
    """Whether all is complete presentation MathML: the converter passes on broken input, and tags in \\text{}."""
    for element in ElementTree.fromstring(result).iter():
        name = str(element.tag).removeprefix(_MATHML_SPACE)
        if name not in _MATHML or len(element) != _ARITY.get(name, len(element)):
            return False
        if any(attribute.startswith("on") or "href" in attribute for attribute in element.attrib):
            return False
    return True


def _render_image(tokens: Any, index: int, options: Any, environment: Any) -> str:
    """Only images inside the text itself: a page loads nothing from elsewhere."""
    token = tokens[index]
    source, text = str(token.attrs.get("src", "")), escape(token.content)
    if source.startswith("data:image/"):
        return Markup('<img src="{}" alt="{}">').format(source, token.content)
    return Markup('<a href="{}">{}</a>').format(source, text or source)


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "typographer": False}).enable("table")
    parser.use(
        dollarmath_plugin,
        allow_space=False,
        allow_digits=False,
        double_inline=True,
        renderer=lambda content, options: str(math_to_mathml(content, bool(options.get("display_mode")))),
    )
    renderer: Any = parser.renderer
    renderer.rules["image"] = _render_image
    return parser


def prose(text: object) -> Markup:
    """One line of Markdown (emphasis, code, links, `$mathematics$`), plain mathematics set; raw HTML stays text.

    No line begins with a dash or a minus that stands between two words, nor with a per cent or what a trace is of.
    """
    plain = _INDEX.sub(r"\1\_", _DASH.sub("\u00a0\\1 ", _TOGETHER.sub("\u00a0", str(text or ""))))
    return with_mathematics(_parser().renderInline(plain))


def linked(text: str, deviations: Mapping[str, str]) -> str:
    """Markdown in which each deviation that is named, D3, leads to its address."""

    def link(named: re.Match[str]) -> str:
        return f"[{named[0]}]({deviations[named[0]]})" if named[0] in deviations else named[0]

    return _DEVIATION.sub(link, text)


def brief(statement: str, scale: str | None = None) -> str:
    """A statement without its remarks in parentheses and its deviations.

    Formulas stay, and of remarks what tells a statement from others: a single word that one begins with ("(ReLU;
    measured on 60 of 100)"), a choice that a deviation explains ("(activations limited to 1, D5)"), and what stands
    for the rest at `scale`, that of its verdict ("(laptop scale; workstation: IMDB-BINARY)").
    """
    choices = {f"{choice})" for choice in _CHOICE.findall(statement)}
    statement = _REMARKED.sub("", statement)
    depth, start, kept = 0, 0, [""]
    for at, sign in enumerate(statement):
        if sign == "(":
            start = at if depth == 0 else start
            depth += 1
        if depth == 0:
            kept.append(sign)
        if sign == ")" and depth:
            depth -= 1
            inside = statement[start : at + 1]
            remark = len(_WORD.findall(inside)) > 2 and (start == 0 or statement[start - 1].isspace())
            if depth == 0 and remark and inside not in choices and not _TERM.search(inside):
                inside = _what_stays(inside, scale)
            if depth == 0:
                kept += [inside] if inside else [kept.pop().rstrip()]
    return "".join(kept) if depth == 0 else statement


def _what_stays(remark: str, scale: str | None) -> str:
    """What of a remark "(…)" a short statement keeps, in parentheses; nothing where that is none of it."""
    condition = _CONDITION.match(remark)
    stays = [condition[1]] if condition else []
    stays += re.findall(rf"(?<=[(\s]){scale}: [^();]+", remark)
    return f"({'; '.join(stays)})" if stays else ""


def first_sentence(text: str) -> str:
    """The text up to the first stop, question or exclamation mark before a capital."""
    return _SENTENCE_END.split(text, maxsplit=1)[0]


def shared_beginning(sentences: Sequence[str]) -> str:
    """The words up to a comma with which all of several sentences begin; nothing where these are few."""
    beginnings = [sentence.split(", ")[:-1] for sentence in sentences]
    common = [same[0] for same in takewhile(lambda same: len(set(same)) == 1, zip(*beginnings, strict=False))]
    found = f"{', '.join(common)}," if len(beginnings) > 1 else ""
    whole = found.count("(") == found.count(")") and found.count("$") % 2 == 0
    return found if len(found) >= LEAST_SHARED and whole else ""


def markdown(text: str) -> Markup:
    """Paragraphs of Markdown; headings go down by a level; raw HTML stays text."""
    parser = _parser()
    tokens = parser.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + 1)}"
    return Markup(parser.renderer.render(tokens, parser.options, {}))


def number(value: object, digits: int = 3) -> str:
    """A number to `digits` significant digits: 0.0123, −4.5, 1.2 × 10⁻⁷, 10⁻⁹."""
    if value is None:
        return "—"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    if isinstance(value, int) and abs(value) < 10**6:
        return f"{value:,}".replace("-", "−").replace(",", "\u202f")
    if 4 <= exponent < 6:
        return f"{round(value, digits - 1 - exponent):,.0f}".replace("-", "−").replace(",", "\u202f")
    if -4 <= exponent < 4:
        return _trimmed(f"{value:.{max(0, digits - 1 - exponent)}f}")
    mantissa, power = _trimmed(f"{value / 10.0**exponent:.{digits - 1}f}"), str(exponent).translate(_SUPERSCRIPT)
    return f"{mantissa[:-1]}10{power}" if mantissa in ("1", "−1") else f"{mantissa} × 10{power}"


def _trimmed(text: str) -> str:
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", "−")


def answer_to(verdict: str, statement: str) -> str:
    """A verdict in a word; a question of ours is answered by yes or no.

    Example:
        >>> answer_to("contradicted", "We ask whether it falls."), answer_to("contradicted", "It falls.")
        ('no', 'contradicted')
    """
    return answer(verdict) if asks(statement) else verdict


def asks(statement: str) -> bool:
    """Whether a statement is a question of ours."""
    return statement.startswith("We ask whether")


def answer(verdict: str) -> str:
    """What a verdict says to a question: yes, no, or itself."""
    return "yes" if verdict == REPRODUCED else "no" if verdict == CONTRADICTED else verdict


def without_exponents(sentence: str) -> str:
    """A sentence whose numbers are written as `number` does: "−2.12e+05" as "−212 000"."""
    return _EXPONENT.sub(lambda found: number(float(found[0].replace("−", "-"))), sentence)


def with_names(sentence: str) -> Markup:
    """A sentence in which names of metrics and axes, "best_accuracy" and "arm=none", are set as code."""
    return Markup(_NAME.sub(r"<code>\g<0></code>", str(escape(sentence))))


def interval_text(bounds: tuple[float | None, float | None] | None) -> str:
    """An interval as "0.1 to 0.3"; an open end as infinity."""
    if bounds is None:
        return "—"
    low, high = bounds
    return f"{'−∞' if low is None else number(low)} to {'∞' if high is None else number(high)}"


def duration(seconds: float | None) -> str:
    """Seconds as "4.2 s", "3 min 20 s" or "2 h 5 min"."""
    if seconds is None:
        return "—"
    if 0 < seconds < 0.05:
        return "< 0.1 s"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def memory(megabytes: float | None) -> str:
    """Megabytes as "310 MB" or "2.1 GB"."""
    if megabytes is None:
        return "—"
    return f"{megabytes:.0f} MB" if megabytes < 1000 else f"{megabytes / 1000:.1f} GB"


def join(names: list[str]) -> str:
    """Names as "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def ranges(numbers: list[int]) -> str:
    """Whole numbers, runs of three or more as "0 to 4": "0 to 4, 7, 9"."""
    runs: list[list[int]] = []
    for value in sorted(set(numbers)):
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    parts = [[f"{run[0]} to {run[-1]}"] if len(run) > 2 else list(map(str, run)) for run in runs]
    return ", ".join(text for part in parts for text in part)


def short_commits(commits: str) -> str:
    """Commits, parted by commas, to ten digits each."""
    return ", ".join(commit.strip()[:10] for commit in commits.split(","))
