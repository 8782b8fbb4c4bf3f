"""`FittedModel`: the least-squares fit of one run, and the curve around which bootstrap replicates are drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rlscaling.arrays import Array, Mask
from rlscaling.curves.sigmoid import sigmoid, sigmoid_jacobian
from rlscaling.solver.departures import ErrorPosterior, error_posterior
from rlscaling.solver.noise import NoisePosterior, noise_posterior, spacing_ratio
from rlscaling.solver.observations import Observations, R0Observation
from rlscaling.solver.problem import Problem
from rlscaling.solver.variable_projection import solve

N_STARTS = 8  # starting points of the final fit
LOG_B_SD, LOG_B_SD_UNBOUNDED = 0.5, 1.5  # of the weak prior on log B behind bootstrap_params; any score may be steeper
ROUGH_RTOL = 1e-6  # of a first fit that only estimates the noise
SIGMA_FLOOR = 0.1  # of R0_se, where so few degrees of freedom are left that the first fit finds no noise
MIN_DOF = 3
SIGMA_FLOOR_OF_ANCHOR = 1e-3
MAX_AVERAGES = 48  # of neighbouring evaluations, around which the noise is judged: they keep every feature of a sigmoid
NO_RISE = 1e-6  # of the pass rate: a smaller gain is rounding


Params = tuple[float, float, float, float]  # A, B, C_mid, R0


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A least-squares problem, its data and parameters, and the parameters at which the bootstrap is drawn.

    ``problem`` has one row more than ``series`` when there is an observation of R0 (``anchor``), which is never part of
    the noise.

    ``bootstrap_params`` are least squares with a weak prior on the exponent, ``log B ~ N(log 1.6, 0.5)`` (Table 1 of
    ScaleRL spans 1.09 to 2.44). Once the data show the bend they equal the fit. Before that, least squares often
    mistakes AR(1) training noise for an early plateau with a steep rise, and replicates around that curve cannot
    contain the truth (benchmarks/coverage.py --around fit).
    """

    problem: Problem
    series: Observations
    params: Params
    bootstrap_params: Params
    anchor: R0Observation | None = None

    @property
    def n(self) -> int:
        """Number of fitted evaluations."""
        return len(self.series)

    @cached_property
    def ratio(self) -> Array:
        """Gaps between evaluations over their median."""
        return spacing_ratio(self.series.position)

    @cached_property
    def residual(self) -> Array:
        """Observed minus fitted, shape (n,)."""
        return self.series.y - sigmoid(self.series.compute, *self.params)

    def curve_of(self, params: Params | Array) -> Array:
        """Return the curve of other parameters at the evaluations, shape (n,)."""
        return sigmoid(self.series.compute, *params)

    @cached_property
    def bootstrap_curve(self) -> Array:
        """The curve of ``bootstrap_params`` at every row of the problem (the observation of R0 last)."""
        return sigmoid(self.problem.compute, *self.bootstrap_params)

    @cached_property
    def bootstrap_residual(self) -> Array:
        """Observed minus `bootstrap_curve`, scaled by the square root of the weights, shape (n,)."""
        return np.asarray((self.series.y - self.bootstrap_curve[: self.n]) * np.sqrt(self.series.weights))

    @property
    def rises(self) -> bool:
        """Whether the fitted curve is more than a constant."""
        A, _, _, R0 = self.params
        return abs(A - R0) > NO_RISE * max(abs(A), abs(R0), 1e-300)

    @cached_property
    def noise(self) -> NoisePosterior:
        """Posterior of the AR(1) noise around `bootstrap_curve`."""
        return _noise(self.problem, self.n, self.bootstrap_params, self.bootstrap_residual, self.ratio)

    @cached_property
    def averaged(self) -> FittedModel:
        """The same fit on at most `MAX_AVERAGES` averages of neighbouring evaluations; itself where it has so few."""
        n = self.n
        if n <= MAX_AVERAGES:
            return self
        series = self.series.averaged(MAX_AVERAGES)
        each = self.series.weight_of_average(MAX_AVERAGES)
        problem = replace(
            self.problem,
            compute=np.append(series.compute, self.problem.compute[n:]),
            weights=np.append(series.weights, self.problem.weights[n:] / each),
        )
        return replace(self, series=series, problem=problem)

    @cached_property
    def errors(self) -> ErrorPosterior:
        """Posterior of noise and departures from the law around `bootstrap_curve`; of few points, see `averaged`."""
        fixed = _fixed(self.problem, self.rises)
        return error_posterior(self.problem, self.series, self.bootstrap_params, fixed)

    def at_bound(self) -> tuple[str, ...]:
        """Names of the estimated parameters that lie at a bound."""
        p, (A, B, C_mid, R0) = self.problem, self.params
        low, high = p.v_bounds
        v = np.log(C_mid) - p.centre
        touching = {
            "A": p.A is None and p.A_max - 1e-9 <= A,
            "B": p.B_bounds[0] < p.B_bounds[1] and not p.B_bounds[0] * (1 + 1e-9) < B < p.B_bounds[1] * (1 - 1e-9),
            "C_mid": not low + 1e-9 < v < high - 1e-9,
            "R0": p.R0 is None and p.ordered and p.R0_min + 1e-9 >= R0,
        }
        return tuple(name for name, touches in touching.items() if touches)

    def covariance(self) -> Array:
        """Return the least-squares covariance of ``A, B, C_mid, R0``, zero where fixed or at a bound."""
        p = self.problem
        fixed = {"A": p.A is not None, "B": p.B_bounds[0] == p.B_bounds[1], "R0": p.R0 is not None}
        names = ("A", "B", "C_mid", "R0")
        free = np.array([not fixed.get(name, False) and name not in self.at_bound() for name in names])
        J = sigmoid_jacobian(p.compute, *self.params)[:, free] * np.sqrt(p.weights)[:, None]
        r = np.sqrt(self.series.weights) * self.residual
        dof = max(len(p.compute) - int(free.sum()), 1)
        scale = np.sqrt(np.maximum(np.einsum("ij,ij->j", J, J), 1e-300))
        covariance = np.zeros((4, 4))
        inner = np.linalg.pinv((J / scale).T @ (J / scale)) / np.outer(scale, scale)
        covariance[np.ix_(free, free)] = inner * float(r @ r) / dof
        return covariance


