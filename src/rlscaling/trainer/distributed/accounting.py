"""Time of every rank: each costs all of the wall clock, and waits for a part of it."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping
from typing import Any

from rlscaling.trainer.training.meter import ROLES, Meter

COMPUTE_ROLES = ("generate", "train", "checkpoint")
"""What counts as compute: generators go on while a checkpoint is written, so its time is no pause."""


@dataclasses.dataclass
class ClusterMeter(Meter):
    """A meter whose seconds cost all ranks; a resume may have another number of them."""

    # device-seconds and seconds by role of the processes before this one
    _device_seconds: dict[str, float] = dataclasses.field(default_factory=lambda: dict.fromkeys(ROLES, 0.0))
    _seconds_before: dict[str, float] = dataclasses.field(default_factory=lambda: dict.fromkeys(ROLES, 0.0))

    @property
    def compute_hours(self) -> float:
        """Device-hours of all ranks, evaluation and the supervised warm-up left out."""
        return self._hours(*COMPUTE_ROLES)

    def _hours(self, *roles: str) -> float:
        return sum(self._device_seconds_of(role) for role in roles) / 3600

    def _device_seconds_of(self, role: str) -> float:
        return self._device_seconds[role] + (self.seconds[role] - self._seconds_before[role]) * self.n_devices

    def state_dict(self) -> dict[str, Any]:
        """Return the totals."""
        return {**super().state_dict(), "device_seconds": {role: self._device_seconds_of(role) for role in ROLES}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state_dict``."""
        super().load_state_dict(state)
        self._device_seconds = dict(state["device_seconds"])
        self._seconds_before = dict(self.seconds)


@dataclasses.dataclass(frozen=True)
class RankSeconds:
    """Seconds of one rank, or of several, since a run began here."""

    waiting: float = 0.0
    elapsed: float = 0.0

    def since(self, before: RankSeconds) -> RankSeconds:
        """Return what has passed since an earlier reading."""
        return RankSeconds(self.waiting - before.waiting, self.elapsed - before.elapsed)

    @property
    def idle_fraction(self) -> float | None:
        """Share of the time that was spent waiting; None when no time has passed."""
        return self.waiting / self.elapsed if self.elapsed > 0 else None


class RankClock:
    """The time of one rank: working, waiting for others, or not to be counted."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._waiting = self._left_out = 0.0
        self._counts = True

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time inside as waiting, unless it is left out already."""
        began = time.perf_counter()
        yield
        if self._counts:
            self._waiting += time.perf_counter() - began

    @contextlib.contextmanager
    def left_out(self) -> Iterator[None]:
        """Count the time inside as neither: an evaluation."""
        began = time.perf_counter()
        self._counts = False
        yield
        self._counts = True
        self._left_out += time.perf_counter() - began

    def read(self) -> RankSeconds:
        """Return the seconds so far."""
        return RankSeconds(self._waiting, time.perf_counter() - self._began - self._left_out)
