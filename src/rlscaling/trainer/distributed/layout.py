"""Which rank does what, decided from the variables of torchrun before anything is computed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.settings.config import TrainConfig

_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
_TRAINER_SHARE = 5  # one rank in five trains, as in the paper: 64 generators, 16 trainers


@dataclasses.dataclass(frozen=True)
class RankInfo:
    """Which rank this process is.

    Attributes
    ----------
    rank, world_size
        Number of this process, and how many there are.
    local_rank
        Number on its machine, which is also the number of its GPU.
    master
        Host of rank 0.
    """

    rank: int
    world_size: int
    local_rank: int
    master: str


@dataclasses.dataclass(frozen=True)
class Layout:
    """Ranks ``0 .. trainers - 1`` train, the others generate; rank 0 also owns the folder and the schedule."""

    generators: int
    trainers: int

    @property
    def world_size(self) -> int:
        """Number of all ranks."""
        return self.generators + self.trainers

    @property
    def generator_ranks(self) -> range:
        """Ranks that generate."""
        return range(self.trainers, self.world_size)

    def role(self, rank: int) -> str:
        """Return ``"trainer"`` or ``"generator"``."""
        return "trainer" if rank < self.trainers else "generator"


def rank_info_of(environ: Mapping[str, str]) -> RankInfo | None:
    """Return which rank this process is, from the variables of torchrun; None when torchrun has not started it.

    Raises
    ------
    TrainError
        When some of torchrun's variables are missing, or are no numbers.

    Examples
    --------
    >>> rank_info_of({}) is None
    True
    >>> rank_info_of({"RANK": "0", "WORLD_SIZE": "2"})
    Traceback (most recent call last):
    rlscaling.trainer.errors.TrainError: RANK, WORLD_SIZE are set but LOCAL_RANK, MASTER_ADDR, MASTER_PORT are not:
    ranks cannot find each other; start with torchrun, or set all five
    """
    if "RANK" not in environ and "WORLD_SIZE" not in environ:
        return None
    missing = [name for name in _VARIABLES if not environ.get(name)]
    if missing:
        present = [name for name in _VARIABLES if environ.get(name)]
        raise TrainError(
            f"{', '.join(present)} are set but {', '.join(missing)} are not: ranks cannot find each other; start with "
            "torchrun, or set all five"
        )
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT"):
        if not environ[name].isdecimal():
            raise TrainError(f"{name}={environ[name]!r} is no whole number; start with torchrun, which sets it")
    rank, world_size, local = (int(environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    if rank >= world_size:
        raise TrainError(f"RANK={rank} with WORLD_SIZE={world_size}: ranks count from 0; start with torchrun")
    return RankInfo(rank, world_size, local, environ["MASTER_ADDR"])


def layout_of(world_size: int, generators: int | None = None, trainers: int | None = None) -> Layout:
    """Return the roles of the ranks: one number follows from the other, and by default one rank in five trains.

    Raises
    ------
    TrainError
        When the ranks do not add up, or a role has none.

    Examples
    --------
    >>> layout_of(2), layout_of(10), layout_of(4, trainers=2)
    (Layout(generators=1, trainers=1), Layout(generators=8, trainers=2), Layout(generators=2, trainers=2))
    """
    if generators is None and trainers is None:
        trainers = max(1, round(world_size / _TRAINER_SHARE))
    if trainers is None:
        assert generators is not None
        trainers = world_size - generators
    if generators is None:
        generators = world_size - trainers
    if generators < 1 or trainers < 1 or generators + trainers != world_size:
        raise TrainError(
            f"{generators} generators and {trainers} trainers on {world_size} rank{'s' * (world_size != 1)}: each role "
            "needs at least one and together they are all ranks; change --generators, --trainers or torchrun's "
            "--nproc-per-node"
        )
    return Layout(generators, trainers)


def check_layout(layout: Layout, config: TrainConfig) -> None:
    """Check that every rank has something to do.

    Raises
    ------
    TrainError
        When there are more generators than prompts of an update, or more trainers than prompts of a backward pass.
    """
    prompts = config.prompts_per_step
    if layout.generators > prompts:
        raise TrainError(
            f"{layout.generators} generators for {prompts} prompts per step: some would never have one; take at most "
            f"{prompts} generators or raise prompts_per_step"
        )
    prompts_per_pass = config.micro_batch // config.generations or prompts
    if layout.trainers > prompts_per_pass:
        raise TrainError(
            f"{layout.trainers} trainers for {prompts_per_pass} prompts per backward pass: the batch does not fit "
            f"them; take at most {prompts_per_pass} trainers or raise "
            f"{'micro_batch' if config.micro_batch else 'prompts_per_step'}"
        )
