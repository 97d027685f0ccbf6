"""Tables for the terminal: replications, plan, run outcomes, claims. Each has its rows as plain data too."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from common.experiments.outcomes import COMPUTED, Results
from common.experiments.replication import Replication
from common.workflow.plan import JobPlan, duration_text, machine_text
from common.workflow.progress import duration, in_flight, remaining, several
from common.workflow.state import run_states
from common.workflow.timings import TIME_LIMIT, TIMES_LIMIT

if TYPE_CHECKING:
    from common.claims.verdicts import Verdict
    from common.reports.comparison import Comparison
    from common.workflow.budget import Decided, Proposal
    from common.workflow.cost import ExperimentCost
    from common.workflow.devices import Device

_COLOURS = {
    "reproduced": "green",
    "contradicted": "red",
    "inconclusive": "yellow",
    "completed": "green",
    "failed": "red",
    "diverged": "yellow",
}


def listing(replications: Mapping[str, Replication]) -> list[dict[str, Any]]:
    """Name, citation and experiments of each replication."""
    return [
        {
            "paper": name,
            "title": replication.paper.title,
            "year": replication.paper.year,
            "key": replication.paper.key,
            "experiments": list(replication.experiments),
        }
        for name, replication in replications.items()
    ]


def listing_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print `listing`."""
    table = _table(["replication", "document", "experiments"])
    for row in rows:
        table.add_row(row["paper"], escape(f"{row['title']} ({row['year']})"), "\n".join(row["experiments"]))
    _console(table).print(table)


def plan_rows(jobs: Sequence[JobPlan]) -> list[dict[str, Any]]:
    """Each job with its runs, and how many of them are current and due."""
    keys = ("paper", "experiment", "id", "runs", "current", "due", "minutes")
    return [{key: getattr(job, key) for key in keys} for job in jobs]


def plan_table(jobs: Sequence[JobPlan], scale: str) -> None:
    """Print the plan of a scale, one line an experiment."""
    table = _table(["replication", "experiment", ">jobs", ">runs", ">current", ">to compute"])
    by_experiment: dict[tuple[str, str], list[JobPlan]] = {}
    for job in jobs:
        by_experiment.setdefault((job.paper, job.experiment), []).append(job)
    for (paper, experiment), mine in by_experiment.items():
        runs = (sum(job.runs for job in mine), sum(job.current for job in mine), sum(job.due for job in mine))
        table.add_row(paper, experiment, str(len(mine)), *map(str, runs))
    console = _console(table)
    console.print(table)
    due = sum(job.due for job in jobs)
    takes = f"; {duration_text(jobs, cores=2)}." if all(job.minutes is not None for job in jobs if job.due) else "."
    every = sum(job.runs for job in jobs)
    console.print(f"Scale {scale}: {several(len(jobs), 'job')}, {several(every, 'run')}, {due} to compute{takes}")
    if due:
        console.print(machine_text())


def cost_rows(found: "Sequence[ExperimentCost]") -> list[dict[str, Any]]:
    """What the due runs of each experiment will cost; `hours` are an estimate and its bounds."""
    return [asdict(cost) for cost in found]


