"""What the benchmarks of several ranks share: starting torchrun on this machine and finding its processes."""

from __future__ import annotations

import sys
from pathlib import Path


def torchrun(ranks: int, *program: str) -> list[str]:
    """Return the command that starts a program on some ranks of this machine."""
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", *program]


def processes(launcher: int) -> dict[int, int]:
    """Return the processes of a torchrun by rank; Linux only."""
    processes = {}
    for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        environment = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        for entry in environment:
            if entry.startswith(b"RANK="):
                processes[int(entry[5:])] = int(child)
    return processes
