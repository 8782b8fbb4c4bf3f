"""`Prior` and `learn_prior`: priors of a run as data with their source, or learned from your own runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rlscaling.arrays import Array
from rlscaling.curves.forms import FORMS
from rlscaling.errors import FitError
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import THRESHOLDS, Verdict
from rlscaling.printing.document import Document, Table
from rlscaling.printing.numbers import number
from rlscaling.solver.problem import LOG_B_CENTRE

LEAST_RUNS = 3
LEAST_SD = {"A": 0.02, "log_B": 0.1, "log_C_mid": 0.2}  # three equal runs are no certainty
SHAPES = tuple(form.name for form in FORMS.values() if form.gain_share is not None)


@dataclass(frozen=True)
class Prior(Document):
    """Prior of a forecast by ``method="averaged"``.

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
        Sizes, over the noise, of the model discrepancy (a Gaussian process around the curve), equally likely.
    length : float
        Correlation length of the model discrepancy, in log compute.
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

    @property
    def headline(self) -> str:
        """Where the numbers come from."""
        return f"prior of a run ({self.source})"

    def tables(self) -> Sequence[Table]:
        """Return the table of means and standard deviations."""
        relative = "log(C_mid / C_last)" if self.relative else "log C_mid"
        named = (("A", self.A), ("log B", self.log_B), (relative, self.log_C_mid))
        return [Table.of(("", "mean", "sd"), [[name, number(mean), number(sd)] for name, (mean, sd) in named])]

    def footnotes(self) -> Sequence[str]:
        """Return the lines on shapes, model discrepancy and widening."""
        shapes = ", ".join(f"{name} {weight:g}" for name, weight in self.shapes)
        sizes = ", ".join(f"{size:g}" for size in self.wander)
        return [
            f"shapes: {shapes}",
            f"model discrepancy: {sizes} times the noise, correlated over {self.length:g} of log compute",
            f"forecasts widen by {self.widening:g} per unit of log compute",
        ]

    def _record(self) -> dict[str, Any]:
        return asdict(self)


DEFAULT = Prior()
SIGMOID_ONLY = Prior(shapes=(("sigmoid", 1.0),), wander=(0.0,), widening=0.0)


def learn_prior(fits: Iterable[SigmoidFit]) -> Prior:
    """Return the prior estimated from a family of your own runs: mean and spread of their ``A``, ``B`` and ``C_mid``.

    The spread is that of a new member of the family, ``sd sqrt(1 + 1 / n)``, and never below 0.02 in ``A``, 0.1 in
    log B and 0.2 in log C_mid.

    Parameters
    ----------
    fits : iterable of SigmoidFit
        Finished runs of one family (same task, compute in one unit). Those whose ceiling is not identified to 0.05 or
        better are left out.

    Returns
    -------
    Prior

    Raises
    ------
    FitError
        With fewer than 3 runs whose ceiling is identified, mixed units, or unbounded scores.

    Examples
    --------
    >>> from rlscaling import datasets, fit_trace, learn_prior
    >>> demo = datasets.load_demo()
    >>> prior = learn_prior(fit_trace(demo[name]) for name in ("scalerl", "batch-512", "batch-2048"))
    >>> round(prior.A[0], 2)
    0.62
    """
    runs = list(fits)
    for fit in runs:
        if not isinstance(fit, SigmoidFit):
            raise FitError(f"learn_prior takes SigmoidFits, not {type(fit).__name__}; fit first")
        if not fit.options.bounded:
            raise FitError(f"{fit.name or 'a fit'} is of unbounded scores; a prior is learned from pass rates only")
    units = sorted({fit.compute_unit for fit in runs})
    if len(units) > 1:
        raise FitError(f"compute is in {' and '.join(units)}; learn from runs in one unit")
    identified = [fit for fit in runs if fit.verdict.identifies_ceiling]
    if len(identified) < LEAST_RUNS:
        half_width = THRESHOLDS[Verdict.APPROXIMATE]
        raise FitError(
            f"{len(identified)} of {len(runs)} runs have a ceiling known to {half_width:g}; a prior needs "
            f"{LEAST_RUNS}: add finished runs, or use the default"
        )
    return Prior(
        A=_new_member("A", np.array([fit.A for fit in identified])),
        log_B=_new_member("log_B", np.log([fit.B for fit in identified])),
        log_C_mid=_new_member("log_C_mid", np.log([fit.C_mid for fit in identified])),
        relative=False,
        source=f"{len(identified)} runs: {', '.join(fit.name or 'unnamed' for fit in identified[:5])}",
    )


def _new_member(name: str, values: Array) -> tuple[float, float]:
    spread = float(np.std(values, ddof=1)) * math.sqrt(1.0 + 1.0 / len(values))
    return float(np.mean(values)), max(spread, LEAST_SD[name])
