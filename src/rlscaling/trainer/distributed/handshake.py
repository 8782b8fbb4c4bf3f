"""All ranks agree on the settings, or none begins."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.settings.config import TrainConfig
from rlscaling.trainer.settings.make import to_dict
from rlscaling.trainer.settings.task_constants import parse_sources
from rlscaling.trainer.training.checkpoint import CHECKPOINT, load_checkpoint

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

    from rlscaling.trainer.distributed.layout import Layout


_WAIT_SECONDS = 10.0  # a launcher ends all ranks when one does: wait until each has read why


@dataclasses.dataclass(frozen=True)
class SettingsProposal:
    """What a rank would do: settings by name, or why it cannot."""

    settings: Mapping[str, Any]
    error: str = ""


def proposal_of(
    config: TrainConfig, layout: Layout, folder: str | Path | None, *, resume: bool, rank: int
) -> SettingsProposal:
    """Return the proposal of a rank.

    Parameters
    ----------
    config
        Its settings.
    layout
        The roles it knows of.
    folder, resume
        Where the run goes, and whether it goes on. A trainer rank also names the checkpoint that lies there; the
        generators need none.
    rank
        Its number.
    """
    import torch

    settings = {
        **to_dict(config),
        "generators": layout.generators,
        "trainers": layout.trainers,
        "out": None if folder is None else str(folder),
        "resume": resume,
        "torch": torch.__version__,
    }
    try:
        settings |= sources_of(config)
    except (OSError, TrainError) as error:
        return SettingsProposal(settings, str(error))
    if layout.role(rank) == "generator" or folder is None or not resume:
        return SettingsProposal(settings)
    try:
        return SettingsProposal({**settings, "checkpoint": _checkpoint_in(Path(folder))})
    except TrainError as error:
        return SettingsProposal(settings, str(error))


def sources_of(config: TrainConfig) -> dict[str, str]:
    """Return fingerprints of the files that a run is made from: two machines may have others under the same names."""
    fingerprints = {}
    for path in (
        *parse_sources(config.data, "data").values(),
        *parse_sources(config.downstream, "downstream").values(),
    ):
        with path.open("rb") as stream:
            fingerprints[f"content of {path}"] = hashlib.file_digest(stream, "sha256").hexdigest()[:16]
    if config.model_path:
        from rlscaling.trainer.model.hf_weights import fingerprint

        fingerprints["model"] = fingerprint(config.model_path)
    return fingerprints


def _checkpoint_in(folder: Path) -> str:
    """Return which checkpoint lies in a folder."""
    path = folder / CHECKPOINT
    if not path.exists():
        return "none"
    state = load_checkpoint(path)
    return f"step {state['step']}, {state.get('id', 'without a name')}"


def difference(proposals: Sequence[SettingsProposal]) -> str:
    """Return what keeps the ranks from beginning, one sentence; empty when nothing does.

    Examples
    --------
    >>> difference([SettingsProposal({"seed": 0, "lr": 0.1}), SettingsProposal({"seed": 1, "lr": 0.1})])
    'the ranks disagree: rank 0 has seed=0 and rank 1 has seed=1; start all of them with the same command'
    """
    for rank, proposal in enumerate(proposals):
        if proposal.error:
            return f"rank {rank}: {proposal.error}"
    first = proposals[0].settings
    for rank, proposal in enumerate(proposals[1:], start=1):
        for name, value in proposal.settings.items():
            if name in first and first[name] != value:
                remedy = (
                    "all trainer ranks must see the same folder"
                    if name == "checkpoint"
                    else "start all of them with the same command"
                )
                return (
                    f"the ranks disagree: rank 0 has {name}={first[name]!r} and rank {rank} has {name}={value!r}; "
                    f"{remedy}"
                )
    return ""


def agree(store: Store, proposal: SettingsProposal, *, rank: int, world_size: int, name: str, timeout: float) -> None:
    """Compare the proposals of all ranks.

    Parameters
    ----------
    store
        Seen by all ranks.
    proposal
        That of this rank.
    rank, world_size
        Number of this rank, and how many there are.
    name
        A new one for each handshake.
    timeout
        Seconds to wait for the others.

    Raises
    ------
    TrainError
        On every rank, with the same message, when they differ; or when a rank is not heard of in time.
    """
    store.set(f"{name}/{rank}", json.dumps(dataclasses.asdict(proposal)))
    proposals = []
    for other in range(world_size):
        try:
            store.wait([f"{name}/{other}"], datetime.timedelta(seconds=timeout))
        except RuntimeError:  # DistStoreError is one
            raise TrainError(
                f"rank {other} of {world_size} has said nothing for {timeout:g} s: it has not started, or has ended "
                "with an error of its own"
            ) from None
        proposals.append(SettingsProposal(**json.loads(store.get(f"{name}/{other}"))))
    if disagreement := difference(proposals):
        wait_until_all_know(store, rank=rank, world_size=world_size, name=f"{name}/known")
        raise TrainError(disagreement)


def wait_until_all_know(store: Store, *, rank: int, world_size: int, name: str) -> None:
    """Wait until every rank knows of the disagreement, a few seconds at most."""
    store.set(f"{name}/{rank}", "")
    try:
        store.wait([f"{name}/{other}" for other in range(world_size)], datetime.timedelta(seconds=_WAIT_SECONDS))
    except RuntimeError:
        return  # a rank is gone already; this one has its reason
