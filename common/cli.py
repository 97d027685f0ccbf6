"""`replicate …`: what can be done with the replications from a terminal.

Exit codes: 0 all that was asked for is done, 1 something failed (a run, its metrics, a page, a file that cannot be
written) or was found wanting, 2 a user's mistake or a package that is not installed, 3 unfinished (call again to
continue), 128 and the number of a signal that ended the command. What 1 and 3 mean of a command, its help says.
"""

import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from common.errors import UserError, lacking, needs
from common.experiments.scales import SCALES
from common.files import as_json, project_root
from common.output import in_utf8, unfailing
from common.steps import steps

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Replications of documents on flat minima, the Hessian and generalisation.\n\n"
    "Exit codes: 0 done, 1 something failed, 2 a mistake in the call or a file, 3 unfinished. With --debug a mistake "
    "shows its traceback.",
)
app.add_typer(steps, name="step")

os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # it would read every installed package's metadata
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")  # threads that wait longer before they sleep starve a busy machine

INTERRUPTED = (129, 130, 143)
"""Exit codes after SIGHUP (a closed terminal), Ctrl-C and SIGTERM."""

_SCALES = f"One of {', '.join(SCALES)}."
Scale = Annotated[str, typer.Option("--scale", "-s", help=_SCALES, show_default="that of params.yaml")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Papers = Annotated[list[str] | None, typer.Argument(help="Names of replications; all if none is given.")]
Targets = Annotated[list[str] | None, typer.Argument(help="PAPER or PAPER/EXPERIMENT; all if none is given.")]
OutFolder = Annotated[Path | None, typer.Option("--out", help="Results folder (default: results/).")]
OutPlace = Annotated[
    Path | None, typer.Option("--out", help="Results folder (default: results/), or X.tar: an archive for `adopt`.")
]


Retry = Annotated[
    list[str] | None, typer.Option(help="Compute runs of this outcome again: failed.", show_default="none")
]


def _version(asked: bool) -> None:
    if asked:
        import tomllib

        project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
        print(project["name"], project["version"])
        raise typer.Exit


@app.callback()
def anywhere(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """What each command is preceded by; the help of the app is its own."""


def _scale(value: str) -> str:
    from common.experiments.replication import check_scale
    from common.workflow.graph import default_scale

    return check_scale(value) if value else default_scale(project_root())


def _folders(out: Path | None = None, *, made: bool = False) -> Any:
    """The folders of this checkout, with the results folder that `--out` names, which is there unless it is `made`."""
    from common.workflow.state import Folders

    if out is not None and not made and not out.is_dir():
        raise UserError(f"--out {out}: there is no such folder.")
    root = project_root()
    return Folders(root, root / "results" if out is None else out.resolve())


def _selected(papers: list[str] | None, scale: str = "") -> dict[str, Any]:
    """The named replications, or all whose files are in order; a line says what is wrong with each of the others."""
    from common.workflow.discovery import chosen

    return chosen(project_root(), papers or [], _scale(scale))[0]


def _targeted(targets: list[str] | None, scale: str) -> Any:
    """`_selected` of PAPER and PAPER/EXPERIMENT, and whether an experiment of a paper was asked for."""
    from common.workflow.discovery import targeted

    return targeted(project_root(), targets or [], scale)


@app.command("list")
def list_(json: AsJson = False) -> None:
    """List the replications and their experiments."""
    from common.workflow.tables import listing, listing_table

    rows = listing(_selected(None))
    print(as_json(rows), end="") if json else listing_table(rows)


@app.command()
def data(
    names: Annotated[list[str] | None, typer.Argument(help="Data sets; all registered ones if none is given.")] = None,
) -> None:
    """Fetch data sets into the cache, checking every file (exit code 1: one is not available)."""
    from common.datasets import fetch
    from common.datasets import names as registered

    missing = 0
    for name in names or registered():
        report = fetch(name, log=lambda message: print(message, flush=True))
        print(report.explanation(), flush=True)
        missing += not report.available
    raise typer.Exit(1 if missing else 0)


@app.command()
def run(
    target: Annotated[str, typer.Argument(help="PAPER or PAPER/EXPERIMENT.")],
    scale: Scale = "",
    out: OutPlace = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0.001, help="Save and end after this many minutes; call again.", show_default="no limit"),
    ] = None,
    retry: Retry = None,
) -> None:
    """Compute in this process the runs of a paper or experiment that are due.

    Exit codes: 1 a run failed, 3 one is unfinished: the same command continues.
    """
    from common.workflow.archives import archive_place, write_archive
    from common.workflow.run import run_target

    place, archive = (None, None) if out is None else archive_place(out)
    folders = _folders(place, made=True)
    code = run_target(folders, target, _scale(scale), minutes, frozenset(retry or ()))
    if archive is not None:
        print("Written:", *write_archive(folders.results, archive))
    raise typer.Exit(code)


