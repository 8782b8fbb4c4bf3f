"""From torchrun's variables to a run: find the others, agree, play a role, and end together."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from rlscaling.trainer.checkpoint import check_free
from rlscaling.trainer.distributed.agreement import Proposal, agree, proposal_of
from rlscaling.trainer.distributed.channel import Hub, PeerLostError, Spoke
from rlscaling.trainer.distributed.generating import GeneratorRank
from rlscaling.trainer.distributed.layout import Layout, Place, check_layout, layout_of, place_of
from rlscaling.trainer.distributed.training import DistributedResult, Follower, Lead
from rlscaling.trainer.distributed.world import World, connect, find_others
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.run import cpu_threads

if TYPE_CHECKING:
    from rlscaling.trainer.config import TrainConfig
    from rlscaling.trainer.learner import Row

ARRIVAL_SECONDS = 300.0
"""By when all ranks must have started."""


class Ranks:
    """The ranks that torchrun has started; they can train several runs one after the other.

    Parameters
    ----------
    place
        Of this process.
    timeout
        Seconds to wait for the others.
    """

    def __init__(self, place: Place, timeout: float = ARRIVAL_SECONDS) -> None:
        self.place, self.timeout = place, timeout
        self.store = find_others(place, timeout)
        self._runs = 0
        self._world: World | None = None

    def agree(self, proposal: Proposal) -> None:
        """See that all ranks want the same.

        Raises
        ------
        TrainError
            On every rank, when they do not.
        """
        self._runs += 1
        agree(self.store, proposal, rank=self.place.rank, world=self.place.world, name=f"agree/{self._runs}")

    def train(
        self,
        config: TrainConfig,
        out: str | Path | None,
        layout: Layout,
        *,
        resume: bool = False,
        on_row: Callable[[Row], None] | None = None,
    ) -> DistributedResult | None:
        """Train one run; the result is rank 0's."""
        self.agree(self._proposal(config, out, layout, resume))
        _use_device(config, self.place)
        if self._world is None:
            self._world = connect(self.place, layout, config.device, self.store)
        name, host = f"channel/{self._runs}", self.place.master
        with cpu_threads(config.threads), _ended_by_a_signal():
            if self.place.rank:
                with Spoke(self.store, name, host, self.place.rank, self.timeout) as spoke:
                    return _follow(config, self._world, out, spoke)
            with Hub(self.store, name, host, range(1, self.place.world), self.timeout) as hub:
                return _lead(config, self._world, out, hub, resume=resume, on_row=on_row)

    def _proposal(self, config: TrainConfig, out: str | Path | None, layout: Layout, resume: bool) -> Proposal:
        try:
            check_layout(layout, config)
            if out is not None and not resume and self.place.rank == 0:
                check_free(Path(out))
        except TrainError as error:
            return Proposal({}, str(error))
        return proposal_of(config, layout, out, resume=resume, rank=self.place.rank)

    def close(self) -> None:
        """Leave the process groups."""
        if self._world is not None:
            dist.destroy_process_group()


def train_distributed(
    config: TrainConfig,
    out: str | Path | None = None,
    *,
    generators: int | None = None,
    trainers: int | None = None,
    resume: bool = False,
    on_row: Callable[[Row], None] | None = None,
) -> DistributedResult | None:
    """Train on the ranks that torchrun has started; every rank calls it.

    Parameters
    ----------
    config
        From ``make_config``, the same on every rank.
    out
        Folder of the run, seen by all trainer ranks; None keeps the rows in memory.
    generators, trainers
        How many ranks generate and train; by default one in five trains.
    resume
        Go on with the run in the folder; the number of ranks may be another.
    on_row
        Called with every row of the trace, on rank 0.

    Returns
    -------
    DistributedResult or None
        Where the trace is, and its rows, on rank 0; None on the others.

    Raises
    ------
    TrainError
        On every rank: when torchrun's variables are missing, ranks disagree, one ends early, or as in ``train``.

    References
    ----------
    Generators, trainers and PipelineRL: ScaleRL, sections 2 and 3.1 (arXiv 2510.13786).
    """
    place = place_of(os.environ)
    if place is None:
        raise TrainError("RANK and WORLD_SIZE are not set: start with torchrun, or call train for one process")
    layout = layout_of(place.world, generators, trainers)
    ranks = Ranks(place)
    result = ranks.train(config, out, layout, resume=resume, on_row=on_row)
    ranks.close()
    return result


def _lead(
    config: TrainConfig,
    world: World,
    out: str | Path | None,
    hub: Hub,
    *,
    resume: bool,
    on_row: Callable[[Row], None] | None,
) -> DistributedResult:
    lead: Lead | None = None
    try:
        lead = Lead(config, world, out, hub, on_row)
        return lead.run(resume)
    except _Ended as error:
        lost = hub.lost(seconds=0.5)
        reason = str(error) if lost is None else _lost(world, lost)
    except RuntimeError as error:  # a collective that a rank has left
        lost = hub.lost()
        if lost is None:
            hub.abort(f"rank 0 has failed: {error}")
            raise
        reason = _lost(world, lost)
    except PeerLostError as error:
        lost = hub.lost()
        reason = str(error) if lost is None else _lost(world, lost)
    except TrainError as error:
        hub.abort(str(error))
        raise
    reason = f"{reason}; {_whole(lead)}"
    hub.abort(reason)
    raise TrainError(reason)


def _lost(world: World, rank: int) -> str:
    return f"rank {rank}, a {world.layout.role(rank)}, has ended before the run was done"


def _whole(lead: Lead | None) -> str:
    """Say what is left to go on from."""
    folder = getattr(lead, "folder", None)
    if lead is None or folder is None or folder.saved_at is None:
        return "there is no checkpoint yet"
    return (
        f"the run stops after step {lead.step}; the checkpoint of step {folder.saved_at} is whole: start again with "
        "--resume"
    )


def _follow(config: TrainConfig, world: World, out: str | Path | None, spoke: Spoke) -> None:
    try:
        if world.trainers is None:
            GeneratorRank(config, world, spoke).run()
        else:
            Follower(config, world, out, spoke).run()
    except PeerLostError:
        raise
    except (RuntimeError, _Ended) as error:
        reason = spoke.reason()
        if not reason and isinstance(error, RuntimeError):
            raise
        raise TrainError(reason or str(error)) from None


class _Ended(TrainError):
    """The launcher, or the system, asks this process to end."""


@contextlib.contextmanager
def _ended_by_a_signal() -> Iterator[None]:
    """Turn SIGTERM, which torchrun sends when another rank has ended, into an error that says so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: FrameType | None) -> None:
        raise _Ended(f"ended by {signal.Signals(number).name}")

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _use_device(config: TrainConfig, place: Place) -> None:
    """Give each rank of a machine a GPU of its own."""
    if config.device == "cuda":
        if place.local_rank >= torch.cuda.device_count():
            raise TrainError(
                f"rank {place.rank} is number {place.local_rank} on its machine, which has "
                f"{torch.cuda.device_count()} GPUs; start as many ranks as there are"
            )
        torch.cuda.set_device(place.local_rank)
