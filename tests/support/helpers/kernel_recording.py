"""Launches written to a file and repeated by a program built with a sanitizer."""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from rlscaling.trainer.kernels import emulation, sources

REPLAY = Path(__file__).with_name("replay.h")
MEMORY = ("-fsanitize=address,undefined", "-fsanitize-sections=cuda_shared", "-fno-sanitize-recover=all", "-g", "-O0")
"""Without optimisation, which may remove an access and compiles longer than the tests run."""
THREADS = ("-fsanitize=thread", "-DCUDA_ON_CPU_THREADS", "-pthread", "-g")


class Recorder:
    """Runs launches in the emulation and remembers them as they were before."""

    def __init__(self) -> None:
        self.launches: dict[str | Path, list[bytes]] = {}

    def __call__(
        self, path: str | Path, kernel: str, grid: int, block: int, values: Sequence[Tensor | float | None]
    ) -> None:
        parameters = sources.read(path).kernels[kernel]
        arguments = sources.Arguments(parameters, values)
        head = struct.pack("64siii", kernel.encode(), grid, block, len(values))
        packed = [_argument(value, slot) for value, slot in zip(values, arguments.values, strict=True)]
        self.launches.setdefault(path, []).append(head + b"".join(packed))
        emulation.launch(path, kernel, grid, block, values)

    def repeat(self, folder: Path, flags: Sequence[str]) -> str:
        """Repeat everything in programs of their own; what they print."""
        return "\n".join(repeat(path, b"".join(launches), folder, flags) for path, launches in self.launches.items())


def _argument(value: Tensor | float | None, slot: ctypes._SimpleCData[int]) -> bytes:
    if value is None:
        return struct.pack("qii", -1, 0, 0)
    if not isinstance(value, Tensor):
        return struct.pack("qii", ctypes.sizeof(slot), 1, 0) + bytes(slot)
    span = sum((n - 1) * step for n, step in zip(value.shape, value.stride(), strict=True)) + 1 if value.numel() else 0
    memory = value.as_strided((span,), (1,)).contiguous().view(torch.uint8).numpy().tobytes()
    return struct.pack("qii", len(memory), 0, value.data_ptr() % 16) + memory


def repeat(path: str | Path, launches: bytes, folder: Path, flags: Sequence[str]) -> str:
    """Run packed launches of one source in a program built with these flags; what it prints.

    Raises
    ------
    AssertionError
        With the report of the sanitizer.
    """
    source = sources.read(path)
    file = folder / f"{source.name}.launches"
    file.write_bytes(launches)
    done = subprocess.run(
        [str(program(path, tuple(flags), folder)), str(file)],
        capture_output=True, text=True, timeout=300, check=False, env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[:5000]
    return done.stdout


@functools.cache
def program(path: str | Path, flags: tuple[str, ...], folder: Path) -> Path:
    """Build the program that repeats launches of a source."""
    source = sources.read(path)
    entries = ", ".join(f'{{"{name}", launch_{name}}}' for name in source.kernels)
    main = f"""#include "{REPLAY}"
int main(int, char** argv) {{
    const Entry entries[] = {{{entries}}};
    return replay(argv[1], entries, {len(source.kernels)});
}}
"""
    output = folder / f"{source.name}-{'-'.join(flag.strip('-') for flag in flags[:1])}".replace(",", "-")
    emulation.compile_unit(source, output, *flags, extra=main)
    return output
