"""`doubts_about`: what the caller gave, or the data seem to be, against what the evaluations say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import log_ndtr

from rlscaling.arrays import Array
from rlscaling.curves.sigmoid import PARAMETER_NAMES, sigmoid
from rlscaling.fitting.data import FitData, build
from rlscaling.fitting.options import DEFAULT_B_BOUNDS, FitOptions
from rlscaling.printing.numbers import number
from rlscaling.solver.fitted_model import FittedModel, fit_model, score_scale

CONTRADICTED = 16.0  # twice the log likelihood: four sd of one parameter
MATERIAL = {"A": 0.02, "R0": 0.02, "log_B": 0.25}  # and so far from the best value: less does no harm
FAR_OFF = 4.0  # sd, of the observation of R0
LEAST_GAP = 0.05  # in pass rate, or in ranges of unbounded scores: a smaller gap does no harm
MIN_RECORDS, P_RECORDS = 12, 1e-4


def doubts_about(model: FittedModel, data: FitData, options: FitOptions) -> tuple[tuple[str, ...], str | None]:
    """Return notes on what is questionable, and why a ceiling that was given cannot be that of the run, or None.

    In question are given parameters that the evaluations contradict, an observation of R0 far off the curve, and series
    that hold the best scores so far.
    """
    given = _given(model, data, options)
    notes = [*given.values(), _observation(model), _records(model)]
    return tuple(note for note in notes if note), given.get("A")


def _given(model: FittedModel, data: FitData, options: FitOptions) -> dict[str, str]:
    """Return a note on each given parameter without which the curve is far nearer to the evaluations."""
    freed: dict[str, FitOptions] = {}
    notes: dict[str, str] = {}
    scale = score_scale(model)
    if options.A is not None:
        freed["A"] = replace(options, A=None)
    if options.B is not None:
        freed["B"] = replace(options, B=None, B_bounds=DEFAULT_B_BOUNDS)
    if isinstance(options.R0, float) and options.R0_se is None and options.method == "varpro":
        freed["R0"] = replace(options, R0="free")
    for name, others in freed.items():
        free = fit_model(*build(data, others))
        sd = max(free.noise.sd_long_run, 1e-3 * scale)
        gain = (_ssr(model) - _ssr(free)) / sd**2
        given, best = float(getattr(options, name)), dict(zip(PARAMETER_NAMES, free.params, strict=True))[name]
        off = (
            abs(np.log(given / best)) / MATERIAL["log_B"] if name == "B" else abs(given - best) / scale / MATERIAL[name]
        )
        if gain > CONTRADICTED and off > 1.0:
            notes[name] = (
                f"{name} was given as {given:g}; the evaluations contradict it: without it the best "
                f"fit has {name} = {number(best, 3)}"
            )
    return notes or _given_R0(model, data, options)


def _given_R0(model: FittedModel, data: FitData, options: FitOptions) -> dict[str, str]:
    """Return a note where the evaluation at compute 0 is far from the R0 that was given."""
    if not isinstance(options.R0, float) or data.compute[0] > 0:
        return {}
    first = float(data.pass_rate[0])
    if abs(first - options.R0) < max(FAR_OFF * model.noise.sd_marginal, LEAST_GAP * score_scale(model)):
        return {}
    return {
        "R0": f"R0 was given as {options.R0:g}; the evaluation at compute 0 ({number(first, 3)}) contradicts it: "
        "R0=None (no --R0) uses that"
    }


def _ssr(model: FittedModel) -> float:
    return float(np.sum(model.series.weights * model.residual**2))


def _observation(model: FittedModel) -> str:
    """Return a note where the observation of R0 lies far off the curve."""
    anchor = model.anchor
    if anchor is None:
        return ""
    off = anchor.value - float(sigmoid(anchor.compute, *model.params))
    sd = float(np.hypot(anchor.standard_error, model.noise.sd_marginal))
    if abs(off) < max(FAR_OFF * sd, LEAST_GAP * score_scale(model)):
        return ""
    where = "above" if off > 0 else "below"
    return (
        f"the observation of R0 ({number(anchor.value, 3)}) lies {number(abs(off), 2)} {where} the curve of the "
        'evaluations; R0="free" (--R0 free) leaves it out'
    )


def _records(model: FittedModel) -> str:
    """Return a note where scores that have noise never fall: the best so far, not the evaluations."""
    y, n = model.series.y, model.n
    steps = np.diff(y)
    if n < MIN_RECORDS or np.any(steps < 0.0) or not model.rises:
        return ""
    sd = float(np.sqrt(np.mean(model.residual**2)))
    if sd <= 1e-4 * abs(model.params[0] - model.params[3]):
        return ""
    curve: Array = np.diff(model.curve_of(model.params))
    if float(log_ndtr(curve / (np.sqrt(2.0) * sd)).sum()) > np.log(P_RECORDS):
        return ""
    return (
        f"no evaluation of {n} lies below the one before, though they scatter around the curve by {number(sd, 2)}: if "
        "these are the best scores so far, give all evaluations, or A comes out too high"
    )
