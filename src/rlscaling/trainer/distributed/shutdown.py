"""How a rank ends when another has: torchrun sends SIGTERM to all that are left, and each still reports why."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

from rlscaling.trainer.errors import TrainError


class ShutdownRequestedError(TrainError):
    """The launcher, or the system, has asked this process to end."""


@contextlib.contextmanager
def sigterm_as_error() -> Iterator[None]:
    """Turn SIGTERM into an error, once; in a thread, where signals do not arrive, do nothing."""
    if not _in_main_thread():
        yield
        return

    def end(number: int, _: FrameType | None) -> None:
        ignore_sigterm()
        raise ShutdownRequestedError(f"ended by {signal.Signals(number).name}")

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is end:
            signal.signal(signal.SIGTERM, before)


def ignore_sigterm() -> None:
    """Ignore SIGTERM from here on: the process is about to end; torchrun kills what has not ended after 30 s."""
    if _in_main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def end_rank(code: int) -> NoReturn:
    """End the process of a rank that has nothing left to do, without the shutdown of the interpreter.

    torch keeps device meshes, and with them the threads of gloo, beyond ``destroy_process_group``. One of them may
    still let go of the tensors of the last collective; when it then asks for the interpreter's lock while the
    interpreter shuts down, the process dies of SIGABRT and a finished run counts as failed.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
