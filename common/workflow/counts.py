"""What was counted, told: a line a call, and a table that holds it against `minutes` of config.yaml."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from common.experiments.calibration import reference
from common.experiments.outcomes import Results
from common.experiments.replication import Replication
from common.workflow.timings import Timings

WITHIN = 1.5
"""An estimate that is off by no more than this factor, either way, is called near."""


@dataclass(frozen=True)
class Compared:
    """Core minutes of an experiment on the reference machine.

    Attributes:
        counted: by its operations; None where not every setting was counted.
        stated: by config.yaml, where `replicate plan --record-minutes` writes what runs took.
    """

    experiment: str
    counted: float | None
    stated: float

    @property
    def ratio(self) -> float | None:
        """Counted to stated."""
        return None if self.counted is None else self.counted / self.stated


def compared(replication: Replication, scale: str, results: Results) -> Iterator[Compared]:
    """Each experiment that states minutes of a core at a scale."""
    timings = Timings(replication, scale, results, machine=reference())
    for name in replication.experiments:
        resources, runs = replication.experiment(name).resources_at(scale), replication.runs(name, scale)
        if not runs or resources.minutes is None or resources.gpus:
            continue
        found = [timings.counted(run, resources) for run in runs]
        seconds = [estimate.seconds for estimate in found if estimate is not None]
        counted = sum(seconds) / 60 if len(seconds) == len(runs) else None
        yield Compared(f"{replication.name}/{name}", counted, resources.minutes)


def comparison(found: Sequence[Compared]) -> str:
    """The table in Markdown, the largest ratio first, and how many are near."""
    known = sorted((line for line in found if line.ratio is not None), key=lambda line: -(line.ratio or 0.0))
    near = sum(abs(math.log(line.ratio or 1.0)) <= math.log(WITHIN) for line in known)
    rows = [f"| {line.experiment} | {line.counted:.2g} | {line.stated:.2g} | {line.ratio:.2f} |" for line in known]
    left = [line.experiment for line in found if line.ratio is None]
    said = f"Within a factor {WITHIN:g}: {near} of {len(known)} experiments that were counted whole."
    return "\n".join(
        [
            "| experiment | counted, minutes | recorded, minutes | ratio |",
            "|---|--:|--:|--:|",
            *rows,
            "",
            said + (f" Not counted: {', '.join(left)}." if left else ""),
        ]
    )


def count_line(line: Mapping[str, Any]) -> str:
    """What came of counting a call, as one line."""
    name = f"{line['paper']}/{line['experiment']}/{line['setting']}"
    if "reason" in line:
        return f"{name}: not counted: {line['reason']}"
    fraction, amounts = line["marks"][-1]
    flops = sum(amounts.get(kind, 0.0) for kind in amounts if kind not in ("operations", "bytes"))
    memory = f", {line['peak_gb']:.2f} GB" if line["peak_gb"] else ""
    return f"{name}: {flops:.3g} floating-point operations in {fraction:.1%} of the call{memory}"
