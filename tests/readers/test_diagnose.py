"""Findings about a run that was read."""

from __future__ import annotations

import numpy as np

from rlscaling import Trace
from rlscaling.readers.diagnose import examine, mixed_sizes


def test_mixed_evaluation_sizes():
    scores = np.array([301 / 1024, 331 / 1024, 361 / 1024, 67 / 200, 71 / 200, 399 / 1024])
    assert mixed_sizes(scores) == (1024, 200)
    assert mixed_sizes(np.array([0.31, 0.32, 0.345, 0.4])) is None
    assert mixed_sizes(np.random.default_rng(0).random(20)) is None
    (finding,) = examine(Trace(np.arange(6.0), scores))
    assert finding.what == "evaluations of different size: some scores are multiples of 1/1024, others of 1/200"
