"""`replicate lint` finds what a run or its analysis would stumble over; each case is planted in the example."""

from collections.abc import Callable, Iterator

import pytest

from common.experiments.replication import Replication
from common.workflow import agreement
from common.workflow.lint import lint
from tests.conftest import Project
from tests.unit.experiments.test_execution import execute


def found(look: Callable[[Replication], Iterator[str]], project: Project) -> list[str]:
    return list(look(project.replication()))


def test_the_example_agrees_before_and_after_it_was_run(in_process: Project) -> None:
    looks = (
        agreement.refused,
        agreement.needs_analysis_packages,
        agreement.names_taken,
        agreement.unknown_in_report,
        agreement.unfit_analyses,
    )
    assert [found(look, in_process) for look in looks] == [[]] * 5
    execute(in_process)
    assert found(agreement.unfit_analyses, in_process) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "sentence"),
    [
        (
            "config.yaml",
            "    smoke: {steps: 20,",
            "    paper: {steps: many}\n    smoke: {steps: 20,",
            "replications/decay/config.yaml:8: descent.steps = 'many' at scale paper: Input should be a valid integer",
        ),
        (
            "config.yaml",
            "together:",
            "togther:",
            "config.yaml:6: descent.togther: there is no such key; did you mean 'together'?",
        ),
        ("config.yaml", "    seed: 5", "    seed: a", ":5: descent.grid.seed: a whole number, a list or a mapping"),
        ("config.yaml", "  scales:", "  scales:\n    paper: {exclude: [{a: 1}]}", "at scale paper: exclude names 'a'"),
        ("descent.py", "import torch\n", "import torch\n\n1 / 0\n", "descent.py:7: ZeroDivisionError: division by"),
        ("descent.py", "def run(", "def runn(", "replications/decay/descent.py: it defines no run(runs, context)."),
    ],
)  # fmt: skip
def test_what_run_refuses_at_any_scale(file: str, old: str, new: str, sentence: str, in_process: Project) -> None:
    text = in_process.file(file).read_text()
    in_process.file(file).write_text(text.replace(old, new, 1))
    (said,) = found(agreement.refused, in_process)
    assert sentence in said


def test_analysis_packages_at_the_top_of_what_an_experiment_imports(in_process: Project) -> None:
    (in_process.file("shared")).mkdir()
    in_process.file("shared/tables.py").write_text("import math\nfrom pandas import DataFrame\n")
    in_process.edit("descent.py", "    import time", "    import time\n\n    import pandas")
    assert found(agreement.needs_analysis_packages, in_process) == []
    in_process.edit("descent.py", "import torch\n", "import torch\nfrom replications.decay.shared import tables\n")
    assert found(agreement.needs_analysis_packages, in_process) == [
        "replications/decay/shared/tables.py:2: descent imports pandas at its top, which a bare GPU box lacks."
    ]


def test_a_record_under_the_name_of_a_parameter(in_process: Project) -> None:
    in_process.edit("descent.py", 'step=state["step"]', 'steps=state["step"]')
    assert found(agreement.names_taken, in_process) == []
    (said,) = found(agreement.names_hidden, in_process)
    assert said.endswith("record() takes the name of the parameter 'steps'; give it another unless it is that.")
    assert said.startswith("replications/decay/descent.py:")


def test_a_record_under_the_name_of_an_axis(in_process: Project) -> None:
    in_process.edit("descent.py", 'step=state["step"]', 'seed=state["step"]')
    (said,) = found(agreement.names_taken, in_process)
    assert said.endswith("record() takes the name of the axis 'seed'; give it another.")


def test_claims_that_the_report_asks_for_and_that_there_are_not(in_process: Project) -> None:
    asked = 'paper.figure("fig1", ["fig1-*", "fig2-*"])\npaper.summary(["control-planted-efect"])'
    in_process.edit("report.py", 'paper.figure("fig1")', asked)
    said = found(agreement.unknown_in_report, in_process)
    assert said[0].startswith("replications/decay/report.py:10: there is no claim 'fig2-*'; there are: control-")
    assert said[1].endswith(
        "report.py:11: there is no claim 'control-planted-efect'; did you mean 'control-planted-effect'?"
    )


