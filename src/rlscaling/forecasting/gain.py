"""`expected_gain`: what more compute buys, and how likely it is to buy more than a given gain."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from rlscaling.arrays import Array
from rlscaling.errors import FitError
from rlscaling.fitting.budgets import check_budgets
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.forecasting.extrapolate import extrapolate
from rlscaling.forecasting.results import Forecast
from rlscaling.printing.document import Document
from rlscaling.printing.numbers import interval, number, percent, plus_minus, probability, unit_text
from rlscaling.solver.fitted_model import score_scale
from rlscaling.solver.intervals import ConfidenceInterval, half_width_68, percentile_interval
from rlscaling.uncertainty.bootstrap import Bootstrap
from rlscaling.uncertainty.combined import (
    AVERAGED,
    DAMPED_TREND,
    LAST_VALUE,
    SIGMOID,
    weight_of_sigmoid,
)
from rlscaling.validation import RngLike, check_level

GAIN = 0.01  # of the pass rate; for unbounded scores a share of their range
ROUND = (1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True, eq=False, repr=False)
class Gain(Document):
    """What more compute buys: the level of this run after it, less its level now, noise of evaluations left out.

    Attributes
    ----------
    fit : SigmoidFit
    next_compute : float
        The compute to come.
    threshold : float
        The gain that `probability` asks about, in units of the scores.
    draws : array of shape (size,)
        Of the gain.
    """

    fit: SigmoidFit
    next_compute: float
    threshold: float
    draws: Array
    confidence_level: float
    rng_seed: int

    @property
    def value(self) -> float:
        """The median of the draws."""
        return float(np.median(self.draws))

    @property
    def error(self) -> float:
        """Half the width of the central 68 % of the draws."""
        return half_width_68(self.draws)

    @property
    def confidence_interval(self) -> ConfidenceInterval[float]:
        """Interval of the gain."""
        low, high = percentile_interval(self.draws, self.confidence_level)
        return ConfidenceInterval(float(low), float(high))

    @property
    def probability(self) -> float:
        """Probability of a gain of more than ``threshold``."""
        return self.probability_above(self.threshold)

    def probability_above(self, gain: float) -> float:
        """Return the probability of more than ``gain``."""
        return float(np.mean(self.draws > gain))

    def at_level(self, confidence_level: float) -> Self:
        """Return the same draws at another confidence level."""
        return replace(self, confidence_level=check_level(confidence_level))

    @property
    def sentence(self) -> str:
        """The gain, and the probability that it exceeds the threshold."""
        gain = plus_minus(self.value, self.error, may_be_zero=True)
        return (
            f"the next {number(self.next_compute)} {unit_text(self.fit.compute_unit)} buy {gain}; more than "
            f"{number(self.threshold)} with probability {probability(self.probability)}"
        )

    @property
    def headline(self) -> str:
        """The verdict of the fit, and the gain."""
        return f"{self.fit.verdict}: {self.sentence}"

    def footnotes(self) -> list[str]:
        """Return the interval of the gain."""
        return [f"{percent(self.confidence_level)}: {interval(*self.confidence_interval)}"]

    def _record(self) -> dict[str, Any]:
        return {
            "compute": self.next_compute,
            "gain": self.value,
            "error": self.error,
            "ci": self.confidence_interval,
            "threshold": self.threshold,
            "probability": self.probability,
        }

    def __repr__(self) -> str:
        return f"Gain({self.value:.3g} ± {self.error:.2g} for {self.next_compute:g} more, {self.fit.verdict})"


def expected_gain(
    fit: SigmoidFit,
    next_compute: float | None = None,
    *,
    threshold: float = GAIN,
    bootstrap: Bootstrap | None = None,
    rng: RngLike = None,
) -> Gain:
    """Return what more compute buys, and the probability that it buys more than ``threshold``.

    Parameters
    ----------
    fit : SigmoidFit
        The run so far.
    next_compute : float, optional
        In the fit's unit. Default: a round number near half of the compute so far.
    threshold : float
        A gain in pass rate; for unbounded scores a share of their range.
    bootstrap : Bootstrap, optional
        Replicates of the sigmoid; None draws the default ones.
    rng : int, Generator, SeedSequence or None
        Same seed, same numbers.

    Returns
    -------
    Gain

    Raises
    ------
    FitError
        For compute that is not positive, a threshold that is not finite, or fewer than 7 fitted points.

    Notes
    -----
    The draws are those of the combined forecast (`extrapolate`), about its members other than the last value. How often
    such probabilities came true on real curves stands in docs/forecasting.md (benchmarks/forecast.py).

    Examples
    --------
    >>> from rlscaling import datasets, expected_gain, fit_trace
    >>> gain = expected_gain(fit_trace(datasets.load_demo()["scalerl"]), 16_000, rng=0)
    >>> gain.probability < 0.3
    True
    """
    if not isinstance(fit, SigmoidFit):
        raise FitError(f"expected_gain takes a SigmoidFit, not {type(fit).__name__}; fit first")
    if isinstance(threshold, bool) or not isinstance(threshold, int | float | np.number) or not np.isfinite(threshold):
        raise FitError(f"threshold={threshold!r} is not a finite number; give a gain, e.g. {GAIN:g}")
    last = fit.compute_range[1]
    more = round_number(0.5 * last) if next_compute is None else next_compute
    check_budgets(fit, more, option="next_compute=")
    now = np.nextafter(last, np.inf)  # the first budget beyond the data, so that both are forecast alike
    forecast = extrapolate(fit, [now, max(now, last + more)], bootstrap=bootstrap, rng=rng, track_record=False)
    levels = forecast.distribution + _more_than_forecast(forecast)
    draws = levels[:, 1] - levels[:, 0]
    scale = score_scale(fit.fitted_model())
    return Gain(fit, float(more), float(threshold) * scale, draws, forecast.confidence_level, forecast.rng_seed)


def _more_than_forecast(forecast: Forecast) -> Array:
    """Return what the forecast at each budget is without the last value, which says that nothing is gained, less it."""
    members = forecast.members
    if LAST_VALUE not in members:
        return np.zeros(len(forecast.compute))
    share = weight_of_sigmoid(forecast.fit, forecast.compute)
    others = 0.5 * (members[DAMPED_TREND] + members[AVERAGED])
    return np.asarray((1.0 - share) * others + share * members.get(SIGMOID, 0.0) - forecast.pass_rate)


def round_number(value: float) -> float:
    """Return 1, 2 or 5 times a power of ten, the nearest to ``value``.

    Examples
    --------
    >>> round_number(7_700.0)
    10000.0
    """
    power = 10.0 ** math.floor(math.log10(value))
    return min(ROUND, key=lambda m: abs(math.log(m * power / value))) * power
