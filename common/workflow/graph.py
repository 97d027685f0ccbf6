"""What the Snakefile asks: which jobs there are, what each needs, and what makes it due."""

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.experiments.config import Resources
from common.experiments.digests import short_digest
from common.experiments.grid import Job
from common.experiments.identity import Identities
from common.experiments.outcomes import Results
from common.experiments.paper import SYNTHESIS
from common.experiments.replication import check_scale
from common.files import peek_json, published, sha256_of, status_of
from common.sources import read_content, read_source
from common.workflow.discovery import discover, healthy
from common.workflow.schedule import with_dependents
from common.workflow.state import analysis_digest, job_state

GATHERED = 100
"""Markers that one file stands for where a paper has very many."""


def default_scale(root: Path) -> str:
    """The scale that params.yaml names."""
    path = root / "params.yaml"
    content = read_content(path) if path.is_file() else None
    if not isinstance(content, dict) or "scale" not in content:
        raise UserError(f"{path}: name the default scale (scale: laptop).")
    return check_scale(str(content["scale"]))


class Graph:
    """The jobs of all replications at one scale.

    Paths are relative to `root`, with forward slashes, as Snakemake names files. A replication whose files are
    not in order is left out and stands in `broken` with what is wrong.
    """

    def __init__(self, root: Path, scale: str | None = None) -> None:
        self.root = root
        self.scale = check_scale(scale) if scale else default_scale(root)
        self.replications, self.broken = healthy(discover(root), self.scale)
        self.results = Results(Path("results"))
        self.jobs: dict[str, Job] = {}
        self._resources: dict[tuple[str, str], Resources] = {}
        for replication in self.replications.values():
            for job in replication.jobs(self.scale):
                self.jobs[self.marker(job)] = job

    @property
    def rules(self) -> list[tuple[str, str]]:
        """Paper and experiment (or `all`, `small`) of every kind of job; those of a kind need equal resources."""
        return list(dict.fromkeys((job.paper, job.experiment) for job in self.jobs.values()))

    @property
    def job_counts(self) -> Mapping[tuple[str, str], int]:
        """How many jobs each rule of `rules` has."""
        return Counter((job.paper, job.experiment) for job in self.jobs.values())

    @cached_property
    def _identities(self) -> Mapping[str, Identities]:
        return {name: Identities(r, self.results) for name, r in self.replications.items()}

    def marker(self, job: Job) -> str:
        """The file that a job leaves."""
        return f"results/{job.marker.as_posix()}"

    def job(self, wildcards: Any) -> Job:
        """The job of a marker's wildcards."""
        name = f"results/.jobs/{wildcards.scale}/{wildcards.paper}/{wildcards.experiment}/{wildcards.job}.json"
        if name not in self.jobs:
            raise UserError(f"{name} is no job at scale {self.scale}: the grid has changed; start again without it.")
        return self.jobs[name]

    def job_inputs(self, wildcards: Any) -> list[str]:
        """Markers of the data sets and of the needed jobs."""
        job = self.job(wildcards)
        replication = self.replications[job.paper]
        inputs = {
            self.data_marker(job.scale, job.paper, name) for run in job.runs for name in replication.datasets(run)
        }
        needed = {run.path for mine in job.runs for run in replication.needed(mine).values()}
        inputs |= {self._marker_of[path] for path in needed}
        return sorted(inputs - {self.marker(job)})

    @cached_property
    def _marker_of(self) -> Mapping[Path, str]:
        """The marker of the job that computes a run, by the run's path."""
        return {run.path: marker for marker, job in self.jobs.items() for run in job.runs}

    def job_state(self, wildcards: Any) -> str:
        """Changes when the job is due."""
        job = self.job(wildcards)
        return job_state(job, self._identities[job.paper], self.results)

    def job_resources(self, wildcards: Any) -> Resources:
        """What a job asks for."""
        job = self.job(wildcards)
        return self.rule_resources(job.paper, job.experiment)

    def rule_resources(self, paper: str, experiment: str) -> Resources:
        """What a kind of job needs: of several experiments, which are short, the most of each."""
        if (paper, experiment) not in self._resources:
            stated = self._stated(paper, experiment)
            self._resources[paper, experiment] = Resources(
                cpus=max(one.cpus for one in stated),
                gpus=max(one.gpus for one in stated),
                mem_mb=max(one.mem_mb for one in stated),
                runtime=max(one.runtime for one in stated),
            )
        return self._resources[paper, experiment]

    @property
    def data_priority(self) -> float:
        """Above all jobs: looking for data takes a moment, and long jobs may wait for it."""
        return 1 + sum(self._priorities.values())

    def rule_priority(self, paper: str, experiment: str) -> float:
        """The stated minutes of a kind of job and of all that waits for it, so that nothing long is left to the end."""
        return self._priorities[paper, experiment]

    @cached_property
    def _priorities(self) -> Mapping[tuple[str, str], float]:
        minutes = {kind: sum(one.minutes or one.runtime for one in self._stated(*kind)) for kind in self._executed}
        kind_of = {(paper, name): (paper, kind) for (paper, kind), names in self._executed.items() for name in names}
        needs = {
            kind: {
                kind_of[kind[0], need.experiment]
                for name in names
                for need in self.replications[kind[0]].experiment(name).needs.values()
            }
            for kind, names in self._executed.items()
        }
        return with_dependents(minutes, needs)

    def _stated(self, paper: str, kind: str) -> list[Resources]:
        """Of the experiments that a kind of job executes."""
        names = self._executed[paper, kind]
        return [self.replications[paper].experiment(name).resources_at(self.scale) for name in names]

    @cached_property
    def _executed(self) -> Mapping[tuple[str, str], Mapping[str, None]]:
        """The experiments of every kind of job."""
        found: dict[tuple[str, str], dict[str, None]] = {}
        for job in self.jobs.values():
            found.setdefault((job.paper, job.experiment), {}).update(dict.fromkeys(run.experiment for run in job.runs))
        return found

    def paper_markers(self, paper: str) -> list[str]:
        """Markers of all jobs of a paper."""
        return [name for name, job in self.jobs.items() if job.paper == paper]

    def experiments(self, paper: str) -> list[str]:
        """The experiments of a paper that have runs."""
        return list(dict.fromkeys(run.experiment for name in self.paper_markers(paper) for run in self.jobs[name].runs))

    def experiment_markers(self, paper: str, experiment: str) -> list[str]:
        """Markers of all jobs that hold runs of an experiment."""
        names = self.paper_markers(paper)
        return [name for name in names if any(run.experiment == experiment for run in self.jobs[name].runs)]

    def analysis_inputs(self, paper: str) -> list[str]:
        """What an analysis waits for: the markers, or files that stand for a hundred of them each.

        Snakemake's effort grows with the square of the number of files that one job waits for.
        """
        count = len(self.paper_markers(paper))
        if count <= 2 * GATHERED:
            return self.paper_markers(paper)
        folder = f"results/.jobs/{self.scale}/{paper}/.gathered"
        return [f"{folder}/{chunk}" for chunk in range(-(-count // GATHERED))]

    def computed(self, paper: str) -> list[str]:
        """Files that are there once a paper is computed: its pages tell nothing, for `replicate site` writes them, too.

        A file that is missing between two that are there Snakemake does not make again unless it is asked for.
        """
        return [*self.analysis_inputs(paper), f"analysis/{self.scale}/{paper}/verdicts.json"]

    def gathered(self, wildcards: Any) -> list[str]:
        """The markers that a file of `analysis_inputs` stands for."""
        start = int(wildcards.chunk) * GATHERED
        return self.paper_markers(wildcards.paper)[start : start + GATHERED]

    def data_state(self, wildcards: Any) -> str:
        """Changes when the data set must be looked for (again): other pin, or unavailable before."""
        from common.datasets.registry import load_registry

        digest = load_registry().entry(wildcards.name).digest
        path = self.root / self.data_marker(wildcards.scale, wildcards.paper, wildcards.name)
        written, said = status_of(path), peek_json(path)
        unavailable = written is not None and (said is None or said["digest"] is None)
        return digest + (f" again {written.st_mtime_ns}" if written and unavailable else "")

    def data_marker(self, scale: str, paper: str, name: str) -> str:
        """The file that tells whether a paper's data set is there."""
        return f"results/.jobs/{scale}/{paper}/.data/{name}.json"

    def analysis_state(self, paper: str) -> str:
        """Changes when metrics, figures, claims or the grid of a paper do."""
        return short_digest([analysis_digest(self.replications[paper]), *sorted(self.paper_markers(paper))])

    def page_state(self, paper: str) -> str:
        """Changes when the text of a paper's page, or the published evidence that it shows, does."""
        folder = self.replications[paper].folder
        paths = [folder / "report.py", folder / "paper.yaml", self.root / "CITATION.cff"]
        texts = [read_source(path) if path.is_file() else "" for path in paths]
        return short_digest([self.scale, *texts, *self._site_sources, self._published(f"*/{paper}")])

    def index_state(self) -> str:
        """Changes when what the index says beside the pages does."""
        path = self.root / SYNTHESIS
        return short_digest([self.scale, read_source(path) if path.is_file() else "", self._published("*/*")])

    def _published(self, folders: str) -> str:
        place = self.root / "reports" / "published"
        return short_digest(
            {path.relative_to(place).as_posix(): sha256_of(path) for path in published(place, f"{folders}/*.json")}
        )

    @cached_property
    def _site_sources(self) -> list[str]:
        folder = Path(__file__).parents[1] / "reports"
        return [
            path.read_text() for path in sorted(folder.rglob("*")) if path.suffix in (".py", ".html", ".css", ".js")
        ]
