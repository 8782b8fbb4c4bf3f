"""Three recipes and their comparison."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.recipe_fits import SCALERL, fitted
from rlscaling import compare


@pytest.fixture(scope="module")
def three():
    """A slow horse with the higher ceiling, and two that are alike."""
    long = np.arange(0, 77) * 650.0
    return {
        "slow": fitted((0.645, 1.70, 10909.0, 0.35), 1, compute=long),
        "fast": fitted(SCALERL, 2),
        "like": fitted((0.607, 1.95, 2600.0, 0.35), 3),
    }


@pytest.fixture(scope="module")
def comparison(three):
    return compare(three, rng=0)
