"""A figure's SVG as PDF, for a manuscript: vector, its fonts in it.

Made by typst (Apache 2.0), which is not among what reading needs: `make site PDF=1` installs it. A figure takes about
15 ms, so that nothing is kept between builds.
"""

import importlib.util
import logging
from functools import cache
from pathlib import Path
from typing import Any

FONT = "DejaVu Sans"
"""The font of all figures. With another one letters would not stand where they belong."""

_PAGE = b"""#set page(width: auto, height: auto, margin: 0pt)
#set document(date: none)
#image(sys.inputs.file)
"""

log = logging.getLogger(__name__)


def pdf_of(svg: Path) -> bytes | None:
    """An SVG file as a PDF of one page of its size; the same bytes for the same file.

    Returns:
        None where typst or the font is not installed, or the file cannot be converted (which is logged).
    """
    fonts = _fonts()
    if fonts is None:
        return None
    import typst

    try:
        made: bytes = typst.compile(
            _PAGE,
            root=str(svg.resolve().parent),
            font_paths=fonts,
            ignore_system_fonts=True,
            sys_inputs={"file": svg.name},
        )
    except typst.TypstError as error:
        log.error("%s: no PDF: %s", svg.name, error)
        return None
    return made


@cache
def _fonts() -> Any:
    """Where typst finds `FONT`: with matplotlib, else in the system; None where it is nowhere."""
    try:
        import typst
    except ImportError:
        return None
    try:
        spec = importlib.util.find_spec("matplotlib")
    except ImportError:
        spec = None
    shipped = [f"{place}/mpl-data/fonts/ttf" for place in (spec.submodule_search_locations or [])] if spec else []
    fonts = typst.Fonts(include_system_fonts=not shipped, include_embedded_fonts=False, font_paths=shipped)
    return fonts if FONT in fonts.families() else None
