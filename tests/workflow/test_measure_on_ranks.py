"""`replicate measure` as torchrun starts it: several processes, one answer."""

import contextlib
import io
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from common.cli import main
from tests.unit.hessian.processes import forked
from tests.workflow.test_measure import Answer, Measure, measure, place

__all__ = ["measure", "place"]


def command(rank: int, count: int, folder: str, arguments: list[str], environment: dict[str, str]) -> Answer:
    """The command as one of the processes of torchrun."""
    os.environ.update(environment, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(count))
    os.environ.update(LOCAL_WORLD_SIZE=str(count), TORCHELASTIC_RUN_ID="none", MASTER_ADDR="127.0.0.1")
    os.chdir(environment["PWD"])
    sys.path.insert(0, environment["PWD"])
    sys.argv = ["replicate", "measure", *arguments]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return Answer(code, out.getvalue(), err.getvalue())


def on_ranks(count: int, place: Path, *arguments: str) -> list[Answer]:
    names = ("REPLICATIONS_CACHE", "REPLICATIONS_MIRROR", "REPLICATIONS_OFFLINE", "COLUMNS")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = {name: os.environ[name] for name in names} | {"PWD": str(place), "MASTER_PORT": port}
    return forked(count, command, list(arguments), environment)


def test_several_processes_give_what_one_gives_and_rank_0_tells_it(place: Path, measure: Measure) -> None:
    asked = "nets:small --data dots --what loss,gradient-norm,ggn-trace,sharpness,noise-trace --plot out/s.svg --json"
    alone = json.loads(measure(*asked.split()).out)
    for name in os.listdir("out"):
        (place / "out" / name).unlink()
    first, other = on_ranks(2, place, *asked.split())
    assert (first.code, first.err) == (0, "")
    assert (other.code, other.out, other.err) == (0, "", "")
    assert sorted(os.listdir("out")) == ["s.csv", "s.png", "s.svg"]
    together = json.loads(first.out)
    assert (alone["processes"], together["processes"]) == (1, 2)
    for row, other in zip(together["measures"], alone["measures"], strict=True):
        assert row["value"] == pytest.approx(other["value"], rel=1e-5)
        assert {**row, **values(other)} == other


def test_several_processes_draw_what_one_draws(place: Path, measure: Measure) -> None:
    asked = "nets:small --data dots --what hessian-trace --relative-error 0.2 --json"
    [alone] = json.loads(measure(*asked.split()).out)["measures"]
    [together] = json.loads(on_ranks(3, place, *asked.split())[0].out)["measures"]
    assert alone["standard_error"] > 0
    assert [together[name] for name in ("value", "standard_error")] == pytest.approx(
        [alone[name] for name in ("value", "standard_error")], rel=1e-5
    )


def values(row: dict[str, Any]) -> dict[str, Any]:
    """What depends on rounding."""
    return {name: row[name] for name in ("value", "bound", "text")}


def test_a_mistake_is_told_once(place: Path) -> None:
    first, other = on_ranks(2, place, "nets:smal", "--data", "dots")
    assert (first.code, other.code, first.out, other.out, other.err) == (2, 2, "", "", "")
    assert first.err.startswith("replicate: ")
    assert "did you mean 'small'?" in first.err
    assert len(first.err.splitlines()) == 1