_ALONE = {
    "record_minutes": (),
    "record_counts": ("count",),
    "record_limits": ("trial", "count", "device"),
    "compare": ("count",),
    "json": ("trial", "count", "device", "device_factor", "budget"),
}
"""Options of `plan` that ask for something else than its tables, and which others they heed (all: --scale, --out)."""


@app.command()
def plan(
    context: typer.Context,
    targets: Targets = None,
    scale: Scale = "",
    json: AsJson = False,
    out: OutFolder = None,
    gpus: Annotated[int, typer.Option(min=1, help="GPUs at once, for the wall time.")] = 8,
    device_factor: Annotated[
        float,
        typer.Option(min=0.001, help="How many times faster a GPU of the cluster is than the CPU of the timings."),
    ] = 1.0,
    trial: Annotated[
        float, typer.Option(min=0, help="First run each distinct call for this many seconds, to measure its speed.")
    ] = 0,
    count: Annotated[
        float, typer.Option(min=0, help="First count the operations of each kind of call for this many seconds.")
    ] = 0,
    device: Annotated[
        str,
        typer.Option(
            help="GPU on which counted operations will be: h100, a100, …, or a JSON file.",
            show_default="h100, for jobs that ask for a GPU",
        ),
    ] = "",
    compare: Annotated[
        bool, typer.Option("--compare", help="Print what was counted beside `minutes`, of the reference machine.")
    ] = False,
    budget: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Refuse a plan that may take more GPU hours (exit code 2), and propose what decides the most.",
            show_default="no limit",
        ),
    ] = None,
    record_minutes: Annotated[
        bool, typer.Option("--record-minutes", help="Write `minutes` into config.yaml from the runs recorded here.")
    ] = False,
    record_counts: Annotated[
        bool, typer.Option("--record-counts", help="Write what was counted into reports/counts/, which git keeps.")
    ] = False,
    record_limits: Annotated[
        bool,
        typer.Option("--record-limits", help="Write `runtime` and `mem_mb` from this plan and what was rehearsed."),
    ] = False,
) -> None:
    """Show jobs and runs, how many are current, and how long the others will take."""
    from common.workflow.cost import costs
    from common.workflow.counts import compared, comparison
    from common.workflow.devices import USUAL
    from common.workflow.devices import device as device_of
    from common.workflow.plan import plan as plan_of
    from common.workflow.tables import cost_rows, cost_table, plan_rows, plan_table

    _go_together(context)
    chosen, folders = _scale(scale), _folders(out)
    selected, asked = _targeted(targets, chosen)
    if (record_minutes or record_limits or record_counts or trial or compare) and any(
        "/" in one for one in targets or []
    ):
        raise UserError("--trial, --compare and --record-… take whole replications: PAPER.")
    if record_minutes:
        _record_minutes(selected, chosen, folders)
        return
    named = device_of(device) if device else None
    if trial:
        _try_calls(selected, chosen, folders, trial)
    if count:
        _count_calls(targets or list(selected), chosen, folders, count)
    each = selected.values()
    if record_counts:
        from common.workflow.counting import record_counts as write_counts

        print("\n".join(write_counts(replication, chosen, folders) for replication in each))
        return
    if record_limits:
        from common.workflow.record_resources import record_limits as record

        print("\n".join(line for replication in each for line in record(replication, chosen, folders, named)))
        return
    if compare:
        print(comparison([line for replication in each for line in compared(replication, chosen, folders.store)]))
        return
    jobs = [job for replication in each for job in plan_of(replication, chosen, folders.store, asked)]
    gpu = named or (device_of(USUAL) if device_factor == 1 else None)
    priced = [cost for replication in each for cost in costs(replication, chosen, folders.store, device_factor, gpu)]
    due = [cost for cost in priced if asked(cost.paper, cost.experiment)]
    names = {(cost.paper, name) for cost in due for name in (cost.experiment, *cost.needs)}
    found = [cost for cost in priced if (cost.paper, cost.experiment) in names]
    if json:
        print(as_json({"jobs": plan_rows(jobs), "experiments": cost_rows(found)}), end="")
    else:
        plan_table(jobs, chosen)
        cost_table(found, gpus, device_factor, gpu)
    if budget is not None:
        _check_budget(selected, chosen, found, budget, quiet=json)


