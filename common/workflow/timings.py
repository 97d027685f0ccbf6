"""What a run takes, by the sources that there are: records, trials, counted operations, `minutes`, time limits.

The time of a run comes from the first of these that there is:

1. recorded runs of the same setting (all axes but the seed) at this scale;
2. a trial of that setting (`replicate plan --trial`): the first seconds of the real thing;
3. the operations of that setting (`replicate plan --count`): those of its first progress, at the rates of a device;
   (for a job that asks for a GPU, where the caller names one, before what a CPU was timed on);
4. recorded runs of other settings of the experiment at this scale;
5. `minutes` of config.yaml, which is of one core of the reference machine;
6. the job's time limit, `runtime` of config.yaml: what it takes is unknown, and at most `TIMES_LIMIT` times that.

What was timed on the CPU of another machine is carried over to this one (`common.experiments.calibration`): of recorded
runs by the figure that each keeps of its machine, of `minutes` by that of the machine on which they were recorded.
Operations take what they take on a core of this machine, or on the GPU that the caller names. A
recorded run counts with its processor time, which other work on the machine does not lengthen, and only while its
parameters are those of config.yaml. What a GPU took says nothing of a job that asks for none. What was timed on a CPU
and will run on a GPU is divided by a device factor, which the caller states.
"""

import math
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import mean
from typing import Any

from common.experiments.calibration import Calibration, here, ratio, reference
from common.experiments.config import Resources
from common.experiments.digests import short_digest
from common.experiments.grid import Job, Run
from common.experiments.identity import same
from common.experiments.outcomes import Results
from common.experiments.replication import Replication
from common.files import published, read_entries, read_json, status_of
from common.workflow.devices import Device, Rates, core_seconds, gpu_seconds, rates
from common.workflow.extrapolation import SINGLE_SPREAD, of_the_whole

STATED_SPREAD = 2.0
"""`minutes` of config.yaml may be off by this factor."""
COUNTER = 2
"""Version of `counting`: raised where the same call would be counted otherwise than before."""
COUNTED_SPREAD = 3.0
"""What operations take on a core may be off by this factor: it held for 13 of 15 experiments (docs/cluster.md)."""
TIMES_LIMIT = 1 + 1.5 + 2
"""How many times its limit a job computes at most: it is continued twice, each time with half as much more."""


@dataclass(frozen=True)
class GpuMemory:
    """GB that tensors of a call hold.

    Attributes:
        one_seed: with one of its seeds alone; None where that is not known.
        all_seeds: with all of them at once.
        former: whether former code was rehearsed, or nothing was and its operations were counted.
    """

    one_seed: float | None
    all_seeds: float
    former: bool = False

    @property
    def least(self) -> float:
        """With less than this the call cannot be computed, as far as is known."""
        return self.all_seeds if self.one_seed is None else self.one_seed


TIME_LIMIT = "time limit"
"""The basis of what nothing else is known of."""


@dataclass(frozen=True)
class Estimate:
    """Seconds of something, with an interval, and what it rests on."""

    seconds: float
    lower: float
    upper: float
    basis: str


