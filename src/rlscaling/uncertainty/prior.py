"""What is believed of a run before its data are seen: priors as data with their source, or learned from your runs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from rlscaling.arrays import Array
from rlscaling.errors import FitError
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.solver.problem import LOG_B_CENTRE

LEAST_RUNS = 3
LEAST_SD = {"A": 0.02, "log_B": 0.1, "log_C_mid": 0.2}  # a family of three alike is no certainty
SHAPES = ("sigmoid", "slow")


@dataclass(frozen=True)
class Prior:
    """Prior of a forecast by ``method="auto"``.

    Attributes
    ----------
    A, log_B : tuple of float
        Mean and sd of the ceiling (cut off below R0 and above its bound) and of the log exponent. For unbounded scores
        ``A`` counts from the first evaluation, in ranges of the scores.
    log_C_mid : tuple of float
        Mean and sd of log C_mid: from log of the last fitted compute when ``relative``, else of the compute itself.
    relative : bool
    shapes : tuple of (str, float)
        Prior weights of ``sigmoid``, and of ``slow``: ``1/2 + arctan(B log(C / C_mid)) / pi`` in its place, which
        approaches its ceiling like ``1 / log C``.
    wander : tuple of float
        Sizes, over the noise, of a slow departure from the curve, equally likely.
    length : float
        How long a departure lasts, in log compute.
    widening : float
        The spread of a forecast is multiplied by ``1 + widening log(C / C_last)``.
    source : str
        Where the numbers come from.
    """

    A: tuple[float, float] = (0.75, 0.5)
    log_B: tuple[float, float] = (LOG_B_CENTRE, 0.5)
    log_C_mid: tuple[float, float] = (0.0, 1.5)
    relative: bool = True
    shapes: tuple[tuple[str, float], ...] = (("sigmoid", 1.0), ("slow", 2.0))
    wander: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0, 4.0)
    length: float = 0.7
    widening: float = 0.3
    source: str = "B: Table 1 of ScaleRL (1.09 to 2.44); the rest: one half of the sources of benchmarks/forecast.py"

    def __post_init__(self) -> None:
        for name in ("A", "log_B", "log_C_mid"):
            mean, sd = getattr(self, name)
            if not (math.isfinite(mean) and 0.0 < sd < math.inf):
                raise FitError(f"prior {name}=({mean:g}, {sd:g}) is no mean with a positive sd; give (mean, sd)")
        names = [shape for shape, _ in self.shapes]
        if not names or set(names) - set(SHAPES) or any(not 0.0 < weight < math.inf for _, weight in self.shapes):
            raise FitError(f"prior shapes={self.shapes} must name {' or '.join(SHAPES)}, each with a positive weight")
        if not self.wander or any(not 0.0 <= size < math.inf for size in self.wander):
            raise FitError(f"prior wander={self.wander} must hold finite sizes of 0 or more")
        if not 0.0 < self.length < math.inf or not 0.0 <= self.widening < math.inf:
            raise FitError(f"prior length={self.length:g} must be positive and widening={self.widening:g} 0 or more")


DEFAULT = Prior()
SIGMOID_ONLY = Prior(shapes=(("sigmoid", 1.0),), wander=(0.0,), widening=0.0)


def learn_prior(fits: Iterable[SigmoidFit]) -> Prior:
    """Return the prior that a family of your own runs gives: their ``A``, ``B`` and ``C_mid``, with their spread.

    The spread is that of a new member of the family, ``sd sqrt(1 + 1 / n)``, and never below 0.02 in ``A``, 0.1 in
    log B and 0.2 in log C_mid.

    Parameters
    ----------
    fits : iterable of SigmoidFit
        Finished runs of one family (same task, compute in one unit). Those whose ceiling is not known to 0.05 are left
        out.

    Returns
    -------
    Prior

    Raises
    ------
    FitError
        With fewer than 3 runs whose ceiling is known, mixed units, or unbounded scores.

    Examples
    --------
    >>> from rlscaling import datasets, fit_trace, learn_prior
    >>> demo = datasets.load_demo()
    >>> prior = learn_prior(fit_trace(demo[name]) for name in ("scalerl", "batch-512", "batch-2048"))
    >>> round(prior.A[0], 2)
    0.62
    """
    given = list(fits)
    for fit in given:
        if not isinstance(fit, SigmoidFit):
            raise FitError(f"learn_prior takes SigmoidFits, not {type(fit).__name__}; fit first")
        if not math.isfinite(fit.options.A_max):
            raise FitError(f"{fit.name or 'a fit'} is of unbounded scores; a prior is learned from pass rates only")
    units = sorted({fit.compute_unit for fit in given})
    if len(units) > 1:
        raise FitError(f"compute is in {' and '.join(units)}; learn from runs in one unit")
    known = [fit for fit in given if fit.verdict.identifies_ceiling]
    if len(known) < LEAST_RUNS:
        raise FitError(
            f"{len(known)} of {len(given)} runs have a ceiling known to 0.05; a prior needs {LEAST_RUNS}: add finished "
            "runs, or use the default"
        )
    return Prior(
        A=_new_member("A", np.array([fit.A for fit in known])),
        log_B=_new_member("log_B", np.log([fit.B for fit in known])),
        log_C_mid=_new_member("log_C_mid", np.log([fit.C_mid for fit in known])),
        relative=False,
        source=f"{len(known)} runs: {', '.join(fit.name or 'unnamed' for fit in known[:5])}",
    )


def _new_member(name: str, values: Array) -> tuple[float, float]:
    spread = float(np.std(values, ddof=1)) * math.sqrt(1.0 + 1.0 / len(values))
    return float(np.mean(values)), max(spread, LEAST_SD[name])
