"""`replicate publish`: evidence that a visitor reads at once, in git, with the commit that each experiment was run at.

Published is only what can be traced: every run current, of code, parameters and data that are committed, computed with
the present locks, and judged by the rules that stood in claims.yaml at the commit it was computed from, or that say why
they were amended. Source may be committed after its runs, unchanged; rules have to be older than these all the same.
"""

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd

from common.claims import Claim, judge, load_claims
from common.claims.cells import DIVERGED, matching
from common.claims.estimates import SEED
from common.claims.metric_rows import published_text, rows_of
from common.errors import UserError
from common.experiments import provenance
from common.experiments.outcomes import COMPUTED
from common.experiments.provenance import git
from common.experiments.replication import Replication
from common.files import finite, published, read_json, read_json_or, write_atomically, write_json
from common.workflow.analyse import track_metrics
from common.workflow.disclosure import undisclosed_settings
from common.workflow.rules import (
    Rule,
    check_older,
    check_published,
    metrics_at,
    of,
    rules,
    rules_at,
    since,
    worded_at,
)
from common.workflow.state import Folders, RunState, analysis_is_current, run_states

CSV_LIMIT = 100_000  # bytes of a figure's data that are kept in git; what is larger comes with the runs

_UNDECIDED = ("not decidable at this scale", "not run")


def publish(replication: Replication, experiments: Sequence[str], scale: str, folders: Folders) -> Path:
    """Write the evidence of experiments to `reports/published/<scale>/<paper>/`, beside that of the others.

    Raises:
        UserError: the checkout or a run is not in a state that can be traced; says which and what to do.
    """
    where = f"{replication.name} at scale {scale}"
    root = folders.root
    if provenance.dirty(root) is not False:
        files = ", ".join(provenance.uncommitted(root)[:5]) or "git does not say which"
        raise UserError(f"publish: files differ from the commit ({files}); commit them and run what is due.")
    analysis = folders.analysis(scale, replication.name)
    if not analysis_is_current(replication, scale, folders):
        renewed = f"`replicate claims {replication.name} --scale {scale}` renews it"
        raise UserError(f"publish {where}: its analysis is not current; {renewed}.")
    for problem in folders.problems(scale, replication.name):
        if problem.split(":")[0] in experiments:
            raise UserError(f"publish {where}: {problem}; correct it and run `make reports SCALE={scale}` first.")
    judged = [v for v in read_json(analysis / "verdicts.json") if v["experiment"] in experiments]
    place = root / "reports" / "published" / scale / replication.name
    if all(verdict["verdict"] in _UNDECIDED for verdict in judged) and not place.is_dir():
        raise UserError(f"publish {where}: no claim is decided at this scale; there is no evidence to publish.")
    states = run_states(replication, scale, folders.store)
    before = _entries(place / "verdicts.json")
    then, fresh = (rows_of(read_json_or(folder / "metrics.json", {})) for folder in (place, analysis))
    claims = load_claims(replication.folder / "claims.yaml")
    now = rules(replication, scale, claims)
    made = {}
    for experiment in experiments:
        if not replication.experiment(experiment).runs_at(scale):
            continue  # what was published of it at this scale, when it was still run, stays
        mine = [s for s in states if s.run.experiment == experiment]
        facts = [_traced(s, folders) for s in mine]
        commits = sorted({fact["rules_at"] for fact in facts})
        checked = [claim for claim in claims if claim.experiment == experiment]
        same = {c.id for c in checked if _same_numbers(c, then.get(experiment, []), fresh.get(experiment, []))}
        others = [c for c in checked if c.id not in same and _other_code(now[c.id], of(c, before))]
        if others and (commit := _commit_of_metrics(replication, others, before, place, scale)):
            records = analysis / f"{experiment}.parquet"
            former = metrics_at(replication, experiment, records, commit)
            same |= {c.id for c in others if _same_numbers(c, former, fresh.get(experiment, []))}
        for claim in checked:
            check_published(claim, now[claim.id], of(claim, before), same_numbers=claim.id in same, scale=scale)
        rule = {name: replace(rule, metrics="") if name in same else rule for name, rule in now.items()}
        runs: dict[str, list[Mapping[str, Any]]] = {commit: [] for commit in commits}
        for state_of, fact in zip(mine, facts, strict=True):
            runs[fact["rules_at"]].append(state_of.run.axes)
        _check_older(replication, checked, rule, runs, scale, analysis=analysis)
        made[experiment] = _summary(facts)
    if not made:
        raise UserError(f"publish {where}: {experiments[0]}: {replication.experiment(experiments[0]).left_out}.")
    if untold := next(undisclosed_settings(replication, (scale,), made), None):
        raise UserError(f"publish {where}: {untold}")
    _write(analysis, place, made, scale, _decided_by(replication, claims, now))
    track_metrics(replication, scale, [verdict for verdict in judged if verdict["experiment"] in made])
    return place