def _go_together(context: typer.Context) -> None:
    """Refuse options of `plan` of which one would be passed over."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    stated = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    for name, heeded in _ALONE.items():
        spare = [one for one in stated if one not in (name, "targets", "scale", "out", *heeded)]
        if name in stated and spare:
            first, other = (f"--{one.replace('_', '-')}" for one in (name, spare[0]))
            raise UserError(f"{first} takes no notice of {other}: call `replicate plan` for each.")


def _check_budget(selected: dict[str, Any], scale: str, found: Any, budget: float, *, quiet: bool) -> None:
    """Refuse what may take more GPU hours, or does not fit the GPU, and show what could be kept."""
    from common.workflow.budget import decided_by, propose, refuse
    from common.workflow.cost import gpu_hours
    from common.workflow.tables import budget_table

    if gpu_hours(found)[2] <= budget and not any(cost.too_large for cost in found):
        return
    decided = {key: one for replication in selected.values() for key, one in decided_by(replication, scale).items()}
    proposal = propose(found, decided, budget)
    if not quiet:
        budget_table(proposal, decided)
    raise refuse(found, proposal, decided, budget)


def _record_minutes(selected: dict[str, Any], scale: str, folders: Any) -> None:
    """Write into config.yaml what the runs of each replication took."""
    from common.workflow.record_resources import record_minutes, record_steps

    for replication in selected.values():
        print("\n".join(record_minutes(replication, scale, folders.store)))
    print(record_steps(scale, selected))


def _try_calls(selected: dict[str, Any], scale: str, folders: Any, seconds: float) -> None:
    """Run the beginning of each distinct call; a line each on standard error."""
    from common.workflow.trial import try_calls

    for replication in selected.values():
        for line in try_calls(replication, scale, folders, seconds):
            print(line, file=sys.stderr, flush=True)


def _count_calls(targets: list[str], scale: str, folders: Any, seconds: float) -> None:
    """Count the operations of each kind of call; a line each on standard error."""
    from common.workflow.counts import count_line
    from common.workflow.rehearse import Terms, rehearse_all

    terms = Terms("cpu", seconds=max(600.0, 20 * seconds), real_seconds=seconds, count=True)
    for line in rehearse_all(folders, targets, scale, terms):
        print(count_line(line), file=sys.stderr, flush=True)


@app.command()
def rehearse(
    targets: Annotated[
        list[str] | None, typer.Argument(help="PAPER or PAPER/EXPERIMENT (with what it starts from); all if none.")
    ] = None,
    scale: Annotated[str, typer.Option("--scale", "-s", help=_SCALES)] = "paper",
    device: Annotated[
        str,
        typer.Option(
            help="cpu or cuda; cuda and no target: accept a GPU in about 8 minutes.", show_default="what there is"
        ),
    ] = "",
    minutes: Annotated[float, typer.Option(min=0.01, help="A call that takes longer is given up.")] = 30,
    memory: Annotated[float, typer.Option(min=0, help="GB that a call may take.", show_default="what there is")] = 0,
    seconds: Annotated[
        float, typer.Option(min=0, help="Begin each real call for so many seconds, too: a trial for `plan`.")
    ] = 0,
    again: Annotated[
        bool, typer.Option("--again", help="Compute each call again, uninterrupted, and compare the records.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Start every kind of call once, shortened: what would fail, what memory it takes, what would fit.

    Experiments that ask for no GPU are rehearsed on the CPU. With --device cuda and no target the GPU is looked at
    first, and of each experiment that asks for one a single call is begun, until eight minutes are over.

    Exit codes: 1 something failed, 3 nothing did, but a call was refused for its memory or lacked its data.
    """
    from common.workflow.rehearse import Terms, accept, exit_code, keep, rehearse_all
    from common.workflow.tables import rehearsal_line, rehearsal_table

    folders, chosen = _folders(), _scale(scale)
    terms = Terms(device, 60 * minutes, memory, real_seconds=seconds, again=again)
    accepting = device == "cuda" and not targets
    found: list[dict[str, Any]] = []
    for line in accept(folders, chosen, terms) if accepting else rehearse_all(folders, targets or [], chosen, terms):
        found.append(line)
        keep(found, folders, chosen)
        print(rehearsal_line(line), file=sys.stderr, flush=True)
    print(as_json(found), end="") if json else rehearsal_table(found)
    raise typer.Exit(exit_code(found))


