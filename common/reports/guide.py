"""The page on how a report is read: docs/read-a-report.md beside the pages."""

import re
from pathlib import Path

from common.reports.render import write_page
from common.reports.text import markdown

PAGE = "how-to-read.html"
_TO_A_FILE = re.compile(r"\[([^\]]+)\]\((?!https?:|#)[^)]*\)")


def has_guide(root: Path) -> bool:
    """Whether the checkout holds the text."""
    return _text(root).is_file()


def write_guide(root: Path) -> None:
    """Write `reports/site/how-to-read.html`; links to files, which a reader of pages does not have, become words."""
    if not has_guide(root):
        return
    title, _, text = _text(root).read_text().partition("\n")
    shown = markdown(_TO_A_FILE.sub(r"\1", text))
    write_page(root / "reports" / "site" / PAGE, "guide.html", title=title.lstrip("# "), text=shown)


def _text(root: Path) -> Path:
    return root / "docs" / "read-a-report.md"
