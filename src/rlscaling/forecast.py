"""Forecasts: the pass rate at a budget, the compute to reach a pass rate, and how both depend on the cutoff."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.averaging import average_forecast
from rlscaling.bootstrapping import SEED_SD, RngLike, bootstrap
from rlscaling.curves import Array, sigmoid, sigmoid_reach
from rlscaling.errors import FitError, RLScalingError
from rlscaling.fit import fit_trace, model_of, refit
from rlscaling.format import interval, number, text_table
from rlscaling.intervals import Bootstrap, Forecast, Reach
from rlscaling.printing import unit_text
from rlscaling.priors import Prior
from rlscaling.results import SigmoidFit, Verdict
from rlscaling.trace import Trace, as_floats

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_COMPUTE = 100_000.0  # GPU-hours
CUTOFFS = (0.0, 500.0, 1000.0, 1500.0, 2000.0, 3000.0)
CUTOFF_MOVE = 0.02  # of A: a larger move between cutoffs is worth a warning
SUPPORTED_BEYOND = 2.0
MEASURED_BEYOND = 4.0  # of method="auto": benchmarks/forecast.py


def extrapolate(
    fit: SigmoidFit,
    compute: ArrayLike | None = None,
    *,
    method: str = "sigmoid",
    bootstrap: Bootstrap | None = None,
    prior: Prior | None = None,
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
    method : {"sigmoid", "auto"}
        ``sigmoid``: the least-squares curve and its replicates. ``auto``: the median and the spread of a posterior that
        averages two shapes of curve, shrinks early runs towards ``prior`` and follows the last evaluations where they
        leave the curve: nearer at 4x on real curves, about as near at 2x (benchmarks/forecast.py).
    bootstrap : Bootstrap, optional
        Replicates to use with ``sigmoid``; None runs the default ones.
    prior : Prior, optional
        For ``auto``; `learn_prior` gives that of your own runs.
    seed_sd : float
        Spread of ``A`` between seeds, for the intervals of a new run; replicates that are given bring theirs.
    rng : int, Generator, SeedSequence or None
        Seed of the draws.

    Returns
    -------
    Forecast

    Raises
    ------
    FitError
        For a budget that is not a positive number, or with fewer than 7 fitted points (5 with ``auto``).

    Notes
    -----
    When the ceiling is not identified a number is given only to twice the data (``supported``); the interval stands
    at any budget and is as wide as the data are silent. A 3k-hour run says nothing about 100k. With ``auto`` a number
    is given to four times the data, as far as it has been measured.

    Examples
    --------
    >>> from rlscaling import datasets, extrapolate, fit_trace
    >>> forecast = extrapolate(fit_trace(datasets.load_demo()["scalerl"]), 100_000, rng=0)
    >>> forecast.pass_rate.shape, forecast.confidence_interval.shape
    ((1,), (1, 2))
    """
    if not isinstance(fit, SigmoidFit):
        raise FitError(f"extrapolate takes a SigmoidFit, not {type(fit).__name__}; fit first")
    budgets = check_budgets(fit, compute)
    if method == "auto":
        if bootstrap is not None:
            raise FitError('bootstrap= holds replicates of the sigmoid; drop it, or use method="sigmoid"')
        supported = budgets / fit.compute_range[1] <= supported_beyond(fit.verdict, MEASURED_BEYOND)
        note = () if supported.all() else (_unsupported_note(fit.verdict, f"{MEASURED_BEYOND:g} times"),)
        return average_forecast(fit, budgets, supported, prior=prior, seed_sd=seed_sd, rng=rng, notes=note)
    if method != "sigmoid":
        raise FitError(f'method={method!r} is unknown; choose "sigmoid" or "auto"')
    if prior is not None:
        raise FitError('prior= is used with method="auto" only; drop it or set the method')
    boot = _bootstrap(fit, bootstrap, rng, seed_sd)
    draws = _curves(boot.distribution, budgets)
    with_seeds = boot.distribution.copy()
    with_seeds[:, 0] = boot.A_new_run
    supported = budgets / fit.compute_range[1] <= supported_beyond(fit.verdict)
    notes = list(fit.notes)
    if not supported.all():
        notes.append(_unsupported_note(fit.verdict))
    return Forecast(
        fit=fit, compute=budgets, pass_rate=fit.predict(budgets), distribution=draws,
        distribution_new_run=_curves(with_seeds, budgets), supported=supported,
        confidence_level=boot.confidence_level, seed=boot.seed, notes=tuple(notes),
        evaluations=draws + _evaluation_noise(fit, boot),
    )  # fmt: skip


