"""`monitor`: whether a run has left its curve (a CUSUM of one-step-ahead residuals), and warnings that need no fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from rlscaling.arrays import Array, Mask
from rlscaling.errors import FitError
from rlscaling.fitting.data import relative_to_fit
from rlscaling.fitting.fit import fit_beginning, fit_trace
from rlscaling.fitting.selection import checked_weights
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import MIN_POINTS_FOR_INTERVAL, check_enough_points
from rlscaling.printing.document import Document
from rlscaling.printing.numbers import number, unit_text
from rlscaling.solver.fitted_model import FittedModel
from rlscaling.solver.resampling import SCHEME, replicates
from rlscaling.traces.trace import Trace

SEED = 251013788  # fixed, so that a run always gets the same alarm
N_REPLICATES, N_HEALTHY = 4000, 4000
SAFE = 0.9
LEAST_EFFECTIVE = 100  # effective number of replicates below which the weights are not updated
MOST_SD = 4.0  # of one residual: a single outlier is no departure from the curve
HORIZON = 2.0  # times the fitted compute: how far one fit is watched
MOST_LATER = 200  # later evaluations; beyond, fit again
ALLOWANCE = 0.5  # sd per evaluation that the CUSUM forgives
FALSE_ALARMS = 0.005  # of series of normal residuals, over the whole horizon
MARGIN = 4.0  # added to that limit: residuals of healthy runs have heavier tails (benchmarks/monitor.py)
TRUNCATION = 0.10  # runs destabilise when 10 to 15 % of the generations are cut off [ScaleRL, A.15]
LEAST_LATER = 8  # later evaluations, for the size of their noise
MEDIAN_OF_NORMAL = 0.6745  # of the absolute value
RECENT = 3  # evaluations behind a warning
ENTROPY_SHARE = 0.05  # of the entropy at the start: below, the policy has collapsed
STALL = 5.0  # median gaps without a row


@dataclass(frozen=True)
class Alarm:
    """One reason to look at a run: ``left-curve``, ``truncation``, ``entropy`` or ``stalled``."""

    kind: str
    message: str
    compute: float


@dataclass(frozen=True, eq=False, repr=False)
class MonitorReport(Document):
    """The state of a run after its fit: residuals, CUSUM and alarms.

    Attributes
    ----------
    fit : SigmoidFit
        Of the part before.
    compute, z, cusum : arrays of shape (n,)
        Later evaluations: their one-step-ahead residuals in sd, and the larger side of the CUSUM.
    limit : float
        Of the CUSUM: the 0.995 quantile of the largest CUSUM of as many independent normal residuals, plus 4.
    direction : str
        ``below``, ``above``, or empty without an alarm on the curve.
    """

    fit: SigmoidFit
    compute: Array
    z: Array
    cusum: Array
    limit: float
    direction: str
    alarms: tuple[Alarm, ...]
    notes: tuple[str, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether there is no alarm."""
        return not self.alarms

    @property
    def status(self) -> str:
        """``healthy``, ``alarm``, or ``waiting`` before anything could be watched."""
        if self.alarms:
            return "alarm"
        return "healthy" if len(self.compute) else "waiting"

    @property
    def headline(self) -> str:
        """The state of the run, in a sentence."""
        if self.alarms:
            return "alarm: " + "; ".join(alarm.message for alarm in self.alarms)
        last = number(self.fit.compute_range[1])
        if not len(self.compute):
            return f"waiting: no evaluation after the fit, which ends at {last} {unit_text(self.fit.compute_unit)}"
        return f"healthy: {len(self.compute)} evaluations after {last} {unit_text(self.fit.compute_unit)} on the curve"

    def _record(self) -> dict[str, Any]:
        return {
            "status": self.status, "headline": self.headline, "fit_verdict": self.fit.verdict,
            "alarms": [asdict(alarm) for alarm in self.alarms],
            "fitted_to": self.fit.compute_range[1], "compute_unit": self.fit.compute_unit,
            "compute": self.compute, "z": self.z, "cusum": self.cusum, "limit": self.limit, "notes": self.notes,
        }  # fmt: skip

    def footnotes(self) -> Sequence[str]:
        """Return the line on the CUSUM, and the notes."""
        lines = []
        if len(self.cusum):
            lines.append(
                f"CUSUM {self.cusum[-1]:.1f} (alarm at {self.limit:.1f}); last residual {self.z[-1]:+.1f} sd of the "
                "curve's and the evaluation's own error"
            )
        return [*lines, *(f"note: {note}" for note in self.notes)]

    def __repr__(self) -> str:
        return f"MonitorReport({self.status}, {len(self.compute)} later evaluations, {len(self.alarms)} alarms)"


