"""The traces of the demo."""

from __future__ import annotations

from importlib import resources

from rlscaling.readers.read import read_trace
from rlscaling.traces.trace import Trace


def load_demo() -> dict[str, Trace]:
    """Return the bundled demo traces: simulated runs of rows of Table 1, with the noise of real ones.

    ``scalerl`` and ``batch-512`` run to 16,000 GPU-hours, ``batch-2048`` to 50,000; ``scalerl-8k`` is the
    first half of ``scalerl``. Their metadata says ``simulated`` and the row of Table 1.

    Examples
    --------
    >>> load_demo()["scalerl-8k"]
    Trace('scalerl-8k': 38 evaluations, 0 to 7999.4 gpu-hours, pass rate 0.354 to 0.578)
    """
    folder = resources.files("rlscaling.datasets") / "data"
    traces: dict[str, Trace] = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".jsonl"):
            with resources.as_file(file) as path:
                traces[path.stem] = read_trace(path)
    return traces