def cost_table(found: "Sequence[ExperimentCost]", gpus: int, device_factor: float, gpu: "Device | None" = None) -> None:
    """Print what the due runs will cost, a line an experiment and a sum a replication, and on what it rests."""
    from common.workflow.cost import core_hours, gpu_hours, total_hours, wall_hours

    if not found:
        return
    table = _table(["experiment", ">jobs", ">hours", ">between", ">wall", ">memory", ">disk", "rests on"])
    for paper in dict.fromkeys(cost.paper for cost in found):
        mine = [cost for cost in found if cost.paper == paper]
        for cost in mine:
            memory = f"{cost.memory_mb / 1000:.1f} GB" + ("" if cost.measured_memory else "?")
            held = cost.gpu_memory
            memory += f", GPU {held.all_seeds:.1f}{'?' if held.former else ''}" if held else ""
            kind, wall = "GPU" if cost.gpu else "core", _hours(wall_hours([cost], gpus))
            row = (f"{paper}/{cost.experiment}", str(cost.jobs), *_spent(cost.hours, kind), wall, memory, _disk([cost]))
            large = [f"does not fit a GPU {gpu.name}"] if gpu and cost.too_large else []
            table.add_row(*row, escape("; ".join([*cost.basis, *large])))
        memory, wall = f"{max(cost.memory_mb for cost in mine) / 1000:.1f} GB", _hours(wall_hours(mine, gpus))
        for kind in ("GPU", "core") if len(mine) > 1 else ():
            these = [cost for cost in mine if cost.gpu == (kind == "GPU")]
            if these:
                jobs, spent = str(sum(cost.jobs for cost in these)), _spent(total_hours(these), kind)
                table.add_row(*(paper, jobs, *spent, wall, memory, _disk(these)), style="bold")
    console = _console(table)
    console.print(table)
    on_gpus = [cost for cost in found if cost.gpu]
    shares = [("GPU", gpu_hours(found), on_gpus)] if on_gpus else []
    shares += [("core", core_hours(found), rest)] if (rest := [cost for cost in found if not cost.gpu]) else []
    alone, beside = _hours(gpu_hours(found)[0] / gpus), _hours(wall_hours(found, gpus))
    many = f"{gpus} GPU{'s' if gpus > 1 else ''}"
    wall = f"; on {many} {beside} hours with as many jobs of cores beside them and what each waits for"
    wall += f" ({alone} if all of it could be shared out)" if alone != beside else ""
    counted = f" Counted operations of jobs that ask for a GPU are reckoned for a GPU {gpu.name}." if gpu else ""
    divided = f" Timings of a CPU are divided by {device_factor:g} where a job asks for a GPU."
    console.print(
        f"In all {' and '.join(_in_all(*share) for share in shares)}{wall if on_gpus else ''}. "
        "It rests on runs recorded of the same or of other settings, on trials, on counted operations, on `minutes` of "
        "config.yaml (what was timed on another machine is carried over to this one), or on the jobs' time limits: of "
        f"such a job nothing is known but that it takes at most {TIMES_LIMIT:g} times as long, with all its attempts."
        f"{counted if on_gpus else ''}{divided if on_gpus and device_factor != 1 else ''}"
        " A ? marks memory that was asked for, not measured; of a GPU, that was counted, or rehearsed of former code."
    )
    if len(found) > 1:
        console.print(_dearest(found, gpus))
    if ill_packed := _packing(found):
        console.print(ill_packed)


def _in_all(kind: str, hours: tuple[float, float, float], found: "Sequence[ExperimentCost]") -> str:
    """Hours of a kind, their bounds, and how many of them rest on nothing but a time limit."""
    total, lower, upper = map(_hours, hours)
    limits = sum(cost.limit_hours for cost in found)
    said = f", {_hours(limits)} of them time limits" if limits else ""
    return f"{total} {kind} hours (between {lower} and {upper}{said})"


def _dearest(found: "Sequence[ExperimentCost]", gpus: int) -> str:
    """The chain of jobs that bounds the wall time, and the three experiments that cost the most."""
    from common.workflow.cost import wall_hours

    last = max(found, key=lambda cost: cost.path_hours)
    chain = ", then ".join(f"{last.paper}/{name}" for name in last.path)
    on_gpus = [cost for cost in found if cost.gpu]
    three = sorted(on_gpus or found, key=lambda cost: -cost.hours[0])[:3]
    kind, where = ("GPU", f" on {gpus} GPUs") if on_gpus else ("core", f" on as many cores as {gpus} jobs take")
    dearest = "; ".join(
        f"{cost.name} ({_hours(cost.hours[0])} {kind} hours, {_hours(wall_hours([cost], gpus))} hours{where})"
        for cost in three
    )
    return f"The longest chain of jobs takes {_hours(last.path_hours)} hours: {chain}. The dearest: {dearest}."


SHORT_JOB, LONG_JOB = 20 / 60, 4.0
"""Hours: below, the start of a job and the queue count for much; above, few partitions start it soon."""


