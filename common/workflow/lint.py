"""`replicate lint`: what of a replication is still scaffold, lacks a source or a claim, or lacks a unit."""

import importlib
import re
from collections.abc import Iterable

from common import claims
from common.experiments.replication import Replication
from common.files import published
from common.reports.gist import open_points
from common.reports.text import brief
from common.workflow.agreement import (
    names_hidden,
    names_taken,
    needs_analysis_packages,
    refused,
    unfit_analyses,
    units_of_logarithms,
    unknown_in_report,
)
from common.workflow.coverage import INVENTORY, gaps, inventory_items, load_inventory
from common.workflow.disclosure import undisclosed_settings
from common.workflow.discovery import make_importable
from common.workflow.metric_history import undisclosed_metrics
from common.workflow.new import MARK, tests_of
from common.workflow.reach import never_reproduced, other_settings, out_of_reach, same_numbers
from common.workflow.rules import broken
from common.workflow.undisclosed import dropped, undisclosed


def lint(replication: Replication) -> tuple[list[str], list[str]]:
    """What of a replication is unfinished, and what is only worth a look; a sentence each, with its place.

    Returns:
        (unfinished, notes): what a run or its analysis would refuse, marks of the scaffold, what the document numbers
        and the coverage leaves out, findings that are missing or that the verdicts do not bear out (any more),
        logarithms in another unit, claims without a place in the document or that read as another one does,
        experiments without a claim or outside the coverage, files beside the experiments that are none, claims that
        changed or went after their evidence was published and nothing says so, and rules that cannot be decided at
        their scale; rules of a share that so few seeds cannot reproduce, rules that leave settings out at a larger
        scale, pairs that read the same number, and numeric parameters without a unit (`unit="1"` says that they are
        pure numbers).
    """
    if not_in_order := list(refused(replication)):
        return not_in_order, []
    agreement = (needs_analysis_packages, names_taken, units_of_logarithms, unknown_in_report, unfit_analyses)
    contents = (_scaffold, _uncovered, _untold, _unsourced, _unclaimed, _alike, _misplaced)
    history = (broken, undisclosed, undisclosed_settings, undisclosed_metrics, dropped)
    unfinished = (*agreement, *contents, *history, out_of_reach)
    notes = (never_reproduced, other_settings, same_numbers, names_hidden, _without_unit)
    first, second = ([finding for look in looks for finding in look(replication)] for looks in (unfinished, notes))
    return first, second


def _scaffold(replication: Replication) -> list[str]:
    root = replication.root
    paths = [path for path in sorted(replication.folder.rglob("*")) if path.suffix in (".py", ".yaml", ".md")]
    paths += sorted(tests_of(root, replication.name).rglob("*.py"))
    found = [
        f"{path.relative_to(root)}:{number}: still scaffold."
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if MARK in line
    ]
    inventory = root / INVENTORY
    lines = inventory.read_text().splitlines() if inventory.is_file() else []
    return found + [
        f"{INVENTORY}:{number}: still scaffold."
        for number, line in enumerate(lines, start=1)
        if MARK in line and line.startswith(f"{replication.paper.key}:")
    ]


def _uncovered(replication: Replication) -> list[str]:
    """What the inventory lists of the document and the coverage does not name, and the reverse."""
    known, key = load_inventory(replication.root), replication.paper.key
    if not known:
        return []
    if key not in known:
        return [f"{INVENTORY}: has no entry of {key}: list what the document numbers."]
    where = (replication.folder / "paper.yaml").relative_to(replication.root)
    missing, unknown = gaps(replication.paper.coverage, inventory_items(known[key]))
    return [
        *(f"{where}: the coverage leaves out {item}, which {INVENTORY} lists." for item in sorted(missing)),
        *(f"{where}: the coverage names {item}, which {INVENTORY} does not list." for item in sorted(unknown)),
    ]


def _untold(replication: Replication) -> list[str]:
    return open_points(replication.root, [replication.folder])


def lint_synthesis(replications: Iterable[Replication]) -> list[str]:
    """What of the findings that replications come to together is wrong or no longer true."""
    folders = [replication.folder for replication in replications]
    return open_points(folders[0].parents[1], folders, together=True) if folders else []


def _unsourced(replication: Replication) -> list[str]:
    path = replication.folder / "claims.yaml"
    return [
        f"{path.relative_to(replication.root)}: claim {claim.id} has no locator: say where the document states it."
        for claim in claims.load_claims(path)
        if claim.polarity == "claim" and not claim.source.locator
    ]


def _unclaimed(replication: Replication) -> list[str]:
    """Experiments that nobody speaks of; only those with claims of the document must be covered."""
    all_claims = claims.load_claims(replication.folder / "claims.yaml")
    needed = {need.experiment for config in replication.experiments.values() for need in config.needs.values()}
    claimed = {claim.experiment for claim in all_claims}
    speaking = {claim.experiment for claim in all_claims if claim.polarity == "claim"}
    coverage = replication.paper.coverage
    shown = {entry.experiment for entry in coverage if entry.status == "illustration"}
    words = set(re.findall(r"\w+", " ".join(f"{entry.experiment} {entry.note} {entry.reason}" for entry in coverage)))
    where = replication.folder.relative_to(replication.root)
    silent = [name for name in replication.experiments if name not in claimed | needed | shown]
    missing = [name for name in replication.experiments if name in speaking - words - needed]
    return [
        *(f"{where}/claims.yaml: experiment {name} has no claim." for name in silent),
        *(f"{where}/paper.yaml: experiment {name} stands nowhere in the coverage." for name in missing),
    ]


def _alike(replication: Replication) -> list[str]:
    """Claims that a reader cannot tell apart where remarks in parentheses are left out, as under figures."""
    path = replication.folder / "claims.yaml"
    first: dict[str, str] = {}
    return [
        f"{path.relative_to(replication.root)}: claim {claim.id} reads as {same} does without its remarks in "
        f"parentheses: say outside them what tells the two apart."
        for claim in claims.load_claims(path)
        if (same := first.setdefault(brief(claim.statement), claim.id)) != claim.id
    ]


def _misplaced(replication: Replication) -> list[str]:
    """Files at the top of the folder, which lists the experiments, that are none."""
    return [
        f"{path.relative_to(replication.root)}: config.yaml has no experiment {path.stem!r}; what experiments share "
        "lies in shared/."
        for path in published(replication.folder, "*.py")
        if path.stem not in {*replication.experiments, "report"}
    ]


def _without_unit(replication: Replication) -> list[str]:
    """One sentence that names the parameters, each once."""
    make_importable(replication.root)
    found: dict[str, None] = {}
    for experiment in replication.experiments:
        parameters = importlib.import_module(replication.module(experiment)).Parameters
        for name, field in parameters.model_fields.items():
            extra = field.json_schema_extra or {}
            if field.annotation in (int, float) and name != "seed" and not extra.get("unit"):
                found[name] = None
    return [f'numeric parameters without a unit (that of a pure number is "1"): {", ".join(found)}.'] if found else []
