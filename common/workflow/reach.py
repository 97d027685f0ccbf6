"""What the rules of a paper reach: scales that can decide them, settings that they compare, numbers that they share."""

from collections.abc import Iterator

import pandas as pd

from common.claims import load_claims
from common.claims.cells import Cells, select
from common.claims.estimates import SEED
from common.claims.estimation import MINIMAL_SETTINGS
from common.claims.judging import MINIMAL_SEEDS, beyond_so_few
from common.claims.schema import Claim
from common.experiments.replication import Replication
from common.experiments.scales import SCALES


def out_of_reach(replication: Replication) -> Iterator[str]:
    """Claims that cannot be decided at the scale from which they are said to be, however its runs come out."""
    for claim in _claims(replication):
        scales = SCALES[SCALES.index(claim.decidable_from) :]
        able = next((scale for scale in scales if _decidable(claim, replication, scale)), None)
        if able != claim.decidable_from:
            first = f"the first that has is {able}" if able else "no larger one has them either"
            yield f"claim {claim.id}: scale {claim.decidable_from} has not the runs that it needs; {first}."


def never_reproduced(replication: Replication) -> Iterator[str]:
    """Claims of a share that the seeds of the scale from which they are decidable could contradict at most."""
    for claim in _claims(replication):
        cells = _cells(claim, replication, claim.decidable_from)
        if cells and (said := beyond_so_few(claim, cells.seeds)):
            yield f"claim {claim.id}: at {claim.decidable_from} scale it cannot be reproduced ({said})."


def other_settings(replication: Replication) -> Iterator[str]:
    """Claims that leave out at workstation scale settings, seeds aside, which they compare at laptop scale.

    Those that leave out as many stand together.
    """
    alike: dict[tuple[str, int, int], list[str]] = {}
    for claim in _claims(replication):
        both = [_cells(claim, replication, scale) for scale in ("laptop", "workstation")]
        if claim.decidable_from not in ("smoke", "laptop") or None in both:
            continue
        laptop, workstation = (_settings(cells) for cells in both if cells)
        if left_out := len(laptop - workstation):
            alike.setdefault((claim.experiment, left_out, len(laptop)), []).append(claim.id)
    for (experiment, left_out, total), names in alike.items():
        who = f"claim {names[0]}" if len(names) == 1 else f"claims {', '.join(names)}"
        yield f"{experiment}: workstation scale leaves out {left_out} of the laptop's {total} settings of {who}."


def _settings(cells: Cells) -> set[tuple[str, ...]]:
    """What the cells compare, without the seeds where a rule takes each for a setting."""
    kept = [place for place, axis in enumerate(cells.axes) if axis != SEED]
    return {tuple(str(setting[place]) for place in kept) for setting in cells.settings}


def same_numbers(replication: Replication) -> Iterator[str]:
    """Claims that read the number which an earlier one reads."""
    first: dict[str, str] = {}
    for claim in _claims(replication):
        read = f"{claim.experiment} {claim.estimate.model_dump_json()}"
        if read in first:
            yield f"claims {first[read]} and {claim.id} read the same number."
        first.setdefault(read, claim.id)


def _claims(replication: Replication) -> list[Claim]:
    return load_claims(replication.folder / "claims.yaml")


def _decidable(claim: Claim, replication: Replication, scale: str) -> bool:
    cells = _cells(claim, replication, scale)
    if cells is None:
        return False
    if claim.estimate.relates_settings and len(cells.settings) < MINIMAL_SETTINGS:
        return False
    return cells.seeds >= (MINIMAL_SEEDS if claim.estimate.stochastic else 1)


def _cells(claim: Claim, replication: Replication, scale: str) -> Cells | None:
    """What the claim would read if all runs of a scale were complete; None where an arm has no run."""
    if not replication.experiment(claim.experiment).runs_at(scale):
        return None
    runs = replication.runs(claim.experiment, scale)
    table = pd.DataFrame([{"run": run.name, **run.axes} for run in runs]).assign(outcome="completed")
    if any(axis not in table.columns for selection in claim.estimate.selections() for axis in selection):
        return None
    cells = select(claim, table, list(runs[0].axes))
    return cells if cells.seeds else None
