"""Three recipes and their comparison."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.recipe_fits import LONG, SCALERL, SLOW, fitted
from rlscaling import compare


@pytest.fixture(scope="module")
def three():
    """A slow horse with the higher ceiling, and two that are alike; all are long enough to be identified."""
    return {
        "slow": fitted(SLOW, 1, compute=np.arange(0, 153) * 650.0),
        "fast": fitted(SCALERL, 2, compute=LONG),
        "like": fitted((0.607, 1.95, 2600.0, 0.35), 3, compute=LONG),
    }


@pytest.fixture(scope="module")
def comparison(three):
    return compare(three, rng=0)
