"""Trace files that lie beside this module."""

from __future__ import annotations

from importlib import resources

from rlscaling.readers.read import read_trace
from rlscaling.traces.trace import Trace


def read_bundled(*folder: str) -> dict[str, Trace]:
    """Return the traces in ``data``, or in a folder below it, by name."""
    place = resources.files("rlscaling.datasets").joinpath("data", *folder)
    traces: dict[str, Trace] = {}
    for file in sorted(place.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".jsonl"):
            with resources.as_file(file) as path:
                traces[file.name.removesuffix(".jsonl")] = read_trace(path)
    return traces
