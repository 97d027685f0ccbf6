"""`replicate claims`: the verdicts; runs that are newer than their analysis are analysed first."""

import os
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from common.claims import load_claims
from common.experiments.replication import Replication
from common.files import published, read_json_or
from common.workflow import ownership
from common.workflow.state import Folders, analysis_is_current, run_states


def bring_up_to_date(replications: Mapping[str, Replication], scale: str, folders: Folders) -> None:
    """Analyse the replications whose runs, rules or metrics are newer than their verdicts; a line says which.

    While a build is at work in the checkout, which does the same, they stay as they are.
    """
    for name in [name for name, replication in replications.items() if _behind(replication, scale, folders)]:
        try:
            with ownership.checkout(folders.results, lambda _: False):
                print(f"{name}: making metrics, figures and verdicts of its runs.", file=sys.stderr, flush=True)
                from common.workflow.analyse import analyse

                analyse(replications[name], scale, folders, track=False)
                os.utime(_verdicts(folders, scale, name), (1, 1))  # due, to Snakemake (a time of 0 is none to it)
        except ownership.AtWork as error:
            print(f"{name}: verdicts as they were before: {error}", file=sys.stderr)


def claim_rows(
    replications: Mapping[str, Replication], scale: str, folders: Folders, stale: Collection[str]
) -> list[dict[str, Any]]:
    """Each claim with estimate, interval, n, verdict and reason; "not run" where no analysis has been made.

    Args:
        stale: PAPER/EXPERIMENT of which runs are missing or of other code or settings now (`outdated`): these are not
            `current`.
    """
    rows = []
    for name, replication in replications.items():
        verdicts = {verdict["id"]: verdict for verdict in read_json_or(_verdicts(folders, scale, name), [])}
        missing = f"no analysis at scale {scale} yet"
        if _behind(replication, scale, folders):
            missing = f"its runs are not analysed yet: replicate claims {name} --scale {scale}"
        for claim in load_claims(replication.folder / "claims.yaml"):
            found = verdicts.get(claim.id, {"verdict": "not run", "reason": missing})
            row: dict[str, Any] = {"paper": name, "id": claim.id, "experiment": claim.experiment, "scale": scale}
            row["current"] = f"{name}/{claim.experiment}" not in stale
            keys = ("statement", "estimate", "interval", "n", "verdict", "reason")
            rows.append(row | {key: found.get(key) for key in keys} | {"statement": claim.statement})
    return rows


def outdated(replications: Mapping[str, Replication], scale: str, folders: Folders) -> list[tuple[str, str]]:
    """Each judged experiment of which runs are missing or of other code now: PAPER/EXPERIMENT, and the sentence."""
    said = []
    for name, replication in replications.items():
        verdicts = read_json_or(_verdicts(folders, scale, name), [])
        judged = {verdict["experiment"] for verdict in verdicts if verdict["verdict"] != "not run"}
        states = run_states(replication, scale, folders.store) if judged else []
        for experiment in replication.experiments:
            current = [state.current for state in states if state.run.experiment == experiment]
            if experiment in judged and not all(current):
                where = f"{name}/{experiment}"
                counted = f"{current.count(False)} of {len(current)} runs are missing or of other code or settings"
                said.append((where, f"{where}: {counted}: `replicate status {where} --scale {scale}`."))
    return said


def _verdicts(folders: Folders, scale: str, name: str) -> Path:
    return folders.analysis(scale, name) / "verdicts.json"


def _behind(replication: Replication, scale: str, folders: Folders) -> bool:
    """Whether there are runs that the verdicts do not speak of, or that they judge otherwise than the files say."""
    ended = any(published(folders.results / ".jobs" / scale / replication.name, "*/*.json"))
    return ended and not analysis_is_current(replication, scale, folders)