def _packing(found: "Sequence[ExperimentCost]") -> str:
    """The experiments whose jobs are too long for their limit, or shorter or longer than is good; may be ""."""
    known = [cost for cost in found if cost.basis != (TIME_LIMIT,)]
    short = [f"{cost.name} ({60 * cost.longest:.2g})" for cost in known if cost.jobs > 1 and cost.longest < SHORT_JOB]
    long = [f"{cost.name} ({_hours(cost.longest)})" for cost in known if cost.longest > LONG_JOB]
    limit = [f"{cost.name} ({_hours(cost.longest)})" for cost in found if cost not in known and cost.longest > LONG_JOB]
    over = [f"{cost.name} ({_hours(cost.longest_at_most)} of {_hours(cost.runtime)})" for cost in known if cost.tight]
    found_of = {
        "may take longer than their `runtime` and go on at the next attempt (hours)": over,
        "take less than 20 minutes, several of which could be one (`per_job`; minutes)": short,
        "take more than 4 hours (hours)": long,
        "have a time limit above 4 hours, and nothing else is known of them (hours)": limit,
    }
    return " ".join(f"Jobs that {what}: {', '.join(names)}." for what, names in found_of.items() if names)


def budget_table(proposal: "Proposal", decided: "Decided") -> None:
    """Print what a budget keeps of a plan, line by line in the order of its choice, and what is left out."""
    from common.workflow.budget import Decides, rows
    from common.workflow.cost import core_hours

    table = _table(["keep", ">hours", ">open claims", ">others", ">GPU hours so far", ">open claims so far"])
    for cost, mine, hours, claims in rows(proposal, decided):
        row = (cost.name, _most(cost), str(mine.open), str(mine.others), _hours(hours), str(claims))
        table.add_row(*row)
    left = _table(["leave out", ">hours", ">open claims", ">others"])
    for cost in proposal.left_out:
        mine = decided.get((cost.paper, cost.experiment), Decides())
        large = f" (does not fit: {cost.gpu_memory.least:.3g} GB)" if cost.too_large and cost.gpu_memory else ""
        left.add_row(cost.name + large, _most(cost), str(mine.open), str(mine.others))
    console = _console(table, left)
    for one in (table, left):
        if one.row_count:
            console.print(one)
    console.print(
        f"Hours are upper bounds; what is kept takes {_hours(core_hours(proposal.kept)[2])} core hours, too. Open "
        "claims: empirical ones of the document that no published evidence reproduces or contradicts yet, at this "
        "scale or a smaller one."
    )
    if proposal.kept:
        targets = " ".join(f"{cost.paper}__{cost.experiment}" for cost in proposal.kept)
        console.print(f"To compute what is kept: snakemake --profile slurm {targets}", soft_wrap=True)


def _most(cost: "ExperimentCost") -> str:
    return f"{_hours(cost.hours[2])} {'GPU' if cost.gpu else 'core'}"


def _spent(hours: tuple[float, float, float], kind: str) -> tuple[str, str]:
    centre, lower, upper = map(_hours, hours)
    return f"{centre} {kind}", f"{lower}–{upper}"


def _hours(value: float) -> str:
    return f"{value:.0f}" if value >= 10 or not value else "<0.01" if value < 0.01 else f"{value:.2g}"


def _disk(found: "Sequence[ExperimentCost]") -> str:
    known = [cost.disk_mb for cost in found if cost.disk_mb is not None]
    if not known:
        return "?"
    text = f"{sum(known):.3g} MB" if sum(known) < 1000 else f"{sum(known) / 1000:.3g} GB"
    return text if len(known) == len(found) else f"> {text}"


def rehearsal_line(line: Mapping[str, Any]) -> str:
    """What came of a call, or of the metrics and figures of an experiment, as one line."""
    if "check" in line:
        return f"{line['check']}: {line['status']}{': ' if line['reason'] else ''}{line['reason']}"
    name = f"{line['paper']}/{line['experiment']}"
    if "analysis" in line:
        untried = f"{line['status']}: {line['reason']}" if "status" in line else "ok"
        return f"{name}: metrics and figures: {'; '.join(line['analysis']) or untried}"
    made = f" (made: {', '.join(line['made'])})" if line["made"] else ""
    counted = line.get("counted_gb")
    memory = f", {counted[1]:.2f} GB" if counted else ""
    said = f"{line['status']}{memory}{_too_small(line)}{': ' if line['reason'] else ''}{line['reason']}{made}"
    return f"{name}/{line['setting']}: {said}"