def _evaluation_noise(fit: SigmoidFit, boot: Bootstrap) -> Array:
    """Return the noise of one evaluation in each replicate, shape (n_resamples, 1)."""
    rng = np.random.default_rng(np.random.SeedSequence(boot.seed, spawn_key=(2,)))
    rho, sd = model_of(fit).noise.draw(rng, boot.n_resamples)
    return np.asarray((sd / np.sqrt(1.0 - rho**2) * rng.standard_normal(boot.n_resamples))[:, None])


def _bootstrap(fit: SigmoidFit, given: Bootstrap | None, rng: RngLike, seed_sd: float = SEED_SD) -> Bootstrap:
    if given is None:
        return bootstrap(fit, rng=rng, seed_sd=seed_sd)
    if not isinstance(given, Bootstrap):
        raise FitError(f"bootstrap= takes the result of bootstrap(fit), not {type(given).__name__}")
    if given.fit.params != fit.params or given.fit.options != fit.options:
        raise FitError("bootstrap= belongs to another fit; run bootstrap(fit) on this one, or leave it out")
    return given


def check_budgets(fit: SigmoidFit, compute: ArrayLike | None, *, option: str = "compute= (--extrapolate)") -> Array:
    """Return the budgets asked for, in the fit's unit; None stands for 100,000 GPU-hours."""
    if compute is None:
        if fit.compute_unit != "gpu-hours":
            raise FitError(
                f"compute is in {unit_text(fit.compute_unit)}, for which there is no default budget; give "
                f"{option}, e.g. {number(10 * fit.compute_range[1])}"
            )
        compute = DEFAULT_COMPUTE
    budgets = as_floats(np.atleast_1d(compute) if np.ndim(compute) == 0 else compute, "compute")
    bad = np.flatnonzero(~((budgets >= 1e-100) & (budgets <= 1e100)))
    if len(bad) or not len(budgets):
        what = f"compute[{bad[0]}] is {budgets[bad[0]]:g}" if len(bad) else "compute is empty"
        raise FitError(f"{what}: a budget is a positive, finite number of {unit_text(fit.compute_unit)}")
    return budgets


def _curves(draws: Array, budgets: Array) -> Array:
    A, B, C_mid, R0 = (draws[:, j : j + 1] for j in range(4))
    return sigmoid(budgets[None, :], A, B, C_mid, R0)


def supported_beyond(verdict: Verdict, measured: float = SUPPORTED_BEYOND) -> float:
    """Return up to how many times the compute so far a number may be given; ``measured`` where A is not identified."""
    if not verdict.has_curve:
        return 1.0
    return measured if verdict is Verdict.NOT_IDENTIFIED else np.inf


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
    if np.isfinite(fit.options.A_max) and not 0.0 <= target <= 1.0:
        raise FitError(f"pass_rate={target:g} is outside [0, 1]: pass rates are fractions, e.g. 0.55 for 55 %")
    boot = _bootstrap(fit, bootstrap, rng)
    A, B, C_mid, R0 = boot.distribution.T
    draws = sigmoid_reach(target, A, B, C_mid, R0)
    p = fit.params
    point = float(sigmoid_reach(target, *(np.array([v]) for v in p.as_tuple()))[0])
    return Reach(fit, target, point, draws, boot.confidence_level)


