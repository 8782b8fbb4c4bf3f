"""Paths with a protocol: copied to a temporary folder, then read.

``wandb://`` asks W&B; ``s3://``, ``gs://``, ``hf://`` and the others are fsspec's.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path, PurePosixPath

from rlscaling.errors import TraceError

from . import wandb_history


def is_remote(item: str) -> bool:
    """Return whether a path names a protocol."""
    return "://" in item


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Return the folder that copies lie in; it goes when the process ends."""
    return tempfile.TemporaryDirectory(prefix="rlscaling-")


def forget() -> None:
    """Drop all copies, so that the next reading fetches anew."""
    if _folder.cache_info().currsize:
        _folder().cleanup()
    _folder.cache_clear()
    fetch.cache_clear()


@functools.cache
def fetch(item: str) -> Path:
    """Return a copy of a remote file, or of a folder with all that is in it.

    Raises
    ------
    TraceError
        Without the package of the protocol, or when the file cannot be had.
    """
    if item.startswith(wandb_history.SCHEME):
        return wandb_history.fetch(item, Path(tempfile.mkdtemp(dir=_folder().name)))
    try:
        from fsspec.core import url_to_fs
    except ModuleNotFoundError:
        raise TraceError(
            f"{item} needs fsspec: pip install 'rlscaling[remote]' and the package of its protocol, such as s3fs; or "
            "copy it to this machine"
        ) from None
    name = PurePosixPath(item.partition("://")[2]).name or "remote"
    target = Path(tempfile.mkdtemp(dir=_folder().name)) / name
    try:
        system, path = url_to_fs(item)
        system.get(path, str(target), recursive=system.isdir(path))
    except Exception as error:  # every protocol has errors of its own
        raise TraceError(
            f"cannot read {item}: {type(error).__name__}: {error}; check the address and your login"
        ) from None
    return target
