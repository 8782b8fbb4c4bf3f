"""Results that hold draws: a bootstrap, a forecast, and the compute to reach a pass rate.

The confidence level can be changed on a finished result: the draws are kept, only the quantiles move.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rlscaling.curves import PARAMETER_NAMES, Array, Mask
from rlscaling.errors import FitError
from rlscaling.format import robust_error
from rlscaling.printing import bootstrap_html, bootstrap_text, forecast_html, forecast_text, reach_text
from rlscaling.results import SigmoidFit, Verdict, finite

if TYPE_CHECKING:
    import pandas as pd


def percentile_interval(draws: Array, confidence_level: float) -> Array:
    """Return the percentile interval of each column, shape (..., 2).

    Never the "basic" (reflected) interval: where A piles up at its bound that one points the wrong way.
    """
    tail = 0.5 * (1.0 - confidence_level)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.quantile(draws, [tail, 1.0 - tail], axis=0, method="linear").T)


def order_interval(draws: Array, confidence_level: float) -> tuple[float, float]:
    """Return the percentile interval by order statistics, so that inf stays inf."""
    ordered = np.sort(draws)
    tail = 0.5 * (1.0 - confidence_level)
    low = ordered[int(np.floor(tail * (len(ordered) - 1)))]
    return float(low), float(ordered[int(np.ceil((1.0 - tail) * (len(ordered) - 1)))])


def _hull(this_run: Array, new_run: Array) -> Array:
    """Return the interval that holds both: at a bound of ``A`` the spread between seeds can only push inwards."""
    low, high = np.minimum(this_run, new_run)[..., 0], np.maximum(this_run, new_run)[..., 1]
    return np.stack([low, high], axis=-1)


def check_level(confidence_level: float) -> float:
    """Return ``confidence_level`` when it lies in (0, 1).

    Raises
    ------
    FitError
        Otherwise, e.g. for 95 instead of 0.95.
    """
    try:
        level = float(confidence_level)
    except (TypeError, ValueError):
        level = math.nan
    if not 0.0 < level < 1.0:
        raise FitError(f"confidence_level={confidence_level!r} is not between 0 and 1; for 95 % give 0.95")
    return level


def _pairs(intervals: Mapping[str, tuple[float, float]]) -> dict[str, list[float | None]]:
    return {name: [finite(low), finite(high)] for name, (low, high) in intervals.items()}


@dataclass(frozen=True, eq=False, repr=False)
class Bootstrap:
    """Replicates of a fit, and the intervals they give.

    Attributes
    ----------
    fit : SigmoidFit
        The fit.
    distribution : array of shape (n_resamples, 4)
        ``A, B, C_mid, R0`` of each replicate: this run's evaluation and training noise.
    A_new_run : array of shape (n_resamples,)
        ``A`` with the spread between seeds added.
    scheme, confidence_level, seed_sd
        How the replicates were drawn, the level of the intervals, and the seed-to-seed sd of ``A``.
    seed
        The entropy that repeats these numbers: ``bootstrap(fit, rng=seed)``.
    """

    fit: SigmoidFit
    distribution: Array
    A_new_run: Array
    scheme: str
    confidence_level: float
    seed_sd: float
    seed: int
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The verdict of the fit: one fit has one."""
        return self.fit.verdict

    @property
    def reason(self) -> str:
        """The fit's verdict in a sentence."""
        return self.fit.reason

    @property
    def n_resamples(self) -> int:
        """Number of replicates."""
        return len(self.distribution)

    @cached_property
    def confidence_interval(self) -> dict[str, tuple[float, float]]:
        """This-run interval of ``A, B, C_mid, R0``."""
        rows = percentile_interval(self.distribution, self.confidence_level)
        return {name: (float(low), float(high)) for name, (low, high) in zip(PARAMETER_NAMES, rows, strict=True)}

    @cached_property
    def confidence_interval_new_run(self) -> dict[str, tuple[float, float]]:
        """Interval of ``A`` for a new run of this recipe: the seed-to-seed spread is added."""
        wider = percentile_interval(self.A_new_run, self.confidence_level)
        low, high = _hull(np.array(self.confidence_interval["A"]), wider)
        return {"A": (float(low), float(high))}

    @cached_property
    def standard_error(self) -> dict[str, float]:
        """Half the central 68 % of the replicates, by parameter: what is printed after ±.

        A standard deviation would be moved by a few replicates whose C_mid ran far away.
        """
        return {name: robust_error(self.distribution[:, j]) for j, name in enumerate(PARAMETER_NAMES)}

    def at_level(self, confidence_level: float) -> Self:
        """Return the same replicates at another confidence level, without resampling."""
        return replace(self, confidence_level=check_level(confidence_level))

    def to_frame(self) -> pd.DataFrame:
        """Return one row a parameter: estimate, standard error and both intervals."""
        import pandas as pd

        new = self.confidence_interval_new_run
        rows = [
            {
                "estimate": getattr(self.fit.params, name),
                "standard_error": self.standard_error[name],
                "ci_low": self.confidence_interval[name][0],
                "ci_high": self.confidence_interval[name][1],
                "ci_new_run_low": new.get(name, (math.nan, math.nan))[0],
                "ci_new_run_high": new.get(name, (math.nan, math.nan))[1],
            }
            for name in PARAMETER_NAMES
        ]
        return pd.DataFrame(rows, index=pd.Index(PARAMETER_NAMES, name="parameter"))

    def to_dict(self) -> dict[str, Any]:
        """Return the intervals as JSON-ready values (without the draws)."""
        return {
            "ci": _pairs(self.confidence_interval),
            "ci_new_run": _pairs(self.confidence_interval_new_run),
            "standard_error": {k: finite(v) for k, v in self.standard_error.items()},
            "confidence_level": self.confidence_level,
            "scheme": self.scheme,
            "n_resamples": self.n_resamples,
            "seed_sd": self.seed_sd,
            "seed": self.seed,
        }

    def __str__(self) -> str:
        return bootstrap_text(self)

    def __repr__(self) -> str:
        low, high = self.confidence_interval["A"]
        return f"Bootstrap({self.verdict}, A in [{low:.4g}, {high:.4g}], n_resamples={self.n_resamples}, {self.scheme})"

    def _repr_html_(self) -> str:
        return bootstrap_html(self)


