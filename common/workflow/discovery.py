"""Which replications there are: every directory under `replications/` with a paper.yaml."""

import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from common.errors import UserError, suggestion
from common.experiments.config import NAMES_ARE, axis_points, is_name
from common.experiments.replication import ENTRIES, Replication
from common.experiments.syntax import Sources
from common.files import published
from common.kept import content_digest, kept
from common.sources import read_source


def discover(root: Path) -> dict[str, Replication]:
    """All replications of a checkout by directory name, in alphabetical order."""
    sources = Sources(root)
    folders = sorted(path.parent for path in (root / "replications").glob("*/paper.yaml"))
    return {folder.name: Replication(root, folder.name, sources) for folder in folders}


def find(root: Path, name: str) -> Replication:
    """The replication `name`; raises `UserError` with the nearest names when there is none."""
    replications = discover(root)
    paper, _, experiment = name.partition("/")
    if experiment and paper in replications:
        raise UserError(f"{name}: a whole replication is taken here: {paper}.")
    if name not in replications:
        raise UserError(f"there is no replication {name!r}{suggestion(name, replications)}")
    return replications[name]


def select(root: Path, target: str) -> tuple[Replication, str | None]:
    """The replication and experiment of `PAPER` or `PAPER/EXPERIMENT` (None: all experiments)."""
    paper, _, experiment = target.partition("/")
    replication = find(root, paper)
    if experiment:
        replication.experiment(experiment)
    return replication, experiment or None


def targeted(
    root: Path, targets: Collection[str], scale: str
) -> tuple[dict[str, Replication], Callable[[str, str], bool]]:
    """The replications of `PAPER` and `PAPER/EXPERIMENT` as by `chosen`, and whether an experiment was asked for."""
    named = [(replication.name, experiment) for replication, experiment in (select(root, one) for one in targets)]

    def asked(paper: str, experiment: str) -> bool:
        return not named or not {(paper, None), (paper, experiment)}.isdisjoint(named)

    return chosen(root, dict.fromkeys(paper for paper, _ in named), scale)[0], asked


def make_importable(root: Path) -> None:
    """Have `replications.*` imported from this checkout, wherever the process was started."""
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))


def healthy(replications: Mapping[str, Replication], scale: str) -> tuple[dict[str, Replication], dict[str, str]]:
    """The replications whose files are in order at a scale, and what is wrong with the others, by name."""
    good, broken = {}, {}
    for name, replication in replications.items():
        if sentence := _problem(replication, scale):
            broken[name] = sentence
        else:
            good[name] = replication
    return good, broken


def chosen(root: Path, papers: Collection[str], scale: str) -> tuple[dict[str, Replication], dict[str, str]]:
    """`healthy` of the named replications or, if none is named, of all; a line says what is wrong with the others.

    Raises:
        UserError: a named one is not in order, or none is.
    """
    wanted = {name: find(root, name) for name in papers} if papers else discover(root)
    good, broken = healthy(wanted, scale)
    if broken and (papers or not good):
        raise UserError(next(iter(broken.values())))
    for sentence in broken.values():
        print(f"replicate: {sentence}", file=sys.stderr)
    return good, broken


def _problem(replication: Replication, scale: str) -> str | None:
    """What is wrong with a replication's files.

    That they are in order is looked at again only when one of them, or our code, has changed. What is wrong is not
    kept: a file that could not be read once may be whole.
    """
    try:
        if not is_name(replication.name):
            return f"{replication.folder}: {replication.name!r} cannot name a replication: {NAMES_ARE}."
        files = [replication.folder / name for name in ("paper.yaml", "config.yaml", "claims.yaml")]
        files += [root / "data" / "registry.yaml" for root in replication.sources.roots]
        key = f"{replication.sources.fingerprint} {content_digest(files)}"
        kept(replication.root, f"{replication.name}-check-{scale}", key, lambda: _check(replication, scale))
    except UserError as error:
        return str(error)
    except Exception as error:  # whatever it is, the other replications go on
        return f"{replication.folder}: {type(error).__name__}: {error}."
    return None


def _check(replication: Replication, scale: str) -> None:
    """Raise `UserError` for the first mistake in paper.yaml, config.yaml, the registry's names or claims.yaml."""
    from common import claims
    from common.datasets.registry import load_registry

    replication.paper  # noqa: B018  (reading it checks it)
    read_source(replication.folder / "report.py")
    _check_analyses(replication)
    for experiment in replication.experiments:
        for entry in ENTRIES:
            replication.code_digest(experiment, entry)
    for job in replication.jobs(scale):
        for run in job.runs:
            replication.needed(run)
            for name in replication.datasets(run):
                load_registry().entry(name)
    for claim in claims.load_claims(replication.folder / "claims.yaml"):
        config = replication.experiment(claim.experiment, f"{replication.folder / 'claims.yaml'}: claim {claim.id}")
        grid = {**config.grid, **config.settings(claim.decidable_from).grid}
        axes = {name: [value for value, _ in axis_points(name, axis)] for name, axis in grid.items()}
        claims.check(claim, None, axes)


def _check_analyses(replication: Replication) -> None:
    """Raise `UserError` where metrics or figures lie where nobody looks for them."""
    experiments = replication.experiments
    for path in published(replication.folder / "analysis", "*.py"):
        if path.stem not in experiments:
            raise UserError(
                f"{path}: an analysis has the name of its experiment (what several share lies in analysis/shared/); "
                f"config.yaml has no experiment {path.stem!r}{suggestion(path.stem, experiments)}"
            )
    for experiment in experiments:
        found = replication.sources.module(replication.module(experiment))
        for entry in ("metrics", "figures"):
            if found and entry in found.definitions:
                where = replication.analysis_file(experiment)
                raise UserError(f"{found.path}: {entry}() sees the records alone: move it to {where}.")
