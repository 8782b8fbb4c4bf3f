"""Files written whole or not at all: atomic replacement, append-only files with a lock, a check against overwriting."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from rlscaling.errors import TraceError

if sys.platform != "win32":
    import fcntl


class Closeable(ABC):
    """What is closed at the end of a ``with`` block."""

    @abstractmethod
    def close(self) -> None:
        """Release what is held open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AppendOnlyFile(Closeable):
    """A file that only grows, locked while it is open; what was appended is on the disk.

    Parameters
    ----------
    path
        The file, in a folder that exists.
    append
        Continue a file that exists.

    Raises
    ------
    TraceError
        When the file exists and ``append`` is false, or another process writes it.
    """

    def __init__(self, path: Path, *, append: bool) -> None:
        self.path = path
        self._fd: int | None = open_locked(path, create=True, exclusive=not append)

    def _append(self, data: bytes) -> None:
        """Append ``data``, all of it or, on a full disk, nothing."""
        if self._fd is None:
            raise TraceError(f"{self.path} is closed; open it again with append=True")
        end = os.fstat(self._fd).st_size
        try:
            write_all(self._fd, data)
        except OSError:
            os.ftruncate(self._fd, end)  # a full disk must not leave half a row that the next one would continue
            raise

    def close(self) -> None:
        """Close the file, so that another process may write it."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def check_not_there(path: Path, overwrite: bool, *, option: str = "", error: type[Exception] = TraceError) -> None:
    """Raise ``error`` for a file that exists, unless it may be overwritten.

    Parameters
    ----------
    path, overwrite
        The file, and whether it may be overwritten.
    option
        The option of the command line that names the file, e.g. ``--plot``; empty for a call from Python.
    error
        The type of the error.
    """
    if os.path.lexists(path) and not overwrite:
        named, remedy = (f"{option} {path}", "add --overwrite") if option else (path, "overwrite=True (--overwrite)")
        raise error(f"{named} exists and is not written over; choose another name, or {remedy}")


def open_locked(path: Path, *, create: bool, exclusive: bool = False) -> int:
    """Open for appending, with a lock that the system releases when the process ends, however it ends."""
    flags = os.O_RDWR | os.O_APPEND | (os.O_CREAT if create else 0) | (os.O_EXCL if exclusive else 0)
    try:
        fd = os.open(path, flags, 0o644)
    except FileExistsError:
        raise TraceError(f"{path} is there already and was left as it is; pass append=True to go on with it") from None
    except FileNotFoundError:
        what = "folder of that name" if create else "such file"
        raise TraceError(f"cannot open {path}: there is no {what}; create it first") from None
    except OSError as error:
        raise TraceError(f"cannot open {path}: {error.strerror}; choose another place") from None
    if sys.platform != "win32":
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # rewind may have put another file under this name between opening and locking
            free = path.exists() and os.path.samestat(os.fstat(fd), path.stat())
        except BlockingIOError:
            free = False
        if not free:
            os.close(fd)
            raise TraceError(f"{path} is being written by another process; stop that one or choose another folder")
    return fd


def replace_unless_written(path: Path, data: bytes) -> None:
    """Replace a file as `replace_file` does, but not while another process has it open for writing."""
    if not path.is_file():
        replace_file(path, data)
        return
    fd = open_locked(path, create=False)
    try:
        replace_file(path, data)
    finally:
        os.close(fd)


def replace_file(path: Path, data: bytes, *, error: type[Exception] = TraceError) -> None:
    """Put ``data`` under ``path`` in one step: a kill leaves the old content or the new one.

    Raises
    ------
    ``error``
        When the file cannot be written; what was there before is unchanged.
    """
    path = Path(os.path.realpath(path))  # a link keeps pointing where it points
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except OSError as cause:
        raise error(f"cannot write {path}: {cause.strerror}; choose another place") from None
    try:
        try:
            write_all(fd, data)
        finally:
            os.close(fd)
        os.replace(part, path)
    except OSError as cause:
        part.unlink(missing_ok=True)
        raise error(f"cannot write {path}: {cause.strerror}; nothing was changed") from None
    sync_folder(path.parent)


def write_all(fd: int, data: bytes) -> None:
    """Write all of ``data`` to an open file, through to the disk."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.fsync(fd)


def sync_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power failure; Windows has no such call."""
    if sys.platform != "win32":
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
