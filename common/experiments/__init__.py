"""The contract of a replication: parameters, grid, runs, jobs, records, provenance, digests.

An experiment file imports `ExperimentParameters`, `Field`, `DatasetName` and `RunContext` from here.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from common.experiments.context import RunContext
    from common.experiments.parameters import DatasetName, ExperimentParameters, Field

__all__ = ["DatasetName", "ExperimentParameters", "Field", "RunContext"]


def __getattr__(name: str) -> Any:
    """Import on demand: `RunContext` needs torch and the others pydantic, which many commands do without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "context" if name == "RunContext" else "parameters"
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
