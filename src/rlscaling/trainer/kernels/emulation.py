"""The CUDA sources on a CPU: compiled by g++ through ``csrc/cuda_on_cpu.h`` and run on CPU tensors.

Slow, and not for training: it executes the very lines that a GPU would, so that they can be tested and debugged
without one.
"""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.kernels import binary_cache, sources
from rlscaling.trainer.kernels.sources import Source

EMULATION = "cuda_on_cpu.h"
FLAGS = ("-std=c++17", "-O2", "-fPIC", "-ffp-contract=off", "-Wall", "-Wextra", "-Wno-unknown-pragmas")

thread_order = 0
"""Order in which the threads of a block run: 0 ascending, 1 descending, others shuffled by this seed."""


class EmulationError(AssertionError):
    """A kernel did what no GPU allows; the message says where."""


@functools.cache
def compiler() -> str:
    """Return the version line of g++.

    Raises
    ------
    TrainError
        When there is none.
    """
    program = shutil.which("g++")
    if program is None:
        raise TrainError("no g++ found, and kernels are emulated by compiling them with it: apt-get install g++")
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


def unit(source: Source) -> str:
    """Return the C++ file that makes the kernels of a source callable."""
    calls = "\n".join(f"CUDA_ON_CPU_KERNEL({name})" for name in source.kernels)
    return f'#include "{EMULATION}"\n#include "{source.path}"\n{calls}\n'


def compile_unit(source: Source, output: Path, *flags: str, extra: str = "") -> None:
    """Compile a source with g++.

    Parameters
    ----------
    source
        The kernels.
    output
        File to write.
    flags
        Further options, such as ``-shared`` or a sanitizer.
    extra
        Further C++ text.

    Raises
    ------
    TrainError
        With the compiler's messages.
    """
    compiler()
    with tempfile.TemporaryDirectory() as folder:
        main = Path(folder) / f"{source.name}.cpp"
        main.write_text(unit(source) + extra, encoding="utf-8")
        command = ["g++", *FLAGS, *flags, f"-I{sources.FOLDER}", "-o", str(output), str(main)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TrainError(f"g++ cannot compile {source.path.name} for the emulation:\n{done.stderr.strip()}")


def _build(source: Source) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "kernel.so"
        compile_unit(source, output, "-shared")
        return output.read_bytes()


@functools.cache
def _library(path: str | Path) -> ctypes.CDLL:
    source = sources.read(path)
    emulation = (sources.FOLDER / EMULATION).read_text(encoding="utf-8")
    name = binary_cache.key(source.text, sources.header(), emulation, unit(source), compiler(), " ".join(FLAGS))
    return ctypes.CDLL(str(binary_cache.fetch(f"{name}.so", lambda: _build(source)).path))


def entry(path: str | Path, kernel: str) -> ctypes._NamedFuncPointer:
    """Return ``launch_KERNEL(grid, block, order, args)``, which returns an error or None."""
    function: ctypes._NamedFuncPointer = getattr(_library(path), f"launch_{kernel}")
    function.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
    function.restype = ctypes.c_char_p
    return function


def launch(path: str | Path, kernel: str, grid: int, block: int, values: Sequence[Tensor | float | None]) -> None:
    """Run a kernel on CPU tensors.

    Parameters
    ----------
    path
        As in ``sources.read``.
    kernel
        Its name.
    grid, block
        Blocks, and threads of each.
    values
        Arguments in the order of the declaration.

    Raises
    ------
    EmulationError
        When threads of a block part at a barrier or a shuffle.
    """
    arguments = sources.Arguments(sources.read(path).kernels[kernel], values)
    message = entry(path, kernel)(grid, block, thread_order, arguments.pointers)
    if message is not None:
        raise EmulationError(f"{kernel}: {message.decode()}")