@dataclass(frozen=True, eq=False, repr=False)
class Forecast:
    """The pass rate a run will reach, with intervals.

    Attributes
    ----------
    compute, pass_rate : arrays of shape (n,)
        Budgets and the fitted curve there.
    distribution, distribution_new_run : arrays of shape (n_resamples, n)
        The curve of each replicate there: for this run, and with the seed-to-seed spread of ``A`` added.
    supported : boolean array of shape (n,)
        False where the data cannot carry a number: beyond twice the data when the ceiling is not identified, and
        anywhere beyond the data when the run is flat, falling or a misfit. The interval stands either way.
    evaluations : array of shape (n_resamples, n)
        One evaluation at each budget: the draw with the noise of an evaluation.
    method : str
        ``sigmoid`` or ``auto``; with ``auto`` the pass rate is the median of the draws.
    """

    fit: SigmoidFit
    compute: Array
    pass_rate: Array
    distribution: Array
    distribution_new_run: Array
    supported: Mask
    confidence_level: float
    seed: int
    evaluations: Array
    notes: tuple[str, ...] = ()
    method: str = "sigmoid"

    @property
    def verdict(self) -> Verdict:
        """The verdict of the fit."""
        return self.fit.verdict

    @property
    def beyond(self) -> Array:
        """Compute over the last fitted compute."""
        return self.compute / self.fit.compute_range[1]

    @cached_property
    def confidence_interval(self) -> Array:
        """This-run interval at each budget, shape (n, 2)."""
        return percentile_interval(self.distribution, self.confidence_level)

    @cached_property
    def confidence_interval_new_run(self) -> Array:
        """Interval for a new run of this recipe at each budget, shape (n, 2)."""
        wider = percentile_interval(self.distribution_new_run, self.confidence_level)
        return _hull(self.confidence_interval, wider)

    @cached_property
    def prediction_interval(self) -> Array:
        """Interval of one evaluation of this run at each budget, shape (n, 2): where a point of the log will lie."""
        return percentile_interval(self.evaluations, self.confidence_level)

    def at_level(self, confidence_level: float) -> Self:
        """Return the same forecast at another confidence level, without resampling."""
        return replace(self, confidence_level=check_level(confidence_level))

    def to_frame(self) -> pd.DataFrame:
        """Return one row a budget: pass rate and both intervals."""
        import pandas as pd

        new = self.confidence_interval_new_run
        return pd.DataFrame(
            {
                "compute": self.compute,
                "beyond": self.beyond,
                "pass_rate": self.pass_rate,
                "ci_low": self.confidence_interval[:, 0],
                "ci_high": self.confidence_interval[:, 1],
                "ci_new_run_low": new[:, 0],
                "ci_new_run_high": new[:, 1],
                "prediction_low": self.prediction_interval[:, 0],
                "prediction_high": self.prediction_interval[:, 1],
                "supported": self.supported,
            }
        )

    def to_dict(self) -> list[dict[str, Any]]:
        """Return one JSON-ready object a budget."""
        return [
            {
                "compute": finite(self.compute[i]),
                "pass_rate": finite(self.pass_rate[i]),
                "ci": [finite(v) for v in self.confidence_interval[i]],
                "ci_new_run": [finite(v) for v in self.confidence_interval_new_run[i]],
                "prediction": [finite(v) for v in self.prediction_interval[i]],
                "beyond": finite(self.beyond[i]),
                "supported": bool(self.supported[i]),
            }
            for i in range(len(self.compute))
        ]

    def __str__(self) -> str:
        return forecast_text(self)

    def __repr__(self) -> str:
        low, high = self.confidence_interval[-1]
        return f"Forecast({self.verdict}, {self.compute[-1]:g}: {self.pass_rate[-1]:.4g} [{low:.4g}, {high:.4g}])"

    def _repr_html_(self) -> str:
        return forecast_html(self)


@dataclass(frozen=True, eq=False, repr=False)
class Reach:
    """The compute at which a run reaches a pass rate.

    Attributes
    ----------
    pass_rate : float
        The target.
    compute : float
        Where the fitted curve reaches it: inf when the target is A or above.
    draws : array of shape (n_resamples,)
        The same of each replicate.
    """

    fit: SigmoidFit
    pass_rate: float
    compute: float
    draws: Array
    confidence_level: float

    @property
    def verdict(self) -> Verdict:
        """The verdict of the fit."""
        return self.fit.verdict

    @cached_property
    def confidence_interval(self) -> tuple[float, float]:
        """This-run interval; inf where replicates never reach it."""
        return order_interval(self.draws, self.confidence_level)

    @property
    def probability(self) -> float:
        """Share of replicates that reach it at all."""
        return float(np.isfinite(self.draws).mean())

    def at_level(self, confidence_level: float) -> Self:
        """Return the same draws at another confidence level."""
        return replace(self, confidence_level=check_level(confidence_level))

    def __str__(self) -> str:
        return f"{self.verdict}: {reach_text(self)}"

    def __repr__(self) -> str:
        low, high = self.confidence_interval
        return f"Reach({self.verdict}, {self.pass_rate:g} at {self.compute:.4g} [{low:.4g}, {high:.4g}])"
