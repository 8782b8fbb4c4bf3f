"""`standing`: the level at which a run without a rising sigmoid stands, from its own evaluations."""

from __future__ import annotations

import math

import numpy as np

from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import Verdict

LEAST, SHARE = 3, 10  # the last three evaluations, or the last tenth of them


def standing(fit: SigmoidFit, until: float = math.inf) -> tuple[float, float]:
    """Return the level of a run that is flat, falling or a misfit, and its standard error.

    A flat run stands at the mean of its evaluations. Of the others only the last tenth counts, at least three; since
    neighbours are correlated and the run may still move, the error is the standard deviation of one of them.

    Parameters
    ----------
    fit : SigmoidFit
    until : float
        Later evaluations are left out, as long as three remain.

    Returns
    -------
    level, error : float

    Examples
    --------
    >>> import numpy as np
    >>> from rlscaling import fit_sigmoid
    >>> fit = fit_sigmoid(np.arange(0, 16001, 400.0), np.linspace(0.35, 0.05, 41))
    >>> str(fit.verdict), round(standing(fit)[0], 3)
    ('falling', 0.057)
    """
    model = fit.fitted_model()
    n = max(int(np.searchsorted(model.series.compute, until, side="right")), LEAST)
    y, w = model.series.y[:n], model.series.weights[:n]
    flat = fit.verdict is Verdict.FLAT
    if not flat:
        m = max(LEAST, len(y) // SHARE)
        y, w = y[-m:], w[-m:]
    level = float(np.average(y, weights=w))
    if flat:
        return level, model.noise.sd_long_run / math.sqrt(float(w.sum()))
    return level, math.sqrt(float(np.average((y - level) ** 2, weights=w)) * len(y) / (len(y) - 1))
