"""What a budget keeps of a plan, by a small made-up one."""

from dataclasses import replace
from typing import Any

import pytest

from common.files import write_json
from common.workflow.budget import Decides, decided_by, propose, refuse, rows
from common.workflow.cost import ExperimentCost
from common.workflow.devices import DEVICES
from common.workflow.tables import budget_table, cost_table
from common.workflow.timings import GpuMemory
from tests.conftest import Project


def cost(experiment: str, hours: float, **more: Any) -> ExperimentCost:
    """An experiment that takes half as many GPU hours as it may take at most."""
    facts: dict[str, Any] = {
        "paper": "made", "experiment": experiment, "jobs": 2, "runs": 4, "devices": 1, "gpu": True,
        "hours": (hours / 2, 0.0, hours), "shortest": hours / 4, "longest": hours / 4, "needs": (),
        "path": (experiment,), "path_hours": hours / 4, "memory_mb": 1000, "measured_memory": True, "disk_mb": 1.0,
        "basis": ("minutes",),
    }  # fmt: skip
    return ExperimentCost(**facts | more)


PLAN = [
    cost("dense", 2.0),  # 2 claims an hour
    cost("started_from", 4.0),  # decides nothing itself
    cost("starting", 4.0, needs=("started_from",), path=("started_from", "starting"), path_hours=2.0),  # 1, with both
    cost("sparse", 10.0),  # 0.3
    cost("known", 1.0),  # decided before
    cost("idle", 1.0),  # decides nothing
    cost("processor", 3.0, gpu=False),  # no GPU hours
]
DECIDED = {
    ("made", "dense"): Decides(4),
    ("made", "starting"): Decides(8),
    ("made", "sparse"): Decides(3),
    ("made", "known"): Decides(0, 9),
    ("made", "processor"): Decides(1, 1),
}


def kept(budget: float) -> list[str]:
    return [one.experiment for one in propose(PLAN, DECIDED, budget).kept]


@pytest.mark.parametrize(
    ("budget", "experiments"),
    [
        (0.0, ["processor"]),
        (1.5, ["processor", "known"]),
        (2.0, ["processor", "dense"]),
        (9.9, ["processor", "dense", "known"]),  # what `starting` starts from does not fit
        (10.0, ["processor", "dense", "started_from", "starting"]),
        (13.0, ["processor", "dense", "started_from", "starting", "known"]),
        (20.0, ["processor", "dense", "started_from", "starting", "sparse"]),
        (99.0, ["processor", "dense", "started_from", "starting", "sparse", "known"]),
    ],
)
def test_the_most_open_claims_an_hour_go_first_with_what_they_start_from(budget: float, experiments: list[str]) -> None:
    assert kept(budget) == experiments


def test_the_choice_does_not_depend_on_the_order_of_the_plan() -> None:
    plan = [cost("b", 1.0), cost("a", 1.0)]
    decided = {("made", name): Decides(1) for name in "ab"}
    for found in (plan, plan[::-1]):
        assert [one.experiment for one in propose(found, decided, 1.0).kept] == ["a"]


def test_what_does_not_fit_the_gpu_is_left_out_with_all_that_starts_from_it(capsys: pytest.CaptureFixture[str]) -> None:
    large = replace(PLAN[1], too_large=True, gpu_memory=GpuMemory(28.8, 57.6, former=True))
    plan = [PLAN[0], large, *PLAN[2:]]
    proposal = propose(plan, DECIDED, 99.0)
    assert [one.experiment for one in proposal.kept] == ["processor", "dense", "sparse", "known"]
    said = str(refuse(plan, proposal, DECIDED, 99.0))
    assert said.startswith("the plan holds what does not fit the GPU's memory (made/started_from); the 4 experiments ")
    budget_table(proposal, DECIDED)
    assert "made/started_from (does not fit: 28.8 GB)" in capsys.readouterr().out
    cost_table(plan, gpus=4, device_factor=1.0, gpu=DEVICES["rtx4090"])
    said = " ".join(capsys.readouterr().out.split())
    assert "1.0 GB, GPU 57.6?" in said
    assert "minutes; does not fit a GPU rtx4090" in said


