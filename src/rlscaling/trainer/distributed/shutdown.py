"""How a rank ends when another one has: torchrun sends SIGTERM to all that are left, and each still has to say why."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from rlscaling.trainer.errors import TrainError


class ShutdownRequestedError(TrainError):
    """The launcher, or the system, has asked this process to end."""


@contextlib.contextmanager
def ended_by_a_signal() -> Iterator[None]:
    """Turn SIGTERM into an error, once; in a thread, where signals do not arrive, do nothing."""
    if not _in_main_thread():
        yield
        return

    def end(number: int, _: FrameType | None) -> None:
        report_in_peace()
        raise ShutdownRequestedError(f"ended by {signal.Signals(number).name}")

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is end:
            signal.signal(signal.SIGTERM, before)


def report_in_peace() -> None:
    """Ignore SIGTERM from here on: the process is about to end; torchrun kills what has not ended after 30 s."""
    if _in_main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
