"""Tests of `rlscaling/solver/levenberg_marquardt.py`."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.solver_series import multistart, solved

SLOW = {  # Gauss-Newton contracts slowly here: large residuals, or five points near a step
    "five points": (0.3, [51, 206, 838, 3401, 13806], [0.3003, 0.3139, 0.304, 0.4952, 0.5908]),
    "loud noise": (
        None,
        [51, 86, 144, 242, 408, 687, 1156, 1945, 3273, 5509, 9273, 15607],
        [0.3343, 0.2987, 0.3796, 0.316, 0.2642, 0.2208, 0.3547, 0.4334, 0.4992, 0.4802, 0.5724, 0.5875],
    ),
}


@pytest.mark.parametrize(("R0", "C", "y"), SLOW.values(), ids=SLOW)
def test_bug_slow_convergence_is_followed_to_the_end(R0, C, y):
    C, y = np.array(C, dtype=float), np.array(y)
    assert solved(C, y, R0=R0)[1] <= multistart(C, y, R0) * (1 + 1e-9)
