"""What a run is computed from, and whether its results are current."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from common.errors import UserError
from common.experiments.digests import short_digest
from common.experiments.grid import Run
from common.experiments.outcomes import COMPUTED, Results
from common.experiments.replication import Replication
from common.files import as_json


@dataclass
class Identities:
    """Inputs of the runs of one replication, computed once each."""

    replication: Replication
    results: Results
    _digests: dict[tuple[str, str, str], str] = field(default_factory=dict, repr=False)
    _code: dict[str, str] = field(default_factory=dict, repr=False)

    def inputs(self, run: Run) -> dict[str, Any]:
        """Code digest, parameters and data digests of a run."""
        if run.experiment not in self._code:
            self._code[run.experiment] = self.replication.code_digest(run.experiment, "run")
        return {
            "code": self._code[run.experiment],
            "parameters": dict(run.settings),
            "data": {name: data_digest(name, self.replication, run) for name in self.replication.datasets(run)},
        }

    def digest(self, run: Run) -> str:
        """Digest of the inputs of a run and of the runs that it needs."""
        key = (run.scale, run.experiment, run.name)
        if key not in self._digests:
            needs = {name: self.digest(needed) for name, needed in self.replication.needed(run).items()}
            self._digests[key] = short_digest({**self.inputs(run), "needs": needs})
        return self._digests[key]

    def current(self, run: Run) -> bool:
        """Whether the stored results were computed from just these inputs, and are what was stored."""
        stored = self.results.stored(run)
        return (
            stored is not None
            and self.results.damage(run) is None
            and stored.status in COMPUTED
            and same(stored.inputs, self.inputs(run))
            and dict(stored.used) == self.used(run)
            and all(self.current(needed) for needed in self.replication.needed(run).values())
        )

    def used(self, run: Run) -> dict[str, str]:
        """Digest of the artifacts of each needed run as they lie on disk."""
        found = {}
        for name, needed in self.replication.needed(run).items():
            stored = self.results.stored(needed)
            found[name] = "" if stored is None else short_digest(stored.artifacts)
        return found

    def blocked_by(self, run: Run) -> str | None:
        """Why a run cannot start: a needed run without artifacts; None if it can."""
        for name, needed in self.replication.needed(run).items():
            stored = self.results.stored(needed)
            if stored is None or not self.current(needed):
                return f"it needs {needed} ({name}), which has no current result"
            if not stored.artifacts:
                return f"it needs {needed} ({name}), which {stored.status} and left no artifact"
        return None


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two inputs are equal as JSON."""
    return as_json(one) == as_json(other)


def data_digest(name: str, replication: Replication, run: Run) -> str:
    """The digest that the registry pins for a data set.

    Raises:
        UserError: the registry has no such data set.
    """
    from common.datasets.registry import load_registry

    try:
        return load_registry().entry(name).digest
    except UserError as error:
        raise UserError(f"{replication.folder / 'config.yaml'}: {run.experiment}: {error}") from error