def _line_each(entries: Sequence[Mapping[str, Any]]) -> str:
    """JSON of a list, a line an entry, which keeps git small and its differences readable."""
    lines = (json.dumps(finite(entry), sort_keys=True, separators=(",", ":"), ensure_ascii=False) for entry in entries)
    return "[\n" + ",\n".join(lines) + "\n]"


def _write_verdicts(place: Path, verdicts: Sequence[Mapping[str, Any]]) -> None:
    write_atomically(place / "verdicts.json", f"{_line_each(verdicts)}\n")


def judge_again(replication: Replication, scale: str, root: Path) -> list[str]:
    """Judge the published metrics of a paper by the rules that stand in claims.yaml now; needs no runs.

    For rules that changed after their runs: metrics, figures and provenance stay as they are. A grid that changed has
    to be disclosed as well, and counts as that of the rule from then on.

    Returns:
        The claims whose published entry changed.

    Raises:
        UserError: nothing is published, a rule changed without saying so, or one asks for a metric that was not
            published (then its experiment has to be run and published again).
    """
    place = root / "reports" / "published" / scale / replication.name
    if not (place / "provenance.json").is_file():
        raise UserError(
            f"publish {replication.name} at scale {scale}: nothing is published that could be judged again."
        )
    made = read_json(place / "provenance.json")["experiments"]
    before = _entries(place / "verdicts.json")
    claims = [c for c in load_claims(replication.folder / "claims.yaml") if c.experiment in made]
    rows = rows_of(read_json(place / "metrics.json"))
    now = rules(replication, scale, claims)
    for experiment, facts in made.items():
        mine = [claim for claim in claims if claim.experiment == experiment]
        for claim in mine:
            check_published(claim, now[claim.id], of(claim, before), same_numbers=True, scale=scale)
        commits = facts.get("rules_at", facts["commit"]).split(", ")
        computed = dict.fromkeys(commits, rows.get(experiment, []))
        worded = {claim.id: Rule(now[claim.id].claim) for claim in mine}
        fresh = [claim for claim in mine if _rule_of(of(claim, before)) != now[claim.id].claim]
        _check_older(replication, fresh, worded, computed, scale, published_by=before)  # the others it was published by
    decided_by = _decided_by(replication, claims, now)
    for claim in claims:
        known = (of(claim, before) or {}).get("decided_by", {})
        grid = {"settings": ""} if _of_other_settings(now[claim.id], known) else {}
        decided_by[claim.id]["decided_by"] = {**known, **grid, "claim": now[claim.id].claim}
    verdicts = []
    for verdict in judged_anew(replication, scale, place):
        entry = {**verdict, **decided_by[verdict["id"]], "commit": made[verdict["experiment"]]["commit"]}
        then = before.get(entry["id"])
        verdicts.append(then if then and close(then, entry) else entry)  # another machine rounds otherwise
    _write_verdicts(place, verdicts)
    track_metrics(replication, scale, verdicts)
    after = _entries(place / "verdicts.json")  # as they are read back: a tuple is a list there
    return [name for name in {**after, **before} if after.get(name) != before.get(name)]