@app.command()
def status(targets: Targets = None, scale: Scale = "", json: AsJson = False, out: OutFolder = None) -> None:
    """Show the outcome of each run with its reason, and the jobs that are running."""
    from common.workflow.tables import status_rows, status_table

    folders = _folders(out)
    chosen = _scale(scale)
    selected, asked = _targeted(targets, chosen)
    rows = [row for row in status_rows(selected, chosen, folders.store) if asked(row["paper"], row["experiment"])]
    print(as_json(rows), end="") if json else status_table(rows, chosen, folders.results)


@app.command()
def claims(targets: Targets = None, scale: Scale = "", json: AsJson = False) -> None:
    """Show the claims and their verdicts; of named papers, new runs are analysed first (exit code 1: that failed)."""
    from common.workflow.claims import bring_up_to_date, claim_rows, outdated
    from common.workflow.tables import claims_table

    chosen = _scale(scale)
    (selected, asked), folders = _targeted(targets, chosen), _folders()
    if targets:
        bring_up_to_date(selected, chosen, folders)
    stale = dict(outdated(selected, chosen, folders))
    rows = [row for row in claim_rows(selected, chosen, folders, stale) if asked(row["paper"], row["experiment"])]
    print(as_json(rows), end="") if json else claims_table(rows, chosen)
    for where, sentence in stale.items():
        if asked(*where.split("/")):
            print(sentence, file=sys.stderr)
    problems = [(name, sentence) for name in selected for sentence in folders.problems(chosen, name)]
    told = [f"{name}/{sentence}" for name, sentence in problems if asked(name, sentence.partition(":")[0])]
    print(*told, sep="\n", end="\n" if told else "", file=sys.stderr)
    raise typer.Exit(int(bool(told)))


@app.command()
def rules(papers: Papers = None) -> None:
    """Print every claim's rule, the commit since which it stands, and what it was before."""
    from common.workflow.rules import history

    for replication in _selected(papers).values():
        print(*history(replication), sep="\n")


@app.command()
def accept(
    target: Annotated[str, typer.Argument(help="PAPER/EXPERIMENT, or PAPER/EXPERIMENT/RUN.")],
    reason: Annotated[str, typer.Option(help="Why the change of code cannot change a result.")],
    scale: Scale = "",
    out: OutFolder = None,
) -> None:
    """Accept results whose code has changed since in a way that cannot matter: runs here, else what git keeps."""
    from common.workflow.accept import accept as accept_runs

    print(accept_runs(_folders(out), target, _scale(scale), reason))


@app.command()
def reports(
    papers: Papers = None,
    scale: Scale = "",
    cores: Annotated[int, typer.Option(min=0, help="Cores to use; 0 means all.")] = 0,
    retry: Retry = None,
    pages: Annotated[bool, typer.Option(help="Build pages, not only metrics, figures and verdicts.")] = True,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until another build in this checkout has ended.")] = False,
) -> None:
    """Compute what is due and build the report, with progress and an estimate of the time left.

    Exit codes: 1 a run or a step failed or is unfinished, 2 files of a replication are not in order; the rest is built.
    """
    from common.workflow.reports import build

    tried = frozenset(retry or ())
    raise typer.Exit(build(_folders(), _scale(scale), papers or [], cores=cores, retry=tried, pages=pages, wait=wait))


@app.command()
def site(papers: Papers = None, scale: Scale = "") -> None:
    """Build the pages from what there is: published evidence, and runs of this machine if it has any; computes none.

    Exit code 1: a page, or a part of one, could not be built.
    """
    from common.workflow.site import build_site

    root, chosen = project_root(), _scale(scale)
    problems = build_site(root, _selected(papers, chosen), chosen)
    print(*problems, sep="\n", end="\n" if problems else "", file=sys.stderr)
    print("The site: reports/index.html")
    raise typer.Exit(1 if problems else 0)


@app.command()
def new(name: Annotated[str, typer.Argument(help="Name of its directory under replications/.")]) -> None:
    """Create a replication with one small experiment that works, to be replaced by those of the paper."""
    from common.workflow.new import new as create

    root = project_root()
    for path in create(root, name):
        print(path.relative_to(root))
    print(f"Next: make reports PAPERS={name} SCALE=smoke; replicate lint {name}; docs/add-a-paper.md.")