def monitor(
    trace: Trace, fit: SigmoidFit, *, weights: ArrayLike | None = None, idle: float | None = None
) -> MonitorReport:
    """Check whether the evaluations after ``fit`` still lie on its curve, and warn of truncation, entropy and a stall.

    Each later evaluation is compared with what the replicates of the fit, their AR(1) noise and the evaluations before
    it predict one step ahead. A two-sided CUSUM of these residuals raises the alarm at a limit that at most 1 in 100
    healthy runs reaches (benchmarks/monitor.py).

    Parameters
    ----------
    trace : Trace
        The run so far.
    fit : SigmoidFit
        Of its beginning, in the same unit.
    weights : array-like of shape (n,), optional
        For a weighted fit: the weight of each evaluation of ``trace``, on the scale of the fit's weights. Default:
        those that the fit holds, which has them when it was made of the whole trace with ``max_compute=``.
    idle : float, optional
        Seconds since the last row was written: needed for the warning of a stalled log, with a column ``wall_time``.

    Returns
    -------
    MonitorReport

    Raises
    ------
    FitError
        For another unit, fewer than 7 fitted points, a fit that is flat, falling or a misfit, or a weighted fit and
        later evaluations whose weights are not known.

    Examples
    --------
    >>> from rlscaling import datasets, fit_trace, monitor
    >>> run = datasets.load_demo()["scalerl"]
    >>> monitor(run, fit_trace(run, max_compute=8000)).status
    'healthy'
    """
    if not isinstance(trace, Trace) or not isinstance(fit, SigmoidFit):
        raise FitError(f"monitor takes a Trace and a SigmoidFit, not {type(trace).__name__} and {type(fit).__name__}")
    if trace.compute_unit != fit.compute_unit:
        raise FitError(f"the trace is in {trace.compute_unit}, the fit in {fit.compute_unit}; fit this run")
    check_enough_points(fit.n_points, "to watch a run by", remedy="wait")
    if not fit.verdict.has_curve:
        raise FitError(f"the fit is {fit.verdict}, so there is no curve to leave: {fit.reason}")
    last, model = fit.compute_range[1], fit.fitted_model()
    later = (trace.compute > last) & (trace.compute <= HORIZON * last)
    C, y = trace.compute[later][:MOST_LATER], trace.pass_rate[later][:MOST_LATER]
    scale = _noise_scales(trace, fit, weights, later)[:MOST_LATER]
    z, cusum, side, limit = _watch(model, C, y, scale)
    over = np.flatnonzero(cusum > limit)
    direction, alarms, notes = "", [], []
    if len(over):
        direction, first = ("above" if side[over[0]] > 0 else "below"), float(C[over[0]])
        text = f"the run has left its curve: {direction} it, noticed at {number(first)} {unit_text(fit.compute_unit)}"
        alarms.append(Alarm("left-curve", text, first))
    if trace.compute[-1] > HORIZON * last or later.sum() > MOST_LATER:
        notes.append(f"watched to {number(float(C[-1]) if len(C) else last)}: the run is longer; make the fit anew")
    alarms += [alarm for alarm in (_truncation(trace), _entropy(trace), _stalled(trace, idle)) if alarm is not None]
    return MonitorReport(fit, C, z, cusum, limit, direction, tuple(alarms), tuple(notes))