def _too_small(line: Mapping[str, Any]) -> str:
    """The GPUs that do not hold all seeds of a call at once: how many they hold, and from which size on one."""
    short = {gb: many for gb, many in line.get("fitting", {}).items() if many < line["seeds"]}
    none = [gb for gb, many in short.items() if not many]
    some = ", ".join(f"{many} on {gb} GB" for gb, many in short.items() if many)
    told = [f"too much for a GPU of {none[-1]} GB"] if none else []
    told += [f"of {line['seeds']} seeds {some} at once"] if some else []
    return f" ({'; '.join(told)})" if told else ""


def rehearsal_table(found: Sequence[Mapping[str, Any]]) -> None:
    """Print what came of a rehearsal: a line an experiment, then each call that is not ok, or not on each GPU."""
    outcomes = ("ok", "refused", "unavailable", "failed")
    table = _table(["experiment", ">calls", *(f">{status}" for status in outcomes), ">memory", ">measured", "made"])
    calls = [line for line in found if "setting" in line]
    for name in dict.fromkeys((line["paper"], line["experiment"]) for line in calls):
        mine = [line for line in calls if (line["paper"], line["experiment"]) == name]
        counts = Counter(line["status"] for line in mine)
        many = [str(len(mine)), *(str(counts[status] or "") for status in outcomes)]
        counted = max((line["counted_gb"][1] for line in mine if line.get("counted_gb")), default=0.0)
        measured = max(line.get("measured_gb", 0.0) for line in mine)
        made = ", ".join(sorted({data for line in mine for data in line["made"]}))
        table.add_row("/".join(name), *many, f"{counted:.2f} GB", f"{measured:.2f} GB", made)
    console = _console(table)
    console.print(table)
    for line in found:
        if line.get("analysis") or line.get("status", "ok") != "ok" or _too_small(line):
            console.print(escape(rehearsal_line(line)))
    console.print(
        "memory: tensors of the largest real call, counted; measured: the peak of its rehearsal. Nothing of it enters "
        "results."
    )


def status_rows(replications: Mapping[str, Replication], scale: str, results: Results) -> list[dict[str, Any]]:
    """Each run with its outcome and reason."""
    return [
        {
            "paper": name,
            "experiment": state.run.experiment,
            "run": state.run.name,
            "outcome": state.outcome.status,
            "reason": state.outcome.reason,
        }
        for name, replication in replications.items()
        for state in run_states(replication, scale, results)
    ]


def status_table(rows: Sequence[Mapping[str, Any]], scale: str, results: Path) -> None:
    """Print outcomes by experiment with each reason once, and the jobs in flight."""
    groups = Counter((row["paper"], row["experiment"], row["outcome"], row["reason"]) for row in rows)
    table = _table(["replication", "experiment", ">runs", "outcome", "reason"])
    for (paper, experiment, outcome, reason), count in groups.items():
        table.add_row(paper, experiment, str(count), _coloured(outcome), escape(reason))
    console = _console(table)
    console.print(table)
    running = in_flight(results, scale)
    for job in running:
        left = duration(remaining(job.fraction, job.seconds))
        console.print(f"running: {job.run}: {job.fraction:.0%}, {left} left")
    done = sum(row["outcome"] in COMPUTED for row in rows)
    failed = sum(row["outcome"] == "failed" for row in rows)
    console.print(f"{done} of {len(rows)} runs done, {failed} failed; {len(running)} jobs running.")


