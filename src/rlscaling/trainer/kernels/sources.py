"""The ``.cu`` files and their arguments, read from the declarations.

The declaration is the only place that says what a kernel takes, so what is passed is checked and converted by it, for
the GPU and for the emulation alike.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

FOLDER = Path(__file__).with_name("csrc")
HEADER = "block.cuh"
OPERATIONS = tuple(sorted(file.stem for file in FOLDER.glob("*.cu")))
"""Names of the ``.cu`` files."""

_DECLARATION = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(([^)]*)\)')
_POINTERS = {"float*": torch.float32, "bf16*": torch.bfloat16, "long long*": torch.int64, "Tally*": torch.float32}
_SCALARS: Mapping[str, Any] = {
    "int": ctypes.c_int32,
    "unsigned": ctypes.c_uint32,
    "long long": ctypes.c_int64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel, its type without ``const``."""

    type: str
    name: str


@dataclasses.dataclass(frozen=True)
class Source:
    """A ``.cu`` file.

    Attributes
    ----------
    path
        Where it is.
    text
        What it holds.
    kernels
        Parameters of each kernel.
    """

    path: Path
    text: str
    kernels: Mapping[str, tuple[Parameter, ...]]

    @property
    def name(self) -> str:
        """Name of the file without ``.cu``."""
        return self.path.stem


@functools.cache
def read(path: str | Path) -> Source:
    """Return the source of an operation (a name in ``OPERATIONS``) or of a ``.cu`` file (a path)."""
    file = path if isinstance(path, Path) else FOLDER / f"{path}.cu"
    text = file.read_text(encoding="utf-8")
    kernels = {name: tuple(_parameters(listed)) for name, listed in _DECLARATION.findall(text)}
    assert kernels, f"{file} declares no kernel"
    return Source(file, text, kernels)


def header() -> str:
    """Return the text of the header that every ``.cu`` file includes."""
    return (FOLDER / HEADER).read_text(encoding="utf-8")


def largest_block() -> int:
    """Return the threads of the largest block that the kernels are made for, as the header says."""
    (number,) = re.findall(r"^#define LARGEST_BLOCK (\d+)$", header(), re.MULTILINE)
    return int(number)


def _parameters(listed: str) -> Iterator[Parameter]:
    for item in listed.split(","):
        kind, name = re.sub(r"\bconst\b", "", item).strip().rsplit(maxsplit=1)
        assert kind in _POINTERS or kind in _SCALARS, f"no argument of type {kind!r} can be passed"
        yield Parameter(kind, name)


class Arguments:
    """Arguments of one launch, laid out as ``cuLaunchKernel`` takes them: an array of pointers to values.

    Parameters
    ----------
    parameters
        Of the kernel.
    values
        Tensors (None is a null pointer) and numbers, in the same order.

    Attributes
    ----------
    values : list
        The arguments as ctypes objects.
    pointers : ctypes array
        Their addresses.
    """

    def __init__(self, parameters: Sequence[Parameter], values: Sequence[Tensor | float | None]) -> None:
        assert len(parameters) == len(values), f"{len(values)} arguments for {len(parameters)} parameters"
        self.values = [_converted(p, v) for p, v in zip(parameters, values, strict=True)]
        self.pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in self.values))

    @property
    def address(self) -> int:
        """Address of the array."""
        return ctypes.addressof(self.pointers)


def _converted(parameter: Parameter, value: Tensor | float | None) -> Any:
    kind, name = parameter.type, parameter.name
    if kind in _POINTERS:
        assert value is None or (isinstance(value, Tensor) and value.dtype is _POINTERS[kind]), f"{name} is no {kind}"
        return ctypes.c_void_p(None if value is None else value.data_ptr())
    assert isinstance(value, int | float), f"{name} is no number"
    converted = _SCALARS[kind](value)
    assert isinstance(value, float) or converted.value == value, f"{name}={value} does not fit into {kind}"
    return converted
