"""The traces of the demo."""

from __future__ import annotations

from rlscaling.datasets.bundled import read_bundled
from rlscaling.traces.trace import Trace


def load_demo() -> dict[str, Trace]:
    """Return the bundled demo traces: simulated runs of rows of Table 1, with the noise of real ones.

    ``scalerl`` and ``batch-512`` run to 16,000 GPU-hours, ``batch-2048`` to 50,000; ``scalerl-8k`` is the
    first half of ``scalerl``. Their metadata says ``simulated`` and the row of Table 1. They are evaluated every 100
    steps as in the paper: every 150 GPU-hours at batch 768, every 1,351 at batch 2048; and at batch 512, where the
    paper does not say, every 100, in proportion to 768. `figure1` has real runs.

    Examples
    --------
    >>> load_demo()["scalerl-8k"]
    Trace('scalerl-8k': 54 evaluations, 0 to 7950 gpu-hours, pass rate 0.348 to 0.585)
    """
    return read_bundled()
