"""Wander, independent noise and departures from the law: their joint posterior around a fit, and draws from it.

The evaluations of a run are a sigmoid, plus four things of different time scales:

* independent noise of each evaluation (counts or standard errors give its profile, where a trace has them);
* wander, an AR(1) process over the evaluations, up to correlations near 1;
* departures of shape: during the rise a run leaves the sigmoid and comes back. They are a Brownian bridge over the
  share of the gain, which is 0 before the rise and after it;
* drift: after the bend a run may leave its plateau for good. It is Brownian motion over
  ``log(1 + (C / C_mid)**B) / B``, which stands still on the floor and runs like log C after the bend. It goes on beyond
  the data.

The sizes of the last two are relative to the gain. Their priors come from real curves (benchmarks/real_curves.py). What
the fit can absorb is invisible in its residuals, so there the prior alone decides: a run that has been seen to follow
its plateau over a long stretch of log C is known to drift little, one that has just reached it is not, however densely
it was evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rlscaling.arrays import Array, Index, Mask
from rlscaling.curves.sigmoid import gain_share, log_compute, sigmoid_jacobian
from rlscaling.solver.observations import Observations
from rlscaling.solver.problem import Problem

WHITE = 0.4  # prior probability of independent noise alone
RHO = (0.5, 0.8, 0.92, 0.97)  # correlation of the wander at the median gap
WANDER_SHARE = (0.4, 1.0)  # of the variance of an evaluation
SIZES = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # of departures, over the noise
HORIZON = 8.0
"""A ceiling is the level of the run at this many times its compute so far: as far as drift has been measured."""

STEEP_B = 7.0  # three sd of the prior on log B: a jump, which does not show how the run approaches its ceiling
STEEPER_DRIFT = 4.0
LEAST_ROOM, ROOM_POWER = 0.05, 0.75  # near 0 and 1 there is less room: between a normal and a logit scale
LEAST_NOISE = 1e-3  # over the gain: scores repeated to the last digit are no proof that a run follows its curve
JITTER = 1e-9
CORNER = 1e3  # over what a whitened table can come to


@dataclass(frozen=True)
class SizePrior:
    """Prior of the size of a departure over the gain: a spike at 0 and a log-normal.

    Attributes
    ----------
    none : float
        Probability that there is no such departure.
    median, spread : float
        Of the log-normal: its median, and the sd of its logarithm.
    """

    none: float
    median: float
    spread: float

    def log_density(self, size: Array) -> Array:
        """Return the log probability of ``size`` on a grid of factors of 2, broadcasting; 0 is the spike."""
        with np.errstate(divide="ignore"):
            z = (np.log(size) - np.log(self.median)) / self.spread
        cell = np.log(2.0) / (self.spread * np.sqrt(2.0 * np.pi))
        rest = np.log((1.0 - self.none) * cell) - 0.5 * z * z
        return np.asarray(np.where(size == 0.0, np.log(self.none), rest))


SHAPE = SizePrior(none=0.5, median=0.05, spread=0.8)
DRIFT = SizePrior(none=0.1, median=0.014, spread=0.8)
SKEW = 0.5
"""Runs leave their plateau further upwards than downwards: ``1 + SKEW`` against ``1 - SKEW``."""


@dataclass(frozen=True, eq=False)
class Departures:
    """How far replicates of a run lie off their refitted curve, within the data and beyond.

    Attributes
    ----------
    offset : array of shape (size,)
        At the last evaluation.
    rate : array of shape (size,)
        What comes on top beyond it, per root of the clock.
    B, C_mid, last : float
        The clock, and the compute of the last evaluation.
    """

    offset: Array
    rate: Array
    B: float
    C_mid: float
    last: float

    def at(self, compute: Array) -> Array:
        """Return the departures at ``compute`` (m,), shape (size, m)."""
        now, end = drift_clock(compute, self.B, self.C_mid), self._end
        within = np.clip(now / max(end, 1e-300), 0.0, 1.0)
        beyond = np.sqrt(np.maximum(now - end, 0.0))
        return np.asarray(self.offset[:, None] * within + self.rate[:, None] * beyond)

    def of_ceiling(self) -> Array:
        """Return the departures at `HORIZON` times the data, shape (size,)."""
        return self.at(np.array([HORIZON * self.last]))[:, 0]

    @cached_property
    def _end(self) -> float:
        return float(drift_clock(np.array([self.last]), self.B, self.C_mid)[0])

    def rows(self, pick: slice) -> Departures:
        """Return some of the replicates."""
        return Departures(self.offset[pick], self.rate[pick], self.B, self.C_mid, self.last)


def join(parts: Sequence[Departures]) -> Departures:
    """Return the departures of replicates of one run one after another."""
    first = parts[0]
    offset, rate = (np.concatenate([getattr(part, name) for part in parts]) for name in ("offset", "rate"))
    return Departures(offset, rate, first.B, first.C_mid, first.last)


def drift_clock(compute: Array, B: float, C_mid: float) -> Array:
    """Return ``log(1 + (C / C_mid)**B) / B``: the log compute that a run has spent on its plateau.

    Examples
    --------
    >>> drift_clock(np.array([0.0, 1e6]), 2.0, 1e3).round(2).tolist()
    [0.0, 6.91]
    """
    return np.asarray(np.logaddexp(0.0, B * (log_compute(compute) - np.log(C_mid))) / B)


@dataclass(frozen=True, eq=False)
class ErrorPosterior:
    """Posterior of noise and departures around a fit, on a grid of (noise, shape, drift).

    Attributes
    ----------
    probability, rss : arrays of shape (noises, shapes, drifts)
        Of a cell, and its whitened residual sum of squares.
    dof : int
        Degrees of freedom left by the fit.
    roots : array of shape (noises, n, n)
        Cholesky factors of the noise at unit variance.
    share, clock : arrays of shape (n,)
        Share of the gain, and `drift_clock`, at each evaluation.
    B, C_mid, last : float
        Of the clock, and the compute of the last evaluation.
    """

    probability: Array
    rss: Array
    dof: int
    roots: Array
    share: Array
    clock: Array
    B: float
    C_mid: float
    last: float

    def draw(self, rng: np.random.Generator, size: int) -> tuple[Array, Departures]:
        """Draw what lies between the curve and the evaluations, shape (size, n), and how the departures go on."""
        n, p = len(self.share), self.probability
        cumulative = np.cumsum(p.ravel())
        pick = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
        noise, shape, drift = np.unravel_index(np.minimum(pick, p.size - 1), p.shape)
        sd = np.sqrt(self.rss[noise, shape, drift] / rng.chisquare(self.dof, size))
        sizes = np.array(SIZES)
        error = self._noise(rng, noise) * sd[:, None]
        steps = np.sqrt(np.maximum(np.diff(np.concatenate([[0.0], self.share, [1.0]])), 0.0))
        walk = np.cumsum(rng.standard_normal((size, n + 1)) * steps, axis=1)
        error += 2.0 * (sizes[shape] * sd)[:, None] * (walk[:, :-1] - walk[:, -1:] * self.share)
        steps = np.sqrt(np.maximum(np.diff(np.concatenate([[0.0], self.clock])), 0.0))
        walk = np.cumsum(rng.standard_normal((size, n)) * steps, axis=1) * (sizes[drift] * sd)[:, None]
        z = rng.standard_normal(size)
        rate = sizes[drift] * sd * np.where(z > 0.0, (1.0 + SKEW) * z, (1.0 - SKEW) * z)
        return error + walk, Departures(-walk[:, -1], rate, self.B, self.C_mid, self.last)

    def _noise(self, rng: np.random.Generator, kind: Index) -> Array:
        z = rng.standard_normal((len(kind), len(self.share)))
        for k in np.unique(kind):
            rows = kind == k
            z[rows] = z[rows] @ self.roots[k].T
        return z


def error_posterior(
    problem: Problem, series: Observations, params: tuple[float, float, float, float], fixed: Mask
) -> ErrorPosterior:
    """Return the posterior of noise and departures around a curve.

    The parameters of the curve are integrated out with flat priors, the size of the noise with ``1 / sigma``; both need
    only a QR decomposition of the whitened Jacobian in each cell. The work grows with the cube of the number of
    evaluations: use `Observations.averaged` first.

    Parameters
    ----------
    problem : Problem
        Its rows beyond those of ``series`` are an observation of R0.
    series : Observations
    params : tuple of float
        ``A, B, C_mid, R0`` of the curve.
    fixed : boolean array of shape (4,)
        Which of them are not estimated.

    Returns
    -------
    ErrorPosterior
    """
    n = len(series)
    A, B, C_mid, R0 = params
    share, clock = gain_share(series.compute, B, C_mid), drift_clock(series.compute, B, C_mid)
    end = float(share[-1] * A + (1.0 - share[-1]) * R0)
    gain = 0.0 if fixed[0] or fixed[2] else abs(end - R0)
    room = gain * max(4.0 * end * (1.0 - end), LEAST_ROOM) ** ROOM_POWER if problem.ordered else gain
    if B > STEEP_B:
        room *= STEEPER_DRIFT
    sizes = np.array(SIZES if gain > 0.0 else SIZES[:1])
    root = np.sqrt(series.weights)
    both = root[:, None] * root[None, :]
    noises, log_prior = _noises(series, _profile(series, share * A + (1.0 - share) * R0, pass_rates=problem.ordered))
    bridge = 4.0 * (np.minimum.outer(share, share) - np.outer(share, share)) * both
    drift = np.minimum.outer(clock, clock) * both
    square = sizes**2
    K = noises[:, None, None] + (square[:, None] * bridge.ravel()).reshape(-1, 1, n, n) + square[:, None, None] * drift
    jacobian = sigmoid_jacobian(problem.compute, *params) * np.sqrt(problem.weights)[:, None]
    jacobian[:, 2] *= C_mid  # by log C_mid
    residual = (series.y - share * A - (1.0 - share) * R0) * root
    log_p, rss, dof = _marginal(K.reshape(-1, n, n), jacobian[:, ~fixed], residual)
    rss = np.maximum(rss, dof * (LEAST_NOISE * gain) ** 2)
    cells = (len(noises), len(sizes), len(sizes))
    log_p, rss = log_p.reshape(cells) + log_prior[:, None, None], rss.reshape(cells)
    if gain > 0.0:
        sd = np.sqrt(rss / dof)
        log_p = log_p + SHAPE.log_density(sizes[:, None] * sd / gain) + DRIFT.log_density(sizes * sd / room)
    p = np.exp(log_p - log_p.max())
    roots = np.linalg.cholesky(noises + JITTER * np.eye(n)) / root[:, None]
    last = float(series.compute[-1])
    return ErrorPosterior(p / p.sum(), rss, dof, roots, share, clock, B, C_mid, last)


def _noises(series: Observations, profile: Array) -> tuple[Array, Array]:
    """Return the covariances of the noise at unit variance and weight, (noises, n, n), and their log priors."""
    position = series.position
    distance = np.abs(position[:, None] - position[None, :]) / float(np.median(np.diff(position)))
    independent = np.diag(profile)
    cells = [independent]
    for rho in RHO:
        cells += [share * rho**distance + (1.0 - share) * independent for share in WANDER_SHARE]
    rest = (1.0 - WHITE) / (len(cells) - 1)
    return np.array(cells), np.log([WHITE, *[rest] * (len(cells) - 1)])


def _profile(series: Observations, mean: Array, *, pass_rates: bool) -> Array:
    """Return how the variance of the independent noise goes along the run, with mean 1: from counts or errors."""
    if np.ptp(series.weights) > 1e-9 * series.weights.max():  # the weights say it already
        return np.ones(len(series))
    if series.se is not None and np.all(series.se > 0):
        profile = series.se**2
    elif pass_rates and series.n_rollouts is not None and np.all(series.n_rollouts > 0):
        mean = np.clip(mean, 0.02, 0.98)
        profile = mean * (1.0 - mean) / series.n_rollouts
    else:
        return np.ones(len(series))
    return np.asarray(np.clip(profile / profile.mean(), 0.01, 100.0))


def _marginal(K: Array, jacobian: Array, residual: Array) -> tuple[Array, Array, int]:
    """Return log marginal likelihoods, whitened sums of squares (cells,), and the degrees of freedom left."""
    n = len(residual)
    size = np.sqrt(np.einsum("ij,ij->j", jacobian[:n], jacobian[:n]))
    keep = size > 1e-9 * max(float(size.max(initial=0.0)), 1e-300)
    J = jacobian[:, keep] / size[keep]
    dof = max(len(J) - J.shape[1], 1)
    root, whitened = _whitened(K, np.concatenate([J[:n], residual[:, None]], axis=1))
    if len(J) > n:
        rows = np.concatenate([J[n:], np.zeros((len(J) - n, 1))], axis=1)
        whitened = np.concatenate([whitened, np.broadcast_to(rows, (len(K), *rows.shape))], axis=1)
    diagonal = np.abs(np.diagonal(np.linalg.qr(whitened, mode="r"), axis1=1, axis2=2))
    rss = np.maximum(diagonal[:, -1] ** 2, max(1e-30 * float(residual @ residual), 1e-300))
    log_p = (
        -np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        - np.log(np.maximum(diagonal[:, :-1], 1e-12)).sum(axis=1)
        - 0.5 * dof * np.log(rss)
    )
    return log_p, rss, dof


def _whitened(K: Array, table: Array) -> tuple[Array, Array]:
    """Return the Cholesky factors of covariances (cells, n, n) and the table (n, k) that each of them whitens.

    Both come from one decomposition: the factor of ``K`` bordered by the table holds the whitened table below that of
    ``K``, whatever stands in the last corner, as long as that is large enough.
    """
    n, k = table.shape
    bordered = np.zeros((len(K), n + k, n + k))
    bordered[:, :n, :n] = K
    bordered[:, n:, :n] = table.T
    bordered[:, np.arange(n), np.arange(n)] += JITTER
    largest = float(np.einsum("ij,ij->j", table, table).max(initial=1e-300))
    bordered[:, np.arange(n, n + k), np.arange(n, n + k)] = CORNER / JITTER * largest
    factor = np.linalg.cholesky(bordered)  # of the lower triangle
    return factor[:, :n, :n], factor[:, n:, :n].transpose(0, 2, 1)
