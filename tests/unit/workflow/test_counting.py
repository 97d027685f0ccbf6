"""Counting a call: what its first progress holds, carried on to the whole, and the plan that rests on it."""

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from common.cli import app
from common.experiments.calibration import reference
from common.files import read_json, write_json
from common.workflow import counting, timings
from common.workflow.cost import costs
from common.workflow.counting import Observed, count, keep_count
from common.workflow.counts import Compared, comparison, count_line
from common.workflow.devices import DEVICES, core_seconds, rates
from common.workflow.rehearsed import rehearsals
from common.workflow.rehearsed_call import Stage
from common.workflow.timings import Timings
from tests.conftest import Project
from tests.unit.workflow.test_rehearse import plant

TRAINS = """
    data, weights = torch.ones(50, 20), torch.ones(len(runs), 20, 3)
    for step in range(runs[0].steps):
        made = data @ weights
        context.progress(step + 1, runs[0].steps)
    for run in runs:
        context.save(run, "weights", {"w": weights[0]})
        context.record(run, loss=float(made.sum()))
"""
CONFIG = """
descent:
  base: {steps: 4000}
  grid: {learning_rate: [0.1, 0.2], seed: 4}
  together: [seed]
  resources:
    laptop: {minutes: 1}
    paper: {gpus: 1}
measurement:
  needs:
    start: {experiment: descent, match: [learning_rate, seed]}
  grid: {learning_rate: [0.1], seed: 4}
  together: [seed]
"""
STEPS = 4000
STEP = 4 * 2 * 50 * 20 * 3  # floating-point operations: four seeds


@pytest.fixture(autouse=True)
def on_the_reference_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timings, "here", reference)


def counted(project: Project, tmp_path: Path, seconds: float, scale: str = "paper") -> list[dict[str, object]]:
    """What is counted of the calls of `descent`, kept for the plan."""
    stage = Stage(project.folders, tmp_path / "scratch", torch.device("cpu"), 4.0, seconds=seconds)
    replication = project.replication()
    found = [count(stage, replication, call) for call in rehearsals(replication, "descent", scale)]
    for one in found:
        keep_count(project.folders, scale, "decay", one)
    return found


def products(amounts: dict[str, int]) -> int:
    """Floating-point operations of products of either kind: torch chooses which."""
    return amounts.get("products", 0) + amounts.get("batched_products", 0)


def test_a_call_that_ends_is_counted_whole_and_one_that_does_not_at_parts_of_it(
    in_process: Project, tmp_path: Path
) -> None:
    plant(in_process, TRAINS, CONFIG)
    (whole,) = counted(in_process, tmp_path, seconds=100)
    assert whole["settings"] == ["learning_rate=0.1", "learning_rate=0.2"]
    ((fraction, amounts),) = whole["marks"]
    assert (fraction, products(amounts)) == (1.0, STEPS * STEP)
    (part,) = counted(in_process, tmp_path, seconds=0)
    fractions = [fraction for fraction, _ in part["marks"]]
    assert fractions[0] == 1 / STEPS
    assert fractions[0] < fractions[-1] < 1.0
    for fraction, amounts in part["marks"]:
        assert products(amounts) == round(STEPS * fraction) * STEP


def test_the_plan_rests_on_what_was_counted_until_the_code_changes(in_process: Project, tmp_path: Path) -> None:
    plant(in_process, TRAINS, CONFIG)
    (whole,) = counted(in_process, tmp_path, seconds=100)
    seconds = core_seconds(whole["marks"][0][1], rates(reference().seconds))
    for marks in ("all", "a part"):
        if marks == "a part":
            counted(in_process, tmp_path, seconds=0)
        descent, _ = costs(in_process.replication(), "paper", in_process.folders.store)
        assert descent.basis == ("counted (cpu)",)
        assert descent.hours[0] == pytest.approx(2 * seconds / 3600, rel=0.02)
        assert descent.hours[1] < descent.hours[0] / 1.9
        assert descent.hours[2] > descent.hours[0] * 1.9
    on_gpu = costs(in_process.replication(), "paper", in_process.folders.store, gpu=DEVICES["h100"])[0]
    assert on_gpu.basis == ("counted (h100)",)
    assert on_gpu.hours[1] < on_gpu.hours[0] < on_gpu.hours[2]
    in_process.file("descent.py").write_text(in_process.file("descent.py").read_text() + "\n    context.log('')\n")
    changed = Timings(in_process.replication(), "paper", in_process.folders.store)
    job = in_process.replication().jobs("paper")[0]
    assert changed.run(job.runs[0], job).basis == "time limit"


