"""The scoreboard in the README: how many claims of each document hold, from the published evidence alone."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from common.claims.verdicts import REPRODUCED, VERDICTS, Verdict
from common.experiments.paper import Paper
from common.reports.judgements import Judged
from common.reports.published import Published, published_scales
from common.reports.text import short_commits
from common.sources import load_typed

BEGIN, END = "<!-- scoreboard: `replicate sync` writes it -->", "<!-- end of the scoreboard -->"
_HEAD = (
    "| replication | document | published at | empirical claims | reproduced | contradicted | inconclusive "
    "| not decidable | not run | fragile | theorems, printed | commit |\n"
    "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|---|\n"
)


def scoreboard(root: Path) -> str:
    """A Markdown table: a row for each replication, and one of all documents.

    Every claim counts once, by the verdict of the largest scale that its rule applies to, as on the site
    (`Judged.weight`).
    Counted are the document's own claims; controls and hypotheses of ours stand on the pages. Theorems and arithmetic
    on what is printed, with which the world cannot disagree, have a column of their own: how many of them hold.
    """
    rows, together = [], []
    for path in sorted(root.glob("replications/*/paper.yaml")):
        paper, name = load_typed(path, Paper), path.parent.name
        title = f"[{name}](replications/{name}) | {_surnames(paper)} ({paper.year})"
        scales = published_scales(root, name)
        heaviest = _heaviest(scales)
        together += heaviest
        places = ", ".join(published.scale for published in scales)
        row = _row(f"{title} | {places}", heaviest, _commits(scales))
        rows.append(row if scales else f"| {title} | nothing{' |' * 10}")
    return _HEAD + "\n".join([*rows, _row("all documents | |", together)])


def with_scoreboard(text: str, root: Path) -> str:
    """`text` with the table between its two marks; unchanged where it has no marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{BEGIN}\n{scoreboard(root)}\n{END}{after}" if begin and end else text


def _heaviest(scales: Sequence[Published]) -> list[Verdict]:
    """Of each claim the heaviest of its published verdicts."""
    found: dict[str, Judged] = {}
    for published in scales:
        for verdict in published.verdicts:
            judged = Judged(verdict, published.scale, published=True)
            found[verdict.id] = max(found.get(verdict.id, judged), judged, key=lambda one: one.weight)
    return [judged.verdict for judged in found.values()]


def _row(title: str, verdicts: Iterable[Verdict], commits: str = "") -> str:
    mine = [verdict for verdict in verdicts if verdict.polarity == "claim"]
    claims = [verdict for verdict in mine if verdict.nature == "empirical"]
    exact = [verdict.verdict == REPRODUCED for verdict in mine if verdict.nature != "empirical"]
    counts = Counter(verdict.verdict for verdict in claims)
    fragile = sum(bool(verdict.turns_without) for verdict in claims)
    others = f"{sum(exact)} of {len(exact)}" if exact else "—"
    cells = [len(claims), *(counts[name] for name in VERDICTS), fragile, others, commits]
    return f"| {title} | " + " | ".join(map(str, cells)) + " |"


def _commits(scales: Sequence[Published]) -> str:
    entries = [entry for published in scales for entry in published.experiments.values()]
    commits = {commit for entry in entries for commit in (entry.commit or "").split(", ")}
    return short_commits(next(iter(commits))) if len(commits) == 1 else f"{len(commits)} commits"


def _surnames(paper: Paper) -> str:
    names = [author.split()[-1] for author in paper.authors]
    return names[0] if len(names) == 1 else f"{names[0]} and {names[1]}" if len(names) == 2 else f"{names[0]} et al."
