"""Templates to pages that load nothing: style and script stand in the page, and its policy forbids the rest."""

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from common.claims.verdicts import VERDICTS
from common.experiments.scales import SCALES
from common.files import write_atomically
from common.reports import drawing, text

TEMPLATES = Path(__file__).parent / "templates"

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
        number=text.number,
        interval=text.interval_text,
        duration=text.duration,
        memory=text.memory,
        join_words=text.join,
        short_commits=text.short_commits,
        slug=drawing.slug,
        accepted=drawing.accepted_text,
        interval_drawing=drawing.interval_drawing,
    )
    result.globals.update(VERDICTS=VERDICTS, SCALES=SCALES, MARKS=MARKS, MEANINGS=MEANINGS)
    return result


@cache
def generator() -> str:
    """What a page names as its maker: this project, with a digest of all that the site is made with."""
    folder = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".html", ".css", ".js"):
            digest.update(path.read_bytes())
    return f"hessian-replications {digest.hexdigest()[:16]}"


def macro(name: str, *arguments: Any) -> Markup:
    """A macro of parts.html, called from Python."""
    module: Any = environment().get_template("parts.html").module
    return Markup(getattr(module, name)(*arguments))


def write_page(path: Path, template: str, script: str | None = None, **values: Any) -> Path:
    """Render `template` to `path`, with style, script (a file name among the templates) and policy inline."""
    code = (TEMPLATES / script).read_text().strip() if script else ""
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data: file:; "
        f"script-src {repr('sha256-' + digest) if code else repr('none')}"
    )
    style = (TEMPLATES / "style.css").read_text()
    page = environment().get_template(template)
    html = page.render(style=Markup(style), script=Markup(code), policy=Markup(policy), generator=generator(), **values)
    write_atomically(path, html)
    return path