@pytest.mark.parametrize(
    ("fraction", "counted_with"), [("(step + 1) / 40", {1, 2}), ("(step + 1) / 40 / len(runs)", {1, 2, 4})]
)
def test_a_call_of_many_seeds_is_carried_on_from_two_where_its_progress_allows(
    in_process: Project, tmp_path: Path, fraction: str, counted_with: set[int]
) -> None:
    """Ten operations of all seeds together, and a product of each seed, at every step."""
    seen = tmp_path / "seen"
    body = f"""
    with open({str(seen)!r}, "a") as stream:
        stream.write(str(len(runs)))
    data = torch.ones(5, 6)
    for step in range(20):
        shared = [data @ data.T for _ in range(10)]
        own = [data @ data.T for _ in runs]
        context.progress({fraction}, 1)
    """
    plant(in_process, body, CONFIG)
    (found,) = counted(in_process, tmp_path, seconds=0)
    assert set(map(int, seen.read_text())) == counted_with
    for fraction_done, amounts in found["marks"]:
        steps = round(40 * fraction_done * (1 if counted_with == {1, 2} else 4))
        assert products(amounts) == steps * (10 + 4) * 2 * 5 * 5 * 6


def test_an_experiment_is_counted_alone_by_command(in_process: Project) -> None:
    plant(in_process, TRAINS, CONFIG.replace("[0.1, 0.2]", "[0.1, 0.5]"))  # that its claims speak of
    done = CliRunner().invoke(app, ["plan", "decay/descent", "--scale", "paper", "--count", "5"])
    assert done.exit_code == 0, done.output
    assert "counted (h100)" in " ".join(done.stdout.split())  # what a plan is made for where no GPU is named
    entries = read_json(timings.counts_path(in_process.folders.store, "paper", "decay"))
    assert [entry["experiment"] for entry in entries] == ["descent"]