def test_gpu_hours_and_core_hours_are_told_apart_with_their_time_limits(capsys: pytest.CaptureFixture[str]) -> None:
    limit = cost("unknown", 40.0, gpu=False, path_hours=20.0, limit_hours=19.0, basis=("counted (cpu)", "time limit"))
    cost_table([cost("one", 8.0), cost("other", 2.0, gpu=False), limit], 4, 1.0, DEVICES["h100"])
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "In all 4 GPU hours (between 0 and 8) and 21 core hours (between 0 and 42, 19 of them time limits); on 4 GPUs "
        "20 hours with as many jobs of cores beside them and what each waits for (1 if all of it could be shared out). "
    ) in said
    assert "reckoned for a GPU h100" in said
    assert "divided by" not in said


def test_every_line_adds_up_and_what_is_left_out_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    proposal = propose(PLAN, DECIDED, 10.0)
    assert [(one.experiment, mine.open, hours, claims) for one, mine, hours, claims in rows(proposal, DECIDED)] == [
        ("processor", 1, 0.0, 1),
        ("dense", 4, 2.0, 5),
        ("started_from", 0, 6.0, 5),
        ("starting", 8, 10.0, 13),
    ]
    budget_table(proposal, DECIDED)
    said = capsys.readouterr().out
    lines = [line.split() for line in said.splitlines()]
    assert ["made/starting", "4", "GPU", "8", "0", "10", "13"] in lines
    assert ["made/sparse", "10", "GPU", "3", "0"] in lines
    assert "snakemake --profile slurm made__processor made__dense made__started_from made__starting" in said
    assert str(refuse(PLAN, proposal, DECIDED, 10.0)).startswith(
        "the plan may take 22 GPU hours, more than the budget of 10; the 4 experiments kept above take 10 at most and "
        "are to decide 13 of 16 open claims."
    )
    dear = [cost("dear", 3034.0)]
    assert "may take 3,030 GPU hours," in str(refuse(dear, propose(dear, DECIDED, 10.0), DECIDED, 10.0))


def test_the_plan_names_its_longest_chain_its_dearest_experiments_and_jobs_of_a_bad_size(
    capsys: pytest.CaptureFixture[str],
) -> None:
    limit = cost("unknown", 40.0, longest=10.0, basis=("time limit",))
    long = cost("long", 30.0, longest=5.0, longest_at_most=9.0, runtime=8.0, basis=("recorded (cuda)",))
    cost_table([*PLAN, long, limit], gpus=4, device_factor=1.0)
    said = " ".join(capsys.readouterr().out.split())
    assert "The longest chain of jobs takes 10 hours: made/unknown." in said
    assert "made/unknown (20 GPU hours, 10 hours on 4 GPUs); made/long (15 GPU hours," in said
    assert "longer than their `runtime` and go on at the next attempt (hours): made/long (9 of 8)." in said
    assert "several of which could be one (`per_job`; minutes): made/known (15), made/idle (15)." in said
    assert "Jobs that take more than 4 hours (hours): made/long (5)." in said
    assert "and nothing else is known of them (hours): made/unknown (10)." in said
    waits = cost("waits", 1.0, path=("started_from", "waits"), path_hours=4.0)
    cost_table([*PLAN, waits], gpus=4, device_factor=1.0)
    said = " ".join(capsys.readouterr().out.split())
    assert "The longest chain of jobs takes 4 hours: made/started_from, then made/waits. The dearest: made/spar" in said
    cost_table([cost("alone", 4.0)], gpus=4, device_factor=1.0)
    said = capsys.readouterr().out
    assert "In all" in said
    assert "longest chain" not in said
    assert "Jobs that" not in said


def test_published_evidence_decides_what_is_open(project: Project) -> None:
    descent = ("decay", "descent")
    assert decided_by(project.replication(), "smoke") == {}  # its claims are decidable from laptop on
    assert decided_by(project.replication(), "paper") == {descent: Decides(open=1, others=1)}
    for scale, verdict, opened in (
        ("workstation", "inconclusive", 1),
        ("workstation", "contradicted", 0),
        ("paper", "reproduced", 1),  # a larger scale than the one that is planned
    ):
        path = project.root / "reports" / "published" / scale / "decay" / "verdicts.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        known = {"id": "fig1-larger-steps-descend-faster", "statement": "…", "verdict": verdict}
        write_json(path, [known])
        found = decided_by(project.replication(), "workstation")[descent]
        assert (found.open, found.others) == (opened, 2 - opened), (scale, verdict)
        path.unlink()
