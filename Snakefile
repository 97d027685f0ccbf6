# Data, runs, analysis and pages of every replication under replications/.
# A directory with a paper.yaml is enough: nothing here knows a paper.
import os
import shlex
import sys
from pathlib import Path

from common.output import in_utf8
from common.workflow.slurm_job import become_own_job, leave_own_job

in_utf8()
become_own_job(sys.argv, os.environ)

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

from common.errors import UserError
from common.experiments.calibration import note_step
from common.workflow import ownership
from common.workflow.graph import Graph
from common.workflow.slurm import (
    check_arrays,
    check_cluster,
    of_profile,
    time_limit,
)

min_version("9.27")

RESULTS = Path("results").absolute()
try:
    ownership.adopt_workflow(os.environ, RESULTS, workflow.is_main_process)
except UserError as error:
    raise WorkflowError(str(error)) from None


# The only hook of this kind: of several, Snakemake calls the last alone.
onstart:
    if workflow.is_main_process and not workflow.touch:
        try:
            ownership.begin_workflow(os.environ, RESULTS, workflow.local_exec)
        except UserError as error:
            raise WorkflowError(str(error)) from None
        note_step("snakemake")


GRAPH = Graph(Path(workflow.basedir), config.get("scale"))
SCALE = GRAPH.scale
for sentence in GRAPH.broken.values():
    print(f"replicate: {sentence}", file=sys.stderr)
PROFILE = Path(workflow.basedir, "slurm", "config.yaml")
PYTHON = shlex.quote(sys.executable)
if config.get("image"):
    # Steps are executed in the image, with its Python; Snakemake itself is not.
    PYTHON = "python"

    container: config["image"]


def attempts(wildcards):
    """How often a job is tried: what the profile says. The command that executes it on a node tells it there."""
    if workflow.is_main_process and "attempts" not in config:
        config["attempts"] = 1 + (workflow.execution_settings.retries or 0)
        workflow.config_settings.config_args += [f"attempts={config['attempts']}"]
    return int(config["attempts"])


def stated(name, otherwise=None):
    """What the profile says under default-resources, or `otherwise`."""
    defaults = workflow.resource_settings.default_resources or {}
    return defaults[name].raw if name in defaults else otherwise


def longest(wildcards):
    """Minutes that a job may ask for: what the profile says and what its partition allows. Nodes are told the latter."""
    partition = (
        "gpu_partition" if GRAPH.job_resources(wildcards).gpus else "slurm_partition"
    )
    return min(
        int(stated("longest_runtime", 10**9)),
        int(config.get(f"longest_in_{partition}", 10**9)),
    )


def gpus(paper, experiment):
    """How a job asks for GPUs: by their number, or as generic resources of a type, and on nodes with a feature."""
    count, gres, feature = (
        GRAPH.rule_resources(paper, experiment).gpus,
        stated("gpu_gres"),
        stated("gpu_constraint"),
    )
    asked = {"gpu": 0 if gres else count}
    if count and gres:
        asked["gres"] = f"{gres}:{count}"
    if count and feature:
        asked["constraint"] = feature
    return asked


if stated("slurm_partition") and workflow.is_main_process:
    leave_own_job(os.environ)
    try:
        check_cluster(
            {
                stated("slurm_partition"),
                stated("gpu_partition", stated("slurm_partition")),
            },
            of_profile(PROFILE, "slurm-status-command", "squeue"),
            stated("slurm_account"),
        )
        check_arrays(GRAPH.job_counts, of_profile(PROFILE, "slurm-array-jobs", ""))
    except UserError as error:
        raise WorkflowError(str(error)) from None
    for partition in ("slurm_partition", "gpu_partition"):
        minutes = time_limit(stated(partition, stated("slurm_partition")))
        if minutes is not None:
            config[f"longest_in_{partition}"] = minutes
            workflow.config_settings.config_args += [
                f"longest_in_{partition}={minutes}"
            ]

if config.get("before_job"):
    # Modules and the like; scripts that set them up often read unset variables.
    shell.prefix(f"set +u; {config['before_job']}; set -u; ")


wildcard_constraints:
    name=r"[a-z0-9_]+",
    scale=SCALE,
    paper="|".join(GRAPH.replications) or "none",
    experiment=r"\w+",
    job=r"[0-9a-f]+",
    chunk=r"[0-9]+",


localrules:
    all,
    data,
    gather,
    index,


rule all:
    input:
        "reports/index.html",


def markers(paper, experiment):
    """The input function of a rule that asks for one experiment."""
    return lambda wildcards: GRAPH.experiment_markers(paper, experiment)


