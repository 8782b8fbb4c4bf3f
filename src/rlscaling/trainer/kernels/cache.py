"""Compiled kernels on the disk, so that a kernel is compiled once on a machine and not once in every process."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

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


def fetch(name: str, build: Callable[[], bytes]) -> Path:
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
    Path
        A file in ``folder()``, or in a temporary folder of this process where that cannot be written.
    """
    for place in (folder, _own_folder):
        try:
            path = place() / name
            if _content(path) is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                _write(path, build())
            return path
        except OSError as error:
            failure = error
    raise failure


def content(path: Path) -> bytes:
    """Return what ``build`` returned for this file."""
    data = _content(path)
    assert data is not None, f"{path} was changed after it was fetched"
    return data


def _content(path: Path) -> bytes | None:
    """Return what a file holds, None if it is missing or damaged."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    body, digest = data[:-_SIZE], data[-_SIZE:]
    return body if _DIGEST(body).digest() == digest else None


def _write(path: Path, body: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=".", suffix=path.suffix, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(body + _DIGEST(body).digest())
        Path(name).chmod(0o755)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


_temporary: list[tempfile.TemporaryDirectory[str]] = []


def _own_folder() -> Path:
    if not _temporary:
        _temporary.append(tempfile.TemporaryDirectory(prefix="rlscaling-kernels-"))
    return Path(_temporary[0].name)
