"""`without_strays`: a run fitted without the few evaluations that lie far off the curve of all the others."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from rlscaling.errors import RLScalingError
from rlscaling.fitting.fit import refit
from rlscaling.fitting.residual_checks import outlier_points, stray_blocks
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import Verdict
from rlscaling.printing.numbers import number, unit_text

MOST_SHARE = 0.1  # of the evaluations: more are not "a few bad ones"


@dataclass(frozen=True, eq=False)
class WithoutStrays:
    """A run fitted without its stray evaluations, and which those are: arrays as tuples, by compute."""

    fit: SigmoidFit
    compute: tuple[float, ...]
    pass_rate: tuple[float, ...]

    @property
    def sentence(self) -> str:
        """Which evaluations were left out, in words."""
        several, unit = len(self.compute) > 1, unit_text(self.fit.compute_unit)
        places = ", ".join(f"{c:.10g}" for c in self.compute)
        values = ", ".join(number(y) for y in self.pass_rate)
        return (
            f"without the evaluation{'s' if several else ''} at {places} {unit} (pass rate {values}), which "
            f"{'lie' if several else 'lies'} far off the curve of all the others"
        )


def without_strays(fit: SigmoidFit) -> WithoutStrays | None:
    """Return a misfit fitted without its stray evaluations; None where they are not what is wrong with it.

    Examples
    --------
    >>> import numpy as np
    >>> from rlscaling import fit_sigmoid
    >>> C = np.arange(0, 16_001, 400.0)
    >>> y = 0.3 + 0.3 / (1 + (2500 / np.maximum(C, 1)) ** 1.8) + np.random.default_rng(0).normal(0, 0.004, len(C))
    >>> y[30] = 0.05
    >>> fit = fit_sigmoid(C, y)
    >>> str(fit.verdict), without_strays(fit).compute
    ('misfit', (12000.0,))
    """
    if fit.verdict is not Verdict.MISFIT:
        return None
    model = fit.fitted_model()
    block = stray_blocks(model)
    points = outlier_points(model) if block is None else block.points
    if not points or len(points) > max(1, int(MOST_SHARE * model.n)):
        return None
    compute, y = model.series.compute, model.series.y
    spans = tuple((float(compute[run[0]]), float(compute[run[-1]])) for run in _runs(points))
    try:
        better = refit(fit, exclude=(*fit.options.exclude, *spans))
    except RLScalingError:  # too few points are left
        return None
    if not better.verdict.has_curve:
        return None
    return WithoutStrays(better, tuple(float(compute[i]) for i in points), tuple(float(y[i]) for i in points))


def _runs(points: list[int]) -> list[list[int]]:
    """Return stretches of neighbours."""
    stretches = itertools.groupby(enumerate(sorted(points)), key=lambda pair: pair[1] - pair[0])
    return [[point for _, point in stretch] for _, stretch in stretches]