def reference_fit(trace: Trace, **options: Any) -> SigmoidFit | None:
    """Return the fit by which a running log is watched: of its beginning, repeated whenever the run has grown by 1.4.

    The beginning ends a factor of the square root of 2 to 2 before the last evaluation, and has 7 fitted points.

    Parameters
    ----------
    trace : Trace
    **options
        Options of `fit_sigmoid`.

    Returns
    -------
    SigmoidFit or None
        None while the log is too short.
    """
    whole = fit_trace(trace, **options)
    used = trace.compute[whole.data.used]
    if len(used) < MIN_POINTS_FOR_INTERVAL:
        return None
    first, last = float(used[MIN_POINTS_FOR_INTERVAL - 1]), float(used[-1])
    steps = math.floor(2.0 * math.log2(last / first)) - 1  # half doublings
    if steps < 0:
        return None
    return fit_beginning(trace, first * 2.0 ** (0.5 * steps) * (1.0 + 1e-9), **options)


def _noise_scales(trace: Trace, fit: SigmoidFit, weights: ArrayLike | None, later: Mask) -> Array:
    """Return the noise of each later evaluation over that of one of mean weight."""
    if fit.data.weights is None:
        if weights is not None:
            raise FitError("weights= was given, but the fit is not weighted; fit with weights= too")
        return np.ones(int(later.sum()))
    if weights is not None:
        w = checked_weights(weights, len(trace))[later]
    else:
        C = trace.compute[later]
        place = np.minimum(np.searchsorted(fit.data.compute, C), len(fit.data) - 1)
        if not np.array_equal(fit.data.compute[place], C):
            raise FitError(
                "the fit is weighted, and the weights of the later evaluations are not known; give weights=, one for "
                "each evaluation of the trace"
            )
        w = fit.data.weights[place]
    return np.asarray(1.0 / np.sqrt(relative_to_fit(fit.data, w)))


def _watch(model: FittedModel, C: Array, y: Array, scale: Array) -> tuple[Array, Array, Array, float]:
    """Return residuals, CUSUM, the side it is on, and its limit.

    Each residual is the normal score of an evaluation in its one-step-ahead distribution: the mixture, over replicates
    of the fit, of a normal around curve plus carried-over noise, on the ``scale`` of each evaluation. The replicates
    are weighted by how well they predicted so far, as long as their effective number is 100 or more.
    """
    rng = np.random.default_rng(SEED)
    drawn = replicates(model, SCHEME, rng, N_REPLICATES)
    compute = np.concatenate([model.series.compute[-1:], C])
    off = np.concatenate([model.series.y[-1:], y]) - drawn.curves(compute)
    off /= np.concatenate([1.0 / np.sqrt(model.series.weights[-1:]), scale])
    rho, marginal = _noise(model, rng)
    marginal = max(marginal, _later_noise(np.median(off[:, 1:], axis=0)))
    step = float(np.median(np.diff(model.series.compute)))
    log_weight, z = np.zeros(N_REPLICATES), np.empty(len(y))
    for t in range(len(y)):
        carried = rho ** ((compute[t + 1] - compute[t]) / step)
        score = (off[:, t + 1] - carried * off[:, t]) / (marginal * math.sqrt(1.0 - carried**2))
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        z[t] = float(ndtri(np.clip(weight @ ndtr(score), ndtr(-MOST_SD), ndtr(MOST_SD))))
        updated = log_weight - 0.5 * score**2
        if _effective(updated) >= LEAST_EFFECTIVE:
            log_weight = updated
    up, down = _cusum(z[None, :])
    n = int(np.clip((HORIZON - 1.0) * model.series.compute[-1] / step, len(y), MOST_LATER))
    return z, np.maximum(up, down)[0], np.where(up >= down, 1.0, -1.0)[0], _limit(n)


