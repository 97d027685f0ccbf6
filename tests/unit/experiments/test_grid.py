"""config.yaml becomes runs and jobs, or one sentence that names the line."""

from pathlib import Path
from typing import Any

import pytest

from common.errors import UserError
from common.experiments.config import ExperimentConfig, ReplicationConfig
from common.experiments.grid import expand, jobs, together
from common.sources import load_typed


def names(config: ExperimentConfig, scale: str = "laptop") -> list[str]:
    return [run.name for run in expand("paper", "experiment", config, scale)]


def test_an_integer_axis_counts_and_a_label_sets_parameters() -> None:
    config = ExperimentConfig(
        base={"steps": 5, "decay": 0.5},
        grid={"arm": {"none": {"decay": 0}, "large": {"decay": 1.0, "noise": "nso"}}, "seed": 2},
    )
    runs = expand("paper", "experiment", config, "laptop")
    assert [run.name for run in runs] == [
        "arm=none,seed=0",
        "arm=none,seed=1",
        "arm=large,seed=0",
        "arm=large,seed=1",
    ]
    assert runs[3].settings == {"steps": 5, "decay": 1.0, "noise": "nso", "seed": 1}
    assert runs[3].axes == {"arm": "large", "seed": 1}


def test_a_scale_merges_onto_base_and_replaces_an_axis_whole() -> None:
    config = ExperimentConfig.model_validate(
        {
            "base": {"steps": 5},
            "grid": {"rate": [0.1, 0.2], "seed": 3},
            "scales": {"smoke": {"steps": 1, "grid": {"seed": 1}}},
        }
    )
    assert names(config, "smoke") == ["rate=0.1,seed=0", "rate=0.2,seed=0"]
    assert expand("p", "e", config, "smoke")[0].settings["steps"] == 1
    assert len(names(config)) == 6
    assert expand("p", "e", config, "paper")[0].settings["steps"] == 5


def test_an_experiment_has_runs_from_its_first_scale_on_and_for_the_tests_at_smoke_scale() -> None:
    config = ExperimentConfig.model_validate({"grid": {"seed": 2}, "run_from": "workstation"})
    counts = {scale: len(names(config, scale)) for scale in ("smoke", "laptop", "workstation", "paper")}
    assert counts == {"smoke": 2, "laptop": 0, "workstation": 2, "paper": 2}
    assert jobs("p", {"e": config}, "laptop", ["e"]) == []


