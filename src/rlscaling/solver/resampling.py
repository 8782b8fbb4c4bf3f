"""`SCHEMES`: how data sets are drawn from a fitted model; and their refits, behind verdicts and intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlscaling.arrays import Array
from rlscaling.curves.sigmoid import sigmoid, sigmoid_reach
from rlscaling.solver.departures import HORIZON, Departures, join
from rlscaling.solver.fitted_model import FittedModel, score_range
from rlscaling.solver.variable_projection import solve

REACH_STEPS = 8
REFIT_RTOL = 1e-8  # of the sum of squares: far below the width of any interval
MIN_DISTINCT = 5  # points in a pairs replicate

SCHEME = "departures"
"""The default scheme."""

Drawn = tuple[Array, Array | None, Departures | None]
"""Pass rates and how often each point counts, of shape (size, n); and how the run goes on off the curve."""


@dataclass(frozen=True)
class Scheme:
    """A way to draw replicates of a fit.

    Attributes
    ----------
    name : str
    help : str
        What is drawn, in a line.
    draw : callable or None
        Takes the model, a random generator and a number; returns so many data sets, each as pass rates and, where
        points are drawn with repetition, their counts, and its `Departures` where it draws them. None: parameters are
        drawn instead, without refits.
    needs : tuple of str
        Columns of `Observations`, of which the data must have one.
    pass_rates_only : bool
        Whether it has no meaning for unbounded scores.
    """

    name: str
    help: str
    draw: Callable[[FittedModel, np.random.Generator, int], Drawn] | None = None
    needs: tuple[str, ...] = ()
    pass_rates_only: bool = False
    of_averages: bool = False
    """Whether it needs `FittedModel.averaged`: the noise of many points is judged by averages of neighbours."""


@dataclass(frozen=True, eq=False)
class DataSets:
    """Replicates of a run's evaluations, before they are refitted.

    Attributes
    ----------
    model : FittedModel
        The run, or its averages, whose rows they have.
    Y : array of shape (size, rows)
        The observation of R0 last.
    W : array of shape (size, rows) or None
        Weights, where points are drawn with repetition.
    departures : Departures or None
    """

    model: FittedModel
    Y: Array
    W: Array | None
    departures: Departures | None


@dataclass(frozen=True, eq=False)
class Replicates:
    """Refits of data sets.

    Attributes
    ----------
    parameters : array of shape (size, 4)
        ``A, B, C_mid, R0`` of the refits.
    departures : Departures or None
        How far the run of each replicate lies off its refit, where the scheme draws that.
    range : tuple of float
        Of the scores.
    """

    parameters: Array
    departures: Departures | None
    range: tuple[float, float]

    def draws(self) -> Array:
        """Return ``A, B, C_mid, R0``, with ``A`` the level at `HORIZON` times the data, departures included."""
        return with_departures(self.parameters, self.departures, self.range)

    def curves(self, compute: Array) -> Array:
        """Return where each replicate stands at ``compute`` (m,), departures included, shape (size, m)."""
        level = sigmoid(compute[None, :], *(self.parameters[:, j : j + 1] for j in range(4)))
        return level if self.departures is None else np.clip(level + self.departures.at(compute), *self.range)

    def reach(self, score: float) -> Array:
        """Return the compute at which each replicate reaches ``score``: inf where it never does, shape (size,).

        The departure is that at the compute found, so it is sought in steps; beyond `HORIZON` it grows no more.
        """
        A, B, C_mid, R0 = self.parameters.T
        if self.departures is None:
            return sigmoid_reach(score, A, B, C_mid, R0)
        farthest = HORIZON * self.departures.last
        compute = np.full(len(A), self.departures.last)
        for _ in range(REACH_STEPS):
            off = self.departures.at(np.minimum(compute, farthest)[:, None])[:, 0]
            compute = sigmoid_reach(score, A + off, B, C_mid, R0 + off)
        return compute


def with_departures(parameters: Array, departures: Departures | None, limits: tuple[float, float]) -> Array:
    """Return parameters (size, 4) with the departures of the ceiling added to ``A``, within the range of the scores."""
    if departures is None:
        return parameters
    draws = parameters.copy()
    draws[:, 0] = np.clip(draws[:, 0] + departures.of_ceiling(), *limits)
    return draws


def joined(parts: Sequence[Replicates]) -> Replicates:
    """Return replicates one after another."""
    first, departures = parts[0], None
    if first.departures is not None:
        departures = join([part.departures for part in parts if part.departures is not None])
    return Replicates(np.concatenate([part.parameters for part in parts]), departures, first.range)


def replicates(
    model: FittedModel, scheme: str, rng: np.random.Generator, size: int, *, refit: int | None = None
) -> Replicates:
    """Draw ``size`` data sets by ``scheme`` and refit each.

    With ``refit`` only the first ``refit`` of them are refitted and returned; they are the same as without it.

    The observation of R0 is drawn anew in every replicate, and the refit is joint.
    """
    drawn = data_sets(model, scheme, rng, size)
    W = None if drawn.W is None else drawn.W[:refit]
    parameters = solve(drawn.model.problem, drawn.Y[:refit], W=W, rtol=REFIT_RTOL).draws()
    departures = None if drawn.departures is None else drawn.departures.rows(slice(0, refit))
    return Replicates(parameters, departures, score_range(model))


def data_sets(model: FittedModel, scheme: str, rng: np.random.Generator, size: int) -> DataSets:
    """Draw ``size`` data sets by ``scheme``: pass rates and, for ``pairs``, weights, of shape (size, rows)."""
    draw = SCHEMES[scheme].draw
    assert draw is not None, "a scheme of this module"
    model = model.averaged if SCHEMES[scheme].of_averages else model
    n = model.n
    Y = np.broadcast_to(model.bootstrap_curve, (size, len(model.bootstrap_curve))).copy()
    W = None
    Y[:, :n], counts, departures = draw(model, rng, size)
    if counts is not None:
        W = np.broadcast_to(model.problem.weights, Y.shape).copy()
        W[:, :n] *= counts
    if model.anchor is not None:
        Y[:, n:] += model.anchor.standard_error * rng.standard_normal((size, 1))
    return DataSets(model, Y, W, departures)


def _with_noise(model: FittedModel, noise: Array) -> Drawn:
    """Return the bootstrap curve plus noise that was drawn at unit weight."""
    return model.bootstrap_curve[: model.n] + noise / np.sqrt(model.series.weights), None, None


def _departures(model: FittedModel, rng: np.random.Generator, size: int) -> Drawn:
    errors, departures = model.errors.draw(rng, size)
    return model.bootstrap_curve[: model.n] + errors, None, departures


def _ar1(model: FittedModel, rng: np.random.Generator, size: int) -> Drawn:
    return _with_noise(model, model.noise.simulate(rng, size))


def _residual(model: FittedModel, rng: np.random.Generator, size: int) -> Drawn:
    return _with_noise(model, _inflated(model)[rng.integers(0, model.n, (size, model.n))])


def _block(model: FittedModel, rng: np.random.Generator, size: int) -> Drawn:
    return _with_noise(model, _inflated(model)[_block_indices(rng, model.n, size)])


def _pairs(model: FittedModel, rng: np.random.Generator, size: int) -> Drawn:
    return np.broadcast_to(model.series.y, (size, model.n)), _pair_counts(rng, model.n, size), None


def _inflated(model: FittedModel) -> Array:
    """Return the residuals, centred and scaled for the degrees of freedom the fit used up."""
    r = model.bootstrap_residual - model.bootstrap_residual.mean()
    return np.asarray(r * np.sqrt(model.n / max(model.noise.dof, 1)))


def _binomial(model: FittedModel, rng: np.random.Generator, size: int) -> Drawn:
    series = model.series
    mean = np.clip(model.bootstrap_curve[: model.n], 0.0, 1.0)
    if series.se is not None:
        return np.asarray(mean + series.se * rng.standard_normal((size, model.n))), None, None
    assert series.n_rollouts is not None, "checked by bootstrap()"
    passed = rng.binomial(series.n_rollouts.astype(np.int64), mean, (size, model.n))
    return np.asarray(passed / series.n_rollouts), None, None


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


_ALL = (
    Scheme(
        "departures", "noise, wander and departures from the law, from their posterior", _departures, of_averages=True
    ),
    Scheme("ar1", "correlated noise, drawn from the posterior of an AR(1) process", _ar1),
    Scheme("residual", "independent residuals", _residual),
    Scheme("pairs", "evaluations, drawn with repetition", _pairs),
    Scheme("block", "moving blocks of residuals", _block),
    Scheme("binomial", "sampling noise alone, from the counts of a trace", _binomial, ("se", "n_rollouts"), True),
)
SCHEMES: Mapping[str, Scheme] = {scheme.name: scheme for scheme in _ALL}
