"""Parameters of Table 1 and the compute at which curves are evaluated."""

from __future__ import annotations

import numpy as np

from rlscaling.datasets import table1

ROWS = {name: p.as_tuple() for name, p in table1().items()}
C = np.arange(2000.0, 40_000.0, 500.0)
NOISE = np.random.default_rng(0).normal(0, 0.003, len(C))
HOURS = np.append(0.0, np.arange(1500.0, 16_000, 220.0))