class Timings:
    """Seconds a run, by the sources that there are for one paper at one scale."""

    def __init__(
        self,
        replication: Replication,
        scale: str,
        results: Results,
        device_factor: float = 1.0,
        machine: Calibration | None = None,
        gpu: Device | None = None,
    ) -> None:
        """
        Args:
            machine: whose seconds are asked for; this one if none is given, timed only if it comes to that.
            gpu: on which counted operations of jobs that ask for a GPU will be; as on a core if none is given.
        """
        self.replication, self.scale, self.results = replication, scale, results
        self.device_factor, self.gpu = device_factor, gpu
        self._given = machine

    @cached_property
    def machine(self) -> Calibration:
        """The machine whose seconds are asked for."""
        return here() if self._given is None else self._given

    def run(self, run: Run, job: Job) -> Estimate:
        """Seconds of one run as a part of its job."""
        resources = self.replication.experiment(run.experiment).resources_at(self.scale)
        timed = self._recorded(run, resources) or self._tried(run, resources)
        if timed is not None and not (self.gpu and resources.gpus and timed.basis.endswith("(cpu)")):
            return timed
        return (
            self.counted(run, resources)
            or timed
            or self._recorded_elsewhere(run, resources)
            or self._planned(run, job, resources)
        )

    def announced(self, run: Run, job: Job) -> Estimate | None:
        """As `run`, but from timings of the same setting alone, else by `minutes`; None where there are none.

        What other settings took says little of a build that was interrupted after the cheap ones.
        """
        resources = self.replication.experiment(run.experiment).resources_at(self.scale)
        found = self._recorded(run, resources) or self._tried(run, resources)
        return found or (self._planned(run, job, resources) if resources.minutes is not None else None)

    def predicted(self, run: Run, job: Job) -> Estimate:
        """As `run`, without any recorded run: what a finished one is compared with."""
        resources = self.replication.experiment(run.experiment).resources_at(self.scale)
        return self._tried(run, resources) or self._planned(run, job, resources)

    def _recorded(self, run: Run, resources: Resources) -> Estimate | None:
        return self._of(self._records.get((run.experiment, setting(run)), []), resources, "recorded")

    def _recorded_elsewhere(self, run: Run, resources: Resources) -> Estimate | None:
        facts = [fact for (name, _), found in self._records.items() if name == run.experiment for fact in found]
        return self._of(facts, resources, "other settings")

    def _of(self, found: Sequence[Mapping[str, Any]], resources: Resources, basis: str) -> Estimate | None:
        """By recorded runs; None where there are none but of a GPU for a job that asks for none."""
        facts = [fact for fact in found if resources.gpus or fact["device"]["type"] == "cpu"]
        if not facts:
            return None
        seconds = [self._on_device(self._carried_over(fact), fact["device"]["type"], resources) for fact in facts]
        spread = SINGLE_SPREAD if len(seconds) == 1 else 1.0
        centre = mean(seconds)
        device = ", ".join(sorted({fact["device"]["type"] for fact in facts}))
        return Estimate(centre, min(seconds) / spread, max(seconds) * spread, f"{basis} ({device})")

    def recorded_core_seconds(self, run: Run) -> float | None:
        """Processor seconds of a run as recorded, carried over to this machine; None of one that a GPU computed."""
        fact = read_json(self.results.folder(run) / "provenance.json")
        if fact["device"]["type"] != "cpu":
            return None
        return self._here(fact.get("processor_seconds", fact["seconds"]), fact)

    def _carried_over(self, fact: Mapping[str, Any]) -> float:
        """Seconds that a recorded run would take on this machine."""
        device = fact["device"]
        seconds: float = fact["seconds"]
        if device["type"] != "cpu":
            return seconds
        if device.get("threads", 1) == 1:
            seconds = fact.get("processor_seconds", seconds)
        return self._here(seconds, fact)

    def _here(self, seconds: float, fact: Mapping[str, Any]) -> float:
        """What a core of this machine takes for what took a core of a recorded run's machine so many seconds."""
        known = fact["device"].get("calibration", {})
        return seconds * ratio(self.machine.seconds, known) if known else seconds

    def _tried(self, run: Run, resources: Resources) -> Estimate | None:
        """By the trial of a call of the same kind; one on a GPU says nothing of a job that asks for none."""
        found = self._trials.get((run.experiment, setting(run)))
        if found is None or found["code"] != self.replication.code_digest(run.experiment, "run"):
            return None
        if found["device"] != "cpu" and not resources.gpus:
            return None
        if "parameters" in found and found["parameters"].get(setting(run)) != parameters_digest(run):
            return None
        share = self._as_long(run, found["setting"]) / found["runs"]
        one, low, high = (
            self._on_device(share * found[key], found["device"], resources) for key in ("seconds", "lower", "upper")
        )
        return Estimate(one, low, high, f"trial ({found['device']})")

    def counted(self, run: Run, resources: Resources) -> Estimate | None:
        """By the operations of the setting; None where they were not counted, or with other parameters.

        What was counted here holds until the code or the counter changes; what git keeps is taken of former ones, too,
        and says so.
        """
        digest = parameters_digest(run)
        entry = self._counts.get((run.experiment, setting(run)))
        if entry is None or entry.get("parameters", {}).get(setting(run)) != digest:
            return None
        former = entry["code"] != counted_code(self.replication, run.experiment)
        gpu = self.gpu if resources.gpus else None
        taken = [(fraction, self._taken(amounts, gpu)) for fraction, amounts in entry["marks"]]
        share = self._as_long(run, entry["settings"][0]) / entry["runs"]
        if len(taken) == 1:
            centre, lower, upper = taken[0][1]
        else:
            points = ([(seconds[bound], fraction) for fraction, seconds in taken] for bound in range(3))
            found = [whole for mine in points if (whole := of_the_whole(mine)) is not None]
            if not found:
                return None
            (centre, *_), (_, lower, _), (_, _, upper) = found
        if gpu is not None:
            basis = f"counted ({gpu.name}{', former count' if former else ''})"
            return Estimate(share * centre, share * lower, share * upper, basis)
        each, low, high = (self._on_device(share * value, "cpu", resources) for value in (centre, lower, upper))
        return Estimate(each, low, high, f"counted (cpu{', former count' if former else ''})")

    def _as_long(self, run: Run, counted: str) -> float:
        """How many times as long as the call that was counted one with the setting of `run` is."""
        names = self.replication.experiment(run.experiment).rehearsal.inverse
        runs = self.replication.runs(run.experiment, self.scale) if names else []
        other = next((each for each in runs if setting(each) == counted), run)
        return float(math.prod(other.settings[name] / run.settings[name] for name in names))

    def _taken(self, amounts: Mapping[str, float], gpu: Device | None) -> tuple[float, float, float]:
        """What counted operations take: estimate, lower and upper bound."""
        if gpu is not None:
            return gpu_seconds(amounts, gpu, rates(reference().seconds))
        seconds = core_seconds(amounts, self._core)
        return seconds, seconds / COUNTED_SPREAD, seconds * COUNTED_SPREAD

    @cached_property
    def _core(self) -> Rates:
        """Of the machine, of the reference machine where this one could not be timed."""
        return rates(self.machine.seconds or reference().seconds)

    def _planned(self, run: Run, job: Job, resources: Resources) -> Estimate:
        if resources.minutes is None:
            most = 60 * resources.runtime / len(job.runs)
            return Estimate(most, 0.0, TIMES_LIMIT * most, TIME_LIMIT)
        each = 60 * resources.minutes / len(self.replication.runs(run.experiment, self.scale))
        each *= ratio(self.machine.seconds, reference().seconds)
        seconds = self._on_device(each, "cpu", resources)
        return Estimate(seconds, seconds / STATED_SPREAD, seconds * STATED_SPREAD, "minutes")

    def _on_device(self, seconds: float, device: str, resources: Resources) -> float:
        return seconds / self.device_factor if resources.gpus and device == "cpu" else seconds

    @cached_property
    def _records(self) -> dict[tuple[str, str], list[dict[str, Any]]]:
        """Provenance of the runs of this scale with their present parameters, by experiment and setting."""
        found: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for experiment in self.replication.experiments:
            for run in self.replication.runs(experiment, self.scale):
                path = self.results.folder(run) / "provenance.json"
                if not path.is_file() or self.results.damage(run) is not None:
                    continue
                facts = read_json(path)
                recorded = facts.get("inputs", {}).get("parameters", run.settings)
                if same(recorded, run.settings):
                    found.setdefault((experiment, setting(run)), []).append({**facts, "mb": _mb(path.parent)})
        return found

    @cached_property
    def _trials(self) -> dict[tuple[str, str], dict[str, Any]]:
        path = trials_path(self.results, self.scale, self.replication.name)
        entries = read_entries(path)
        return {
            (entry["experiment"], name): entry
            for entry in [*entries, *({**one, "settings": [one["setting"]]} for one in entries)]  # its own goes first
            for name in entry.get("settings", ())
        }

    @cached_property
    def _counts(self) -> dict[tuple[str, str], dict[str, Any]]:
        kept = read_entries(kept_counts_path(self.replication, self.scale))
        mine = read_entries(counts_path(self.results, self.scale, self.replication.name))
        codes = {name: counted_code(self.replication, name) for name in self.replication.experiments}
        current = [entry for entry in mine if entry["code"] == codes.get(entry["experiment"])]
        return {(entry["experiment"], name): entry for entry in [*kept, *current] for name in entry["settings"]}

    def peak_memory_mb(self, experiment: str) -> float | None:
        """The largest peak recorded or of a trial."""
        recorded = [fact["peak_memory_mb"] for fact in self._facts(experiment)]
        tried = [entry["peak_memory_mb"] for (name, _), entry in self._trials.items() if name == experiment]
        return max([*recorded, *tried], default=None)

    def gpu_memory(self, experiment: str) -> list[GpuMemory]:
        """That of each setting: as its present code was rehearsed here, else as git keeps it."""
        code = self.replication.code_digest(experiment, "run")
        known: dict[str, GpuMemory] = {}
        for (name, one), entry in self._counts.items():
            if name == experiment and "rehearsed_gb" in entry:
                alone, together = entry["rehearsed_gb"]
                known[one] = GpuMemory(alone, together, former=entry.get("rehearsed_code") != code)
            elif name == experiment and entry["peak_gb"]:
                known[one] = GpuMemory(None, entry["peak_gb"], former=True)
        of = (self.replication.name, experiment, code)
        for line in read_entries(rehearsals_path(self.results, self.scale)):
            if tuple(map(line.get, ("paper", "experiment", "code"))) == of and line.get("counted_gb"):
                known |= dict.fromkeys(line.get("settings", [line["setting"]]), GpuMemory(*line["counted_gb"]))
        return list(known.values())

    def disk_mb(self, experiment: str) -> float | None:
        """Of one run's folder, as recorded, else as the trials foresee."""
        recorded = [fact["mb"] for fact in self._facts(experiment)]
        tried = [entry["disk_mb"] / entry["runs"] for (name, _), entry in self._trials.items() if name == experiment]
        return mean(recorded or tried) if recorded or tried else None

    def _facts(self, experiment: str) -> list[dict[str, Any]]:
        return [fact for (name, _), facts in self._records.items() if name == experiment for fact in facts]


