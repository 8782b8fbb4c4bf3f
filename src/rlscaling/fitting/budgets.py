"""Checks of compute budgets, and how far beyond the data a verdict supports a forecast."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.arrays import Array, as_floats
from rlscaling.errors import FitError
from rlscaling.fitting.options import SMALLEST
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import Verdict
from rlscaling.printing.numbers import number, unit_text

DEFAULT_COMPUTE = 100_000.0  # GPU-hours
SUPPORTED_BEYOND = 2.0


def check_budgets(fit: SigmoidFit, compute: ArrayLike | None, *, option: str = "compute= (--compute)") -> Array:
    """Return the checked budgets, in the fit's unit; None stands for 100,000 GPU-hours."""
    if compute is None:
        if fit.compute_unit != "gpu-hours":
            raise FitError(
                f"compute is in {unit_text(fit.compute_unit)}, for which there is no default budget; give "
                f"{option}, e.g. {number(10 * fit.compute_range[1])}"
            )
        compute = DEFAULT_COMPUTE
    budgets = as_floats(np.atleast_1d(compute) if np.ndim(compute) == 0 else compute, "compute")
    bad = np.flatnonzero(~((budgets >= SMALLEST) & (budgets <= 1.0 / SMALLEST)))
    if len(bad) or not len(budgets):
        value = float(budgets[bad[0]]) if len(bad) else 0.0
        what = f"compute[{bad[0]}] is {value:g}" if len(bad) else "compute is empty"
        if 0.0 < value < np.inf:
            raise FitError(f"{what}, outside {SMALLEST:g} to {1.0 / SMALLEST:g}; give it and the runs in another unit")
        raise FitError(f"{what}: a budget is a positive, finite number of {unit_text(fit.compute_unit)}")
    return budgets


def supported_beyond(verdict: Verdict, measured: float = SUPPORTED_BEYOND) -> float:
    """Return up to how many times the compute so far a number is supported; ``measured`` where A is not identified."""
    if not verdict.has_curve:
        return 1.0
    return measured if verdict is Verdict.NOT_IDENTIFIED else np.inf
