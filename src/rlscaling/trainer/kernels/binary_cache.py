"""Compiled kernels on the disk: a kernel is compiled once on a machine, not in every process."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rlscaling.errors import RLScalingWarning

_DIGEST = hashlib.sha256
_SIZE = _DIGEST().digest_size


def folder() -> Path:
    """Return where compiled kernels are kept: ``$XDG_CACHE_HOME`` or ``~/.cache``, then ``rlscaling/kernels``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "rlscaling" / "kernels"


def key(*parts: str) -> str:
    """Return a name for what is built from these texts, the same for the same texts only."""
    digest = _DIGEST()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:32]


class CachedBinary(NamedTuple):
    """What was built, and the file that holds it."""

    path: Path
    body: bytes


def fetch(name: str, build: Callable[[], bytes]) -> CachedBinary:
    """Return the file of this name, built if it is missing or damaged.

    The last 32 bytes of a file are the SHA-256 of the others, so a torn or altered file is noticed; loaders of shared
    objects ignore them. A new file takes its place at once, so processes that build it together do not disturb each
    other, and what one has loaded stays whole.

    Parameters
    ----------
    name
        From ``key``, with a suffix.
    build
        Returns what the file holds.

    Returns
    -------
    CachedBinary
        A file in ``folder()``, or in a temporary folder of this process where that cannot be written.

    Warns
    -----
    RLScalingWarning
        When it cannot: every process then builds for itself.
    """
    for directory in (folder(), *_own_folders()):
        body = _content(directory / name)
        if body is not None:
            return CachedBinary(directory / name, body)
    body = build()
    try:
        return CachedBinary(_write(folder(), name, body), body)
    except OSError as error:
        warnings.warn(
            f"compiled kernels cannot be kept in {folder()} ({error.strerror}), so every process compiles them anew; "
            "set XDG_CACHE_HOME to a folder that can be written",
            RLScalingWarning,
            stacklevel=2,
        )
    if not _temporary:
        _temporary.append(tempfile.TemporaryDirectory(prefix="rlscaling-kernels-"))
    (own,) = _own_folders()
    return CachedBinary(_write(own, name, body), body)


def _content(path: Path) -> bytes | None:
    """Return what a file holds, None if it is missing or damaged."""
    try:
        data = path.read_bytes()
    except OSError:  # not there, or not to be read: it can be built
        return None
    body, digest = data[:-_SIZE], data[-_SIZE:]
    return body if _DIGEST(body).digest() == digest else None


def _write(directory: Path, name: str, body: bytes) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    handle, temporary = tempfile.mkstemp(prefix=".", suffix=path.suffix, dir=directory)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(body + _DIGEST(body).digest())
        Path(temporary).chmod(0o755)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise
    return path


_temporary: list[tempfile.TemporaryDirectory[str]] = []
"""The folder of this process, once it needed one."""


def _own_folders() -> list[Path]:
    return [Path(folder.name) for folder in _temporary]
