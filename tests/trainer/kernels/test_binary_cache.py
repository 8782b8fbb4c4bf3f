"""Compiled kernels on the disk: kept, repaired, never in the way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlscaling.errors import RLScalingWarning
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.kernels import binary_cache, cuda


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "rlscaling" / "kernels"


def never(*_: Any) -> bytes:
    raise AssertionError("it was built again")


def test_what_is_compiled_is_kept(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = cuda.cubin("policy_loss", "sm_90")
    assert first.startswith(b"\x7fELF")
    assert len(list(own_cache.iterdir())) == 1
    with monkeypatch.context() as patch:
        patch.setattr(cuda, "compile_cubin", never)
        assert cuda.cubin("policy_loss", "sm_90") == first
    cuda.cubin("policy_loss", "sm_80")
    assert len(list(own_cache.iterdir())) == 2, "another architecture is another file"
    monkeypatch.setattr(cuda, "nvrtc_version", lambda: (99, 1))
    monkeypatch.setattr(cuda, "compile_cubin", lambda name, arch: b"of another compiler")
    assert cuda.cubin("policy_loss", "sm_90") == b"of another compiler"


@pytest.mark.parametrize("damage", [b"", b"short", None])
def test_a_damaged_file_is_built_again(own_cache: Path, damage: bytes | None) -> None:
    built: list[int] = []

    def build() -> bytes:
        built.append(1)
        return b"content" * 100

    path, body = binary_cache.fetch("x.cubin", build)
    whole = path.read_bytes()
    path.write_bytes(damage if damage is not None else whole[:50] + b"?" + whole[51:])
    assert binary_cache.fetch("x.cubin", build) == (path, body)
    assert path.read_bytes() == whole
    assert body == b"content" * 100
    assert len(built) == 2


def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    own: list[Any] = []
    monkeypatch.setattr(binary_cache, "_temporary", own)
    with pytest.warns(RLScalingWarning, match=f"cannot be kept in {tmp_path}/file/.*; set XDG_CACHE_HOME"):
        kept = binary_cache.fetch("x.cubin", lambda: b"content")
    assert kept.body == b"content"
    assert tmp_path not in kept.path.parents
    assert binary_cache.fetch("x.cubin", never) == kept, "this process has it now"
    own[0].cleanup()


def test_a_failed_build_leaves_nothing(own_cache: Path) -> None:
    def build() -> bytes:
        raise TrainError("no")

    with pytest.raises(TrainError, match="no"):
        binary_cache.fetch("x.cubin", build)
    assert not own_cache.exists()


def test_an_error_of_the_compiler_is_not_one_of_the_folder(own_cache: Path) -> None:
    def build() -> bytes:
        built.append(1)
        raise OSError("the compiler has no room")

    built: list[int] = []
    with pytest.raises(OSError, match="the compiler has no room"):
        binary_cache.fetch("x.cubin", build)
    assert built == [1]


def test_keys_tell_texts_apart() -> None:
    assert binary_cache.key("ab", "c") != binary_cache.key("a", "bc")
    assert binary_cache.key("ab", "c") == binary_cache.key("ab", "c")


AT_ONCE = """
import sys
from rlscaling.trainer.kernels import binary_cache as cache
for i in range(200):
    path, body = cache.fetch(f"{i % 5}.cubin", lambda: bytes([i % 5]) * 200_000)
    assert body == bytes([i % 5]) * 200_000
    if int(sys.argv[1]) == 0 and i % 3 == 0:
        path.write_bytes(b"torn")  # this process damages what the others read
    data = cache._content(path)
    assert data is None or data == bytes([i % 5]) * 200_000
"""


def test_processes_that_build_at_once(own_cache: Path) -> None:
    """Four processes fetch the same five files, one of them damaging them: each reads the whole content or none."""
    command = [sys.executable, "-c", AT_ONCE]
    processes = [subprocess.Popen([*command, str(i)], stderr=subprocess.PIPE, text=True) for i in range(4)]
    for process in processes:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    assert sorted(path.name for path in own_cache.iterdir()) == [f"{i}.cubin" for i in range(5)]