@app.command()
def lint(papers: Papers = None) -> None:
    """List what is unfinished: template text, missing sources and claims (exit code 1), missing units."""
    from common.workflow.lint import lint as look
    from common.workflow.lint import lint_synthesis

    selected = _selected(papers)
    together = [] if papers else lint_synthesis(selected.values())
    print(*together, sep="\n", end="\n" if together else "")
    unfinished = len(together)
    for name, replication in selected.items():
        open_points, notes = look(replication)
        unfinished += len(open_points)
        print(*open_points, *(f"note: {note}" for note in notes), sep="\n", end="\n" if open_points or notes else "")
        print(f"{name}: {len(open_points)} open, {len(notes)} notes.")
    raise typer.Exit(int(bool(unfinished)))


@app.command()
def sync(
    check: Annotated[bool, typer.Option(help="Only check whether they are up to date (exit code 1 if not).")] = False,
) -> None:
    """Write what is generated: dvc.yaml, the README's table of results, lines to which docs/which-number.md links."""
    from common.files import write_if_changed
    from common.workflow.sync import generated

    files = generated(project_root())
    if check:
        stale = [path.name for path, text in files.items() if not path.is_file() or path.read_text() != text]
        print(f"stale: {', '.join(stale)}; run `replicate sync`." if stale else "All generated files are current.")
        raise typer.Exit(int(bool(stale)))
    for path, text in files.items():
        print(f"{path.name} written." if write_if_changed(path, text) else f"{path.name} is current.")


@app.command()
def adopt(
    source: Annotated[
        Path | None, typer.Argument(help="Folder or archive from another machine; without it, what `dvc pull` fetched.")
    ] = None,
    paper: Annotated[list[str] | None, typer.Option(help="Replication to adopt for.", show_default="all")] = None,
    scale: Scale = "",
) -> None:
    """Check results that were computed elsewhere and take them over, so that they are not computed again.

    Exit code 1: runs were refused.
    """
    chosen = _scale(scale)
    selected = _selected(paper)
    reports = [_adopted(replication, chosen, source) for replication in selected.values()]
    if source is not None and not any(report.found for report in reports):
        names = ", ".join(selected) if paper else "any paper"
        raise UserError(
            f"adopt: {source} holds no run of {names} at scale {chosen}: name the folder that holds {chosen}/, or "
            "another --scale."
        )
    raise typer.Exit(int(any(report.refused for report in reports)))


@app.command()
def pull(papers: Papers = None, scale: Scale = "") -> None:
    """Fetch with DVC the results that it has recorded, and take them over as `adopt` does (exit code 1, too)."""
    from common.workflow.pull import pull as fetch

    selected = _selected(papers)
    found = fetch(project_root(), selected, _scale(scale) if scale else None)
    reports = [_adopted(selected[name], recorded, None) for name, recorded in found]
    raise typer.Exit(int(any(report.refused for report in reports)))


def _adopted(replication: Any, scale: str, source: Path | None) -> Any:
    """Take over the results of a replication and print a summary, which is returned."""
    from common.workflow.adopt import adopt as take_over
    from common.workflow.snakemake_calls import touch

    needs("snakemake")
    folders = _folders()
    report = take_over(replication, scale, folders, source)
    touch(replication, scale, folders)
    print(f"{replication.name}: {report}.")
    return report


@app.command()
def track(papers: Papers = None, scale: Scale = "") -> None:
    """Record the results with DVC; refused while something is due."""
    from common.workflow.track import track as record

    print("Recorded:", *record(_selected(papers), _scale(scale), _folders()))


@app.command()
def publish(
    target: Annotated[str, typer.Argument(help="PAPER or PAPER/EXPERIMENT.")],
    scale: Scale = "",
    verdicts: Annotated[
        bool, typer.Option(help="Only judge a paper's published metrics again by the present rules; needs no runs.")
    ] = False,
) -> None:
    """Copy verdicts, metrics, figures and provenance into reports/published/, which is kept in git."""
    from common.workflow.discovery import select
    from common.workflow.publish import judge_again
    from common.workflow.publish import publish as publish_experiments

    folders = _folders()
    replication, experiment = select(folders.root, target)
    if verdicts and experiment:
        raise UserError(f"--verdicts takes a whole paper: replicate publish {replication.name} --verdicts.")
    if verdicts:
        print("Changed:", *judge_again(replication, _scale(scale), folders.root) or ["nothing"])
    else:
        experiments = [experiment] if experiment else list(replication.experiments)
        print("Published:", publish_experiments(replication, experiments, _scale(scale), folders))
    print("Then: `replicate sync` for the README's scoreboard, and commit both.")


