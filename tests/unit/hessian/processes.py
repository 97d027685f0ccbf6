"""Functions run by several processes at once, forked from one that has imported torch before."""

import multiprocessing
import os
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

PATIENCE = 60
"""Seconds after which a rank counts as dead."""

Function = Callable[..., Any]


def forked(count: int, function: Function, *arguments: Any) -> list[Any]:
    """What `function(rank, count, folder, *arguments)` gives in each process, None if it died.

    Args:
        function: of a module that can be imported; `folder` is one that all processes share.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["common.hessian", __name__])
    with tempfile.TemporaryDirectory() as folder:
        made = [
            context.Process(target=_kept, args=(function, rank, count, folder, *arguments)) for rank in range(count)
        ]
        for process in made:
            process.start()
        for process in made:
            process.join(2 * PATIENCE)
            assert process.exitcode is not None, "a rank hangs"
        files = [Path(folder) / f"{rank}.pt" for rank in range(count)]
        return [torch.load(file, weights_only=False) if file.exists() else None for file in files]


def _kept(function: Function, rank: int, count: int, folder: str, *arguments: Any) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.save(function(rank, count, folder, *arguments), f"{folder}/{rank}.pt")


def on_ranks(count: int, function: Function, *arguments: Any) -> list[Any]:
    """What `function(rank, count, *arguments)` gives on each rank: "kind: message" of an error, None if it died."""
    return forked(count, _joined, function, *arguments)


def _joined(rank: int, count: int, folder: str, function: Function, *arguments: Any) -> Any:
    meeting, patience = f"file://{folder}/meeting", timedelta(seconds=PATIENCE)
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=count, timeout=patience)
    try:
        return function(rank, count, *arguments)
    except (RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
