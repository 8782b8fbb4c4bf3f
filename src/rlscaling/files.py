"""Files written whole or not at all: atomic replacement, locks, and the one refusal to overwrite."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rlscaling.errors import TraceError

if sys.platform != "win32":
    import fcntl


def _open_locked(path: Path, *, create: bool, exclusive: bool = False) -> int:
    """Open for appending, with a lock that the system drops when the process ends, however it ends."""
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
    """As `replace_file`, but not under the hands of a writer that has the file open."""
    if not path.is_file():
        replace_file(path, data)
        return
    fd = _open_locked(path, create=False)
    try:
        replace_file(path, data)
    finally:
        os.close(fd)


def replace_file(path: Path, data: bytes) -> None:
    """Put ``data`` under ``path`` in one step: a kill leaves the old content or the new one."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except OSError as error:
        raise TraceError(f"cannot write {path}: {error.strerror}; choose another place") from None
    try:
        try:
            _write_all(fd, data)
        finally:
            os.close(fd)
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise TraceError(f"cannot write {path}: {error.strerror}; nothing was changed") from None
    _sync_folder(path.parent)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.fsync(fd)


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power cut; Windows has no such call."""
    if sys.platform != "win32":
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
