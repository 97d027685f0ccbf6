"""Reports: a page a paper, the index over all of them, and what a narrative notebook has in hand."""

from common.reports.index import build_index
from common.reports.page import build_page
from common.reports.paper_view import open_paper

__all__ = ["build_index", "build_page", "open_paper"]
