"""The context in memory keeps the contract of the one that experiments are run with."""

import pytest
import torch

from common.datasets import Dataset, Split
from common.errors import UserError
from common.experiments.context import OutOfTime
from common.experiments.parameters import ExperimentParameters
from common.experiments.seeds import stream_seed
from tests.context import MemoryContext


class Parameters(ExperimentParameters):
    """Of an experiment with one parameter."""

    width: int = 3


def test_streams_are_those_of_the_framework_and_tell_settings_apart() -> None:
    one, other = Parameters(), Parameters(width=4)
    context = MemoryContext("replications.paper.experiment")
    assert context.stream_seed(one, "init") == stream_seed("experiment", "init", 0, {})
    assert context.stream_seed(one, "init") == context.stream_seed(other, "init")
    assert context.stream_seed(one, "noise") != context.stream_seed(other, "noise")
    alone = MemoryContext("experiment")
    assert alone.stream_seed(Parameters(width=4), "noise") == context.stream_seed(other, "noise")


def test_a_record_is_what_an_analysis_would_read_and_as_strict_as_there() -> None:
    run, context = Parameters(), MemoryContext(axes=lambda run: {"arm": "wide"})
    context.record(run, loss=torch.tensor(0.5))
    assert context.rows == [{"width": 3, "seed": 0, "run": "arm=wide,seed=0", "arm": "wide", "loss": 0.5}]
    with pytest.raises(ValueError, match="axis already"):
        context.record(run, arm="narrow")
    with pytest.raises(TypeError, match="one kind"):
        context.record(run, loss="low")
    with pytest.raises(ValueError, match="not a copy"):
        context.record(Parameters(), loss=0.5)


def test_a_context_goes_on_from_a_checkpoint_with_what_was_there() -> None:
    run, first = Parameters(), MemoryContext(stop_at=2)
    first.record(run, loss=2.0)
    first.checkpoint({"weights": torch.zeros(2)})
    first.record(run, loss=1.0)
    first.diverged(run, "its loss became infinite")
    with pytest.raises(OutOfTime):
        first.checkpoint({"weights": torch.ones(2)})
    assert [len(checkpoint.rows) for checkpoint in first.checkpoints] == [1, 2]
    second = MemoryContext(begun=first.checkpoints[0])
    assert second.restore()["weights"].tolist() == [0, 0]
    assert (len(second.rows), second.divergences) == (1, {})
    third = MemoryContext(begun=first.checkpoints[1])
    third.restore()
    assert list(third.divergences.values()) == ["its loss became infinite"]


def test_a_state_that_could_not_be_read_again_is_refused() -> None:
    context = MemoryContext()
    context.checkpoint({"run": Parameters()})
    with pytest.raises(Exception, match="eights only load failed"):
        MemoryContext(begun=context.checkpoints[0]).restore()


def test_a_data_set_whose_inputs_are_no_bytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    targets = torch.tensor([0, 1])
    train = Split("mine/train", torch.zeros(2, 1, 2, 2, dtype=torch.uint8), targets)
    found = Dataset("mine", "Mine", 2, "digest", train, Split("mine/test", torch.rand(2, 1, 2, 2), targets))
    monkeypatch.setattr("common.datasets.shared.shared", lambda name: found)
    with pytest.raises(UserError, match=r"mine/test: experiments take uint8 inputs, 0 to 255, not torch\.float32"):
        MemoryContext().data("mine")


def test_artifacts_of_a_needed_run_are_given_to_the_runs_that_match_it() -> None:
    source = MemoryContext()
    for seed in (0, 1):
        source.save(Parameters(seed=seed), "weights", {"weights": torch.full((2,), seed)})
    context = MemoryContext(needed=source.artifacts)
    assert context.artifact(Parameters(seed=1), "network", "weights")["weights"].tolist() == [1, 1]
