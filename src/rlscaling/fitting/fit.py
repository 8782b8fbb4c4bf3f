"""`fit_sigmoid`, `fit_trace`, `refit`: one run fitted, with input checked once and the verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.curves.sigmoid import SigmoidParams
from rlscaling.errors import FitError, RLScalingError
from rlscaling.fitting.data import build
from rlscaling.fitting.doubts import doubts_about
from rlscaling.fitting.options import FitOptions, resolve_options
from rlscaling.fitting.selection import MIN_POINTS, check_size, checked_weights, select, with_epoch
from rlscaling.fitting.sigmoid_fit import FailedFit, SigmoidFit
from rlscaling.fitting.verdict import MIN_POINTS_FOR_INTERVAL, judge
from rlscaling.solver.fitted_model import FittedModel, fit_model
from rlscaling.solver.observations import R0Observation
from rlscaling.solver.paper_grid import GridSpec, fit_on_grid
from rlscaling.solver.problem import Problem
from rlscaling.traces.series import check_series
from rlscaling.traces.trace import Trace
from rlscaling.validation import renamed


@renamed(on_failure="on_error")
def fit_sigmoid(
    compute: ArrayLike,
    pass_rate: ArrayLike,
    *,
    compute_unit: str = "gpu-hours",
    R0: float | str | None = None,
    R0_se: float | None = None,
    A: float | None = None,
    B: float | None = None,
    A_max: float = 1.0,
    B_bounds: tuple[float, float] = (0.1, 10.0),
    min_compute: float | None = None,
    max_compute: float = math.inf,
    exclude: Sequence[tuple[float, float]] = (),
    weights: ArrayLike | None = None,
    method: str = "varpro",
    grid: Mapping[str, ArrayLike] | None = None,
    on_error: str = "raise",
) -> SigmoidFit:
    """Fit the sigmoidal law to the held-out pass rates of one run, with a verdict on the ceiling.

    ``R_C = R0 + (A - R0) / (1 + (C_mid / C)**B)`` [ScaleRL, Eq. 1], by least squares at the global optimum. The
    verdict says how well the data identify the ceiling ``A``.

    Parameters
    ----------
    compute : array-like of shape (n,)
        Compute of each evaluation, in ``compute_unit``, strictly increasing; 0 is legal. Lists, NumPy, pandas,
        polars and torch are accepted.
    pass_rate : array-like of shape (n,)
        Mean pass rate on held-out prompts, a fraction in [0, 1]; any score with ``A_max=inf``.
    compute_unit : str
        ``gpu-hours``, or ``device-hours``, ``wall-hours``, ``tokens``, ``flops``, ``rollouts``, ``steps``: then
        ``min_compute`` has no default.
    R0 : float, "free" or None
        Pass rate before RL. None: the earliest evaluation, if it lies before the cutoff or at compute 0, is an
        observation of R0 with standard error ``R0_se``; else free. A number fixes it; with ``R0_se`` it is an
        observation of that error at compute 0.
    R0_se : float, optional
        How far the observation of R0 may lie off the sigmoid. Default 0.015.
    A, B : float, optional
        Fix a parameter.
    A_max : float
        Upper bound of ``A``. ``inf`` means unbounded scores: R0 and A are any real numbers.
    B_bounds : tuple of float
        Bounds of the exponent.
    min_compute, max_compute : float
        Evaluations outside are left out. ``min_compute=None`` is 1,500 GPU-hours, about the first epoch, where the
        rise is nearly linear [ScaleRL, A.5].
    exclude : sequence of (low, high)
        Ranges of compute to leave out, ends included.
    weights : array-like of shape (n,), optional
        Relative inverse variances.
    method : {"varpro", "paper-grid"}
        ``paper-grid`` reproduces the paper's procedure: a grid over ``A`` and ``C_mid``, ``B`` by least squares;
        it needs a fixed R0.
    grid : mapping with ``"A"`` and ``"C_mid"``, optional
        Values of the paper's grid. Default: 0.450 to 0.800 by 0.005, and 100 values from 100 to 40,000.
    on_error : {"raise", "return"}
        ``return`` gives a `FailedFit` (false, with the reason) instead of raising, for loops over many runs.

    Returns
    -------
    SigmoidFit

    Raises
    ------
    TraceError
        When a value cannot be used: which one, why, and what to do.
    FitError
        When fewer than 5 points are left, or options contradict each other.

    Examples
    --------
    >>> import numpy as np
    >>> from rlscaling import fit_sigmoid
    >>> C = np.arange(0, 16001, 400.0)
    >>> R = 0.35 + (0.61 - 0.35) / (1 + (2542 / np.maximum(C, 1e-9)) ** 1.92)
    >>> fit = fit_sigmoid(C, R)
    >>> round(fit.A, 6), round(fit.B, 6), round(fit.C_mid, 3), str(fit.verdict)
    (0.61, 1.92, 2542.0, 'identified')
    """
    options = {
        "compute_unit": compute_unit, "R0": R0, "R0_se": R0_se, "A": A, "B": B, "A_max": A_max, "B_bounds": B_bounds,
        "min_compute": min_compute, "max_compute": max_compute, "exclude": exclude, "method": method, "grid": grid,
    }  # fmt: skip
    return _guarded(on_error, "", lambda: _fit_series(compute, pass_rate, weights, options))


@renamed(on_failure="on_error")
def fit_trace(trace: Trace, *, on_error: str = "raise", weights: ArrayLike | None = None, **options: Any) -> SigmoidFit:
    """Fit the sigmoid to a `Trace`: as `fit_sigmoid`, with the trace's unit, steps and counts.

    Parameters
    ----------
    trace : Trace
        One run and one domain.
    **options
        The keyword arguments of `fit_sigmoid`. A trace of unbounded scores is fitted with ``A_max=inf``.
        ``min_compute="epoch"`` begins after the first epoch, where the header of the trace says when that ends
        (``first_epoch_end``, in steps; the bundled trainer writes it).

    Returns
    -------
    SigmoidFit

    Examples
    --------
    >>> from rlscaling import datasets, fit_trace
    >>> str(fit_trace(datasets.load_demo()["scalerl"]).verdict)
    'approximate'
    """
    if not isinstance(trace, Trace):
        raise FitError(f"fit_trace takes a Trace, not {type(trace).__name__}; for two columns use fit_sigmoid")
    options.setdefault("compute_unit", trace.compute_unit)
    if trace.scale == "reward":
        options.setdefault("A_max", math.inf)
    columns = _numeric_columns(trace)
    fitted = _guarded(
        on_error,
        trace.name,
        lambda: _fit_series(
            trace.compute,
            trace.pass_rate,
            weights,
            with_epoch(options, trace.compute, columns["step"], trace.metadata),
            columns,
        ),
    )
    if not isinstance(fitted, SigmoidFit):
        return fitted
    return replace(fitted, name=trace.name, metadata=dict(trace.metadata))


def fit_beginning(trace: Trace, compute: float, *, weights: ArrayLike | None = None, **options: Any) -> SigmoidFit:
    """Fit the evaluations of a trace up to ``compute``; ``weights`` are those of the whole trace."""
    part = trace.up_to(compute)
    w = None if weights is None else checked_weights(weights, len(trace))[: len(part)]
    return fit_trace(part, weights=w, **options)


def _numeric_columns(trace: Trace) -> dict[str, Any]:
    """Return the other columns that the fit uses; one that does not hold numbers is left out, with a note."""
    notes, columns = list(trace.notes), {}
    for name in ("pass_rate_se", "n_prompts", "n_samples", "step"):
        values = trace.columns.get(name)
        if values is None:
            continue
        if values.dtype.kind not in "fiu":
            notes.append(f"column {name!r} does not hold numbers and is not used")
        elif np.all(np.isfinite(values)):
            columns[name] = np.asarray(values, dtype=float)
    counts = columns["n_prompts"] * columns["n_samples"] if {"n_prompts", "n_samples"} <= set(columns) else None
    return {"se": columns.get("pass_rate_se"), "n_rollouts": counts, "step": columns.get("step"), "notes": tuple(notes)}


def refit(fit: SigmoidFit, **changes: Any) -> SigmoidFit:
    """Fit the data of ``fit`` again with some options changed.

    Examples
    --------
    >>> from rlscaling import datasets, fit_trace, refit
    >>> fit = fit_trace(datasets.load_demo()["scalerl"])
    >>> refit(fit, max_compute=8000).n_points < fit.n_points
    True
    """
    if not isinstance(fit, SigmoidFit):
        raise FitError(f"refit takes a SigmoidFit, not {type(fit).__name__}")
    o, data = fit.options, fit.data
    weights = changes.pop("weights", data.weights)
    options = {name: getattr(o, name) for name in o.__dataclass_fields__} | changes
    if o.grid is not None and "grid" not in changes:
        options["grid"] = {"A": o.grid[0], "C_mid": o.grid[1]}
    options = dict(with_epoch(options, data.compute, data.step, fit.metadata))
    columns = {"se": data.se, "n_rollouts": data.n_rollouts, "step": data.step, "notes": data.notes}
    fitted = _fit_series(data.compute, data.pass_rate, weights, options, columns)
    return replace(fitted, name=fit.name, metadata=fit.metadata)


def _guarded(on_error: str, name: str, work: Any) -> SigmoidFit:
    if on_error not in ("raise", "return"):
        raise FitError(f'on_error={on_error!r} is unknown; choose "raise" or "return"')
    try:
        return work()  # type: ignore[no-any-return]
    except RLScalingError as error:
        if on_error == "raise":
            raise
        return FailedFit(name=name, error=str(error))  # type: ignore[return-value]


def _fit_series(
    compute: ArrayLike,
    pass_rate: ArrayLike,
    weights: ArrayLike | None,
    requested: Mapping[str, Any],
    columns: Mapping[str, Any] | None = None,
) -> SigmoidFit:
    options = resolve_options(requested)
    C, y = check_series(compute, pass_rate, bounded=options.bounded)
    check_size(C, y)
    data, more = select(C, y, weights, options, columns or {})
    problem, series, anchor = build(data, options)
    model = fit_model(problem, series, anchor)
    params = SigmoidParams(*model.params)
    at_bound = model.at_bound()
    covariance, residual, ssr = model.covariance(), model.residual, _ssr(model)
    if options.method == "paper-grid":
        best = fit_on_grid(problem, series.y, GridSpec.of(options.grid))
        params, at_bound, ssr = SigmoidParams(*best.params), best.at_edge, best.ssr
        residual = series.y - params.predict(series.compute)
        covariance = replace(model, params=best.params).covariance()
        more = (
            *more,
            "point estimate on the paper's grid; verdict and intervals by least squares with the same R0",
        )
    doubts, contradicted = doubts_about(model, data, options)
    details = judge(model, options.compute_unit, contradicted)
    more = (*more, *_bound_notes(at_bound, options), *doubts)
    if MIN_POINTS <= model.n < MIN_POINTS_FOR_INTERVAL:
        lower = "; a lower min_compute (--min-compute) would leave more" if np.sum(data.used) < len(data) - 1 else ""
        more = (*more, f"{model.n} points: intervals need {MIN_POINTS_FOR_INTERVAL}{lower}")
    return SigmoidFit(
        params=params, covariance=covariance, ssr=ssr, residual=residual, R0_source=_r0_source(problem, anchor),
        verdict=details.verdict, reason=details.reason, data=data, options=options,
        confidence_interval=details.confidence_interval, half_width_68=details.half_width_68,
        compute_needed=details.compute_needed, at_twice=details.at_twice, at_bound=at_bound,
        notes=(*data.notes, *more), _model=model,
    )  # fmt: skip


def _ssr(model: FittedModel) -> float:
    return float(np.sum(model.series.weights * model.residual**2))


def _r0_source(problem: Problem, anchor: R0Observation | None) -> str:
    if anchor is not None:
        return "anchored"
    return "free" if problem.R0 is None else "fixed"


def _bound_notes(at_bound: tuple[str, ...], options: FitOptions) -> tuple[str, ...]:
    limits = {"A": f"A_max = {options.A_max:g}", "R0": "0"}
    limits["B"] = f"B_bounds = {options.B_bounds[0]:g} to {options.B_bounds[1]:g}"
    limits["C_mid"] = "a thousand times outside the data"
    if options.method == "paper-grid":
        limits |= {"A": "the edge of the grid", "C_mid": "the edge of the grid"}
    return tuple(f"the best {name} sits at its bound ({limits[name]})" for name in at_bound)
