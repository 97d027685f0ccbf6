"""The scoreboard in the README: how many claims of each document hold, from the published evidence alone."""

from collections import Counter
from pathlib import Path

from common.claims.verdicts import REPRODUCED, VERDICTS
from common.experiments.paper import Paper
from common.reports.published import Published, published_scales
from common.reports.text import short_commits
from common.sources import load_typed

BEGIN, END = "<!-- scoreboard: `replicate sync` writes it -->", "<!-- end of the scoreboard -->"
_HEAD = (
    "| replication | document | scale | empirical claims | reproduced | contradicted | inconclusive | undecided "
    "| not run | fragile | theorems, printed | commit |\n"
    "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|---|\n"
)


def scoreboard(root: Path) -> str:
    """A Markdown table: a row for each replication and published scale, the largest scale first.

    Counted are the document's own claims; controls and findings of ours stand on the pages. Theorems and arithmetic on
    what is printed, with which the world cannot disagree, have a column of their own: how many of them hold.
    """
    rows = []
    for path in sorted(root.glob("replications/*/paper.yaml")):
        paper, name = load_typed(path, Paper), path.parent.name
        title = f"[{name}](replications/{name}) | {_surnames(paper)} ({paper.year})"
        scales = published_scales(root, name)
        rows += [_row(title, published) for published in scales]
        if not scales:
            rows.append(f"| {title} | nothing published yet | | | | | | | | | |")
    return _HEAD + "\n".join(rows)


def with_scoreboard(text: str, root: Path) -> str:
    """`text` with the table between its two marks; unchanged where it has no marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{BEGIN}\n{scoreboard(root)}\n{END}{after}" if begin and end else text


def _row(title: str, published: Published) -> str:
    mine = [verdict for verdict in published.verdicts if verdict.polarity == "claim"]
    claims = [verdict for verdict in mine if verdict.nature == "empirical"]
    exact = [verdict.verdict == REPRODUCED for verdict in mine if verdict.nature != "empirical"]
    counts = Counter(verdict.verdict for verdict in claims)
    fragile = sum(bool(verdict.turns_without) for verdict in claims)
    others = f"{sum(exact)} of {len(exact)}" if exact else "—"
    counted = [counts[name] for name in VERDICTS]
    cells = [published.scale, len(claims), *counted, fragile, others, _commits(published)]
    return f"| {title} | " + " | ".join(map(str, cells)) + " |"


def _commits(published: Published) -> str:
    commits = {commit for entry in published.experiments.values() for commit in (entry.commit or "").split(", ")}
    return f"{short_commits(', '.join(sorted(commits)))}" if len(commits) == 1 else f"{len(commits)} commits"


def _surnames(paper: Paper) -> str:
    names = [author.split()[-1] for author in paper.authors]
    return names[0] if len(names) == 1 else f"{names[0]} and {names[1]}" if len(names) == 2 else f"{names[0]} et al."
