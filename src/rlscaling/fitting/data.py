"""`FitData`: the whole series, which evaluations are used, and the least-squares problem made of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlscaling.arrays import Array, Mask
from rlscaling.fitting.options import FitOptions
from rlscaling.solver.observations import Observations, R0Observation
from rlscaling.solver.problem import Problem

R0_SE = 0.015  # how far the early phase may lie off the sigmoid: benchmarks/r0_anchor.py
N_RECENT = 10
R0_SE_OF_RANGE = 0.05  # the same for unbounded scores, as a share of their range


def build(data: FitData, options: FitOptions) -> tuple[Problem, Observations, R0Observation | None]:
    """Return the solver's problem, the fitted evaluations and the observation of R0."""
    used = data.used
    C, y = data.compute[used], data.pass_rate[used]
    w = relative_weights(data)
    bounded = options.bounded
    R0 = options.R0 if isinstance(options.R0, int | float) else None
    anchor = None
    default_se = R0_SE if bounded else R0_SE_OF_RANGE * _spread(data.pass_rate)
    se = options.R0_se if options.R0_se is not None else default_se
    if options.method == "paper-grid":
        R0 = R0 if R0 is not None else float(data.pass_rate[data.anchor])
    elif R0 is not None and options.R0_se is not None:
        anchor, R0 = R0Observation(0.0, float(R0), se), None
    elif data.anchor is not None:
        anchor = R0Observation(float(data.compute[data.anchor]), float(data.pass_rate[data.anchor]), se, evaluated=True)
    problem = Problem(
        compute=C, weights=w, R0=R0, A=options.A, R0_min=0.0 if bounded else -math.inf, A_max=options.A_max,
        B_bounds=(options.B, options.B) if options.B is not None else options.B_bounds,
    )  # fmt: skip
    position = C if data.step is None or np.any(np.diff(data.step[used]) <= 0) else data.step[used]
    return problem, Observations(C, y, w, position, _pick(data.se, used), _pick(data.n_rollouts, used)), anchor


def relative_weights(data: FitData) -> Array:
    """Return the weights of the fitted evaluations, with mean 1; ones where none were given."""
    if data.weights is None:
        return np.ones(int(data.used.sum()))
    w = data.weights[data.used] / data.weights[data.used].max()  # their sum may leave the range of numbers
    return np.asarray(w / np.mean(w))


def recent_weights(data: FitData) -> Array:
    """Return the `relative_weights` of the last ten fitted evaluations: what a new one is taken to be like."""
    return relative_weights(data)[-N_RECENT:]


def relative_to_fit(data: FitData, weights: Array) -> Array:
    """Return the weights of other evaluations, given on the scale of ``data.weights``, as `relative_weights` are."""
    assert data.weights is not None, "checked by the caller"
    largest = data.weights[data.used].max()
    return np.asarray(weights / largest / np.mean(data.weights[data.used] / largest))


def _spread(scores: Array) -> float:
    """Return the range of unbounded scores, or their size when they are all equal."""
    return float(np.ptp(scores)) or float(np.abs(scores).max()) or 1.0


def _pick(column: Array | None, used: Mask) -> Array | None:
    return None if column is None else column[used]


@dataclass(frozen=True, eq=False)
class FitData:
    """The whole series, and which of its evaluations are fitted.

    Attributes
    ----------
    compute, pass_rate : arrays of shape (n,)
        All evaluations, including those left out.
    used : boolean array of shape (n,)
        Evaluations in the fit (the observation of R0 is not one of them).
    anchor : int or None
        Index of the evaluation that is the observation of R0.
    weights : array of shape (n,) or None
        Relative inverse variances.
    se, n_rollouts : arrays of shape (n,) or None
        Standard error and number of rollouts of each evaluation, where the trace has them.
    step : array of shape (n,) or None
        Training step of each evaluation, where known.
    notes : tuple of str
        Assumptions and repairs made while the data were read.
    """

    compute: Array
    pass_rate: Array
    used: Mask
    anchor: int | None = None
    weights: Array | None = None
    se: Array | None = None
    n_rollouts: Array | None = None
    step: Array | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.compute)


def restored_data(saved: Mapping[str, Any], n_residuals: int) -> FitData:
    """Return the data of a saved fit.

    Raises
    ------
    ValueError
        When the saved arrays do not belong together.
    """
    data = dict(saved)
    for key, value in data.items():
        if value is not None and key not in ("anchor", "notes"):
            data[key] = np.array(value, dtype=bool if key == "used" else float)
    n, n_fitted = len(data["compute"]), int(np.sum(data["used"]))
    for name in ("pass_rate", "used", "weights", "se", "n_rollouts", "step"):
        if data[name] is not None and len(data[name]) != n:
            raise ValueError(f"{name} has {len(data[name])} values for {n} evaluations")
    if n_residuals != n_fitted:
        raise ValueError(f"residual has {n_residuals} values for {n_fitted} fitted evaluations")
    return FitData(**{**data, "notes": tuple(data["notes"])})
