"""One simulated series as two arrays, with its true parameters."""

from __future__ import annotations

import numpy as np

from rlscaling.curves.sigmoid import sigmoid

TRUTH = (0.61, 1.92, 2542.0, 0.35)
C = np.arange(0.0, 16_001.0, 400.0)
Y = np.clip(sigmoid(C, *TRUTH) + np.random.default_rng(0).normal(0, 0.004, len(C)), 0, 1)
Y_QUIET = np.clip(sigmoid(C, *TRUTH) + np.random.default_rng(0).normal(0, 0.003, len(C)), 0, 1)