def trials_path(results: Results, scale: str, paper: str) -> Path:
    """Where the trials of a paper are kept."""
    return results.root / ".trials" / scale / f"{paper}.json"


def rehearsals_path(results: Results, scale: str) -> Path:
    """Where the last rehearsal of a scale is kept."""
    return results.root / ".rehearsals" / f"{scale}.json"


def counted_code(replication: Replication, experiment: str) -> str:
    """What something was counted of and by: the code of the runs, and the version of the counter."""
    return f"{replication.code_digest(experiment, 'run')}-{COUNTER}"


def counts_path(results: Results, scale: str, paper: str) -> Path:
    """Where the counted operations of a paper's calls are kept."""
    return results.root / ".counts" / scale / f"{paper}.json"


def kept_counts_path(replication: Replication, scale: str) -> Path:
    """Where git keeps counted operations of a paper's calls, so that a fresh checkout can plan by them."""
    return replication.root / "reports" / "counts" / scale / f"{replication.name}.json"


def parameters_digest(run: Run) -> str:
    """Of what config.yaml gives to a run, but for its seed."""
    return short_digest({name: value for name, value in run.settings.items() if name != "seed"})


def setting(run: Run) -> str:
    """The run's name without its seed."""
    return ",".join(f"{name}={value}" for name, value in run.axes.items() if name != "seed") or "single"


def _mb(folder: Path) -> float:
    found = [status_of(path) for path in published(folder, "**/*")]
    return sum(status.st_size for status in found if status is not None and stat.S_ISREG(status.st_mode)) / 1e6
