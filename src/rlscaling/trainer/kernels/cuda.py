"""NVRTC compilation and launches: compiled at first use, kept on the disk, launched on torch's current stream.

Nothing but pip packages is needed: ``cuda-bindings`` (12 or 13) and NVRTC, which CUDA builds of torch bring along.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.kernels import binary_cache, sources

INSTALL = "pip install 'rlscaling[cuda]'"
OPTIONS = ("--std=c++17", "--ftz=true")


def _nvrtc() -> Any:
    return importlib.import_module("cuda.bindings.nvrtc")


def _driver() -> Any:
    return importlib.import_module("cuda.bindings.driver")


def _checked(module: Any, call: Callable[..., tuple[Any, ...]], *values: Any) -> Any:
    """Call a function of the bindings, which returns a status first; return what follows it."""
    status, *results = call(*values)
    if int(status) != 0:
        raise TrainError(f"{call.__name__} failed: {_text_of(module, status)}")
    return results[0] if len(results) == 1 else tuple(results)


def _text_of(module: Any, status: Any) -> str:
    explain = getattr(module, "nvrtcGetErrorString", None) or module.cuGetErrorString
    text = explain(status)[1]
    return f"{getattr(status, 'name', status)}" + (f", {text.decode()}" if text else "")


def _load_torchs_nvrtc() -> None:
    """Load the NVRTC that torch was built with, where pip installed it; the bindings take what is loaded.

    By themselves they take the newest, whose code an older driver does not load.
    """
    major = (torch.version.cuda or "").partition(".")[0]
    if major:
        candidates = (file for base in sys.path for file in Path(base).glob(f"nvidia/*/lib/libnvrtc.so.{major}"))
        library = next(candidates, None)
        if library is not None:
            ctypes.CDLL(str(library))


@functools.cache
def nvrtc_version() -> tuple[int, int]:
    """Return the version of NVRTC.

    Raises
    ------
    TrainError
        When the bindings or NVRTC are missing, with the command that brings them.
    """
    try:
        _load_torchs_nvrtc()
        nvrtc = _nvrtc()
        major, minor = _checked(nvrtc, nvrtc.nvrtcVersion)
    except TrainError:
        raise
    except ModuleNotFoundError as error:
        raise TrainError(f"no module {error.name!r}, through which the CUDA compiler is called: {INSTALL}") from error
    except Exception as error:  # the bindings raise errors of their own when they find no shared library
        raise TrainError(f"no NVRTC found, which compiles the kernels: {INSTALL} ({_first_line(error)})") from error
    return int(major), int(minor)


def check_driver() -> None:
    """Check that the driver runs what this NVRTC compiles.

    Raises
    ------
    TrainError
        When the driver is of an earlier CUDA major version, with the packages that fit it.
    """
    driver, (major, minor) = _driver(), nvrtc_version()
    supported = _checked(driver, driver.cuDriverGetVersion)
    if supported // 1000 < major:
        fitting = supported // 1000
        raise TrainError(
            f"NVRTC is {major}.{minor} and the driver runs CUDA {fitting} at most; update the driver, or "
            f"pip install 'cuda-bindings=={fitting}.*' nvidia-cuda-nvrtc-cu{fitting}"
        )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def compile_cubin(name: str, arch: str) -> bytes:
    """Compile an operation for an architecture.

    Parameters
    ----------
    name
        In ``sources.OPERATIONS``.
    arch
        Such as ``"sm_90"``.

    Returns
    -------
    bytes
        A cubin.

    Raises
    ------
    TrainError
        With the messages of the compiler, file and line, when the source does not compile; for an unknown architecture.
    """
    return compile_text(f"{name}.cu", sources.read(name).text, arch)[0]


def compile_text(file: str, text: str, arch: str, *options: str) -> tuple[bytes, str]:
    """Compile CUDA C++ that may include ``block.cuh``; return the cubin and the compiler's log.

    Parameters
    ----------
    file
        Name for messages.
    text
        The source.
    arch
        Such as ``"sm_90"``.
    options
        Further options of NVRTC.

    Raises
    ------
    TrainError
        As ``compile_cubin``.
    """
    version = nvrtc_version()
    nvrtc = _nvrtc()
    supported = _checked(nvrtc, nvrtc.nvrtcGetSupportedArchs)
    if int(arch.removeprefix("sm_")) not in supported:
        raise TrainError(
            f"NVRTC {version[0]}.{version[1]} does not know {arch}, only {', '.join(f'sm_{a}' for a in supported)}; "
            f"install one made for this GPU: {INSTALL} --upgrade"
        )
    program = _checked(
        nvrtc, nvrtc.nvrtcCreateProgram, text.encode(), file.encode(), 1,
        [sources.header().encode()], [sources.HEADER.encode()],
    )  # fmt: skip
    try:
        flags = [flag.encode() for flag in (f"--gpu-architecture={arch}", *OPTIONS, *options)]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
        log = _log(nvrtc, program)
        if int(status) != 0:
            raise TrainError(f"NVRTC {version[0]}.{version[1]} cannot compile {file} for {arch}:\n{log}")
        cubin = bytes(_checked(nvrtc, nvrtc.nvrtcGetCUBINSize, program))
        _checked(nvrtc, nvrtc.nvrtcGetCUBIN, program, cubin)
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return cubin, log


def _log(nvrtc: Any, program: Any) -> str:
    text = bytes(_checked(nvrtc, nvrtc.nvrtcGetProgramLogSize, program))
    _checked(nvrtc, nvrtc.nvrtcGetProgramLog, program, text)
    return text.rstrip(b"\0\n ").decode()


def cubin(name: str, arch: str) -> bytes:
    """Return the cubin of an operation from the disk, compiled first if it is not there or damaged."""
    version = ".".join(map(str, nvrtc_version()))
    source = sources.read(name)
    file = binary_cache.key(source.text, sources.header(), arch, version, " ".join(OPTIONS)) + ".cubin"
    return binary_cache.fetch(file, lambda: compile_cubin(name, arch)).body


def architecture(device: torch.device) -> str:
    """Return the architecture of a GPU, such as ``"sm_90"``."""
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"


@functools.cache
def _function(name: str, kernel: str, device: int) -> Any:
    """Return the handle of a kernel on a GPU, whose context is current."""
    driver = _driver()
    code = cubin(name, architecture(torch.device("cuda", device)))
    library = _checked(driver, driver.cuLibraryLoadData, code, None, None, 0, None, None, 0)
    handle = _checked(driver, driver.cuLibraryGetKernel, library, kernel.encode())
    return _checked(driver, driver.cuKernelGetFunction, handle)


@functools.cache
def _context(device: int) -> Any:
    """Return the context of a GPU that torch uses too."""
    driver = _driver()
    return _checked(driver, driver.cuDevicePrimaryCtxRetain, _checked(driver, driver.cuDeviceGet, device))


def _make_current(driver: Any, device: int) -> None:
    """Give the calling thread torch's context: autograd's threads may not have touched the device yet."""
    context = _context(device)
    if int(_checked(driver, driver.cuCtxGetCurrent)) != int(context):
        _checked(driver, driver.cuCtxSetCurrent, context)


def prepare(device: torch.device) -> None:
    """Compile and load every kernel, before timing or the capture of a graph.

    Parameters
    ----------
    device
        A GPU.
    """
    with torch.cuda.device(device):
        index = torch.cuda.current_device()
        _make_current(_driver(), index)
        for name in sources.OPERATIONS:
            for kernel in sources.read(name).kernels:
                _function(name, kernel, index)


def launch(name: str, kernel: str, grid: int, block: int, values: Sequence[Tensor | float | None]) -> None:
    """Start a kernel on the GPU of its tensors and torch's current stream.

    Parameters
    ----------
    name
        In ``sources.OPERATIONS``.
    kernel
        A kernel of it.
    grid, block
        Blocks, and threads of each.
    values
        Arguments in the order of the declaration.

    Raises
    ------
    TrainError
        When the kernel cannot be compiled, loaded or started.
    """
    arguments = sources.Arguments(sources.read(name).kernels[kernel], values)
    device = next(value.device for value in values if isinstance(value, Tensor))
    driver = _driver()
    with torch.cuda.device(device):
        index = torch.cuda.current_device()
        _make_current(driver, index)
        stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
        function = _function(name, kernel, index)
        _checked(
            driver, driver.cuLaunchKernel, function, grid, 1, 1, block, 1, 1, 0, stream, arguments.address, 0
        )  # fmt: skip
