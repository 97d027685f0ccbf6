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
    check_requests,
    check_submitting,
    node_memory,
    of_profile,
    request,
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
            if stated("slurm_partition") and not workflow.local_exec:
                check_submitting()
                check_requests(requests())
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


def of_partition(wildcards, limit):
    """A limit of the partition that a job goes to; nodes are told it."""
    partition = (
        "gpu_partition" if GRAPH.job_resources(wildcards).gpus else "slurm_partition"
    )
    return int(config.get(f"{limit}_in_{partition}", 10**9))


def wanted(wildcards, attempt):
    """Minutes, half as many more with each attempt."""
    return GRAPH.job_resources(wildcards).runtime * (attempt + 1) // 2


def runtime(wildcards, attempt):
    """Minutes up to what the profile says and the partition allows: a job that wants more is queued again."""
    longest = int(stated("longest_runtime", 10**9))
    return min(wanted(wildcards, attempt), longest, of_partition(wildcards, "longest"))


def memory(wildcards, attempt):
    """MB, half as many more with each attempt, up to what the largest node of the partition has."""
    first = GRAPH.job_resources(wildcards).mem_mb
    return max(
        first, min(first * (attempt + 1) // 2, of_partition(wildcards, "largest"))
    )


def of_analysis():
    """Memory and time on a cluster: what the profile says, half as much more with each attempt."""
    asked = (
        {name: int(stated(name)) for name in ("mem_mb", "runtime")}
        if stated("slurm_partition")
        else {}
    )
    return {
        name: lambda wildcards, attempt, first=first: first * (attempt + 1) // 2
        for name, first in asked.items()
    }


def gpus(paper, experiment):
    """How a job asks for GPUs: by number or as generic resources of a type, on nodes with a feature, on whose account."""
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
    for name, of_gpus in (("slurm_account", "gpu_account"), ("qos", "gpu_qos")):
        if count and stated(of_gpus):
            asked[name] = stated(of_gpus)
    return asked


def requests():
    """What the jobs of this start ask Slurm for, once each: those of a rule ask for the same."""
    jobs = {job.rule.name: job for job in workflow.dag.needrun_jobs()}
    return {
        request(job.resources, job.threads): name.removeprefix("run_").replace(
            "__", "/"
        )
        for name, job in jobs.items()
        if not job.is_local
    }


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
        names = stated(partition, stated("slurm_partition"))
        for limit, value in (
            ("longest", time_limit(names)),
            ("largest", node_memory(names)),
        ):
            if value is not None:
                config[f"{limit}_in_{partition}"] = value
                workflow.config_settings.config_args += [
                    f"{limit}_in_{partition}={value}"
                ]

if config.get("before_job"):
    # Modules and the like; scripts that set them up often read unset variables.
    shell.prefix(
        f"set +u; {config['before_job']}; if [ $? -ne 0 ]; then "
        "echo 'before_job of slurm/site.yaml failed' >&2; exit 1; fi; set -u; "
    )


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
        [GRAPH.computed(paper) for paper in GRAPH.replications],


def markers(paper, experiment):
    """The input function of a rule that asks for one experiment."""
    return lambda wildcards: GRAPH.experiment_markers(paper, experiment)


for paper in GRAPH.replications:

    rule:
        name:
            paper
        input:
            f"reports/site/{paper}.html",
            GRAPH.computed(paper),
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
            mem_mb=memory,
            runtime=runtime,
            wanted=wanted,
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
            " --attempts {resources.attempts} --runtime {resources.runtime} --wanted {resources.wanted}"
            ' >> "$log" 2>&1 || code=$?; '
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
    resources:
        **of_analysis(),
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
    resources:
        **of_analysis(),
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
