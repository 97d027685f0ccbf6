"""Mathematics in plain text, such as "λ₁ · η", "‖H‖_F" or "n ≥ d^5", set as mathematics: italics, powers, indices."""

import re
from html import unescape

from markupsafe import Markup, escape

_RAISED, _LOWERED, _GREEK_CAPITALS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ᵀⁿ", "₀₁₂₃₄₅₆₇₈₉₊₋", "ΔΣΓΨΘΦΛΩΠ"
_PLAIN = str.maketrans(_RAISED + _LOWERED, "0123456789+−Tn" + "0123456789+−")
_NAMES = frozenset({"Tr", "tr", "log", "ln", "exp", "max", "min", "det", "KL", "Var", "Cov", "sup", "inf"})
_PARTS = re.compile(
    r"(panels?|figs?|figures?|tables?|appendix|section|part|case|lemma|theorem|equation|claim|step|model|type)$"
)
"""Words after which a letter by itself is a name."""

_LETTER = "A-Za-zÀ-ÖØ-öø-ÿͰ-Ͽℓ"
_BESIDE = "‖√∇^" + _RAISED + _LOWERED
"""Signs that make variables of letters which touch them."""

_TOKEN = re.compile(
    rf"(?P<power>\^(?P<exponent>[-−+]?(?:\d+(?:\.\d+)?(?:/\d+)?|[½¼¾⅓⅔]|[{_LETTER}](?![{_LETTER}]))|[({{]))"
    rf"|(?P<index>_(?:(?P<below>[{_LETTER}]+|\d+)(?![_{_LETTER}\d])|\{{))"
    rf"|(?P<raised>[{_RAISED}]+)|(?P<lowered>[{_LOWERED}]+)|(?P<word>[{_LETTER}]+)"
)
_AMONG_PARTS = re.compile(r"\b(?:panels|parts|figures)\s(?:\w(?:,\s|\sto\s|\sand\s))+$", re.IGNORECASE)
_FRACTION = re.compile(r"\d+/<i>\w</i>")
_RELATION = re.compile(r"\s*(?:[=<>≤≥≈≠∝∈≪≫·×⊙⊗+−±/^_]|-\s)")
_MARKUP = re.compile(r"(<math\b.*?</math>|<code>.*?</code>|<a\b[^>]*>|<[^>]+>)", re.DOTALL)


def with_mathematics(html: str) -> Markup:
    """HTML of inline text with the mathematics between its elements set; formulas, code and names stay."""
    pieces = _MARKUP.split(html)
    return Markup("").join(
        Markup(piece) if number % 2 else mathematics(unescape(piece)) for number, piece in enumerate(pieces)
    )


def mathematics(text: str) -> Markup:
    """Plain text as HTML: variables italic, powers and indices raised and lowered, everything else as it is.

    Greek letters are mathematics. A Latin letter by itself is, unless it is an article, a pronoun, or names a part
    ("panel b", "Fig. 4a", "Polyak's"); of several letters those that touch a sign ("vᵀHv", "‖AB‖", "√d").
    """
    return Markup(_FRACTION.sub(r'<span class="whole">\g<0></span>', str(_set(text, inside=False))))


def _set(text: str, *, inside: bool) -> Markup:
    """`text` set; `inside` a power every letter by itself is a variable."""
    parts: list[str] = []
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        end = token.end() if token else at + 1
        if token and token["word"]:
            parts.append(_word(text, at, end, inside))
        elif token and (token["raised"] or token["lowered"]):
            name = "sup" if token["raised"] else "sub"
            parts.append(f"<{name}>{_script(token.group().translate(_PLAIN))}</{name}>")
        elif token and (token["power"] or token["index"]) and _carries(text, at):
            content, end = _moved(text, token)
            name = "sup" if token["power"] else "sub"
            parts.append(f"<{name}>{content}</{name}>")
        else:
            end = at + 1
            parts.append("−" if inside and text[at] == "-" else str(escape(text[at])))
        at = end
    return Markup("".join(parts))


def _moved(text: str, token: re.Match[str]) -> tuple[Markup | str, int]:
    """What is raised or lowered, without its outer brackets, and where it ends."""
    if token["below"]:
        return _script(token["below"]), token.end()
    if token["exponent"] and token["exponent"] not in "({":
        return _set(token["exponent"], inside=True), token.end()
    depth, end = 1, token.end()
    while depth and end < len(text):
        depth += (text[end] in "({") - (text[end] in ")}")
        end += 1
    return _set(text[token.end() : end - (depth == 0)], inside=True), end


def _carries(text: str, at: int) -> bool:
    """Whether what ends at a place can have a power or an index: a number, a sign or a variable, not a longer name."""
    if text[at] == "_" and re.search(rf"[{_LETTER}]{{2,}}\d+$", text[:at]):
        return False
    found = re.search(rf"(^|.)([{_LETTER}]+)$", text[:at])
    if found is None:
        return bool(re.search(rf"[\d)\]‖|½{_RAISED}{_LOWERED}]$", text[:at]))
    longest = 1 if text[at] == "_" else 2
    return found[1] != "_" and (len(found[2]) <= longest or found[2] in _NAMES)


def _script(text: str) -> str:
    variable = len(text) == 1 and text.isalpha() and text not in ("T", "F")
    return f"<i>{escape(text)}</i>" if variable else str(escape(text))


def _word(text: str, start: int, end: int, inside: bool) -> str:
    """A run of letters: a variable, a product of variables, or a word of the language."""
    word, before, after = text[start:end], text[start - 1 : start] if start else "", text[end : end + 1]
    if word in _NAMES or before == "_" or (after == "_" and len(word) > 1):
        return str(escape(word))
    touches = (bool(before) and before in _BESIDE) or (bool(after) and after in _BESIDE + "_")
    greek = bool(re.search("[Ͱ-Ͽ]", word))
    product = len(word) <= 3 and touches
    single = len(word) == 1 and (inside or touches or _is_variable(text, start, end))
    if not (greek or product or single):
        return str(escape(word))
    return re.sub(rf"[^{_GREEK_CAPITALS}]+", lambda found: f"<i>{escape(found.group())}</i>", word)


def _is_variable(text: str, start: int, end: int) -> bool:
    """Whether a letter by itself is a variable, by what stands around it."""
    letter, before, after = text[start], text[:start], text[end:]
    if re.search(r"[\d'’_.-]$", before) or re.match(r"[’'_]\w|\.\w|\d|-(?!th\b)\w", after):
        return False
    previous = re.search(rf"([{_LETTER}]+)\.?\s+$", before)
    word = previous[1].lower() if previous else ""
    if letter not in "aAI":
        return not (_PARTS.match(word) or _AMONG_PARTS.search(before))
    related = _RELATION.match(after) or re.search(r"[=<>≤≥≈+−·×/]\s?$", before)
    return bool(related or re.match(r"[,;)]", after) or (letter != "I" and word in ("the", "printed", "published")))
