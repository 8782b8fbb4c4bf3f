"""The ranks of a run, connected: process groups, and the moment at which all of them hold the same weights."""

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
    """Where this rank stands, and the groups it belongs to.

    Attributes
    ----------
    place, layout
        This rank and the roles of all.
    trainers
        The trainer ranks; None on a generator.
    receivers
        Rank 0 and the generators, which take its weights; None on any other trainer.
    """

    place: RankInfo
    layout: Layout
    trainers: dist.ProcessGroup | None
    receivers: dist.ProcessGroup | None


@dataclasses.dataclass(frozen=True)
class WeightSyncReport:
    """What all ranks say when weights are pushed."""

    spent: RankSeconds  # summed over ranks
    peak_bytes: int  # of weights, gradients and moments on the fullest trainer rank


def find_others(place: RankInfo, timeout: float) -> Store:
    """Return the store that all ranks see.

    Raises
    ------
    TrainError
        When the others do not come in time.
    """
    within = datetime.timedelta(seconds=timeout)
    try:
        found: tuple[Store, int, int] = next(iter(rendezvous("env://", place.rank, place.world, timeout=within)))
    except RuntimeError as error:  # DistNetworkError, DistStoreError
        raise TrainError(
            f"rank {place.rank} of {place.world} did not find the others at MASTER_ADDR={place.master} within "
            f"{timeout:g} s: {str(error).splitlines()[0]}"
        ) from None
    found[0].set_timeout(within)
    return found[0]


def connect(place: RankInfo, layout: Layout, device: str, store: Store) -> ProcessGroups:
    """Make the process groups; every rank calls it."""
    backend = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
    dist.init_process_group(
        backend,
        store=PrefixStore("groups", store),
        rank=place.rank,
        world_size=place.world,
        timeout=COLLECTIVE_TIMEOUT,
    )
    trainers = dist.new_group(list(range(layout.trainers)))
    receivers = dist.new_group([0, *layout.generator_ranks])
    is_trainer = layout.role(place.rank) == "trainer"
    receives = place.rank == 0 or not is_trainer
    return ProcessGroups(place, layout, trainers if is_trainer else None, receivers if receives else None)


def leave_groups() -> None:
    """Leave all process groups, so that a rank that waits for this one in a collective goes on with an error."""
    if dist.is_initialized():
        dist.destroy_process_group()


def exchange_weights(world: ProcessGroups, model: nn.Module, clock: RankClock, peak_bytes: int = 0) -> WeightSyncReport:
    """Bring the weights of the trainers to the generators; every rank calls it.

    Returns
    -------
    WeightSyncReport
        The time that ranks have spent up to here, and the memory of the fullest trainer.
    """
    spent = clock.read()
    mine = torch.tensor([spent.waiting, spent.elapsed, float(peak_bytes)], dtype=torch.float64)
    told = [torch.empty_like(mine) for _ in range(world.place.world)]
    with clock.waiting():
        dist.all_gather(told, mine)  # returns when the last rank has come
    if world.trainers is not None:
        fsdp.push(model, world.receivers)
    else:
        assert world.receivers is not None
        fsdp.pull(model, world.receivers)
    waiting, elapsed, peak = torch.stack(told).unbind(1)
    return WeightSyncReport(RankSeconds(float(waiting.sum()), float(elapsed.sum())), int(peak.max()))