def _noise(model: FittedModel, rng: np.random.Generator) -> tuple[float, float]:
    """Return correlation and size of the noise, conservatively: the 0.9 quantiles of their posterior."""
    rho, innovation = model.noise.draw(rng, N_REPLICATES)
    return float(np.quantile(rho, SAFE)), float(np.quantile(innovation / np.sqrt(1.0 - rho**2), SAFE))


def _later_noise(off: Array) -> float:
    """Return the size of the later noise, from second differences, which no curve and no steady decline is in.

    A run that has left its curve is no noisier for it; one whose noise has grown has not left it.
    """
    if len(off) < LEAST_LATER:
        return 0.0
    return float(np.median(np.abs(np.diff(off, 2)))) / (MEDIAN_OF_NORMAL * math.sqrt(6.0))


def _effective(log_weight: Array) -> float:
    """Return the effective number of replicates under these weights."""
    weight = np.exp(log_weight - log_weight.max())
    return float(weight.sum() ** 2 / (weight @ weight))


def _limit(n: int) -> float:
    """Return what the CUSUM of ``n`` normal residuals exceeds with probability `FALSE_ALARMS`, plus the margin."""
    z = np.clip(np.random.default_rng(SEED).standard_normal((N_HEALTHY, max(n, 1))), -MOST_SD, MOST_SD)
    return float(np.quantile(np.maximum(*_cusum(z)).max(axis=1), 1.0 - FALSE_ALARMS)) + MARGIN


def _cusum(z: Array) -> tuple[Array, Array]:
    """Return the upper and the lower CUSUM of each row, shape (rows, n)."""
    up, down = np.zeros_like(z), np.zeros_like(z)
    high = low = np.zeros(len(z))
    for t in range(z.shape[1]):
        high = np.maximum(high + z[:, t] - ALLOWANCE, 0.0)
        low = np.maximum(low - z[:, t] - ALLOWANCE, 0.0)
        up[:, t], down[:, t] = high, low
    return up, down


def _numbers(trace: Trace, name: str) -> tuple[Array, Array] | None:
    """Return compute and values of a numeric column where it has them."""
    values = trace.columns.get(name)
    if values is None or values.dtype.kind not in "fiu":
        return None
    known = np.isfinite(values)
    return (trace.compute[known], values[known]) if known.sum() >= RECENT else None


def _truncation(trace: Trace) -> Alarm | None:
    column = _numbers(trace, "truncation_rate")
    if column is None:
        return None
    share = float(np.mean(column[1][-RECENT:]))
    if share <= TRUNCATION:
        return None
    text = f"{100 * share:.0f} % of the completions are truncated (over 10 % runs become unstable)"
    return Alarm("truncation", text, float(column[0][-1]))


def _entropy(trace: Trace) -> Alarm | None:
    column = _numbers(trace, "entropy")
    if column is None or len(column[1]) <= 2 * RECENT:
        return None
    start, now = float(np.median(column[1][:RECENT])), float(np.median(column[1][-RECENT:]))
    if start <= 0.0 or now > ENTROPY_SHARE * start:
        return None
    text = f"the entropy has collapsed: {number(now)} nats, {100 * now / start:.1f} % of what it was at the start"
    return Alarm("entropy", text, float(column[0][-1]))


def _stalled(trace: Trace, idle: float | None) -> Alarm | None:
    column = None if idle is None else _numbers(trace, "wall_time")
    if column is None or idle is None:
        return None
    gap = float(np.median(np.diff(column[1])))
    if not (math.isfinite(gap) and gap > 0.0) or idle <= STALL * gap:
        return None
    text = f"the log is stalled: no row for {number(idle)} s, where one came every {number(gap)} s"
    return Alarm("stalled", text, float(column[0][-1]))
