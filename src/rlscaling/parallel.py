"""`run_tasks`: work on several cores or machines, through the active joblib backend.

Every task runs with one BLAS thread, on a worker or not: with several, long sums may be added in another order, so that
numbers would differ, and small matrices cost more CPU time. Exceptions raised by the work are raised as they are;
failures of the workers are a `WorkersError`.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from rlscaling.errors import RLScalingError, WorkersError
from rlscaling.version import __version__

T = TypeVar("T")
AHEAD = 2  # tasks queued per worker, so that it need not wait for the next one
PER_WAVE = 8  # the same for backends that only return when all tasks are finished


def check_main_is_guarded(call: str) -> None:
    """Raise if this is a worker process that is importing the caller's script, which therefore lacks its guard.

    A spawned worker imports the main script before it begins. If the script starts the work at its top level, every
    worker starts it again. ``multiprocessing`` marks such a process, and does not start further ones from it.

    Raises
    ------
    WorkersError
        If the main script has no ``if __name__ == "__main__":``.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise WorkersError(
            f"{call} was called while a worker process was importing your script: each worker would start the whole "
            "work again. Put what the script does, the cluster or client too, under\n\n"
            '    if __name__ == "__main__":\n\n'
            "and leave imports and functions above it"
        )


def count_workers(n_jobs: int) -> int:
    """Return how many tasks run at a time on the active joblib backend, e.g. the threads of a Dask cluster."""
    if n_jobs == 1:
        return 1
    from joblib import effective_n_jobs

    return max(int(effective_n_jobs(n_jobs)), 1)


class _OneThread:
    """A context in which BLAS uses one thread.

    If BLAS has threads of its own, their number is a setting of the process, not of a task: of several tasks in one
    process (threads of a Dask worker) the first to enter sets it and the last to leave restores it. If it uses OpenMP,
    the number is a setting of each thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0  # threads
        self._first: Any = None
        self._mine = threading.local()

    def __enter__(self) -> None:
        depth = getattr(self._mine, "depth", 0)
        if depth == 0:
            from threadpoolctl import threadpool_limits

            with self._lock:
                if self._inside == 0:
                    _let_any_thread_set()
                self._mine.limit = threadpool_limits(limits=1, user_api="blas")
                self._first = self._first or self._mine.limit
                self._inside += 1
        self._mine.depth = depth + 1

    def __exit__(self, *_: object) -> None:
        self._mine.depth -= 1
        if self._mine.depth:
            return
        with self._lock:
            self._inside -= 1
            if self._mine.limit is not self._first:
                self._mine.limit.restore_original_limits()
            if self._inside == 0:
                _let_any_thread_set()
                self._first.restore_original_limits()
                _let_any_thread_set()
                self._first = None


def _let_any_thread_set() -> None:
    """Allow every thread to set the number: in threadpoolctl 3.8 only the first thread that set one may do so again."""
    from threadpoolctl import OpenBLASController

    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)


one_thread = _OneThread()


@dataclass(frozen=True)
class _Outcome:
    """The result of a task: its value, or the exception that the work raised."""

    index: int
    value: Any = None
    error: Exception | None = None


def _task(version: str, work: Callable[..., Any], index: int, arguments: list[Any]) -> _Outcome:
    """Run one task, on a worker: with one BLAS thread, and only if the worker has the caller's version."""
    if version != __version__:
        raise WorkersError(f"a worker runs rlscaling {__version__}, the caller {version}; install one version on all")
    try:
        with one_thread:
            return _Outcome(index, work(*arguments))
    except Exception as error:
        return _Outcome(index, error=error)


def run_tasks(
    work: Callable[..., T], tasks: Iterable[tuple[Any, ...]], n_jobs: int, *, call: str
) -> Generator[tuple[int, T], None, None]:
    """Yield (index, result) of each ``work(*task)`` as it finishes; with one worker in order, in this process.

    Parameters
    ----------
    work : callable
        A function of a module, or a partial of one.
    tasks : iterable of tuple
        Arguments of each call; the next ones are taken when a worker is about to be free.
    n_jobs : int
        1: no workers. Otherwise as in joblib, on its active backend.
    call : str
        The function that the user called, for messages.

    Raises
    ------
    WorkersError
        If workers die or cannot do the work.
    """
    if n_jobs != 1:
        check_main_is_guarded(call)
    # The arguments go as a list: Dask moves other large objects to one worker beforehand, and loses them with it.
    calls = ((__version__, work, index, list(task)) for index, task in enumerate(tasks))
    outcomes = (_task(*arguments) for arguments in calls) if n_jobs == 1 else _watched(_on_workers(calls, n_jobs), call)
    with closing(outcomes):
        for outcome in outcomes:
            if outcome.error is not None:
                raise outcome.error
            yield outcome.index, outcome.value


def _watched(outcomes: Generator[_Outcome, None, None], call: str) -> Generator[_Outcome, None, None]:
    """Turn failures of the workers, as opposed to those of the work, into a `WorkersError`."""
    try:
        yield from outcomes
    except RLScalingError:
        raise
    except Exception as error:
        cause = str(error).strip().split("\n")[0].split(". ")[0].rstrip(".")
        raise WorkersError(
            f"{call}: the workers stopped ({type(error).__name__}{f': {cause}' if cause else ''}). Likely causes: a "
            f"process was killed or ran out of memory, or a machine lacks rlscaling {__version__} or was shut down"
        ) from error


def _on_workers(calls: Iterator[tuple[Any, ...]], n_jobs: int) -> Generator[_Outcome, None, None]:
    from joblib import Parallel, delayed
    from joblib.parallel import get_active_backend

    backend, _ = get_active_backend()
    if hasattr(backend, "client"):
        yield from _on_dask(backend.client, calls, getattr(backend, "submit_kwargs", {}))
        return
    stop = threading.Event()
    prepared = (delayed(_task)(*arguments) for arguments in calls if not stop.is_set())
    if getattr(backend, "supports_return_generator", False):
        outcomes = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)(prepared)
        try:
            for outcome in outcomes:  # noqa: UP028 - "yield from" would close them, and joblib warns of that
                yield outcome
        finally:  # no more results are wanted: tasks that were handed out are finished, others not begun
            stop.set()
            deque(outcomes, maxlen=0)
        return
    with Parallel(n_jobs=n_jobs, batch_size=1) as pool:  # Ray, multiprocessing
        while wave := list(islice(prepared, PER_WAVE * count_workers(n_jobs))):
            yield from pool(wave)


def _on_dask(client: Any, calls: Iterator[tuple[Any, ...]], options: dict[str, Any]) -> Generator[_Outcome, None, None]:
    """Yield outcomes from a Dask cluster, directly from its client.

    joblib would wait forever for a task whose workers died too often: it receives results from Dask but no failures
    (joblib 1.6, distributed 2026.8).
    """
    import distributed

    as_completed: Any = distributed.as_completed

    def submit(arguments: tuple[Any, ...]) -> Any:
        return client.submit(_task, *arguments, pure=False, **options)

    ahead = AHEAD * max(sum(client.ncores().values()), 1)
    waiting = as_completed([submit(arguments) for arguments in islice(calls, ahead)], loop=client.loop)
    try:
        for future in waiting:
            outcome = future.result()
            for arguments in islice(calls, 1):
                waiting.add(submit(arguments))
            yield outcome
    finally:
        if client.status == "running":
            client.cancel(list(waiting.futures))