def claims_table(rows: Sequence[Mapping[str, Any]], scale: str) -> None:
    """Print claims and verdicts, with the reason where a claim was not reproduced."""
    table = _table(["claim", ">estimate", ">interval", ">n", "verdict", "reason"])
    paper = None
    for row in rows:
        if row["paper"] != paper:
            paper = row["paper"]
            table.add_row(f"[bold]{paper}[/bold]")
        interval = _interval(row["interval"])
        estimate = "" if row["estimate"] is None else f"{row['estimate']:.3g}"
        count = "" if row["n"] is None else str(row["n"])
        reason = "" if row["verdict"] == "reproduced" else escape(row["reason"] or "")
        table.add_row(*(row["id"], estimate, interval, count, _coloured(row["verdict"]), reason))
    console = _console(table)
    console.print(table)
    console.print(f"{len(rows)} claims at scale {scale}: {counts_text(row['verdict'] for row in rows)}.")


def _interval(bounds: Sequence[float | None] | None) -> str:
    """An interval; nothing where there is none, or where an exact number is both of its ends."""
    low, high = bounds or (None, None)
    if low == high:
        return ""
    return f"[{'-inf' if low is None else f'{low:.3g}'}, {'inf' if high is None else f'{high:.3g}'}]"


def comparison_table(comparison: "Comparison") -> None:
    """Print what differs between two sets of results: verdicts, estimates, cost and environment."""
    from common.reports.text import duration, interval_text, number

    def words(verdict: "Verdict | None") -> str:
        if verdict is None:
            return ""
        measured = (
            "" if verdict.estimate is None else f" {number(verdict.estimate)} ({interval_text(verdict.interval)})"
        )
        return f"{_coloured(verdict.verdict)}{measured}"

    table = _table(["replication", "claim", "A", "B", "asked"])
    for change in ("verdict", "estimate", "only in A", "only in B"):
        for pair in comparison.changed(change):
            asked = "" if pair.alike or change != "verdict" else "other rule, scale or seeds"
            table.add_row(pair.paper, pair.id, words(pair.a), words(pair.b), asked)
    costs = _table(["replication", "experiment", ">A", ">B", ">B/A", "what differs"])
    for cost in comparison.costs:
        differs = "; ".join(f"{what} {a} → {b}" for what, a, b in cost.environment)
        spent = (duration(cost.a.seconds), duration(cost.b.seconds), number(cost.ratio, 2))
        costs.add_row(cost.paper, cost.experiment, *spent, differs)
    console = _console(table, costs)
    console.print(f"A: {comparison.a.label}\nB: {comparison.b.label}")
    for one in (table, costs):
        if one.row_count:
            console.print(one)
    counts = {change: len(comparison.changed(change)) for change in ("verdict", "estimate", "none")}
    console.print(
        f"{len(comparison.claims)} claims: {counts['verdict']} changed their verdict, {counts['estimate']} their "
        f"estimate alone, {counts['none']} are equal to the last digit."
    )
    console.print(comparison.stability)


def counts_text(values: Iterable[str]) -> str:
    """`3 reproduced, 1 inconclusive`."""
    return ", ".join(f"{count} {value}" for value, count in Counter(values).items()) or "none"


_NARROWEST = {"claim": 24, "verdict": 13, "document": 20, "reason": 20, "rests on": 20, "what differs": 20}
"""Characters to which a column of prose may shrink; the others keep their width."""


def _table(columns: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        name = column.lstrip(">")
        prose = name in _NARROWEST or name in ("A", "B", "asked")
        table.add_column(
            name,
            justify="right" if column.startswith(">") else "left",
            overflow="fold",
            no_wrap=not prose,
            min_width=_NARROWEST.get(name),
        )
    return table


def _console(*tables: Table) -> Console:
    """A console as wide as the terminal, or as the tables need at least; in a pipe no line of theirs is broken."""
    console = Console()
    needed = [Measurement.get(console, console.options.update(max_width=100_000), one) for one in tables]
    widths = [one.minimum if console.is_terminal else one.maximum for one in needed]
    return Console(width=max(console.width, *widths))


def _coloured(word: str) -> str:
    colour = _COLOURS.get(word)
    text = word.replace("_", " ")
    return f"[{colour}]{text}[/{colour}]" if colour else text
