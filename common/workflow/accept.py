"""`replicate accept`: results stay current after a change of code that cannot matter to them."""

from dataclasses import replace
from datetime import UTC, datetime

from common.errors import UserError
from common.experiments.grid import Run
from common.experiments.identity import Identities
from common.experiments.outcomes import COMPUTED
from common.experiments.replication import suggestion
from common.workflow.discovery import select
from common.workflow.state import Folders


def accept(folders: Folders, target: str, scale: str, reason: str) -> str:
    """Set the code digest of stored runs to the present one, keeping the old one and the reason.

    Raises:
        UserError: no such run, or something besides the code differs.
    """
    if not reason.strip():
        raise UserError("accept: say why the change cannot matter (--reason …).")
    parts = target.split("/", 2)
    if len(parts) < 2:
        raise UserError(f"accept {target}: name PAPER/EXPERIMENT or PAPER/EXPERIMENT/RUN.")
    replication, experiment = select(folders.root, "/".join(parts[:2]))
    assert experiment is not None
    runs = replication.runs(experiment, scale)
    if len(parts) == 3:
        runs = [run for run in runs if run.name == parts[2]]
        if not runs:
            names = [run.name for run in replication.runs(experiment, scale)]
            raise UserError(f"{target}: no such run at scale {scale}{suggestion(parts[2], names)}")
    identities = Identities(replication, folders.store)
    accepted = [run for run in runs if _accept(folders, identities, run, reason)]
    return f"{len(accepted)} of {len(runs)} runs accepted at the present code."


def _accept(folders: Folders, identities: Identities, run: Run, reason: str) -> bool:
    stored = folders.store.stored(run)
    if stored is None or stored.status not in COMPUTED or identities.current(run):
        return False
    if (damage := folders.store.damage(run)) is not None:
        raise UserError(f"{run}: {damage}, which only a new run can mend.")
    now = identities.inputs(run)
    differs = [name for name in ("parameters", "data") if stored.inputs.get(name) != now[name]]
    if differs:
        raise UserError(f"{run}: its {' and '.join(differs)} differ too, which only a new run can mend.")
    entry = {
        "from": str(stored.inputs["code"]),
        "to": str(now["code"]),
        "reason": reason,
        "date": datetime.now(UTC).date().isoformat(),
    }
    record = replace(stored, inputs=now, accepted=[*stored.accepted, entry])
    folders.store.store(folders.store.folder(run), record)
    return True