@dataclass(frozen=True, eq=False)
class CutoffSensitivity:
    """``A`` and its interval for several cutoffs.

    ``rows`` hold ``min_compute, n_points, A, ci_low, ci_high, verdict`` (None where the fit is refused, with
    ``error``); ``moves`` is how far ``A`` moves over the cutoffs where it is known to 0.05.
    """

    rows: tuple[dict[str, Any], ...]
    moves: float
    compute_unit: str

    @property
    def warning(self) -> str:
        """A sentence when ``A`` moves by more than 0.02, else empty."""
        if self.moves <= CUTOFF_MOVE:
            return ""
        return (
            f"A moves by {self.moves:.3f} with the cutoff: the early phase is not on the sigmoid; choose it with care"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the table as a DataFrame."""
        import pandas as pd

        return pd.DataFrame(list(self.rows))

    def __str__(self) -> str:
        rows = []
        for r in self.rows:
            if r["A"] is None:
                rows.append([number(r["min_compute"]), str(r["n_points"]), "", "", r["error"]])
                continue
            ci = interval(r["ci_low"], r["ci_high"]) if r["ci_low"] is not None else ""
            rows.append([number(r["min_compute"]), str(r["n_points"]), number(r["A"], 3), ci, r["verdict"]])
        table = text_table(rows, ["min_compute", "points", "A", "95 % interval", "verdict"])
        return "\n".join(
            [
                f"A by cutoff ({unit_text(self.compute_unit)})",
                table,
                *([self.warning] if self.warning else []),
            ]
        )


def cutoff_sensitivity(
    trace: Trace | SigmoidFit, cutoffs: ArrayLike | None = None, **options: Any
) -> CutoffSensitivity:
    """Show how ``A`` depends on the cutoff (``min_compute``; a value for it among the options is not used).

    Parameters
    ----------
    trace : Trace or SigmoidFit
        The run.
    cutoffs : array-like, optional
        Values of ``min_compute``. Default: 0, 500, 1,000, 1,500, 2,000 and 3,000 GPU-hours; in other units 0 to
        40 % of the data.
    **options
        Options of `fit_sigmoid`.

    Returns
    -------
    CutoffSensitivity

    Examples
    --------
    >>> from rlscaling import cutoff_sensitivity, datasets
    >>> len(cutoff_sensitivity(datasets.load_demo()["scalerl"]).rows)
    6
    """
    if not isinstance(trace, Trace | SigmoidFit):
        raise FitError(f"cutoff_sensitivity takes a Trace or a SigmoidFit, not {type(trace).__name__}")
    options = {name: value for name, value in options.items() if name not in ("min_compute", "on_failure")}
    unit, last = (
        trace.compute_unit,
        float((trace.data if isinstance(trace, SigmoidFit) else trace).compute[-1]),
    )
    if cutoffs is None:
        cutoffs = CUTOFFS if unit == "gpu-hours" else np.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.4]) * last
    rows = []
    for cutoff in as_floats(cutoffs, "cutoffs"):
        try:
            if isinstance(trace, SigmoidFit):
                found = refit(trace, min_compute=cutoff, **options)
            else:
                found = fit_trace(trace, min_compute=float(cutoff), **options)
        except RLScalingError as error:
            n = int(np.sum((trace.data if isinstance(trace, SigmoidFit) else trace).compute >= cutoff))
            rows.append(_cutoff_row(float(cutoff), n, str(error).split(";")[0]))
            continue
        rows.append(_cutoff_row(float(cutoff), found.n_points, "", found))
    known = [r["A"] for r in rows if r["verdict"] in (Verdict.IDENTIFIED, Verdict.APPROXIMATE)]
    return CutoffSensitivity(tuple(rows), float(np.ptp(known)) if len(known) > 1 else 0.0, unit)


def _cutoff_row(cutoff: float, n: int, error: str, fit: SigmoidFit | None = None) -> dict[str, Any]:
    ci = (fit.confidence_interval or {}).get("A") if fit else None
    return {
        "min_compute": cutoff,
        "n_points": n,
        "A": fit.A if fit else None,
        "ci_low": ci[0] if ci else None,
        "ci_high": ci[1] if ci else None,
        "verdict": str(fit.verdict) if fit else None,
        "error": error,
    }