def test_a_logarithm_in_the_unit_of_another_base(in_process: Project) -> None:
    rule = "  estimate: {kind: paired_difference, metric: log_distance, of"
    text = in_process.file("claims.yaml").read_text()
    for unit, said in (("powers of ten", []), ("powers of two", ["not 'powers of two'."]), (None, ["not 'none'."])):
        line = f"  unit: {unit}\n" if unit else ""
        in_process.file("claims.yaml").write_text(text.replace(rule, line + rule.replace(" log_", " log10_"), 1))
        sentences = found(agreement.units_of_logarithms, in_process)
        assert [sentence.split(", ")[-1] for sentence in sentences] == said
        assert all("log10_distance is a logarithm, so that its unit is 'powers of ten'" in one for one in sentences)


@pytest.mark.parametrize(
    ("file", "old", "new", "sentence"),
    [
        ("claims.yaml", "log_distance, of: {learning_rate: 0.5}", "log_distanc, of: {learning_rate: 0.5}",
         "claim fig1-larger-steps-descend-faster: descent has no metric log_distanc (did you mean log_distance?"),
        ("paper.yaml", "figure: fig1", "figure: fig2",
         "replications/decay/paper.yaml: coverage of Fig. 1: descent draws no figure 'fig2'; did you mean 'fig1'?"),
        ("analysis/descent.py", "    last = records", "    1 / 0\n    last = records",
         "descent: replications/decay/analysis/descent.py:10: ZeroDivisionError: division by zero."),
        ("analysis/descent.py", "    figure = Figure", "    1 / 0\n    figure = Figure",
         "analysis/descent.py:18: ZeroDivisionError: division by zero."),
        ("report.py", 'figure("fig1")', 'figure("fig7")',
         "replications/decay/report.py:10: no experiment draws a figure 'fig7'; did you mean 'fig1'?"),
        ("report.py", 'figure("fig1")', 'figure("fig1", experiment="measurement")',
         "replications/decay/report.py:10: no experiment draws a figure 'fig1'"),
    ],
)  # fmt: skip
def test_what_the_records_do_not_give(file: str, old: str, new: str, sentence: str, in_process: Project) -> None:
    execute(in_process)
    in_process.edit(file, old, new)
    (said,) = found(agreement.unfit_analyses, in_process)
    assert sentence in said


def test_a_figure_that_two_experiments_draw_is_asked_for_with_its_experiment(in_process: Project) -> None:
    execute(in_process)
    drawing = "\n\ndef figures(records):\n    return {'fig1': Figure()}\n"
    path = in_process.file("analysis/measurement.py")
    path.write_text(f"from matplotlib.figure import Figure\n{path.read_text()}{drawing}")
    assert found(agreement.unfit_analyses, in_process) == [
        "replications/decay/report.py:10: descent and measurement draw a figure 'fig1'; say which with experiment=."
    ]
    in_process.edit("report.py", 'figure("fig1")', 'figure("fig1", [], "descent")')
    assert found(agreement.unfit_analyses, in_process) == []


def test_claims_that_read_alike_without_their_remarks(in_process: Project) -> None:
    first, control = "a smaller distance.", "The smaller learning rate, which is known to leave the larger distance, is"
    assert not [said for said in lint(in_process.replication())[0] if "reads as" in said]
    in_process.edit("claims.yaml", first, "a smaller distance (after all of its steps).")
    alike = "Below the stable limit a larger learning rate leaves a smaller distance (of the two that are tried)."
    in_process.edit("claims.yaml", f"{control} found to do so.", alike)
    (said,) = [said for said in lint(in_process.replication())[0] if "reads as" in said]
    assert "claim control-planted-effect reads as fig1-larger-steps-descend-faster does without" in said
