"""What a kernel takes of a multiprocessor, as its compiler tells."""

from __future__ import annotations

import re
from typing import NamedTuple

from rlscaling.trainer.kernels import cuda, sources


class Usage(NamedTuple):
    """Of one kernel, for a thread."""

    registers: int
    spilled: int  # bytes, stores and loads


_USAGE = re.compile(
    r"Compiling entry function '(\w+)' for '(\w+)'"
    r"[\s\S]*?(\d+) bytes spill stores, (\d+) bytes spill loads[\s\S]*?Used (\d+) registers"
)


def parse_usage(log: str) -> dict[tuple[str, str], Usage]:
    """By kernel and architecture, from what ptxas prints with ``-v``."""
    return {
        (kernel, arch): Usage(int(registers), int(stores) + int(loads))
        for kernel, arch, stores, loads, registers in _USAGE.findall(log)
    }


def usage(name: str, arch: str) -> dict[tuple[str, str], Usage]:
    """Of every kernel of an operation, compiled by NVRTC."""
    return parse_usage(cuda.compile_text(f"{name}.cu", sources.read(name).text, arch, "--ptxas-options=-v")[1])
