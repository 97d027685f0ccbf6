"""A command that `torchrun` started as several processes: they work together, and rank 0 speaks for all of them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

from common.errors import UserError
from common.hessian.ranks import ALONE, OtherRankFailed, Ranks, RanksApart, process_group

PATIENCE = timedelta(minutes=30)
"""How long ranks wait for one that does not answer; one that ended is noticed at once."""


@contextmanager
def launched() -> Iterator[Ranks]:
    """Within: the ranks that torchrun started, or this process alone.

    With a GPU for each process of a machine, that of the local rank is the current device, and sums on GPUs go by nccl.

    Raises:
        UserError: on rank 0 whatever ended the work on any rank; on the others only that a rank was lost.
        SystemExit: on the others, with the code of that error.
    """
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if not dist.is_torchelastic_launched() or count == 1:
        yield ALONE
        return
    gpus, here = torch.cuda.device_count(), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    several = gpus >= here
    if several:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    try:
        dist.init_process_group("cpu:gloo,cuda:nccl" if several else "gloo", timeout=PATIENCE)
    except (RuntimeError, ValueError) as error:
        raise UserError(
            f"The {count} processes of torchrun do not find each other ({type(error).__name__})."
        ) from error
    try:
        ranks = process_group()
        with ranks.together():
            yield ranks
    except RanksApart as error:
        raise UserError(str(error)) from error
    except (OtherRankFailed, UserError) as error:
        if ranks.rank > 0:
            raise SystemExit(2) from None
        raise UserError(str(error)) from error
    dist.destroy_process_group()


def leads() -> bool:
    """Whether this process is to print and write."""
    return not dist.is_torchelastic_launched() or os.environ.get("RANK", "0") == "0"
