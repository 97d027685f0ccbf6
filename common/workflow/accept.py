"""`replicate accept`: results stay current after a change of code that cannot matter to them.

Runs that lie here are accepted one by one; of an experiment of which none does, the published evidence is; where
nothing is published, what git keeps of its counted operations. In a results folder that was named, runs alone are.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from common.claims.metric_rows import rows_of
from common.errors import UserError, suggestion
from common.experiments.config import ReplicationConfig
from common.experiments.grid import Run, expand
from common.experiments.identity import Identities, same
from common.experiments.outcomes import COMPUTED
from common.experiments.provenance import git
from common.experiments.replication import Replication
from common.files import read_entries, read_json, read_json_or, write_json
from common.sources import load_typed
from common.workflow.discovery import find
from common.workflow.state import Folders
from common.workflow.timings import counted_code, kept_counts_path


def accept(folders: Folders, target: str, scale: str, reason: str) -> str:
    """Set the code digest of stored runs, else of published evidence, else of counted operations, to the present one.

    The reason is kept.

    Returns:
        A sentence that says what was accepted.

    Raises:
        UserError: there is no such run, evidence or count, no run in a folder that was named, or something besides the
            code differs.
    """
    if not reason.strip():
        raise UserError("accept: say why the change cannot matter (--reason …).")
    paper, _, rest = target.partition("/")
    experiment, _, name = rest.partition("/")
    if not experiment:
        raise UserError(f"accept {target}: name PAPER/EXPERIMENT or PAPER/EXPERIMENT/RUN.")
    replication = find(folders.root, paper)
    runs = replication.runs(experiment, scale)
    if name and name not in (names := [run.name for run in runs]):
        raise UserError(f"{target}: no such run at scale {scale}{suggestion(name, names)}")
    if not name and not any(folders.store.stored(run) for run in runs):
        if folders.results != folders.root / "results":
            raise UserError(f"{target}: no run at scale {scale} lies in {folders.results}, which was named.")
        return _accept_published(replication, experiment, scale, reason)
    runs = [run for run in runs if name in ("", run.name)]
    identities = Identities(replication, folders.store)
    accepted = [run for run in runs if _accept(folders, identities, run, reason)]
    return f"{len(accepted)} of {len(runs)} runs accepted at the present code."


def _accept(folders: Folders, identities: Identities, run: Run, reason: str) -> bool:
    stored = folders.store.stored(run)
    if stored is None or stored.status not in COMPUTED or identities.current(run):
        return False
    if (damage := folders.store.damage(run)) is not None:
        raise UserError(f"{run}: {damage}, so it has to be computed again.")
    now = identities.inputs(run)
    differs = [name for name in ("parameters", "data") if stored.inputs.get(name) != now[name]]
    if differs:
        raise UserError(f"{run}: its {' and '.join(differs)} differ too, so it has to be computed again.")
    entry = _entry(stored.inputs["code"], now["code"], reason)
    record = replace(stored, inputs=now, accepted=[*stored.accepted, entry])
    folders.store.store(folders.store.folder(run), record)
    return True


def _entry(before: str, now: str, reason: str) -> dict[str, str]:
    return {"from": before, "to": now, "reason": reason, "date": datetime.now(UTC).date().isoformat()}


def _accept_published(replication: Replication, experiment: str, scale: str, reason: str) -> str:
    """Accept what is published of an experiment, whose runs are not here; metrics, figures and verdicts stay."""
    place = replication.root / "reports" / "published" / scale / replication.name
    where = f"{replication.name}/{experiment} at scale {scale}"
    content = read_json_or(place / "provenance.json", {"experiments": {}})
    facts = content["experiments"].get(experiment)
    if facts is None:
        return _accept_counted(replication, experiment, scale, reason)
    runs = replication.runs(experiment, scale)
    now = replication.code_digest(experiment, "run")
    if facts.get("code") == now:
        return f"What is published of {where} is of the present code."
    published = {row["run"] for row in rows_of(read_json(place / "metrics.json"))[experiment]}
    differs = [] if published == {run.name for run in runs} else ["runs"]
    stood = [_settings_at(commit, replication, runs) for commit in facts["commit"].split(", ")]
    for run in runs:  # a grid may have grown between the commits
        then = [settings[run.name] for settings in stood if run.name in settings]
        if not then or any(settings != dict(run.settings) for settings in then):
            differs.append("parameters")
            break
    identities = Identities(replication, Folders(replication.root, replication.root / "results").store)
    if not any(same(facts.get("data", {}), identities.inputs(run)["data"]) for run in runs):
        differs.append("data")
    if differs:
        raise UserError(
            f"{where}: the {' and '.join(differs)} of what is published differ too; run and publish it again."
        )
    facts["accepted"] = [*facts.get("accepted", []), _entry(facts.get("code") or "unknown", now, reason)]
    facts["code"] = now
    write_json(place / "provenance.json", content)
    return f"What is published of {where}, {facts['runs']} runs, is accepted at the present code; commit it."


def _accept_counted(replication: Replication, experiment: str, scale: str, reason: str) -> str:
    """Accept what git keeps of an experiment's counted operations, of which nothing is computed at this scale."""
    where = f"{replication.name}/{experiment} at scale {scale}"
    path = kept_counts_path(replication, scale)
    entries = read_entries(path)
    counted = [entry for entry in entries if entry["experiment"] == experiment]
    if not counted:
        raise UserError(f"{where}: no run lies here, nothing is published or counted, so there is nothing to accept.")
    now = counted_code(replication, experiment)
    former = [entry for entry in counted if entry["code"] != now]
    if not former:
        return f"What was counted of {where} is of the present code."
    if any(entry["code"].partition("-")[2] != now.partition("-")[2] for entry in former):
        raise UserError(f"{where}: it was counted by a former counter; `replicate plan --count` counts it again.")
    for entry in former:
        entry["accepted"] = [*entry.get("accepted", []), _entry(entry["code"], now, reason)]
        entry["code"] = now
    write_json(path, entries)
    return f"What was counted of {where}, calls: {len(former)}, is accepted at the present code; commit it."


def _settings_at(commit: str, replication: Replication, runs: list[Run]) -> Mapping[str, Any]:
    """What config.yaml gave to each run of an experiment at a commit, by name; nothing where it did not name it."""
    path = replication.folder / "config.yaml"
    text = git(replication.root, "show", f"{commit}:{path.relative_to(replication.root).as_posix()}")
    if text is None or not runs:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        copy.write_text(text)
        config = load_typed(copy, ReplicationConfig).root.get(runs[0].experiment)
    if config is None:
        return {}
    then = expand(replication.name, runs[0].experiment, config, runs[0].scale)
    return {run.name: dict(run.settings) for run in then}