@app.command()
def diff(
    a: Annotated[str, typer.Argument(help="A scale (what is published at it), or a folder such as analysis/laptop.")],
    b: Annotated[str, typer.Argument(help="The other.")],
    page: Annotated[
        Path | None, typer.Option(help="Write the comparison as a page to this file, too.", show_default="none")
    ] = None,
) -> None:
    """Compare two sets of results: claims that changed verdict, estimates, environment and cost."""
    from common.reports.comparison import compare, side, write_comparison
    from common.workflow.tables import comparison_table

    root = project_root()
    comparison = compare(side(root, a), side(root, b))
    comparison_table(comparison)
    if page is not None:
        print(write_comparison(comparison, page))


@app.command()
def measure(
    model: Annotated[str, typer.Argument(help="MODULE:FACTORY; the factory, called without arguments, makes it.")],
    data: Annotated[str, typer.Option(help="A registered data set.")],
    checkpoint: Annotated[
        Path | None, typer.Option(help="Weights: .safetensors, or a weights-only .pt.", show_default="the factory's")
    ] = None,
    split: Annotated[str, typer.Option(help="train or test.")] = "train",
    images: Annotated[int | None, typer.Option(help="Size of a random subset.", show_default="2000, or all")] = None,
    loss: Annotated[str, typer.Option(help="cross_entropy, or mse to one-hot labels.")] = "cross_entropy",
    what: Annotated[
        str,
        typer.Option(
            help="Measures, comma-separated, or all: loss, gradient_norm, hessian_trace, ggn_trace, sharpness, "
            "noise_trace, adaptive_sharpness, hessian_norm, ggn_norm, noise_along_curvature, non_uniformity.",
            show_default="the first six",
        ),
    ] = "",
    relative_error: Annotated[float, typer.Option(help="Relative error to reach in each measure.")] = 0.01,
    budget: Annotated[float, typer.Option(help="Most gradients to spend on each measure.")] = 500.0,
    seed: Annotated[
        int,
        typer.Option(
            min=0, max=2**63 - 1, help="Seed of the subset, of the random draws, and of weights without a checkpoint."
        ),
    ] = 0,
    json: AsJson = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the spectral density: X.svg (and X.png, X.csv).", show_default="none")
    ] = None,
    tokenizer: Annotated[
        Path | None, typer.Option(help="For texts: tokenizer.json, or vocab.txt (WordPiece).", show_default="none")
    ] = None,
    length: Annotated[int, typer.Option(min=2, help="Tokens at which texts are cut off.")] = 128,
) -> None:
    """Measure the curvature of your own model on a registered data set (docs/toolkit.md)."""
    from common.workflow import measure as measuring
    from common.workflow.launched import leads

    request = measuring.Request(
        model,
        data,
        checkpoint,
        split=split,
        images=images,
        loss=loss,
        what=what,
        relative_error=relative_error,
        budget=budget,
        seed=seed,
        plot=plot,
        tokenizer=tokenizer,
        length=length,
    )
    result = measuring.run(request)
    if leads():
        print(as_json(result), end="") if json else measuring.show(result)


def main() -> None:
    """Entry point: a user's mistake is one sentence and exit code 2; `--debug` shows the traceback."""
    in_utf8()
    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
    started = time.monotonic()
    lasting = {*sys.argv[1:2]} <= {"reports", "run", "step"}
    unfailing(whatever=lasting)
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except SystemExit as end:
        if end.code in INTERRUPTED:
            goes_on = "; the same command continues" if lasting else ""
            print(f"Stopped after {time.monotonic() - started:.0f} s{goes_on}.", file=sys.stderr)
        raise
    except ModuleNotFoundError as error:
        if debug or (error.name or "").partition(".")[0] in ("", "common", "replications"):
            raise
        print(f"replicate: {lacking(error.name or '')}", file=sys.stderr)
        raise SystemExit(2) from None
    except (UserError, OSError) as error:
        if debug:
            raise
        print(f"replicate: {error}", file=sys.stderr)
        raise SystemExit(2 if isinstance(error, UserError) else 1) from None


if __name__ == "__main__":
    main()
