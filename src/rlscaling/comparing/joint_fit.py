"""Joint fits of several runs, at one R0 and with one ceiling: every series is refitted with its own R0 and A fixed.

A series with a fixed R0 is shifted and scaled to ``R0 = 0, A_max = 1``, one with a fixed ceiling to ``R0 = 0, A = 1``,
so that one call of the solver serves replicates with different values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rlscaling.arrays import Array
from rlscaling.curves.sigmoid import gain_share, log_compute, sigmoid
from rlscaling.solver.departures import Departures
from rlscaling.solver.fitted_model import N_STARTS, FittedModel, score_range
from rlscaling.solver.resampling import REFIT_RTOL, SCHEME, DataSets, data_sets, with_departures
from rlscaling.solver.variable_projection import solve

POINT_RTOL = 1e-13
LEAST_GAIN = 1e-6  # the smallest distance of the ceiling from R0 by which a series is scaled
NEWTON_STEPS = 12
Progress = Callable[[int, int], None]


def refit_with_fixed(model: FittedModel, Y: Array, R0: Array | None, A: Array | None, *, point: bool = False) -> Array:
    """Refit every row of ``Y`` with ``R0`` and ``A`` fixed at that row's values; None leaves a parameter free.

    Parameters
    ----------
    model : FittedModel
        The run: its points, weights, constraints and observation of R0.
    Y : array of shape (rows, n) or (rows, n + 1)
        Series of this run; the column of the observation of R0 is used only where ``R0`` is free.
    R0, A : array of shape (rows,) or None
    point : bool
        Start from several points and solve to full precision, as for a reported fit.

    Returns
    -------
    array of shape (rows, 4)
        ``A, B, C_mid, R0``.
    """
    p = model.problem
    if R0 is None and p.R0 is not None:
        R0 = np.full(len(Y), p.R0)
    if R0 is not None:
        p = replace(p, compute=model.series.compute, weights=model.series.weights, R0=0.0)
        Y = Y[:, : model.n]
        A = np.full(len(Y), p.A) if A is None and p.A is not None else A
    settings = {"n_starts": N_STARTS, "rtol": POINT_RTOL} if point else {"rtol": REFIT_RTOL}
    if R0 is None and A is None:
        return solve(p, Y, **settings).draws()  # type: ignore[arg-type]
    shift = R0 if R0 is not None else A
    assert shift is not None
    if R0 is None:  # with A fixed the curve minus A tends to 0: R0 is its only linear coefficient
        p, unit = replace(p, A=0.0, R0_min=-np.inf, A_max=np.inf), np.ones(len(Y))
    elif A is not None:
        p, unit = replace(p, A=1.0, R0_min=0.0, A_max=1.0), _gain(A - R0, ordered=p.ordered)
    else:
        unit = _gain(p.A_max - R0, ordered=True) if p.ordered else np.ones(len(Y))
        p = replace(p, A_max=1.0 if p.ordered else np.inf)
    draws = solve(p, (Y - shift[:, None]) / unit[:, None], **settings).draws()  # type: ignore[arg-type]
    draws[:, [0, 3]] = draws[:, [0, 3]] * unit[:, None] + shift[:, None]
    return draws


def _gain(gain: Array, *, ordered: bool) -> Array:
    """Return the gain to scale by, which is never 0, nor negative for pass rates."""
    least = np.maximum(np.abs(gain), LEAST_GAIN)
    return least if ordered else np.where(gain < 0, -least, least)


@dataclass(frozen=True, eq=False)
class JointData:
    """Runs whose replicates are drawn jointly: replicate b of every run belongs to the same draw.

    ``names`` seed the random numbers of each run, so that they depend neither on the order nor on the other runs. The
    observations of R0 of all runs deviate from their curves together, since they are of the same base model.
    """

    models: tuple[FittedModel, ...]
    names: tuple[tuple[int, ...], ...]
    size: int
    entropy: int

    @cached_property
    def averaged(self) -> tuple[FittedModel, ...]:
        """The runs on averages of neighbouring evaluations: the replicates have their rows."""
        return tuple(model.averaged for model in self.models)

    def series(self, i: int) -> Array:
        """Return the replicates of run ``i``, shape (size, rows of its averages); the same at every call."""
        return self.drawn(i).Y

    def on_the_law(self, i: int) -> Array:
        """Return replicates of run ``i`` without departures: for statements that take the law for granted."""
        rng = np.random.default_rng(np.random.SeedSequence(self.entropy, spawn_key=(7, *self.names[i])))
        return self._with_common_R0(data_sets(self.averaged[i], "ar1", rng, self.size)).Y

    def drawn(self, i: int) -> DataSets:
        """Return the replicates of run ``i`` with their departures; the same at every call."""
        rng = np.random.default_rng(np.random.SeedSequence(self.entropy, spawn_key=(2, *self.names[i])))
        return self._with_common_R0(data_sets(self.models[i], SCHEME, rng, self.size))

    def _with_common_R0(self, drawn: DataSets) -> DataSets:
        """Draw the observation of R0 from the numbers that all runs share."""
        model = drawn.model
        if model.anchor is not None:
            common = np.random.default_rng(np.random.SeedSequence(self.entropy, spawn_key=(3,)))
            z = common.standard_normal((self.size, 1))
            drawn.Y[:, model.n :] = model.bootstrap_curve[model.n :] + model.anchor.standard_error * z
        return drawn

    def observed(self, i: int) -> Array:
        """Return the data of run ``i``, its observation of R0 last, shape (1, rows)."""
        model = self.models[i]
        return (model.series.y if model.anchor is None else np.append(model.series.y, model.anchor.value))[None, :]


@dataclass(frozen=True, eq=False)
class JointFit:
    """Every run of a group, fitted and resampled at the shared R0 or at its own.

    Attributes
    ----------
    params : array of shape (runs, 4)
        ``A, B, C_mid, R0``; of a run without a curve ``A`` and ``R0`` are the level at which it stands.
    refits : array of shape (runs, size, 4)
        The same of every replicate.
    draws : array of shape (runs, size, 4)
        The same with the departures of the ceiling added to ``A``.
    departures : tuple of Departures or None
        How far the replicates of each run lie off their refits; None for a run without a curve.
    R0, R0_draws : float and array of shape (size,), or None
        The shared R0; None where each run has its own.
    R0_free, R0_error : arrays of shape (runs,)
        R0 of each run fitted by itself, and its error.
    """

    params: Array
    refits: Array
    draws: Array
    departures: tuple[Departures | None, ...]
    R0: float | None
    R0_draws: Array | None
    R0_free: Array
    R0_error: Array


def fit_group(
    group: JointData,
    *,
    shared_R0: bool,
    levels: Sequence[tuple[float, float] | None],
    on_progress: Progress | None = None,
) -> JointFit:
    """Fit and resample every run; with ``shared_R0`` at one R0, which is estimated anew in every draw.

    The shared R0 is the mean of the runs' own R0, weighted by their precision: to first order the joint least-squares
    fit. A run with a fixed R0 determines it; a run that is flat, falling or a misfit has no weight, unless all are. It
    keeps a level of its own: that in ``levels``, with its error; None for runs with a curve.
    """
    has_curve = np.array([level is None for level in levels])
    runs, done, total = len(group.models), 0, len(group.models) * (1 + shared_R0)
    params, refits = np.empty((runs, 4)), np.empty((runs, group.size, 4))
    departures: list[Departures | None] = []

    def count() -> None:
        nonlocal done
        done += 1
        if on_progress is not None:
            on_progress(done, total)

    for i, model in enumerate(group.models):
        params[i], drawn = model.params, group.drawn(i)
        refits[i] = solve(drawn.model.problem, drawn.Y, rtol=REFIT_RTOL).draws()
        departures.append(drawn.departures if levels[i] is None else None)
        count()
    low, high = np.quantile(refits[:, :, 3], [0.1587, 0.8413], axis=1)
    error, R0_free = 0.5 * (high - low), params[:, 3].copy()
    R0, R0_draws = None, None
    if shared_R0:
        weight = np.where(has_curve | ~has_curve.any(), 1.0 / np.maximum(error, 1e-9) ** 2, 0.0)
        weight /= weight.sum()
        R0, R0_draws = float(weight @ R0_free), np.asarray(weight @ refits[:, :, 3])
        for i, (model, level) in enumerate(zip(group.models, levels, strict=True)):
            if level is None:
                params[i] = refit_with_fixed(model, group.observed(i), np.array([R0]), None, point=True)[0]
                refits[i] = refit_with_fixed(group.averaged[i], group.series(i), R0_draws, None)
            count()
    for i, level in enumerate(levels):
        if level is not None:
            _keep_level(group, i, level, params, refits)
    of_runs = zip(group.models, refits, departures, strict=True)
    draws = np.stack([with_departures(own, off, score_range(model)) for model, own, off in of_runs])
    return JointFit(params, refits, draws, tuple(departures), R0, R0_draws, R0_free, error)


def _keep_level(group: JointData, i: int, level: tuple[float, float], params: Array, refits: Array) -> None:
    """Make the curve of run ``i`` a constant: it has a level of its own, with an error."""
    rng = np.random.default_rng(np.random.SeedSequence(group.entropy, spawn_key=(6, *group.names[i])))
    drawn = level[0] + level[1] * rng.standard_normal(group.size)
    if group.models[i].problem.ordered:
        drawn = np.clip(drawn, 0.0, group.models[i].problem.A_max)
    params[i, [0, 3]] = level[0]
    refits[i, :, 0] = refits[i, :, 3] = drawn


def common_ceiling(
    models: Sequence[FittedModel],
    series: Callable[[int], Array],
    R0: Array | None,
    start: Array,
    *,
    point: bool = False,
) -> tuple[Array, Array]:
    """Fit several runs with one ceiling, separately for every row of their series.

    The sum over runs of squared residuals, divided by the long-run variance of their noise, is minimised by Newton
    steps on the ceiling: at each step every run is refitted with the ceiling fixed, and slope and curvature are those
    of the projected problem.

    Parameters
    ----------
    models : sequence of FittedModel
    series : callable
        Returns the series of run k, shape (rows, points of the run), at every call, so that those of a thousand runs
        need not be in memory at once. Row b of all runs is fitted together.
    R0 : array of shape (rows,) or None
        The shared R0 of each row; None leaves it free in each run.
    start : array of shape (rows,)
        Starting values of the ceiling.
    point : bool
        As in `refit_with_fixed`.

    Returns
    -------
    A : array of shape (rows,)
    params : array of shape (runs, rows, 4)
    """
    ordered, A_max = models[0].problem.ordered, models[0].problem.A_max
    weights = [1.0 / max(model.noise.sd_long_run, 1e-12) ** 2 for model in models]
    A = start.copy()
    params = np.empty((len(models), len(A), 4))
    todo = np.arange(len(A))
    tolerance = 1e-12 if point else 1e-6
    for _ in range(NEWTON_STEPS):
        slope, curvature = np.zeros(len(todo)), np.zeros(len(todo))
        for k, model in enumerate(models):
            R0_of_rows, Y = None if R0 is None else R0[todo], series(k)[todo]
            params[k, todo] = refit_with_fixed(model, Y, R0_of_rows, A[todo], point=point)
            g, h = _slope(model, Y, params[k, todo], free_R0=R0 is None)
            slope, curvature = slope + weights[k] * g, curvature + weights[k] * h
        step = slope / np.maximum(curvature, 1e-300)
        size = np.abs(A[todo] - params[0, todo, 3]) + LEAST_GAIN
        moved = A[todo] + np.clip(step, -0.25 * size, 0.25 * size)
        if ordered:
            moved = np.minimum(moved, A_max)
        going = np.abs(moved - A[todo]) > tolerance * size
        A[todo[going]] = moved[going]  # the others were refitted at the ceiling they keep
        todo = todo[going]
        if not len(todo):
            break
    for k, model in enumerate(models) if len(todo) else ():
        params[k, todo] = refit_with_fixed(
            model, series(k)[todo], None if R0 is None else R0[todo], A[todo], point=point
        )
    return A, params


def _slope(model: FittedModel, Y: Array, params: Array, *, free_R0: bool) -> tuple[Array, Array]:
    """Return minus half the derivative by A of each row's profiled sum of squares, and half the second derivative.

    The first is ``s' W r`` at the optimum of the other parameters; the second is ``s' W s`` with the columns of those
    parameters projected out.
    """
    p = model.problem
    rows = slice(None) if free_R0 else slice(0, model.n)
    C, w = p.compute[rows], p.weights[rows]
    A, B, C_mid, R0 = (params[:, j : j + 1] for j in range(4))
    s = gain_share(C[None, :], B, C_mid)
    r = Y[:, rows] - sigmoid(C[None, :], A, B, C_mid, R0)
    x = np.where(C > 0, log_compute(np.where(C > 0, C, 1.0)), 0.0)[None, :] - log_compute(C_mid)
    t = s * (1.0 - s)
    columns = [t, t * x] if p.B_bounds[0] < p.B_bounds[1] else [t]
    J = np.stack([*columns, *([1.0 - s] if free_R0 and p.R0 is None else [])], axis=2)  # (rows, points, k)
    J /= np.sqrt(np.maximum(np.einsum("rik,rik->rk", J, J), 1e-300))[:, None, :]
    M = np.einsum("rik,i,ril->rkl", J, w, J) + 1e-12 * np.eye(J.shape[2])
    v = np.einsum("rik,i,ri->rk", J, w, s)
    inside = np.linalg.solve(M, v[:, :, None])[:, :, 0]
    whole = np.einsum("i,ri,ri->r", w, s, s)
    return np.einsum("i,ri,ri->r", w, s, r), np.maximum(whole - np.einsum("rk,rk->r", v, inside), 1e-9 * whole)
