"""Process groups of the ranks, and the synchronisation of their weights."""

from __future__ import annotations

import dataclasses
import datetime
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from rlscaling.trainer.distributed import fsdp
from rlscaling.trainer.distributed.accounting import RankClock, RankSeconds
from rlscaling.trainer.errors import TrainError

if TYPE_CHECKING:
    from rlscaling.trainer.distributed.layout import Layout, RankInfo


COLLECTIVE_TIMEOUT = datetime.timedelta(minutes=30)
"""A rank that hangs without ending stops the others after this."""


@dataclasses.dataclass(frozen=True)
class ProcessGroups:
    """The rank of this process, the roles of all, and the groups that it belongs to.

    Attributes
    ----------
    rank_info, layout
        This rank and the roles of all.
    trainers
        The trainer ranks; None on a generator.
    receivers
        Rank 0 and the generators, which take its weights; None on any other trainer.
    """

    rank_info: RankInfo
    layout: Layout
    trainers: dist.ProcessGroup | None
    receivers: dist.ProcessGroup | None


@dataclasses.dataclass(frozen=True)
class WeightSyncReport:
    """What all ranks report when weights are pushed."""

    seconds: RankSeconds  # summed over ranks
    peak_bytes: int  # of weights, gradients and moments on the fullest trainer rank


def find_others(rank_info: RankInfo, timeout: float) -> Store:
    """Return the store that all ranks see.

    Raises
    ------
    TrainError
        When the others do not come in time.
    """
    within = datetime.timedelta(seconds=timeout)
    try:
        store: Store = next(iter(rendezvous("env://", rank_info.rank, rank_info.world_size, timeout=within)))[0]
    except RuntimeError as error:  # DistNetworkError, DistStoreError
        raise TrainError(
            f"rank {rank_info.rank} of {rank_info.world_size} did not find the others at "
            f"MASTER_ADDR={rank_info.master} within {timeout:g} s: {str(error).splitlines()[0]}"
        ) from None
    store.set_timeout(within)
    return store


def connect(rank_info: RankInfo, layout: Layout, device: str, store: Store) -> ProcessGroups:
    """Make the process groups; every rank calls it."""
    backend = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
    dist.init_process_group(
        backend,
        store=PrefixStore("groups", store),
        rank=rank_info.rank,
        world_size=rank_info.world_size,
        timeout=COLLECTIVE_TIMEOUT,
    )
    trainers = dist.new_group(list(range(layout.trainers)))
    receivers = dist.new_group([0, *layout.generator_ranks])
    is_trainer = layout.role(rank_info.rank) == "trainer"
    receives = rank_info.rank == 0 or not is_trainer
    return ProcessGroups(rank_info, layout, trainers if is_trainer else None, receivers if receives else None)


def leave_groups() -> None:
    """Leave all process groups, so that a rank that waits for this one in a collective goes on with an error."""
    if dist.is_initialized():
        dist.destroy_process_group()


def exchange_weights(
    process_groups: ProcessGroups, model: nn.Module, clock: RankClock, peak_bytes: int = 0
) -> WeightSyncReport:
    """Bring the weights of the trainers to the generators; every rank calls it.

    Returns
    -------
    WeightSyncReport
        The seconds of all ranks up to here, and the memory of the fullest trainer.
    """
    seconds = clock.read()
    own = torch.tensor([seconds.waiting, seconds.elapsed, float(peak_bytes)], dtype=torch.float64)
    gathered = [torch.empty_like(own) for _ in range(process_groups.rank_info.world_size)]
    with clock.waiting():
        dist.all_gather(gathered, own)  # returns when the last rank has come
    if process_groups.trainers is not None:
        fsdp.push(model, process_groups.receivers)
    else:
        assert process_groups.receivers is not None
        fsdp.pull(model, process_groups.receivers)
    waiting, elapsed, peak = torch.stack(gathered).unbind(1)
    return WeightSyncReport(RankSeconds(float(waiting.sum()), float(elapsed.sum())), int(peak.max()))
