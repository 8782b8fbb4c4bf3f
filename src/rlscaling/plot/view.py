"""What a picture shows of a fit: the best that is known about it."""

from __future__ import annotations

from dataclasses import dataclass

from rlscaling.curves import Array
from rlscaling.errors import FitError
from rlscaling.forecast import supported_beyond
from rlscaling.intervals import Bootstrap, Forecast
from rlscaling.results import SigmoidFit


@dataclass(frozen=True)
class View:
    """A fit with the best that is known about it: its own interval, or that of a bootstrap."""

    fit: SigmoidFit
    A_interval: tuple[float, float] | None
    level: float
    draws: Array | None
    forecast: Forecast | None = None

    @property
    def support(self) -> float:
        """Times the data: how far the curve itself may be shown."""
        return supported_beyond(self.fit.verdict)

    @property
    def percent(self) -> str:
        """The confidence level as it is written, e.g. ``95 %``."""
        return f"{100 * self.level:g} %"


def view(fit: SigmoidFit, boot: Bootstrap | None = None, forecast: Forecast | None = None) -> View:
    """Return what is known about ``fit``: from ``boot`` where it is given, else from the forecast or the fit itself."""
    if boot is not None:
        if boot.fit.params != fit.params:
            raise FitError("bootstrap= belongs to another fit; run bootstrap(fit) on this one, or leave it out")
        ci = boot.confidence_interval["A"]
        return View(fit, ci, boot.confidence_level, boot.distribution, forecast)
    return View(fit, (fit.confidence_interval or {}).get("A"), 0.95, None, forecast)


def view_of(result: SigmoidFit | Bootstrap | Forecast) -> View:
    """Return what is known from any of the results that can be drawn."""
    if isinstance(result, Forecast):
        return view(result.fit, None, result)
    return view(result.fit, result) if isinstance(result, Bootstrap) else view(result)
