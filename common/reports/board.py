"""verdicts.csv: the whole board, a row for each claim, scale and machine, for whoever counts in another way."""

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from common.files import write_atomically
from common.reports.evidence import Evidence
from common.reports.judgements import ClaimRow, Judged

COLUMNS = (
    "paper", "claim", "statement", "nature", "said_by", "document", "locator", "scale", "evidence", "headline",
    "verdict", "estimate", "unit", "low", "high", "n", "fragile", "amended", "disputed", "reason", "commit", "page",
)  # fmt: skip
SAID_BY = {"claim": "document", "control": "control", "our_finding": "we"}


def write_board(root: Path, papers: Iterable[Evidence]) -> Path:
    """Write `reports/site/verdicts.csv`; a claim without any verdict has one row, "not run".

    `evidence` is "published" or "this machine", `headline` whether the site counts this verdict of the claim, `page`
    the claim's page beside the file. A number that is not there is empty.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for evidence in papers:
        for claim in evidence.claims:
            writer.writerows(_rows(evidence, claim))
    path = root / "reports" / "site" / "verdicts.csv"
    write_atomically(path, text.getvalue())
    return path


def _rows(evidence: Evidence, claim: ClaimRow) -> Iterator[dict[str, Any]]:
    stub = claim.stub
    of_claim = {
        "paper": evidence.name,
        "claim": claim.id,
        "statement": stub.statement,
        "nature": stub.nature,
        "said_by": SAID_BY.get(stub.polarity, stub.polarity),
        "document": stub.source.document,
        "locator": stub.source.locator,
        "amended": bool(claim.amended),
        "disputed": stub.disputed.url if stub.disputed else None,
        "page": f"{evidence.name}/{claim.id}.html",
    }
    judgements = evidence.judgements.get(claim.id, [])
    if not judgements:
        yield of_claim | {"verdict": claim.name, "reason": claim.shown.reason}
    for judged in judgements:
        yield of_claim | _judged(judged) | {"headline": judged is claim.headline}


def _judged(judged: Judged) -> dict[str, Any]:
    verdict = judged.verdict
    low, high = verdict.interval or (None, None)
    return {
        "scale": judged.scale,
        "evidence": "published" if judged.published else "this machine",
        "verdict": verdict.verdict,
        "estimate": verdict.estimate,
        "unit": verdict.unit,
        "low": low,
        "high": high,
        "n": verdict.n,
        "fragile": bool(verdict.turns_without),
        "reason": verdict.reason,
        "commit": judged.commit,
    }