def judged_anew(replication: Replication, scale: str, place: Path) -> list[dict[str, Any]]:
    """What the present rules say of the metrics in `place`, in the order of claims.yaml.

    "not run" where these are older than what a claim reads: a column is missing, they are of other settings, or an
    amendment says that its numbers were made otherwise when the runs were published.
    """
    tables = {name: pd.DataFrame(rows) for name, rows in rows_of(read_json(place / "metrics.json")).items()}
    claims = [claim for claim in load_claims(replication.folder / "claims.yaml") if claim.experiment in tables]
    made = read_json(place / "provenance.json")["experiments"]
    published = _entries(place / "verdicts.json")
    now = rules(replication, scale, claims)
    verdicts = []
    for claim in claims:
        table = tables[claim.experiment]
        known = (of(claim, published) or {}).get("decided_by", {})
        current = known.get("metrics") == now[claim.id].metrics
        finished = None if current else made[claim.experiment]["finished"]
        older = _older_metrics(claim, table, finished, _of_other_settings(now[claim.id], known))
        verdict = judge(claim, table.iloc[:0] if older else table, paper=replication.name, scale=scale)
        verdicts.append((replace(verdict, reason=older) if older else verdict).to_json())
    return verdicts


def _of_other_settings(now: Rule, published: Mapping[str, str]) -> bool:
    """Whether what was published is known to be of other runs than a rule selects now, whatever their seeds.

    Once it was judged by such a rule, the digest of its settings is ''.
    """
    return bool(now.settings) and published.get("settings", now.settings) != now.settings


def _older_metrics(claim: Claim, table: pd.DataFrame, finished: str | None, other_settings: bool) -> str | None:
    """Why published metrics are not what a claim reads; None if they are.

    Args:
        finished: when their last run ended, if the present code of metrics is not known to have made them.
        other_settings: whether their runs have other settings than those that the claim selects.
    """
    if other_settings:
        said = [entry.former.settings for entry in claim.amended if entry.former and entry.former.settings]
        of_which = f" ({said[-1]})" if said else ""
        return f"What was published has other settings{of_which}: it is judged with the next evidence."
    read = {*claim.estimate.variables(), *(axis for where in claim.estimate.selections() for axis in where)}
    missing = sorted(read - set(table.columns) - {DIVERGED})
    if missing:
        return f"What was published does not hold {missing[0]} yet: it is judged with the next evidence."
    for amendment in claim.amended:
        if amendment.former and amendment.former.metrics and finished and finished[:10] <= amendment.date.isoformat():
            former = f"What was published was made otherwise ({amendment.former.metrics})"
            return f"{former}: it is judged with the next evidence."
    return None


def _traced(state: RunState, folders: Folders) -> dict[str, Any]:
    """Provenance of a run that may be published."""
    if not state.current or state.outcome.status not in COMPUTED:
        raise UserError(f"publish: {state.run} is {state.outcome.status}: {state.outcome.reason}; run it first.")
    facts = folders.store.provenance(state.run)
    if facts is None:
        raise UserError(f"publish: {state.run} has no provenance.json; run it again.")
    if facts["commit"] == "unknown":
        raise UserError(f"publish: {state.run} was computed outside of git; compute it in a clone.")
    if facts["locks"] != provenance.lock_digests(folders.root):
        raise UserError(f"publish: {state.run} was computed with other locked versions; run it again.")
    stored = folders.store.stored(state.run)
    if stored is not None:  # what it counts as since it was accepted
        facts |= {"code": stored.inputs["code"], "accepted": stored.accepted}
    facts["rules_at"] = facts["commit"]
    if facts["dirty"] is not False:  # a current run is one of this code, these parameters and data, which are committed
        facts["commit"] = provenance.commit(folders.root)
    return facts


