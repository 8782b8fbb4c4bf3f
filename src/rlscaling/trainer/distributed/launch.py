"""From torchrun to a run: the ranks find each other, agree on the settings, take their roles and end together."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from rlscaling.trainer.distributed.control_channel import ControlClient, ControlServer, PeerLostError
from rlscaling.trainer.distributed.generator_rank import GeneratorRank
from rlscaling.trainer.distributed.handshake import SettingsProposal, agree, proposal_of
from rlscaling.trainer.distributed.layout import Layout, RankInfo, check_layout, layout_of, rank_info_of
from rlscaling.trainer.distributed.process_groups import ProcessGroups, connect, find_others, leave_groups
from rlscaling.trainer.distributed.shutdown import ShutdownRequestedError, ignore_sigterm, sigterm_as_error
from rlscaling.trainer.distributed.trainer_rank import DistributedResult, FollowerRank, LeadRank
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.training.checkpoint import check_free, check_save
from rlscaling.trainer.training.learner import check_device, cpu_threads

if TYPE_CHECKING:
    from rlscaling.trainer.settings.config import TrainConfig
    from rlscaling.trainer.training.learner import Row


ARRIVAL_SECONDS = 300.0
"""By when all ranks must have started."""


class Ranks:
    """The ranks that torchrun has started; they can train several runs one after the other.

    Parameters
    ----------
    rank_info
        Which rank this process is.
    timeout
        Seconds to wait for the others.
    """

    def __init__(self, rank_info: RankInfo, timeout: float = ARRIVAL_SECONDS) -> None:
        self.rank_info, self.timeout = rank_info, timeout
        self.store = find_others(rank_info, timeout)
        self._runs = 0
        self._process_groups: ProcessGroups | None = None

    def agree(self, proposal: SettingsProposal) -> None:
        """Check that all ranks have the same settings.

        Raises
        ------
        TrainError
            On every rank, when they do not.
        """
        self._runs += 1
        rank_info, name = self.rank_info, f"agree/{self._runs}"
        agree(
            self.store, proposal, rank=rank_info.rank, world_size=rank_info.world_size, name=name, timeout=self.timeout
        )

    def train(
        self,
        config: TrainConfig,
        out: str | Path | None,
        layout: Layout,
        *,
        resume: bool = False,
        on_row: Callable[[Row], None] | None = None,
        save_model: str | Path | None = None,
    ) -> DistributedResult | None:
        """Train one run; the result is rank 0's."""
        self.agree(self._proposal(config, out, layout, resume, save_model))
        _use_device(config, self.rank_info)
        if self._process_groups is None:
            self._process_groups = connect(self.rank_info, layout, config.device, self.store)
        name, host = f"channel/{self._runs}", self.rank_info.master
        with cpu_threads(config.threads):
            if self.rank_info.rank:
                with ControlClient(self.store, name, host, self.rank_info.rank, self.timeout) as control_client:
                    _follow(config, self._process_groups, out, control_client)
                    return None
            with ControlServer(
                self.store, name, host, range(1, self.rank_info.world_size), self.timeout
            ) as control_server:
                save_to = None if save_model is None else Path(save_model)
                start = functools.partial(LeadRank, config, self._process_groups, out, control_server, on_row, save_to)
                return _lead(start, control_server, resume=resume)

    def _proposal(
        self,
        config: TrainConfig,
        out: str | Path | None,
        layout: Layout,
        resume: bool,
        save_model: str | Path | None,
    ) -> SettingsProposal:
        try:
            check_layout(layout, config)
            check_device(config)
            if self.rank_info.rank == 0:
                check_save(config, save_model, out)
            if out is not None and not resume and self.rank_info.rank == 0:
                check_free(Path(out))
        except TrainError as error:
            return SettingsProposal({}, str(error))
        return proposal_of(config, layout, out, resume=resume, rank=self.rank_info.rank)

    def close(self) -> None:
        """Leave the process groups."""
        leave_groups()


def train_distributed(
    config: TrainConfig,
    out: str | Path | None = None,
    *,
    generators: int | None = None,
    trainers: int | None = None,
    resume: bool = False,
    on_row: Callable[[Row], None] | None = None,
    save_model: str | Path | None = None,
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
    save_model
        A new folder for the trained model, in the layout of the pretrained one that the run began with.

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
    rank_info = rank_info_of(os.environ)
    if rank_info is None:
        raise TrainError("RANK and WORLD_SIZE are not set: start with torchrun, or call train for one process")
    layout = layout_of(rank_info.world_size, generators, trainers)
    ranks = Ranks(rank_info)
    with sigterm_as_error():
        result = ranks.train(config, out, layout, resume=resume, on_row=on_row, save_model=save_model)
    ranks.close()
    return result


def _lead(start: Callable[[], LeadRank], control_server: ControlServer, *, resume: bool) -> DistributedResult:
    lead: LeadRank | None = None
    try:
        lead = start()
        control_server.explain = lambda rank: _lost(lead, rank)
        return lead.run(resume)
    except (
        ShutdownRequestedError,
        PeerLostError,
        RuntimeError,
    ) as error:  # RuntimeError: a collective that a rank has left
        ignore_sigterm()
        leave_groups()
        lost = control_server.lost()
        if lost is None and isinstance(error, RuntimeError):
            control_server.abort(f"rank 0 has failed: {error}")
            raise
        reason = f"{error}; {_checkpoint_left(lead)}" if lost is None else _lost(lead, lost)
        control_server.abort(reason)
        raise TrainError(reason) from None
    except TrainError as error:
        ignore_sigterm()
        control_server.abort(str(error))
        raise


def _lost(lead: LeadRank | None, rank: int) -> str:
    role = "" if lead is None else f", a {lead.process_groups.layout.role(rank)},"
    return f"rank {rank}{role} has ended before the run was done; {_checkpoint_left(lead)}"


def _checkpoint_left(lead: LeadRank | None) -> str:
    """Return from which checkpoint the run can go on, in words."""
    folder = getattr(lead, "folder", None)
    if lead is None or folder is None or folder.saved_at is None:
        return "there is no checkpoint yet"
    return (
        f"the run stops after step {lead.step}; the checkpoint of step {folder.saved_at} is whole: start again with "
        "--resume"
    )


def _follow(
    config: TrainConfig, process_groups: ProcessGroups, out: str | Path | None, control_client: ControlClient
) -> None:
    try:
        if process_groups.trainers is None:
            GeneratorRank(config, process_groups, control_client).run()
        else:
            FollowerRank(config, process_groups, out, control_client).run()
    except (ShutdownRequestedError, RuntimeError) as error:  # RuntimeError: a collective that a rank has left
        ignore_sigterm()
        leave_groups()
        reason = control_client.reason()
        if not reason and isinstance(error, RuntimeError):
            raise
        raise TrainError(reason or str(error)) from None


def _use_device(config: TrainConfig, rank_info: RankInfo) -> None:
    """Give each rank of a machine a GPU of its own."""
    if config.device == "cuda":
        if rank_info.local_rank >= torch.cuda.device_count():
            raise TrainError(
                f"rank {rank_info.rank} is number {rank_info.local_rank} on its machine, which has "
                f"{torch.cuda.device_count()} GPUs; start as many ranks as there are"
            )
        torch.cuda.set_device(rank_info.local_rank)
