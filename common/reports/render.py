"""Templates to pages that load nothing: style and script stand in the page, and its policy forbids the rest."""

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from common.claims.verdicts import VERDICTS
from common.experiments.scales import SCALES
from common.files import write_atomically
from common.reports import amounts, drawing, text
from common.reports.judgements import ClaimRow

TEMPLATES = Path(__file__).parent / "templates"
_INDENT = re.compile(r"^\s+(//.*\n)?", re.MULTILINE)

MARKS = {
    "reproduced": "✓",
    "contradicted": "✕",
    "inconclusive": "?",
    "not decidable at this scale": "–",
    "not run": "·",
}

MEANINGS = {
    "reproduced": "the whole interval lies inside the region that the rule accepts",
    "contradicted": "the whole interval lies outside it",
    "inconclusive": "the interval straddles its edge: more seeds would be needed",
    "not decidable at this scale": "too few seeds, too small a scale, or a set-up that did not reach its regime",
    "not run": "no result yet, or its data are not available",
}

BELIEFS = {"believe": "reproduced", "with care": "inconclusive", "not supported": "contradicted"}
"""How far to believe a finding, each with the verdict whose mark and colour it has."""

WHOSE = {
    "claim": "Documents' empirical claims",
    "exact": "Documents' theorems and arithmetic",
    "our_finding": "Our hypotheses",
    "control": "Controls",
}
"""The kinds of claims that a reader can ask for, by `ClaimRow.whose`."""

NATURES = {
    "empirical": "the world may disagree",
    "theorem": "mathematics, checked by numbers: a failure is an error of the document or ours",
    "printed": "arithmetic on what the document prints",
}


@cache
def environment() -> Environment:
    """The template environment: everything is escaped, an undefined name is an error."""
    result = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    result.filters.update(
        prose=text.prose,
        brief=_brief,
        answer_to=text.answer_to,
        asks=text.asks,
        shared_beginning=lambda claims: text.shared_beginning([_brief(claim) for claim in claims]),
        measured=amounts.measured_text,
        only_too_small=amounts.only_too_small,
        number=text.number,
        without_exponents=text.without_exponents,
        with_names=text.with_names,
        interval=text.interval_text,
        duration=text.duration,
        memory=text.memory,
        join_words=text.join,
        ranges=text.ranges,
        short_commits=text.short_commits,
        first_sentence=text.first_sentence,
        capitalize_first=lambda sentence: sentence[:1].upper() + sentence[1:],
        slug=drawing.slug,
        accepted=drawing.accepted_text,
        interval_drawing=drawing.interval_drawing,
    )
    result.globals.update(
        VERDICTS=VERDICTS, SCALES=SCALES, MARKS=MARKS, MEANINGS=MEANINGS, BELIEFS=BELIEFS, NATURES=NATURES, WHOSE=WHOSE
    )
    return result


def _brief(claim: ClaimRow) -> str:
    """A claim's statement in short, as its verdict is to be read."""
    return text.brief(claim.shown.statement, claim.shown.scale)


@cache
def generator() -> str:
    """What a page names as its maker: this project, with a digest of all that the site is made with."""
    folder = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".html", ".css", ".js"):
            digest.update(path.read_bytes())
    return f"hessian-replications {digest.hexdigest()[:16]}"


def macro(name: str, *arguments: Any, **named: Any) -> Markup:
    """A macro of parts.html, called from Python."""
    module: Any = environment().get_template("parts.html").module
    return Markup(getattr(module, name)(*arguments, **named))


def write_page(path: Path, template: str, script: str | None = None, **values: Any) -> Path:
    """Render `template` to `path`, with style, script (a file name among the templates) and policy inline."""
    code = _INDENT.sub("", (TEMPLATES / script).read_text()).strip() if script else ""
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data: file:; "
        f"script-src {repr('sha256-' + digest) if code else repr('none')}"
    )
    style = f"{(TEMPLATES / 'style.css').read_text()}{drawing.class_rules()}"
    page = environment().get_template(template)
    html = page.render(style=Markup(style), script=Markup(code), policy=Markup(policy), generator=generator(), **values)
    write_atomically(path, html, sync=False)
    return path