def _noise(problem: Problem, n: int, params: Params, residual: Array, ratio: Array) -> NoisePosterior:
    """Return the noise posterior around ``params``; the observation of R0 informs R0 but is no part of the noise."""
    J = sigmoid_jacobian(problem.compute, *params)
    J[:, 2] *= params[2]
    J *= np.sqrt(problem.weights)[:, None]
    A, _, _, R0 = params
    J = J[:, ~_fixed(problem, abs(A - R0) > NO_RISE * max(abs(A), abs(R0), 1e-300))]
    return noise_posterior(residual, J[:n], ratio, J[n:] if len(J) > n else None)


def _fixed(problem: Problem, rises: bool) -> Mask:
    """Return which of ``A, B, C_mid, R0`` are not estimated; the slopes of a constant by B and C_mid are rounding."""
    given_B = problem.B_bounds[0] == problem.B_bounds[1]
    return np.array([problem.A is not None, given_B or not rises, not rises, problem.R0 is not None])


def fit_model(problem: Problem, series: Observations, anchor: R0Observation | None) -> FittedModel:
    """Fit ``series`` under the constraints of ``problem``, with the observation of R0 as one more row.

    Its weight is ``(sigma / R0_se)^2`` with ``sigma`` the long-run noise, ``sd sqrt((1 + rho) / (1 - rho))``, of a
    first fit without it: an evaluation that shares AR(1) noise with its neighbours counts for less than an independent
    one. The weight is then held fixed.
    """
    ratio = spacing_ratio(series.position)
    sigma = None
    if anchor is not None:
        (rough,) = _least_squares(problem, series.y, n_starts=1, rtol=ROUGH_RTOL)
        noise = _noise_around(problem, series, rough, ratio)
        sigma = noise.sd_long_run
        if anchor.evaluated:
            anchor = replace(
                anchor, standard_error=float(np.hypot(anchor.standard_error, noise.sd_marginal)), evaluated=False
            )
        if len(series) - 4 < MIN_DOF:
            sigma = max(sigma, SIGMA_FLOOR * anchor.standard_error)
        if (
            anchor.standard_error < SIGMA_FLOOR_OF_ANCHOR * sigma
        ):  # as good as fixed; a larger weight would only lose digits
            anchor = replace(anchor, standard_error=SIGMA_FLOOR_OF_ANCHOR * sigma)
        problem = replace(
            problem,
            compute=np.append(problem.compute, anchor.compute),
            weights=np.append(problem.weights, (sigma / anchor.standard_error) ** 2),
        )
    y = series.y if anchor is None else np.append(series.y, anchor.value)
    spread = LOG_B_SD if problem.ordered else LOG_B_SD_UNBOUNDED
    if sigma is None:
        (params,) = _least_squares(problem, y)
        sigma = _noise_around(problem, series, params, ratio).sd_long_run
        (bootstrap_params,) = _least_squares(problem, y, np.array([(sigma / spread) ** 2]))
    else:
        params, bootstrap_params = _least_squares(problem, y, np.array([0.0, (sigma / spread) ** 2]))
    if problem.B_bounds[0] == problem.B_bounds[1]:
        bootstrap_params = params
    return FittedModel(problem, series, params, bootstrap_params, anchor)


def _noise_around(problem: Problem, series: Observations, params: Params, ratio: Array) -> NoisePosterior:
    residual = (series.y - sigmoid(series.compute, *params)) * np.sqrt(series.weights)
    return _noise(problem, len(series), params, residual, ratio)


def _least_squares(
    problem: Problem, y: Array, prior: Array | None = None, n_starts: int = N_STARTS, rtol: float = 1e-13
) -> list[Params]:
    """Fit ``y`` once for each strength in ``prior``, or once without a prior."""
    Y = np.tile(y, (1 if prior is None else len(prior), 1))
    solution = solve(problem, Y, n_starts=n_starts, rtol=rtol, prior=prior)
    return [(A, B, C_mid, R0) for A, B, C_mid, R0 in solution.draws().tolist()]


def score_scale(model: FittedModel) -> float:
    """Return the unit of scores: 1 for pass rates, the observed range for unbounded scores."""
    return 1.0 if model.problem.ordered else max(float(np.ptp(model.series.y)), 1e-300)


def score_range(model: FittedModel) -> tuple[float, float]:
    """Return the least and the largest score that there can be."""
    return (0.0, model.problem.A_max) if model.problem.ordered else (-np.inf, np.inf)
