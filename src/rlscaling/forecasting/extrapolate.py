"""`extrapolate` and `compute_to_reach`: forecasts of the fitted curve, or averaged over curves and noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.arrays import Array, Mask, as_floats
from rlscaling.curves.sigmoid import gain_share, sigmoid_reach
from rlscaling.errors import FitError
from rlscaling.fitting.budgets import check_budgets, supported_beyond
from rlscaling.fitting.data import recent_weights, relative_to_fit
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import Verdict
from rlscaling.forecasting.results import Forecast, Reach
from rlscaling.solver.fitted_model import score_range, score_scale
from rlscaling.uncertainty.bootstrap import Bootstrap, bootstrap
from rlscaling.uncertainty.posterior import posterior
from rlscaling.uncertainty.prior import DEFAULT, Prior
from rlscaling.uncertainty.seed_spread import SEED_SD
from rlscaling.validation import RngLike, check_seed_sd, entropy_of, with_count_note

N_DRAWS = 1000
AVERAGED = "averaged"
METHODS = ("sigmoid", AVERAGED)
OLD_NAMES = {"auto": AVERAGED, "power_law": "power-law", "last_value": "last-value"}
"""Names of forecasting methods before 0.1, accepted until 1.0."""

MEASURED_BEYOND = 4.0  # of the averaged forecast: benchmarks/forecast.py


def method_of(name: str) -> str:
    """Return the name of a forecasting method, given by that or by its old name."""
    return OLD_NAMES.get(name, name) if isinstance(name, str) else name


def average_forecast(
    fit: SigmoidFit,
    budgets: Array,
    supported: Mask,
    *,
    prior: Prior | None = None,
    seed_sd: float = SEED_SD,
    rng: RngLike = None,
    weight: ArrayLike | None = None,
    notes: tuple[str, ...] = (),
) -> Forecast:
    """Return the posterior forecast of a run at ``budgets``: median and draws.

    Parameters
    ----------
    fit : SigmoidFit
    budgets : array of shape (n,)
        In the fit's unit.
    supported : boolean array of shape (n,)
        Where a number is supported.
    prior : Prior, optional
    seed_sd : float
        Between-seed standard deviation of ``A``; for unbounded scores a share of their range.
    rng : int, Generator, SeedSequence or None
    weight : float or array-like of shape (n,), optional
        As in `extrapolate`.
    notes : tuple of str
        Added to those of the fit.

    Returns
    -------
    Forecast
    """
    if prior is not None and not isinstance(prior, Prior):
        raise FitError(f"prior= takes a Prior, e.g. from learn_prior, not {type(prior).__name__}")
    check_seed_sd(seed_sd)
    model, entropy = fit.fitted_model(), entropy_of(rng)
    belief = posterior(model, prior or DEFAULT)
    generator = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(3,)))
    scale = _noise_scale(fit, weight, budgets, N_DRAWS, entropy)
    runs, evaluations = belief.draw(generator, N_DRAWS).runs(budgets, generator, scale)
    new = runs + seed_sd * score_scale(model) * generator.standard_normal((N_DRAWS, 1))
    if fit.options.bounded:
        new = np.clip(new, 0.0, fit.options.A_max)
    slow = belief.shape_probability("slow")
    how = f"average over curves: {slow:.2f} on the slow shape; prior: {belief.prior.source}"
    return Forecast(
        fit=fit, compute=budgets, pass_rate=np.median(runs, axis=0), distribution=runs, distribution_new_run=new,
        supported=supported, confidence_level=0.95, rng_seed=entropy, evaluations=evaluations,
        notes=(*fit.notes, *notes, how), method=AVERAGED,
    )  # fmt: skip


def extrapolate(
    fit: SigmoidFit,
    compute: ArrayLike | None = None,
    *,
    method: str = "sigmoid",
    bootstrap: Bootstrap | None = None,
    prior: Prior | None = None,
    weight: ArrayLike | None = None,
    seed_sd: float = SEED_SD,
    rng: RngLike = None,
) -> Forecast:
    """Forecast the pass rate at one or more budgets, with intervals.

    Parameters
    ----------
    fit : SigmoidFit
        The fit.
    compute : float or array-like of shape (n,), optional
        Budgets, in the fit's unit. Default 100,000 GPU-hours; other units have no default.
    method : {"sigmoid", "averaged"}
        ``sigmoid``: the least-squares curve and its replicates. ``averaged``: the median and the spread of a posterior
        that averages two shapes of curve, shrinks early runs towards ``prior`` and follows the last evaluations where
        they leave the curve: more accurate at 4x on real curves, about equally at 2x (benchmarks/forecast.py).
    bootstrap : Bootstrap, optional
        Replicates for ``sigmoid``; None draws the default ones.
    prior : Prior, optional
        For ``averaged``; `learn_prior` estimates one from your own runs.
    weight : float or array-like of shape (n,), optional
        For a weighted fit: the weight of the evaluation that the prediction interval is for, on the scale of the fit's
        weights, one for all budgets or one each. Default: it is like the last ten fitted evaluations, each draw like
        one of them.
    seed_sd : float
        Between-seed standard deviation of ``A``, for the intervals of a new run; ``bootstrap`` has its own.
    rng : int, Generator, SeedSequence or None
        Seed of the draws.

    Returns
    -------
    Forecast

    Raises
    ------
    FitError
        For a budget that is not a positive number, or with fewer than 7 fitted points (5 with ``averaged``).

    Notes
    -----
    When the ceiling is not identified a number is given only to twice the data (``supported``); the interval is given
    at any budget, and is wide where the data say little. A run of 3k hours says nothing about 100k. With ``averaged`` a
    number is given to four times the data, as far as its accuracy has been measured.

    Examples
    --------
    >>> from rlscaling import datasets, extrapolate, fit_trace
    >>> forecast = extrapolate(fit_trace(datasets.load_demo()["scalerl"]), 100_000, rng=0)
    >>> low, high = forecast.confidence_interval
    >>> forecast.pass_rate.shape, low.shape
    ((1,), (1,))
    """
    if not isinstance(fit, SigmoidFit):
        raise FitError(f"extrapolate takes a SigmoidFit, not {type(fit).__name__}; fit first")
    budgets = check_budgets(fit, compute)
    method = method_of(method)
    if method == AVERAGED:
        if bootstrap is not None:
            raise FitError('bootstrap= holds replicates of the sigmoid; drop it, or use method="sigmoid"')
        supported = budgets / fit.compute_range[1] <= supported_beyond(fit.verdict, MEASURED_BEYOND)
        note = () if supported.all() else (_unsupported_note(fit.verdict, f"{MEASURED_BEYOND:g} times"),)
        return average_forecast(
            fit, budgets, supported, prior=prior, seed_sd=seed_sd, rng=rng, weight=weight, notes=note
        )
    if method != "sigmoid":
        choices = " or ".join(f'"{name}"' for name in METHODS)
        raise FitError(f"method={method!r} is unknown; choose {choices}")
    if prior is not None:
        raise FitError(f'prior= is used with method="{AVERAGED}" only; drop it or set the method')
    boot = _bootstrap(fit, bootstrap, rng, seed_sd)
    draws = boot.curves(budgets)
    new = draws + (boot.A_new_run - boot.distribution[:, 0])[:, None] * _shares(boot.distribution, budgets)
    supported = budgets / fit.compute_range[1] <= supported_beyond(fit.verdict)
    notes = list(fit.notes)
    if not supported.all():
        notes.append(_unsupported_note(fit.verdict))
    return Forecast(
        fit=fit, compute=budgets, pass_rate=fit.predict(budgets), distribution=draws,
        distribution_new_run=np.clip(new, *score_range(fit.fitted_model())), supported=supported,
        confidence_level=boot.confidence_level, rng_seed=boot.rng_seed,
        notes=with_count_note(tuple(notes), boot.n_resamples, boot.confidence_level),
        evaluations=draws + _evaluation_noise(fit, boot, weight, budgets),
    )  # fmt: skip


def _evaluation_noise(fit: SigmoidFit, boot: Bootstrap, weight: ArrayLike | None, budgets: Array) -> Array:
    """Return the noise of one evaluation in each replicate, shape (n_resamples, 1 or budgets)."""
    rng = np.random.default_rng(np.random.SeedSequence(boot.rng_seed, spawn_key=(2,)))
    rho, sd = fit.fitted_model().noise.draw(rng, boot.n_resamples)
    noise = (sd / np.sqrt(1.0 - rho**2) * rng.standard_normal(boot.n_resamples))[:, None]
    return np.asarray(noise * _noise_scale(fit, weight, budgets, boot.n_resamples, boot.rng_seed))


def _noise_scale(fit: SigmoidFit, weight: ArrayLike | None, budgets: Array, size: int, entropy: int) -> Array:
    """Return the noise of a new evaluation over that of one of mean weight, in shape to multiply (size, budgets)."""
    if fit.data.weights is None:
        if weight is not None:
            raise FitError("weight= was given, but the fit is not weighted; leave it out, or fit with weights=")
        return np.ones((1, 1))
    if weight is None:
        rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(4,)))
        return np.asarray(1.0 / np.sqrt(rng.choice(recent_weights(fit.data), size))[:, None])
    given = as_floats(np.full(len(budgets), weight) if np.ndim(weight) == 0 else weight, "weight")
    if len(given) != len(budgets) or not np.all(np.isfinite(given) & (given > 0)):
        raise FitError(
            f"weight={weight!r}: give one positive number, or one for each of the {len(budgets)} budgets, on the scale "
            "of the fit's weights"
        )
    return np.asarray(1.0 / np.sqrt(relative_to_fit(fit.data, given))[None, :])


def _bootstrap(fit: SigmoidFit, boot: Bootstrap | None, rng: RngLike, seed_sd: float = SEED_SD) -> Bootstrap:
    if boot is None:
        return bootstrap(fit, rng=rng, seed_sd=seed_sd)
    if not isinstance(boot, Bootstrap):
        raise FitError(f"bootstrap= takes the result of bootstrap(fit), not {type(boot).__name__}")
    if boot.fit.params != fit.params or boot.fit.options != fit.options:
        raise FitError("bootstrap= belongs to another fit; run bootstrap(fit) on this one, or leave it out")
    return boot


def _shares(draws: Array, budgets: Array) -> Array:
    """Return the share of the gain that each draw has reached at each budget."""
    return gain_share(budgets[None, :], draws[:, 1:2], draws[:, 2:3])


def _unsupported_note(verdict: Verdict, measured: str = "twice") -> str:
    if verdict is Verdict.NOT_IDENTIFIED:
        return f"beyond {measured} the data only the interval is given: the ceiling is not identified"
    return f"beyond the data no number is given: the verdict is {verdict}"


def compute_to_reach(
    fit: SigmoidFit, pass_rate: float, *, bootstrap: Bootstrap | None = None, rng: RngLike = None
) -> Reach:
    """Return the compute at which the run reaches ``pass_rate``, with its interval.

    Parameters
    ----------
    fit : SigmoidFit
        The fit.
    pass_rate : float
        Target.
    bootstrap, rng
        As in `extrapolate`.

    Returns
    -------
    Reach
        ``inf`` where the ceiling lies below the target; 0 where the run started above it.

    Examples
    --------
    >>> from rlscaling import compute_to_reach, datasets, fit_trace
    >>> reach = compute_to_reach(fit_trace(datasets.load_demo()["scalerl"]), 0.55, rng=0)
    >>> reach.confidence_interval[0] < reach.compute < reach.confidence_interval[1]
    True
    """
    try:
        target = float(pass_rate)
    except (TypeError, ValueError):
        target = np.nan
    if not np.isfinite(target):
        raise FitError(f"pass_rate={pass_rate!r} is not a finite number; give the pass rate to reach, e.g. 0.55")
    if fit.options.bounded and not 0.0 <= target <= 1.0:
        raise FitError(f"pass_rate={target:g} is outside [0, 1]: pass rates are fractions, e.g. 0.55 for 55 %")
    boot = _bootstrap(fit, bootstrap, rng)
    draws = boot.reach(target)
    p = fit.params
    point = float(sigmoid_reach(target, *(np.array([v]) for v in p.as_tuple()))[0])
    return Reach(fit, target, point, draws, boot.confidence_level)
