"""`SigmoidModel`: the sigmoidal law as an `lmfit.Model`, and a finished fit as lmfit's `ModelResult`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import lmfit
import numpy as np
from lmfit.model import ModelResult
from numpy.typing import ArrayLike

from rlscaling.arrays import Array, Index, as_floats
from rlscaling.curves.sigmoid import PARAMETER_NAMES, sigmoid
from rlscaling.errors import FitError, RLScalingWarning, TraceError
from rlscaling.fitting.data import build
from rlscaling.fitting.options import DEFAULT_B_BOUNDS, FitOptions, resolve_options
from rlscaling.fitting.selection import check_size, select
from rlscaling.solver.fitted_model import FittedModel, fit_model
from rlscaling.traces.series import check_series

SMALLEST_C_MID = 1e-300  # lmfit may try C_mid = 0, its bound
FROM_BOUND = 0.01  # how far inside its bounds a start lies: at a bound, lmfit's derivatives are zero
STAY = {"factor": 1e-14, "xtol": 1e-6, "epsfcn": float(np.finfo(float).eps)}  # a first step too small to move


def free_sigmoid(compute: ArrayLike, A: float, B: float, C_mid: float, R0: float) -> Array:
    """Return the sigmoid, rising or falling, for the values that lmfit tries."""
    for name, value in zip(PARAMETER_NAMES, (A, B, C_mid, R0), strict=True):
        if math.isnan(value):
            raise FitError(
                f"{name} has no starting value; take the starting values from guess(pass_rate, compute), "
                f"or give {name}= to make_params"
            )
    return sigmoid(compute, A, B, max(C_mid, SMALLEST_C_MID), R0)


def rising_sigmoid(compute: ArrayLike, A: float, B: float, C_mid: float, R0: float) -> Array:
    """Return the sigmoid with ``A`` no lower than ``R0``: a curve that would fall is the constant ``R0``."""
    return free_sigmoid(compute, R0 if R0 > A else A, B, C_mid, R0)


class SigmoidModel(lmfit.Model):  # type: ignore[misc]
    """The sigmoidal law as an `lmfit.Model`, for lmfit's reports, constraints and `conf_interval`.

    ``R_C = R0 + (A - R0) / (1 + (C_mid / C)**B)`` [ScaleRL, Eq. 1]. The independent variable is ``compute``, the
    parameters are ``A``, ``B``, ``C_mid`` and ``R0``, all four plain: each can be bounded, fixed or tied to another
    by an expression, and `conf_interval` works on each. Compute 0 is legal (the curve is ``R0`` there), and no
    value overflows.

    Parameters
    ----------
    prefix : str
        Put before the parameter names, for composite models.
    nan_policy : {"raise", "omit", "propagate"}
        As in lmfit. ``omit`` drops an evaluation whose compute or pass rate is missing.
    name : str
        Name in lmfit's reports.
    A_max : float
        Upper bound of ``A``. ``inf`` means unbounded scores, as in `fit_sigmoid`: ``A`` and ``R0`` are any real
        numbers, and the curve may fall.
    B_bounds : tuple of float
        Bounds of ``B``; two equal numbers fix it.

    See Also
    --------
    fit_sigmoid : The fit with intervals for correlated evaluations and a verdict on ``A``.
    SigmoidFit.to_lmfit : A finished fit as an lmfit result.

    Notes
    -----
    Bounds are those of `fit_sigmoid`: ``0 <= A <= A_max``, ``0 <= R0 <= A_max``, ``B`` within ``B_bounds``,
    ``C_mid > 0``. That ``A`` is not below ``R0`` is built into the curve instead: where ``A < R0`` it is the constant
    ``R0``. Writing ``A`` as an expression, ``R0`` plus a positive gain, would enforce the same, but lmfit computes no
    `conf_interval` of an expression.

    lmfit's standard errors and confidence intervals take the evaluations for independent. Those of one run are not:
    an evaluation above the curve is followed by others above it. The intervals of `fit_sigmoid` allow for that, and
    for the bend that the data have not shown yet, and are therefore wider.

    ``weights`` multiply the residuals, as everywhere in lmfit: they are inverse standard deviations, where
    `fit_sigmoid` takes inverse variances.

    Examples
    --------
    >>> from rlscaling import SigmoidModel, datasets
    >>> run = datasets.load_demo()["scalerl"]
    >>> model = SigmoidModel()
    >>> params = model.guess(run.pass_rate, run.compute)
    >>> params["R0"].set(value=0.35, vary=False)
    >>> result = model.fit(run.pass_rate, params, compute=run.compute)
    >>> round(result.best_values["A"], 3)
    0.611
    """

    def __init__(
        self,
        prefix: str = "",
        nan_policy: str = "raise",
        name: str = "sigmoid",
        *,
        A_max: float = 1.0,
        B_bounds: tuple[float, float] = DEFAULT_B_BOUNDS,
    ) -> None:
        options = _options(A_max=A_max, B_bounds=B_bounds)
        self.A_max, self.B_bounds = options.A_max, options.B_bounds
        super().__init__(
            rising_sigmoid if self.bounded else free_sigmoid,
            independent_vars=["compute"], prefix=prefix, nan_policy=nan_policy, name=name,
        )  # fmt: skip
        low = 0.0 if self.bounded else -math.inf
        for parameter in ("A", "R0"):
            self.set_param_hint(parameter, value=math.nan, min=low, max=self.A_max)
        self.set_param_hint("C_mid", value=math.nan, min=0.0)
        if self.B_bounds[0] < self.B_bounds[1]:
            self.set_param_hint("B", value=math.nan, min=self.B_bounds[0], max=self.B_bounds[1])
        else:
            self.set_param_hint("B", value=self.B_bounds[0], vary=False)

    @property
    def bounded(self) -> bool:
        """Whether scores are pass rates, in [0, A_max]."""
        return math.isfinite(self.A_max)

    def guess(
        self, data: ArrayLike, compute: ArrayLike | None = None, *, weights: ArrayLike | None = None, **start: float
    ) -> lmfit.Parameters:
        """Return parameters that start at the global least-squares optimum.

        The optimum is the one of `fit_sigmoid` with ``R0="free"`` and ``min_compute=0``, so that lmfit's local
        optimiser cannot end in another basin.

        Parameters
        ----------
        data, compute : array-like of shape (n,)
            Pass rates and the compute of each, in any order. Repeated values of compute are legal.
        weights : array-like of shape (n,), optional
            As in `fit`: they multiply the residuals.
        **start : float
            Starting values of your own for ``A``, ``B``, ``C_mid`` or ``R0``; the others are the best given these
            (``C_mid`` excepted, which only replaces the value found). They are free in the fit, unless you fix them:
            ``params["R0"].vary = False``.

        Returns
        -------
        lmfit.Parameters
            Up to 1 % of its range inside a bound, since lmfit cannot move a parameter that starts at one.
            ``C_mid`` is bounded to a thousand times outside the data on either side.
        """
        start = {self._strip_prefix(name): value for name, value in start.items()}
        unknown = sorted(set(start) - set(PARAMETER_NAMES))
        if unknown or compute is None:
            given = f"{unknown[0]}= is no parameter: " if unknown else ""
            raise FitError(f"{given}guess takes guess(pass_rate, compute), and numbers for A, B, C_mid or R0")
        C, y, w = _evaluations(data, compute, weights, "raise" if self.nan_policy == "raise" else "omit")
        C, y, w = _merged(C, y, w, self.bounded)
        fixed = {name: start[name] for name in ("A", "B", "R0") if name in start}
        options = _options(A_max=self.A_max, B_bounds=self.B_bounds, **({"R0": "free"} | fixed))
        check_size(C, y)
        model = fit_model(*build(select(C, y, w, options, {})[0], options))
        best = dict(zip(PARAMETER_NAMES, model.params, strict=True))
        low, high = np.exp(np.array(model.problem.v_bounds) + model.problem.centre)
        params = self.make_params()
        params[f"{self.prefix}C_mid"].set(min=float(low), max=float(high))
        for name, value in (best | start).items():
            parameter = params[f"{self.prefix}{name}"]
            margin = FROM_BOUND * (abs(best["A"] - best["R0"]) if name in ("A", "R0") else value)
            if name not in start and parameter.vary:
                value = float(np.clip(value, parameter.min + margin, parameter.max - margin))
            parameter.value = value
        return params

    def fit(
        self,
        data: ArrayLike,
        params: lmfit.Parameters | None = None,
        weights: ArrayLike | None = None,
        *args: Any,
        compute: ArrayLike | None = None,
        **options: Any,
    ) -> ModelResult:
        """Fit the model, as `lmfit.Model.fit` does; without ``params`` it starts from `guess`.

        Parameters
        ----------
        data, compute : array-like of shape (n,)
            Pass rates and the compute of each.
        params : lmfit.Parameters, optional
            Starting values with bounds and constraints.
        weights : array-like of shape (n,), optional
            They multiply the residuals: inverse standard deviations.
        *args, **options
            As in `lmfit.Model.fit`, such as ``method=`` and ``fit_kws=``.

        Returns
        -------
        lmfit.model.ModelResult

        Raises
        ------
        TraceError
            When a value cannot be used: which one, why, and what to do.
        FitError
            When a parameter has no starting value, or one from which the fit cannot move.
        """
        if compute is None:
            raise FitError("the compute of each evaluation is missing: fit(pass_rate, params, compute=...)")
        policy = options.get("nan_policy") or self.nan_policy
        C, y, w = _evaluations(data, compute, weights, policy)
        if policy != "propagate":
            _merged(C, y, None, self.bounded)
        own = {name: options[name] for name in self.param_names if name in options}
        if params is None:
            params = self.guess(y, C, weights=w, **{name: getattr(p, "value", p) for name, p in own.items()})
        if self.bounded and not own:
            self._check_start(params)
        return super().fit(y, params, w, *args, compute=C, **options)

    def post_fit(self, fitresult: Any) -> None:
        """Report ``A`` as ``R0`` where the fitted curve does not rise, and warn that it does not."""
        A, R0 = (fitresult.params[f"{self.prefix}{name}"] for name in ("A", "R0"))
        if not self.bounded or A.value > R0.value:
            return
        if A.vary and not A.expr:
            A.value = R0.value
        message = (
            f"the fitted curve does not rise: it is the constant {R0.name} = {R0.value:.4g}, and A, B and C_mid mean "
            "nothing; fit_sigmoid says whether the run is flat or falling"
        )
        warnings.warn(message, RLScalingWarning, stacklevel=4)

    def _check_start(self, params: Mapping[str, Any]) -> None:
        names = [f"{self.prefix}{name}" for name in ("A", "R0")]
        if not all(name in params for name in names):  # lmfit says which is missing
            return
        A, R0 = (params[name].value for name in names)
        if A < R0:
            raise FitError(
                f"{names[0]} starts at {A:.4g}, below {names[1]} at {R0:.4g}, where the curve is flat and the fit "
                "cannot move; start it above, or take the starting values from guess(pass_rate, compute)"
            )


def _options(**options: Any) -> FitOptions:
    """Return the options of a fit of all evaluations, in whatever unit."""
    return resolve_options({"compute_unit": "steps", "min_compute": 0.0, **options})


def _evaluations(
    data: ArrayLike, compute: ArrayLike, weights: ArrayLike | None, nan_policy: str
) -> tuple[Array, Array, Array | None]:
    """Return compute, pass rate and weights, of one length, in the order given; with "omit" without missing values."""
    if hasattr(data, "index") and hasattr(compute, "reindex_like"):  # pandas: by index, as lmfit has it
        compute = compute.reindex_like(data)
    C, y = as_floats(compute, "compute"), as_floats(data, "pass_rate")
    if len(C) != len(y):
        raise TraceError(f"compute has {len(C)} values and pass_rate {len(y)}; pass one of each per evaluation")
    w = None if weights is None else as_floats(np.full(len(y), weights) if np.isscalar(weights) else weights, "weights")
    if w is not None and len(w) != len(y):
        raise FitError(f"weights has {len(w)} values for {len(y)} evaluations; give one per evaluation")
    kept = np.isfinite(C) & np.isfinite(y) if nan_policy == "omit" else np.ones(len(y), dtype=bool)
    if len(y) and not kept.any():
        raise FitError(f"all {len(y)} evaluations have a missing compute or pass_rate; nothing is left to fit")
    if w is not None:  # the weight of an evaluation that is left out does not matter
        bad = np.flatnonzero(kept & ~np.isfinite(w))
        if len(bad):
            raise FitError(f"weights[{bad[0]}] is {w[bad[0]]:g}: not a finite number; 0 leaves an evaluation out")
        if len(y) and not w[kept].any():
            raise FitError("all weights are 0, which leaves every evaluation out; give positive weights")
    return C[kept], y[kept], None if w is None else w[kept]


def _merged(C: Array, y: Array, w: Array | None, bounded: bool) -> tuple[Array, Array, Array | None]:
    """Return checked evaluations in order of compute, those of equal compute as one, with inverse variances.

    The merged series has the same least-squares optimum.
    """
    kept: Index = np.flatnonzero(np.ones(len(C)) if w is None else w != 0)
    variance_weights = np.ones(len(kept)) if w is None else w[kept] ** 2
    values, first, group = np.unique(C[kept], return_index=True, return_inverse=True)
    total = np.bincount(group, variance_weights).astype(np.float64)
    mean = np.bincount(group, variance_weights * y[kept]) / total
    C, y = check_series(values, mean, bounded=bounded, rows=kept[first].tolist())
    return C, y, None if w is None and len(C) == len(kept) else total


def model_result(model: FittedModel, method: str) -> ModelResult:
    """Return a fitted model as lmfit's result on the same evaluations, weights and observation of R0.

    Parameters
    ----------
    model : FittedModel
        The fit.
    method : str
        How it was made; only a least-squares optimum can be handed to lmfit.

    Returns
    -------
    lmfit.model.ModelResult
    """
    if method != "varpro":
        raise FitError(
            f'a fit by method="{method}" is no least-squares optimum, which lmfit would move away from; '
            'convert refit(fit, method="varpro")'
        )
    if not model.rises:
        raise FitError(
            "the fitted curve is a constant (its verdict says why), so that lmfit has no sigmoid to report on"
        )
    problem, n = model.problem, model.n
    y = model.series.y if model.anchor is None else np.append(model.series.y, model.anchor.value)
    order = np.argsort(problem.compute, kind="stable")
    weights = None
    if np.ptp(problem.weights) > 0:
        dof = max(len(y) - len(_varying(model)), 1)
        sd = math.sqrt(float(np.sum(problem.weights[:n] * model.residual**2)) / dof)
        weights = np.sqrt(problem.weights) / (sd if sd > 1e-12 * np.abs(y).max() else 1.0)
        weights = weights[order]
    sigmoid_model = SigmoidModel(A_max=problem.A_max, B_bounds=problem.B_bounds)
    params = sigmoid_model.make_params(**dict(zip(PARAMETER_NAMES, model.params, strict=True)))
    low, high = np.exp(np.array(problem.v_bounds) + problem.centre)
    params["C_mid"].set(min=float(low), max=float(high))
    for name in PARAMETER_NAMES:
        params[name].vary = name in _varying(model)
    result = sigmoid_model.fit(y[order], params, weights, compute=problem.compute[order], fit_kws=dict(STAY))
    result.kws.clear()  # for conf_interval, which fits again
    return result


def _varying(model: FittedModel) -> list[str]:
    """Return the names of the parameters that were estimated and do not sit at a bound."""
    problem = model.problem
    fixed = {"A": problem.A is not None, "B": problem.B_bounds[0] == problem.B_bounds[1], "R0": problem.R0 is not None}
    return [name for name in PARAMETER_NAMES if not fixed.get(name) and name not in model.at_bound()]