for paper in GRAPH.replications:

    rule:
        name:
            paper
        input:
            f"reports/site/{paper}.html",
        localrule: True

    for experiment in GRAPH.experiments(paper):

        # The runs of one experiment and those that they start from, without analysis and page.
        rule:
            name:
                f"{paper}__{experiment}"
            input:
                markers(paper, experiment),
            localrule: True


rule data:
    output:
        "results/.jobs/{scale}/{paper}/.data/{name}.json",
    log:
        "logs/data/{scale}/{paper}/{name}.log",
    priority: GRAPH.data_priority
    params:
        state=GRAPH.data_state,
    shell:
        "{PYTHON} -m common.cli step data {wildcards.name:q} {output:q} > {log:q} 2>&1"


for paper, experiment in GRAPH.rules:

    # One rule an experiment: its jobs ask for equal resources, so that a cluster may take them as one array.
    rule:
        name:
            f"run_{paper}__{experiment}"
        input:
            GRAPH.job_inputs,
        output:
            f"results/.jobs/{{scale}}/{{paper,{paper}}}/{{experiment,{experiment}}}/{{job}}.json",
        log:
            "logs/run/{scale}/{paper}/{experiment}-{job}.log",
        priority: GRAPH.rule_priority(paper, experiment)
        threads: GRAPH.rule_resources(paper, experiment).cpus
        resources:
            **gpus(paper, experiment),
            # Memory and time grow by half with each attempt.
            mem_mb=lambda wildcards, attempt: GRAPH.job_resources(wildcards).mem_mb
            * (attempt + 1)
            // 2,
            runtime=lambda wildcards, attempt: min(
                GRAPH.job_resources(wildcards).runtime * (attempt + 1) // 2,
                longest(wildcards),
            ),
            slurm_partition=stated(
                "gpu_partition"
                if GRAPH.rule_resources(paper, experiment).gpus
                else "slurm_partition"
            ),
            attempt=lambda wildcards, attempt: attempt,
            attempts=attempts,
        params:
            state=GRAPH.job_state,
        shell:
            # Snakemake deletes the log before each attempt; under a second name all of them stay.
            'log={log:q}; touch "${{log%.log}}.attempts.log"; ln -f "${{log%.log}}.attempts.log" "$log"; '
            # The shell outlives what asks the job to end, so that Snakemake waits for its checkpoint.
            "trap : HUP INT TERM; "
            # A process that was killed leaves no marker: its last attempt says so (not where it was asked to end).
            "code=0; {PYTHON} -m common.cli step job {output:q} {SCALE} --attempt {resources.attempt}"
            ' --attempts {resources.attempts} --runtime {resources.runtime} >> "$log" 2>&1 || code=$?; '
            "case $code in 129|130|143) exit $code;; esac; "
            "if [ $code -gt 128 ] && [ {resources.attempt} -ge {resources.attempts} ]; then "
            '{PYTHON} -m common.cli step killed {output:q} {SCALE} $code >> "$log" 2>&1; code=0; fi; exit $code'


rule gather:
    input:
        GRAPH.gathered,
    output:
        touch("results/.jobs/{scale}/{paper}/.gathered/{chunk}"),


rule analyse:
    input:
        lambda wildcards: GRAPH.analysis_inputs(wildcards.paper),
    output:
        # Nothing that git tracks: what a failed step may have begun, Snakemake deletes.
        "analysis/{scale}/{paper}/verdicts.json",
    log:
        "logs/analyse/{scale}/{paper}.log",
    params:
        state=lambda wildcards: GRAPH.analysis_state(wildcards.paper),
    shell:
        "{PYTHON} -m common.cli step analyse {wildcards.paper:q} {wildcards.scale} > {log:q} 2>&1"


rule page:
    input:
        f"analysis/{SCALE}/{{paper}}/verdicts.json",
    output:
        "reports/site/{paper}.html",
    log:
        "logs/page/{paper}.log",
    params:
        state=lambda wildcards: GRAPH.page_state(wildcards.paper),
    shell:
        "{PYTHON} -m common.cli step page {wildcards.paper:q} {SCALE} > {log:q} 2>&1"


rule index:
    input:
        expand("reports/site/{paper}.html", paper=GRAPH.replications),
    output:
        "reports/index.html",
    log:
        "logs/index.log",
    params:
        state=GRAPH.index_state(),
    shell:
        "{PYTHON} -m common.cli step index {SCALE} > {log} 2>&1"