@pytest.mark.parametrize("trouble", ["raise RuntimeError('too large')", "time_passes()"])
def test_a_call_that_fails_or_takes_too_long_with_real_sizes_is_counted_with_small_ones(
    in_process: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    """A thousand steps of a product that grows with the size and one that does not."""
    monkeypatch.setattr(counting, "REAL_SECONDS", 0.2)
    body = f"""
    import time
    images = runs[0].steps
    def time_passes():
        begun = time.process_time()
        while time.process_time() < begun + 0.1:
            pass
    for step in range(1000):
        if images > 200:
            {trouble}
        torch.ones(images, 6) @ torch.ones(6, 5)
        torch.ones(7, 6) @ torch.ones(6, 5)
        if step % 5 == 4:
            context.progress(step + 1, 1000)
    """
    config = CONFIG.replace("  resources:", "  rehearsal: {sizes: {steps: 50}}\n  resources:", 1)
    plant(in_process, body, config.replace("seed: 4}", "seed: 1}"))
    (found,) = counted(in_process, tmp_path, seconds=100)
    (_, amounts) = found["marks"][-1]
    assert products(amounts) == 1000 * (STEPS + 7) * 2 * 6 * 5
    assert amounts["operations"] < 50_000  # as many as there are at any size


def test_what_is_set_up_once_and_cached_does_not_outweigh_what_a_call_does() -> None:
    first = Observed({0.1: {"operations": 5000, "products": 10}, 0.2: {"operations": 5010, "products": 20}}, 1e9)
    later = Observed({0.1: {"operations": 100, "products": 11}, 0.2: {"operations": 120, "products": 22}}, 1e9)
    carried = first.carried(later, 9)
    assert not carried.suffices
    assert carried.lifted.marks == {0.1: {"operations": 0, "products": 19}, 0.2: {"operations": 100, "products": 38}}
    falls = Observed({0.1: {"operations": -5}, 0.2: {"operations": -9}}, 1e9)
    ended = Observed({0.5: {"operations": -5}, 1.0: {"operations": 9}}, 1e9)
    assert (falls.lifted, ended.lifted) == (falls, ended)


def test_a_call_that_is_shorter_at_a_larger_rate_is_counted_once_for_all(in_process: Project, tmp_path: Path) -> None:
    config = CONFIG.replace("  resources:", "  rehearsal: {inverse: [learning_rate]}\n  resources:", 1)
    plant(in_process, TRAINS, config)
    counted(in_process, tmp_path, seconds=100)
    replication = in_process.replication()
    found = Timings(replication, "paper", in_process.folders.store)
    slow, fast = (
        next(run for run in replication.runs("descent", "paper") if run.axes["learning_rate"] == rate)
        for rate in (0.1, 0.2)
    )
    seconds = [found.run(run, replication.jobs("paper")[0]).seconds for run in (slow, fast)]
    assert seconds[0] == pytest.approx(2 * seconds[1])


@pytest.mark.parametrize("length", ["64 // run.steps", "10"])
def test_what_small_batches_hold_is_carried_on_to_the_real_ones(
    in_process: Project, tmp_path: Path, length: str
) -> None:
    """An epoch of steps, or ten of them, each with a product of its batch and an update of weights."""
    body = f"""
    run = runs[0]
    weights = torch.ones(6, 5)
    for step in range({length}):
        torch.ones(run.steps, 6) @ weights
        weights.mul_(0.9)
        context.progress(step + 1, {length})
    """

    def whole(divided_by: int) -> dict[str, object]:
        rehearsal = f"  rehearsal: {{batches: {{steps: {divided_by}}}}}\n  resources:"
        config = CONFIG.replace("  resources:", rehearsal, 1).replace("4000", "32").replace("seed: 4}", "seed: 1}")
        plant(in_process, body, config)
        (found,) = counted(in_process, tmp_path, seconds=100)
        return {"amounts": found["marks"][-1][1], "peak_gb": pytest.approx(found["peak_gb"])}

    assert whole(8) == whole(100) == whole(1)  # 32 by 100 is 1


def test_calls_with_two_sizes_of_batches_are_counted_to_where_both_report(in_process: Project, tmp_path: Path) -> None:
    body = """
    run = runs[0]
    weights = torch.ones(6, 5)
    for begin in range(0, 64, run.steps):
        torch.ones(run.steps, 6) @ weights
        context.progress(begin + run.steps, 64)
    """
    config = CONFIG.replace("  resources:", "  rehearsal: {batches: {steps: 8}}\n  resources:", 1)
    plant(in_process, body, config.replace("4000", "32").replace("seed: 4}", "seed: 1}"))
    (found,) = counted(in_process, tmp_path, seconds=0)  # left after two reports: of 4 and 8 images, of 8 and 16
    marks = dict(found["marks"])
    here, there = marks[1 / 8], marks[2 / 8]
    assert [products(here), products(there)] == [8 * 2 * 6 * 5, 16 * 2 * 6 * 5]
    assert there["operations"] - here["operations"] == pytest.approx(2 * 2 / 8)  # two in each of two steps


def test_calls_whose_reports_differ_in_number_are_carried_on_at_the_fractions_between(
    in_process: Project, tmp_path: Path
) -> None:
    """15 whole batches of 4, 7 of 8: none of their reports but the last is at the same fraction."""
    body = """
    run = runs[0]
    weights = torch.ones(6, 5)
    for step in range(60 // run.steps):
        torch.ones(run.steps, 6) @ weights
        context.progress(step + 1, 60 // run.steps)
    """
    config = CONFIG.replace("  resources:", "  rehearsal: {batches: {steps: 8}}\n  resources:", 1)
    plant(in_process, body, config.replace("4000", "32").replace("seed: 4}", "seed: 1}"))
    (found,) = counted(in_process, tmp_path, seconds=0)
    (first, here), *_, (last, there) = found["marks"]
    assert 1 / 7 < first == 3 / 15 < last < 1.0
    of_a_batch_of_32 = 60 - (60 - 56) * (1 - 1 / 8) / (1 - 1 / 2)  # images; what is left over grows with the batch
    assert products(there) - products(here) == pytest.approx(of_a_batch_of_32 * 2 * 6 * 5 * (last - first))


@pytest.mark.parametrize("kind", ["products", "products_double"])
def test_one_product_that_is_several_elsewhere_is_carried_on_with_them(kind: str) -> None:
    """torch multiplies one matrix in another way than several: what falls there may not have a counterpart here."""
    one, two = Observed({1.0: {kind: 9.0}}, 0.0), Observed({1.0: {f"batched_{kind}": 24.0}}, 0.0)
    assert one.carried(two, 2.0).marks[1.0] == {kind: 0.0, f"batched_{kind}": 39.0}
    alone = one.carried(Observed({1.0: {kind: 4.0}}, 0.0), 2.0)
    assert not alone.suffices
    assert sum(alone.marks[1.0].values()) == -1.0


def test_a_peak_is_never_carried_on_below_what_was_seen() -> None:
    one, two = Observed({1.0: {}}, 3e9), Observed({1.0: {}}, 2e9)
    assert [one.carried(two, 9).peak, one.of_larger_batches(two, 2, 8).peak] == [3e9, 3e9]
    assert two.carried(one, 2).peak == 4e9


def test_what_comes_after_the_last_report_of_progress_is_counted_for_every_seed(
    in_process: Project, tmp_path: Path
) -> None:
    body = """
    for step in range(400):
        torch.ones(len(runs), 2, 3) @ torch.ones(3, 5)
        context.progress(step + 1, 400)
    for run in runs:
        torch.ones(100, 3) @ torch.ones(3, 5)
    """
    plant(in_process, body, CONFIG.replace("seed: 4}", "seed: 20}"))
    (found,) = counted(in_process, tmp_path, seconds=100)
    ((fraction, amounts),) = found["marks"]
    assert (fraction, products(amounts)) == (1.0, 20 * (400 * 2 * 2 * 3 * 5 + 2 * 100 * 3 * 5))
    assert min(amounts.values()) >= 0


def test_what_git_keeps_of_counts_plans_a_fresh_checkout_until_its_parameters_change(
    in_process: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(in_process, TRAINS, CONFIG.replace("[0.1, 0.2]", "[0.1, 0.5]"))
    counted(in_process, tmp_path, seconds=0.01)
    path = timings.counts_path(in_process.folders.store, "paper", "decay")
    former = {"experiment": "measurement", "settings": ["learning_rate=0.1"]}  # without parameters, of an old version
    (mine,) = read_json(path)
    write_json(path, [mine, former])
    config = in_process.root / "replications/decay/config.yaml"
    done = CliRunner().invoke(app, ["plan", "decay", "--scale", "paper", "--record-counts"])
    assert done.stdout == "decay: 2 of 3 settings in reports/counts/paper/decay.json.\n"
    other = {"learning_rate=0.1": "00000000", "learning_rate=0.5": "00000000"}
    for worse in ({**mine, "code": "00000000"}, {**mine, "parameters": other}):  # neither replaces what git keeps
        write_json(path, [worse])
        CliRunner().invoke(app, ["plan", "decay", "--scale", "paper", "--record-counts"])
        assert read_json(in_process.root / "reports/counts/paper/decay.json") == [mine]
    path.unlink()
    line = {"paper": "decay", "experiment": "descent", "setting": "learning_rate=0.1", "counted_gb": [1.0, 2.0]}
    code = in_process.replication().code_digest("descent", "run")
    memory = {"rehearsed_gb": [1.0, 2.0], "rehearsed_code": code}
    write_json(timings.rehearsals_path(in_process.folders.store, "paper"), [{**line, "code": code}])
    CliRunner().invoke(app, ["plan", "decay", "--scale", "paper", "--record-counts"])
    assert read_json(in_process.root / "reports/counts/paper/decay.json") == [{**mine, **memory}]
    timings.rehearsals_path(in_process.folders.store, "paper").unlink()  # counted anew where nothing was rehearsed
    write_json(path, [mine])
    CliRunner().invoke(app, ["plan", "decay", "--scale", "paper", "--record-counts"])
    assert read_json(in_process.root / "reports/counts/paper/decay.json") == [{**mine, **memory}]
    path.unlink()

    def basis() -> tuple[str, ...]:
        (found,) = [
            cost
            for cost in costs(in_process.replication(), "paper", in_process.folders.store)
            if cost.experiment == "descent"
        ]
        return found.basis

    assert basis() == ("counted (cpu)",)
    plant(in_process, TRAINS.replace("made.sum()", "made.mean()"), config.read_text())
    assert basis() == ("counted (cpu, former count)",)
    plant(in_process, TRAINS, config.read_text())
    monkeypatch.setattr(timings, "COUNTER", timings.COUNTER + 1)
    assert basis() == ("counted (cpu, former count)",)
    plant(in_process, TRAINS, config.read_text().replace("steps: 4000", "steps: 400"))
    assert basis() == ("time limit",)


def test_a_call_that_cannot_be_counted_says_why(in_process: Project, tmp_path: Path) -> None:
    plant(in_process, TRAINS.replace("data @ weights", "data @ weights[:, :5]"), CONFIG)
    stage = Stage(in_process.folders, tmp_path / "scratch", torch.device("cpu"), 4.0, seconds=1)
    replication = in_process.replication()
    for experiment, said in (("descent", "RuntimeError"), ("measurement", "whose rehearsal left nothing")):
        (call,) = rehearsals(replication, experiment, "paper")
        found = count(stage, replication, call)
        line = {"paper": "decay", "experiment": experiment, "setting": call.name, **found}
        assert said in count_line(line)


def test_the_comparison_tells_how_many_are_near_and_which_were_not_counted() -> None:
    table = comparison([Compared("a/x", 2.0, 1.0), Compared("a/y", 0.9, 1.0), Compared("a/z", None, 3.0)])
    assert "| a/x | 2 | 1 | 2.00 |\n| a/y | 0.9 | 1 | 0.90 |" in table
    assert "1 of 2 experiments" in table
    assert "Not counted: a/z." in table
