"""Evaluation noise: its AR(1) posterior given the residuals of a fit, and draws from it.

Successive evaluations of a run are correlated, and an interval that ignores it is too narrow (benchmarks/coverage.py
--scheme residual). So the correlation ``rho`` is given a uniform prior on a grid, and its posterior, with the degrees
of freedom that the fit used up, is sampled in every replicate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rlscaling.arrays import Array

MAD_TO_SD = 1.4826  # of a normal distribution
RHO_GRID = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])


def spacing_ratio(position: Array) -> Array:
    """Return the gaps between evaluations over their median, shape (n - 1,)."""
    gaps = np.diff(position)
    ratio = np.asarray(gaps / np.median(gaps))
    # even up to rounding (steps logged as hours): exactly even, so that units cannot matter
    return np.ones_like(ratio) if np.all(np.abs(ratio - 1.0) < 1e-6) else ratio


def sd_of_differences(y: Array) -> float:
    """Return the noise of one evaluation by how much neighbours differ: independent of the curve, and robust.

    Examples
    --------
    >>> round(sd_of_differences(np.random.default_rng(0).normal(0.5, 0.01, 500)), 3)
    0.01
    """
    steps = np.diff(y)
    return float(np.median(np.abs(steps - np.median(steps)))) * MAD_TO_SD / math.sqrt(2.0)


def whiten(z: Array, rho: float, ratio: Array) -> Array:
    """Return ``z`` (n, ...) turned into independent terms of equal variance under AR(1) noise.

    The scale is that of the innovation at the median gap, so that uneven gaps get their own weight.
    """
    if rho == 0.0:
        return z
    r, innovation = _steps(rho, ratio)
    shape = (-1,) + (1,) * (z.ndim - 1)
    rest = (z[1:] - r.reshape(shape) * z[:-1]) * np.sqrt(innovation).reshape(shape)
    return np.concatenate([z[:1] * np.sqrt(1.0 - rho * rho), rest])


def log_det_whitening(rho: Array | float, ratio: Array) -> Array:
    """Return the log determinant of `whiten`: the Jacobian of a likelihood of whitened data. ``rho`` broadcasts."""
    rho = np.asarray(rho)
    return _log_det(rho, _steps(rho[..., None], ratio)[1])


def _log_det(rho: Array, innovation: Array) -> Array:
    return np.asarray(0.5 * np.log1p(-(rho**2)) + 0.5 * np.log(innovation).sum(axis=-1))


def _steps(rho: Array | float, ratio: Array) -> tuple[Array, Array]:
    """Return the correlation over each gap, and the innovation variance at the median gap over that at each gap."""
    r = np.asarray(rho**ratio)
    return r, np.asarray((1.0 - rho * rho) / np.maximum(1.0 - r * r, 1e-12))


@dataclass(frozen=True, eq=False)
class NoisePosterior:
    """Posterior of the AR(1) noise on a grid of correlations.

    Attributes
    ----------
    rho, probability : arrays of shape (g,)
        Lag-1 correlation at the median gap, and its posterior probability.
    rss : array of shape (g,)
        Residual sum of squares after whitening, per correlation.
    dof : int
        Degrees of freedom left by the fit.
    ratio : array of shape (n - 1,)
        Gaps between evaluations over their median.
    """

    rho: Array
    probability: Array
    rss: Array
    dof: int
    ratio: Array

    @property
    def n_points(self) -> int:
        """Number of evaluations."""
        return len(self.ratio) + 1

    @property
    def rho_mean(self) -> float:
        """Posterior mean of the correlation."""
        return float(self.probability @ self.rho)

    @property
    def sd_marginal(self) -> float:
        """Typical standard deviation of one evaluation around the curve."""
        variance = self.rss / max(self.dof, 1) / (1.0 - self.rho**2)
        return float(np.exp(0.5 * self.probability @ np.log(np.maximum(variance, 1e-300))))

    @property
    def sd_long_run(self) -> float:
        """Typical noise of an average over many evaluations, per root of their number."""
        variance = self.rss / max(self.dof, 1) / (1.0 - self.rho) ** 2
        return float(np.exp(0.5 * self.probability @ np.log(np.maximum(variance, 1e-300))))

    def draw(self, rng: np.random.Generator, size: int) -> tuple[Array, Array]:
        """Draw ``(rho, innovation sd)`` from the posterior, each of shape (size,)."""
        cumulative = np.cumsum(self.probability)
        k = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
        k = np.minimum(k, len(self.rho) - 1)
        return self.rho[k], np.sqrt(self.rss[k] / rng.chisquare(self.dof, size))

    def simulate(self, rng: np.random.Generator, size: int) -> Array:
        """Draw noise series, shape (size, n): every series with its own correlation and size."""
        rho, sd = self.draw(rng, size)
        return simulate_ar1(rng, rho, sd / np.sqrt(1.0 - rho**2), self.ratio)


def simulate_ar1(rng: np.random.Generator, rho: Array, sd_marginal: Array, ratio: Array) -> Array:
    """Draw stationary AR(1) series, shape (len(rho), len(ratio) + 1)."""
    z = rng.standard_normal((len(ratio) + 1, len(rho)))
    even = bool(np.all(ratio == 1.0))
    r, scale = rho, np.sqrt(1.0 - rho * rho)
    for t in range(1, len(z)):
        if not even:
            r = rho ** ratio[t - 1]
            scale = np.sqrt(1.0 - r * r)
        z[t] *= scale
        z[t] += r * z[t - 1]
    z *= sd_marginal
    return np.ascontiguousarray(z.T)


def noise_posterior(residual: Array, jacobian: Array, ratio: Array, prior_rows: Array | None = None) -> NoisePosterior:
    """Return the posterior of AR(1) noise given residuals of a least-squares fit.

    ``log p(rho) = log(whitening) - sum log |diag R| - (n - k)/2 log RSS(rho)`` with ``R`` of the QR
    decomposition of the whitened Jacobian: the marginal likelihood with flat priors on the ``k`` fitted
    parameters and ``1 / sigma`` on the noise.

    Parameters
    ----------
    residual : array of shape (n,)
        Observed minus fitted.
    jacobian : array of shape (n, k)
        Derivatives by the fitted parameters; columns of zeros are left out.
    ratio : array of shape (n - 1,)
        From `spacing_ratio`.
    prior_rows : array of shape (j, k), optional
        Rows of prior information (an observation of R0), already on the scale of the residuals; they constrain
        the parameters without counting as data.
    """
    size = np.sqrt(np.einsum("ij,ij->j", jacobian, jacobian))
    keep = size > 0.0
    J = jacobian[:, keep] / size[keep]
    extra = None if prior_rows is None else prior_rows[:, keep] / size[keep]
    dof = max(len(residual) - J.shape[1] + (0 if extra is None else len(extra)), 1)
    rho = RHO_GRID[:, None]
    r, innovation = _steps(rho, ratio)  # (g, n - 1)
    table = np.concatenate([J, residual[:, None]], axis=1)
    first = np.sqrt(1.0 - rho * rho)[:, :, None] * table[None, :1]
    rest = np.sqrt(innovation)[:, :, None] * (table[1:] - r[:, :, None] * table[:-1])
    whitened = np.concatenate([first, rest], axis=1)  # (g, n, k + 1)
    if extra is not None:
        rows = np.concatenate([extra, np.zeros((len(extra), 1))], axis=1)
        whitened = np.concatenate([whitened, np.broadcast_to(rows, (len(RHO_GRID), *rows.shape))], axis=1)
    # the last diagonal element of R is the norm of the residual after projection
    diagonal = np.abs(np.diagonal(np.linalg.qr(whitened, mode="r"), axis1=1, axis2=2))
    rss = np.maximum(diagonal[:, -1] ** 2, max(1e-30 * float(residual @ residual), 1e-300))
    log_p = (
        _log_det(RHO_GRID, innovation)
        - np.log(np.maximum(diagonal[:, :-1], 1e-12)).sum(axis=1)
        - 0.5 * dof * np.log(rss)
    )
    weight = np.exp(log_p - log_p.max())
    return NoisePosterior(RHO_GRID, weight / weight.sum(), rss, dof, ratio)


def aicc(log_likelihood: float, k: int, n: int) -> float:
    """Return Akaike's criterion with the correction for few points (Hurvich and Tsai 1989).

    Examples
    --------
    >>> aicc(-10.0, 3, 20)
    27.5
    """
    return 2.0 * k - 2.0 * log_likelihood + 2.0 * k * (k + 1) / (n - k - 1)


def aicc_of_ssr(ssr: float, n: int, n_parameters: int) -> float:
    """Return `aicc` of a curve under independent noise from its sum of squares; inf with too few points for it."""
    k = n_parameters + 1  # and the size of the noise
    if n <= k + 1:
        return math.inf
    log_likelihood = -0.5 * n * (math.log(2.0 * math.pi * max(ssr, 1e-300) / n) + 1.0)
    return aicc(log_likelihood, k, n)


def log_likelihood_of(residual: Array, ratio: Array, noise: str) -> float:
    """Return the Gaussian log likelihood of residuals at the best size, and correlation, of the noise."""
    n, best = len(residual), -math.inf
    floor = 1e-30 * max(float(residual @ residual), 1e-270)
    for rho in RHO_GRID.tolist() if noise == "ar1" else [0.0]:
        z = whiten(residual, rho, ratio)
        variance = max(float(z @ z), floor) / n
        log_det = float(log_det_whitening(rho, ratio))
        best = max(best, log_det - 0.5 * n * (math.log(2.0 * math.pi * variance) + 1.0))
    return best
