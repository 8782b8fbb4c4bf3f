"""The runs that the statistical benchmarks simulate: METHOD's generator, one function.

Evaluations every 216.2 GPU-hours from the step-0 evaluation on; the mean is the sigmoid of a row of Table 1 with
R0 = 0.30; 1,000 fixed prompts x 16 samples (variance ``mu (1 - mu) / 2 / 16000``) plus an AR(1) wander. `coverage.py`
uses the spacings of the paper instead, and prompts as far apart as those of a real run.
"""

from __future__ import annotations

import numpy as np

from rlscaling import datasets
from rlscaling.curves.sigmoid import sigmoid

ROWS = {"scalerl": "scalerl", "bs2048": "batch-2048", "code": "math-code-code"}
NOISE = {"white": (0.0, 0.006), "low": (0.3, 0.003), "middle": (0.6, 0.006), "high": (0.8, 0.010)}
ENDS = (0.5, 1.0, 2.0, 4.0, 6.0)  # of C_mid
R0 = 0.30
STEP = 216.2
PAPER_STEP = {"scalerl": 150.0, "bs2048": 1351.0, "code": 150.0}  # GPU-hours between evaluations [ScaleRL]
REAL_PROMPTS = 0.4  # a + b of the Beta distribution of pass rates over prompts, of a public run
CUTOFF = 1500.0


def truth(row: str) -> tuple[float, float, float, float]:
    """Return ``A, B, C_mid, R0`` of a row of Table 1."""
    p = datasets.table1(R0=R0)[ROWS[row]]
    return p.A, p.B, p.C_mid, p.R0


def evaluations(C_end: float, step: float = STEP) -> np.ndarray:
    """Return the compute of the evaluations of a run that ends at ``C_end``, the step-0 evaluation first."""
    return np.arange(0, int(C_end / step) + 1) * step


def draw(
    params: tuple[float, float, float, float],
    C: np.ndarray,
    rho: float,
    sd: float,
    rng: np.random.Generator,
    concentration: float = 1.0,
) -> np.ndarray:
    """Return one run's pass rates; ``concentration`` is a + b of the Beta distribution over prompts."""
    mean = sigmoid(C, *params)
    noise = rng.standard_normal(len(C))
    for t in range(1, len(C)):
        noise[t] = rho * noise[t - 1] + np.sqrt(1.0 - rho * rho) * noise[t]
    sampling = np.sqrt(mean * (1.0 - mean) * concentration / (1.0 + concentration) / 16000.0) * rng.standard_normal(
        len(C)
    )
    return np.clip(mean + sd * noise + sampling, 0.0, 1.0)


def cells(min_points: int = 7) -> list[tuple[str, str, float]]:
    """Return ``(row, noise, end)`` of every cell with enough evaluations after the cutoff."""
    found = []
    for row in ROWS:
        for noise in NOISE:
            for end in ENDS:
                C = evaluations(end * truth(row)[2], PAPER_STEP[row])
                if np.sum(C >= CUTOFF) >= min_points:
                    found.append((row, noise, end))
    return found
