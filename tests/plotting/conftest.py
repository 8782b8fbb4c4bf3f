"""Demo runs, and fits of a whole run and of its beginning."""

from __future__ import annotations

import pytest

from rlscaling import Trace, datasets, fit_trace
from rlscaling.fitting.sigmoid_fit import SigmoidFit


@pytest.fixture(scope="module")
def demo() -> dict[str, Trace]:
    return datasets.load_demo()


@pytest.fixture(scope="module")
def whole(demo: dict[str, Trace]) -> SigmoidFit:
    return fit_trace(demo["scalerl"])


@pytest.fixture(scope="module")
def early(demo: dict[str, Trace]) -> SigmoidFit:
    return fit_trace(demo["scalerl"].up_to(3000))