def test_zipped_axes_move_together_and_excluded_points_are_dropped() -> None:
    config = ExperimentConfig.model_validate(
        {
            "grid": {"batch_size": [4, 8], "rate": [0.1, 0.2], "seed": 2},
            "zip": [["batch_size", "rate"]],
            "exclude": [{"batch_size": 8, "seed": [1]}],
        }
    )
    assert names(config) == [
        "batch_size=4,rate=0.1,seed=0",
        "batch_size=4,rate=0.1,seed=1",
        "batch_size=8,rate=0.2,seed=0",
    ]


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ({"grid": {"a": [1, 2], "b": [1, 2, 3]}, "zip": [["a", "b"]]}, "a has 2, b has 3"),
        ({"grid": {"arm": {"x": {"rate": 1}}, "rate": [2]}}, "'arm' and 'rate' both set 'rate'"),
    ],
)
def test_axes_that_do_not_fit_together_are_refused(entry: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        names(ExperimentConfig.model_validate(entry))


def test_a_call_spans_the_axes_named_together() -> None:
    config = ExperimentConfig.model_validate({"grid": {"rate": [1, 2], "seed": 3}, "together": ["seed"]})
    calls = together(expand("p", "e", config, "laptop"), config)
    assert [[run.name for run in call] for call in calls] == [
        ["rate=1,seed=0", "rate=1,seed=1", "rate=1,seed=2"],
        ["rate=2,seed=0", "rate=2,seed=1", "rate=2,seed=2"],
    ]


def test_per_job_chunks_the_named_axes_and_smoke_is_one_job_a_paper() -> None:
    config = ExperimentConfig.model_validate(
        {"grid": {"rate": [1, 2], "seed": 10}, "resources": {"paper": {"per_job": {"seed": 5}}}}
    )
    experiments = {"one": config, "two": config}
    at_paper = jobs("p", experiments, "paper", ["one", "two"])
    assert [len(job.runs) for job in at_paper] == [5] * 8
    assert len({job.id for job in at_paper}) == 8
    assert [len(job.runs) for job in jobs("p", experiments, "laptop", ["one", "two"])] == [20, 20]
    assert [len(job.runs) for job in jobs("p", experiments, "smoke", ["two", "one"])] == [40]


def test_short_experiments_that_need_only_such_share_a_job() -> None:
    def config(minutes: float | None, needs: str | None = None, **other: Any) -> ExperimentConfig:
        resources = {"laptop": {"minutes": minutes, **other}} if minutes else {}
        need = {"start": {"experiment": needs}} if needs else {}
        return ExperimentConfig.model_validate({"grid": {"seed": 3}, "resources": resources, "needs": need})

    experiments = {
        "first": config(0.1),
        "long": config(3),
        "silent": config(None),
        "on_gpu": config(0.1, gpus=1),
        "in_parts": config(0.1, per_job={"seed": 2}),
        "after_long": config(0.1, "long"),
        "after_first": config(0.1, "first"),
        "long_after_first": config(3, "first"),
    }
    found = jobs("p", experiments, "laptop", list(experiments))
    assert [(job.experiment, len(job.runs)) for job in found] == [
        ("small", 6),
        ("long", 3),
        ("silent", 3),
        ("on_gpu", 3),
        ("in_parts", 2),
        ("in_parts", 1),
        ("after_long", 3),
        ("long_after_first", 3),
    ]
    assert {run.experiment for run in found[0].runs} == {"first", "after_first"}
    alone = jobs("p", {"first": experiments["first"], "long": experiments["long"]}, "laptop", ["first", "long"])
    assert [job.experiment for job in alone] == ["first", "long"]


def test_more_seeds_leave_the_jobs_of_the_first_ones_as_they_are() -> None:
    def at(seeds: int) -> set[str]:
        config = ExperimentConfig.model_validate(
            {"grid": {"rate": [1, 2], "seed": seeds}, "resources": {"paper": {"per_job": {"seed": 5}}}}
        )
        return {job.id for job in jobs("p", {"e": config}, "paper", ["e"])}

    assert at(5) < at(10)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a:\n  grid:\n    seed: five\n", ":3: a.grid.seed"),
        ("a:\n  bases: {}\n", ":2: a.bases: there is no such key; did you mean 'base'?"),
        ("a:\n  togther: [seed]\n", ":2: a.togther: there is no such key; did you mean 'together'?"),
        (
            "a:\n  resources: {laptop: {minuts: 1}}\n",
            "a.resources.laptop.minuts: there is no such key; did you mean 'min",
        ),
        ("a:\n  grid: {x: []}\n", "axis 'x' has no values"),
        ("a:\n  grid: {x: [a/b]}\n", "'a/b': characters outside"),
        ("a:\n  grid: {x: [1, 1]}\n", "has a value twice"),
        ("a:\n  grid: {x: [1]}\n  together: [seed]\n", "together names 'seed', which is no axis"),
        ("a:\n  scales:\n    tiny: {}\n", ":3: a.scales.tiny"),
        ("a:\n  run_from: tiny\n", ":2: a.run_from"),
        (
            "a:\n  run_from: workstation\n  scales: {laptop: {b: 1}}\n",
            "scales has laptop, at which the experiment has no run: it is run from workstation scale on",
        ),
        (
            "a:\n  run_from: paper\n  resources: {workstation: {minutes: 1}}\n",
            "resources has workstation, at which the experiment has no run",
        ),
        ("a: [\n", "not valid YAML"),
        ("a:\n  base: {}\n  base: {}\n", ":3: not valid YAML: key 'base' appears twice"),
        ("a: {}\nall: {}\n", ":2: all.[key]: 'all' cannot name an experiment"),
        ("a: {}\nb__c: {}\n", ":2: b__c.[key]: 'b__c' cannot name an experiment"),
        ("a: {}\nb: {}\nx;y: {}\n", ":3: x;y.[key]: 'x;y' cannot name an experiment"),
    ],
)
def test_a_mistake_in_config_yaml_is_one_sentence_with_its_line(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        load_typed(path, ReplicationConfig)
    assert sentence in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
