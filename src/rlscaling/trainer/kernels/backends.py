"""Which implementation runs, decided once for CPU tensors and once for CUDA tensors.

``RLSCALING_KERNELS`` forces one: ``reference``, ``cuda`` or ``emulate``. It is an error when that is not available.
"""

from __future__ import annotations

import contextlib
import functools
import os
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from rlscaling.errors import RLScalingWarning
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.kernels import cuda, emulation, reference
from rlscaling.trainer.kernels.compiled import Compiled
from rlscaling.trainer.kernels.types import Backend

VARIABLE = "RLSCALING_KERNELS"
NAMES = ("reference", "cuda", "emulate")


class BackendChoice(NamedTuple):
    """An implementation, and why it was chosen."""

    name: str
    reason: str
    backend: Backend


def default_device() -> str:
    """Return ``"cuda"`` where there is a device, else ``"cpu"``."""
    return "cuda" if torch.cuda.is_available() else "cpu"


@functools.cache
def choose(device: str) -> BackendChoice:
    """Return the implementation for tensors on a type of device.

    Parameters
    ----------
    device
        ``"cpu"`` or ``"cuda"``.

    Raises
    ------
    TrainError
        When ``RLSCALING_KERNELS`` names none of the three, or one that is not available here.
    """
    forced = os.environ.get(VARIABLE, "")
    if forced:
        if forced not in NAMES:
            raise TrainError(f"{VARIABLE}={forced!r} is unknown; choose one of {', '.join(NAMES)}, or unset it")
        return _forced(forced, device)
    if device != "cuda":
        return BackendChoice("reference", "plain torch in FP32: tensors on the CPU need no kernels", reference)
    try:
        return _cuda()
    except TrainError as error:
        warnings.warn(f"CUDA kernels cannot be used, plain torch is: {error}", RLScalingWarning, stacklevel=2)
        return BackendChoice("reference", f"plain torch in FP32: {error}", reference)


def _forced(name: str, device: str) -> BackendChoice:
    reason = f"forced by {VARIABLE}"
    if name == "reference":
        return BackendChoice(name, f"plain torch in FP32, {reason}", reference)
    if name == "emulate":
        if device != "cpu":
            raise TrainError(f"{VARIABLE}=emulate runs on CPU tensors, these are on {device}; set device='cpu'")
        return BackendChoice(
            name, f"CUDA kernels compiled by {emulation.compiler()} and run on the CPU, {reason}", EMULATED
        )
    if not torch.cuda.is_available():
        raise TrainError(f"{VARIABLE}=cuda, and torch sees no CUDA device here; unset it, or use emulate")
    if device != "cuda":
        raise TrainError(f"{VARIABLE}=cuda, and these tensors are on the {device}; set device='cuda', or unset it")
    choice = _cuda()
    return choice._replace(reason=f"{choice.reason}, {reason}")


def _cuda() -> BackendChoice:
    compiler = _nvrtc()
    cuda.check_driver()
    arch = cuda.architecture(torch.device("cuda"))
    return BackendChoice("cuda", f"CUDA kernels compiled by {compiler} for {arch}", Compiled(cuda.launch))


def _nvrtc() -> str:
    return "NVRTC " + ".".join(map(str, cuda.nvrtc_version()))


EMULATED = Compiled(emulation.launch)

_override: BackendChoice | None = None


def current(device: str) -> BackendChoice:
    """Return what runs now for tensors on a type of device: as ``choose``, except inside ``using``."""
    return _override or choose(device)


def active(device: torch.device) -> Backend:
    """Return the implementation for tensors on this device."""
    return current(device.type).backend


@contextlib.contextmanager
def using(name: str) -> Iterator[None]:
    """Let one implementation run inside, to compare it with another: ``reference``, ``cuda`` or ``emulate``."""
    global _override
    before = _override
    _override = _forced(name, "cuda" if name == "cuda" else "cpu")
    try:
        yield
    finally:
        _override = before


def survey() -> dict[str, tuple[bool, str]]:
    """Return for each implementation whether it is available here, and its version or what is missing."""
    return {
        "reference": (True, f"torch {torch.__version__}"),
        "cuda": _survey_cuda(),
        "emulate": _attempt(emulation.compiler),
    }


def _survey_cuda() -> tuple[bool, str]:
    if not torch.cuda.is_available():
        return False, f"torch sees no CUDA device; {_attempt(_nvrtc)[1]}"
    available, detail = _attempt(lambda: _cuda().reason)
    return available, f"{torch.cuda.get_device_name()}: {detail}"


def _attempt(describe: Callable[[], str]) -> tuple[bool, str]:
    try:
        return True, describe()
    except TrainError as error:
        return False, str(error)