def _check_older(
    replication: Replication,
    claims: Sequence[Claim],
    now: Mapping[str, Rule],
    runs: Mapping[str, Sequence[Mapping[str, Any]]],
    scale: str,
    *,
    analysis: Path | None = None,
    published_by: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Refuse rules that are younger than the runs which they judge, unless they say so.

    Args:
        runs: axes and values of each, by the commit that they were computed from.
        analysis: records and metrics of the runs; then metrics of other code that are the same numbers are no change.
        published_by: where claims.yaml alone is compared: verdicts whose rules stand for those of a commit that this
            history does not hold (any more).
    """
    if not claims:
        return
    for commit, computed in sorted(runs.items()):
        if published_by is None:
            then = rules_at(replication, commit, scale)
        elif git(replication.root, "cat-file", "-e", f"{commit}^{{commit}}") is None:
            then = {name: Rule(**entry["decided_by"]) for name, entry in published_by.items() if "decided_by" in entry}
        else:
            then = worded_at(replication, commit)
        table, former = pd.DataFrame(computed), None
        for claim in claims:
            before = of(claim, then)
            rule = now[claim.id]
            if analysis and before and rule.metrics not in ("", before.metrics):
                if former is None:
                    former = metrics_at(replication, claim.experiment, analysis / f"{claim.experiment}.parquet", commit)
                fresh = read_json(analysis / "metrics.json")[claim.experiment]
                rule = replace(rule, metrics="") if _same_numbers(claim, former, fresh) else rule
            check_older(claim, rule, before, commit, seeds=_seeds(claim, table), scale=scale)


def _seeds(claim: Claim, table: pd.DataFrame) -> set[int]:
    """The seeds of the runs that a claim reads."""
    read = [where for where in claim.estimate.selections() if {SEED, *where} <= set(table.columns)]
    return {int(seed) for where in read for seed in matching(table, where)[SEED]}


def _decided_by(
    replication: Replication, claims: Sequence[Claim], now: Mapping[str, Rule]
) -> dict[str, dict[str, Any]]:
    """What a published verdict says of its rule: digests, and the commit since which it has been decided so."""
    first = since(replication, claims)
    return {claim.id: {"decided_by": asdict(now[claim.id]), "rule_commit": first.get(claim.id)} for claim in claims}


def _entries(path: Path) -> dict[str, dict[str, Any]]:
    """Published verdicts by id."""
    return {entry["id"]: entry for entry in read_json_or(path, [])}


def _other_code(now: Rule, before: Mapping[str, Any] | None) -> bool:
    """Whether the code of a claim's metrics is not that by which it was published."""
    return bool(before and before.get("decided_by", {}).get("metrics") not in (None, "", now.metrics))


def _commit_of_metrics(
    replication: Replication, claims: Sequence[Claim], before: Mapping[str, Any], place: Path, scale: str
) -> str | None:
    """The last commit of published evidence whose code of metrics is that by which these claims were published."""
    listed = git(replication.root, "log", "--format=%H", "--", str(place / "verdicts.json")) or ""
    for commit in listed.split():
        then = rules_at(replication, commit, scale)
        pairs = [(of(claim, then), of(claim, before)) for claim in claims]
        if any(rule and entry and rule.metrics == entry["decided_by"]["metrics"] for rule, entry in pairs):
            return commit
    return None


def _rule_of(entry: Mapping[str, Any] | None) -> str | None:
    """Digest of the rule that a published verdict was judged by."""
    digest: str | None = (entry or {}).get("decided_by", {}).get("claim")
    return digest


def _same_numbers(claim: Claim, then: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> bool:
    """Whether what a claim reads of each run is the same by both tables, to six digits."""
    names = ("regime_reached", *claim.estimate.variables())
    before, after = ({str(row["run"]): row for row in rows} for rows in (then, now))
    return before.keys() <= after.keys() and all(
        close(before.get(run, {}).get(name), after[run].get(name)) for run in after for name in names
    )


def close(value: Any, other: Any) -> bool:
    """Whether two values of a JSON file are equal, numbers to six digits; a tuple is a list there."""
    if _missing(value) or _missing(other):
        return _missing(value) and _missing(other)
    if isinstance(value, list | tuple) and isinstance(other, list | tuple):
        return len(value) == len(other) and all(map(close, value, other))
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(close(value[name], other[name]) for name in value)
    if isinstance(value, bool | str) or not isinstance(value, int | float) or not isinstance(other, int | float):
        return bool(value == other)
    return math.isclose(value, other, rel_tol=1e-6)


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _summary(facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    commits, rules_at = (sorted({fact[name] for fact in facts}) for name in ("commit", "rules_at"))
    every = [entry for fact in facts for entry in fact["accepted"]]
    accepted = [entry for number, entry in enumerate(every) if entry not in every[:number]]
    return {
        "commit": commits[-1] if len(commits) == 1 else ", ".join(commits),
        "runs": len(facts),
        "devices": sorted({fact["device"]["name"] for fact in facts}),
        "versions": facts[0]["versions"],
        "locks": facts[0]["locks"],
        "code": facts[0]["code"],
        **({"accepted": accepted} if accepted else {}),
        **({"rules_at": ", ".join(rules_at)} if rules_at != commits else {}),
        "data": facts[0]["inputs"]["data"],
        "finished": max(fact["finished"] for fact in facts),
        "seconds": sum(fact["seconds"] for fact in facts),
        "peak_memory_mb": max(fact["peak_memory_mb"] for fact in facts),
    }


def _write(
    analysis: Path,
    place: Path,
    made: Mapping[str, Mapping[str, Any]],
    scale: str,
    decided_by: Mapping[str, Mapping[str, Any]],
) -> None:
    """Replace the entries of the experiments in `made`, and of claims that moved to one, keeping those of others."""
    verdicts = [
        {**v, **decided_by[v["id"]], "commit": made[v["experiment"]]["commit"]}
        for v in _mine(analysis / "verdicts.json", made)
    ]
    figures = _mine(analysis / "figures.json", made)
    judged = {verdict["id"] for verdict in verdicts}
    others = [entry for entry in _others(place / "verdicts.json", made) if entry["id"] not in judged]
    _write_verdicts(place, [*others, *verdicts])
    kept = _others(place / "figures.json", made)
    (place / "figures").mkdir(parents=True, exist_ok=True)
    small = {f["csv"] for f in figures if f["csv"] and (analysis / f["csv"]).stat().st_size <= CSV_LIMIT}
    figures = [{**figure, "png": None, "csv": figure["csv"] if figure["csv"] in small else None} for figure in figures]
    for name in (*(figure["svg"] for figure in figures), *small):
        shutil.copyfile(analysis / name, place / name)
    write_json(place / "figures.json", [*kept, *figures])
    wanted = {Path(f[kind]).name for f in [*kept, *figures] for kind in ("svg", "csv") if f.get(kind)}
    for path in published(place / "figures"):
        if path.name not in wanted:
            path.unlink()
    metrics = rows_of(read_json_or(place / "metrics.json", {}))
    fresh = read_json(analysis / "metrics.json")
    write_atomically(place / "metrics.json", published_text({**metrics, **{name: fresh[name] for name in made}}))
    path = place / "provenance.json"
    before = read_json_or(path, {"experiments": {}})["experiments"]
    write_json(path, {"scale": scale, "experiments": {**before, **made}})


def _mine(path: Path, made: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [entry for entry in read_json(path) if entry["experiment"] in made]


def _others(path: Path, made: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [entry for entry in read_json_or(path, []) if entry["experiment"] not in made]
