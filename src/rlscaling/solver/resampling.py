"""New data sets from a fitted model, and their refits: the engine under verdicts and intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlscaling.arrays import Array
from rlscaling.solver.fitted_model import FittedModel
from rlscaling.solver.variable_projection import solve

SCHEMES = ("ar1", "residual", "pairs", "block", "binomial")
REFIT_RTOL = 1e-8  # of the sum of squares: far below the width of any interval
MIN_DISTINCT = 5  # points in a pairs replicate


def replicates(
    model: FittedModel, scheme: str, rng: np.random.Generator, size: int, *, refit: int | None = None
) -> Array:
    """Draw ``size`` data sets by ``scheme``, refit each; return ``A, B, C_mid, R0``, shape (size, 4).

    With ``refit`` only the first so many are refitted and returned: they are the first of the whole.

    The anchor is drawn anew around the curve in every replicate, and the refit is joint.
    """
    Y, W = data_sets(model, scheme, rng, size)
    return solve(model.problem, Y[:refit], W=None if W is None else W[:refit], rtol=REFIT_RTOL).draws()


def data_sets(model: FittedModel, scheme: str, rng: np.random.Generator, size: int) -> tuple[Array, Array | None]:
    """Draw ``size`` data sets by ``scheme``: pass rates and, for ``pairs``, weights, of shape (size, rows)."""
    series, n = model.series, model.n
    Y = np.broadcast_to(model.centre_curve, (size, len(model.centre_curve))).copy()
    W = None
    root = np.sqrt(series.weights)
    if scheme == "ar1":
        Y[:, :n] += model.noise.simulate(rng, size) / root
    elif scheme == "residual":
        Y[:, :n] += _inflated(model)[rng.integers(0, n, (size, n))] / root
    elif scheme == "block":
        Y[:, :n] += _inflated(model)[_block_indices(rng, n, size)] / root
    elif scheme == "binomial":
        Y[:, :n] = _binomial(model, rng, size)
    else:
        Y[:, :n] = series.y
        W = np.broadcast_to(model.problem.weights, Y.shape).copy()
        W[:, :n] *= _pair_counts(rng, n, size)
    if model.anchor is not None:
        Y[:, n:] += model.anchor.standard_error * rng.standard_normal((size, 1))
    return Y, W


def _inflated(model: FittedModel) -> Array:
    """Return the residuals, centred and scaled for the degrees of freedom the fit used up."""
    r = model.centre_residual - model.centre_residual.mean()
    return np.asarray(r * np.sqrt(model.n / max(model.noise.dof, 1)))


def _binomial(model: FittedModel, rng: np.random.Generator, size: int) -> Array:
    series = model.series
    mean = np.clip(model.centre_curve[: model.n], 0.0, 1.0)
    if series.se is not None:
        return np.asarray(mean + series.se * rng.standard_normal((size, model.n)))
    assert series.n_rollouts is not None, "checked by bootstrap()"
    return np.asarray(rng.binomial(series.n_rollouts.astype(np.int64), mean, (size, model.n)) / series.n_rollouts)


def _block_indices(rng: np.random.Generator, n: int, size: int) -> NDArray[np.int64]:
    """Return the indices of a moving-block bootstrap with blocks of length ``ceil(n ** (1/3))``."""
    length = int(np.ceil(n ** (1.0 / 3.0)))
    n_blocks = -(-n // length)
    starts = rng.integers(0, n - length + 1, (size, n_blocks))
    return np.asarray((starts[:, :, None] + np.arange(length)).reshape(size, -1)[:, :n])


def _pair_counts(rng: np.random.Generator, n: int, size: int) -> Array:
    """Return how often each point is drawn, shape (size, n), at least 5 different points in each row."""
    counts = rng.multinomial(n, np.full(n, 1.0 / n), size)
    for row in np.flatnonzero((counts > 0).sum(axis=1) < min(MIN_DISTINCT, n)):
        while (counts[row] > 0).sum() < min(MIN_DISTINCT, n):
            counts[row] = rng.multinomial(n, np.full(n, 1.0 / n))
    return np.asarray(counts, dtype=float)
