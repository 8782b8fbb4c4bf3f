"""`plan`: how much longer to run, what would be cheaper, and what the next hours would bring."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlscaling.arrays import Array
from rlscaling.errors import FitError
from rlscaling.fitting.budgets import check_budgets
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import TARGET, ComputeNeeded, Verdict, check_enough_points
from rlscaling.forecasting.extrapolate import extrapolate
from rlscaling.forecasting.gain import GAIN, Gain, expected_gain
from rlscaling.printing.document import Document, Table
from rlscaling.printing.numbers import number, rough, unit_text
from rlscaling.solver.departures import HORIZON
from rlscaling.solver.fitted_model import FittedModel, score_scale
from rlscaling.solver.information import FARTHEST, Z95, Rate, compute_needed
from rlscaling.uncertainty.bootstrap import bootstrap
from rlscaling.uncertainty.seed_spread import SEED_SD
from rlscaling.validation import RngLike, check_seed_sd, entropy_of, renamed

N_DRAWS = 200  # replicates of the fit
N_ENDS = 200  # run lengths tried
MOST_EXCESS = 5.0  # of the present half-width over the target: beyond, the replicates say more
BAND = (0.1, 0.5, 0.9)
MORE_OFTEN, MORE_PROMPTS = 2.0, 4.0
MOST_RHO = 0.99


@dataclass(frozen=True)
class Alternative:
    """One way to identify more precisely: the compute to run to, and the cost of its evaluations.

    Attributes
    ----------
    compute : ComputeNeeded
        To run to: median and 10-90 % band.
    evaluations : float
        Cost of the evaluations from now on to the median, in evaluations of today's size.
    """

    name: str
    compute: ComputeNeeded
    evaluations: float


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Document):
    """How much longer to run.

    Attributes
    ----------
    fit : SigmoidFit
    target_half_width : float
        Of the 95 % interval; for unbounded scores a share of their range, as are the other half-widths.
    at : float or None
        Of the curve at this compute; None: of ``A``.
    present : float
        The half-width so far.
    ways : tuple of Alternative
        As now; evaluations twice as often; four times the prompts (where the trace has counts). Empty when the target
        is reached, or the run is flat, falling or a misfit.
    seeds : tuple of (int, float)
        Half-width for the recipe (this run's error and the between-seed spread) with 1, 2, ... runs as long as this.
    bought : Gain
        What the next compute buys; ``next_compute``, ``gain`` and ``gain_error`` are its numbers.
    """

    fit: SigmoidFit
    target_half_width: float
    at: float | None
    present: float
    ways: tuple[Alternative, ...]
    seeds: tuple[tuple[int, float], ...]
    seed_sd: float
    bought: Gain
    rng_seed: int
    notes: tuple[str, ...] = ()

    @property
    def next_compute(self) -> float:
        """The compute that `gain` is for."""
        return self.bought.next_compute

    @property
    def gain(self) -> float:
        """What the next ``next_compute`` bring."""
        return self.bought.value

    @property
    def gain_error(self) -> float:
        """The error of `gain`."""
        return self.bought.error

    @property
    def needed(self) -> ComputeNeeded | None:
        """Compute to run to as now; None when the target is reached or nothing can be planned."""
        return self.ways[0].compute if self.ways else None

    @property
    def reached(self) -> bool:
        """Whether the target is reached already: by the width of the interval and by the length of the run."""
        return self.fit.verdict.has_curve and self.present <= self.target_half_width and not self.ways

    @property
    def _what(self) -> str:
        return "A" if self.at is None else f"R at {number(self.at)}"

    @property
    def headline(self) -> str:
        """How much longer to run, in a sentence."""
        unit, target = unit_text(self.fit.compute_unit), f"±{self.target_half_width:g}"
        if not self.fit.verdict.has_curve:
            return f"no plan: the verdict is {self.fit.verdict}; {self.fit.reason}"
        if self.reached:
            return f"{self._what} is known to {target} already (±{rough(self.present)}, 95 %)"
        assert self.needed is not None
        if not math.isfinite(self.needed.median):
            farthest = number(FARTHEST * self.fit.compute_range[1])
            return f"no run length up to {farthest} {unit} would bring {self._what} to {target} at this noise"
        high = rough(self.needed.high) if math.isfinite(self.needed.high) else "beyond reach"
        if self.present <= self.target_half_width:
            return (
                f"A is known to {target} if the run keeps to the sigmoid (±{rough(self.present)}, 95 %); that shows "
                f"by about {rough(self.needed.median)} {unit}, {HORIZON:g} times C_mid"
            )
        return (
            f"run to about {rough(self.needed.median)} {unit} to know {self._what} to {target} "
            f"(10-90 %: {rough(self.needed.low)} to {high}); now ±{rough(self.present)}"
        )

    @property
    def stop_advice(self) -> str:
        """What more compute would bring, in a sentence."""
        return self.bought.sentence

    @property
    def seed_advice(self) -> str:
        """How precisely more training runs would measure the recipe, in a sentence."""
        parts = [f"{k} seed{'s' * (k > 1)} ±{rough(width)}" for k, width in self.seeds]
        return (
            f"for the recipe rather than this run (sd {self.seed_sd:g} between seeds): {', '.join(parts)}, each costs "
            f"{number(self.fit.compute_range[1])} {unit_text(self.fit.compute_unit)}"
        )

    def tables(self) -> list[Table]:
        """Return the table."""
        return [Table.of(self._header(), self._rows())]

    def _rows(self) -> list[list[str]]:
        """Return one row per alternative as text: compute to run to, band, what is left to run, cost of evaluations."""
        last, rows = self.fit.compute_range[1], []
        for way in self.ways:
            c = way.compute
            low, high, more = (rough(v) for v in (c.low, c.high, max(c.median - last, 0.0)))
            n = rough(way.evaluations)
            rows.append([way.name, rough(c.median), f"{low} to {high}", more, n])
        return rows

    def _header(self) -> list[str]:
        return ["", f"run to ({unit_text(self.fit.compute_unit)})", "10-90 %", "more compute", "evaluations"]

    def footnotes(self) -> list[str]:
        """Return the lines below the table."""
        advice = [self.stop_advice, self.seed_advice] if self.fit.verdict.has_curve else []
        return [*advice, *(f"note: {note}" for note in self.notes)]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-ready values; null where no run length would do."""
        return super().to_dict()

    def _record(self) -> dict[str, Any]:
        ways = []
        for way in self.ways:
            c = way.compute
            band = {"median": c.median, "low": c.low, "high": c.high}
            ways.append({"name": way.name, **band, "evaluations": way.evaluations})
        return {
            "headline": self.headline, "run": self.fit.name, "fit_verdict": self.fit.verdict,
            "target_half_width": self.target_half_width, "at": self.at, "present_half_width": self.present,
            "reached": self.reached, "compute_so_far": self.fit.compute_range[1],
            "compute_unit": self.fit.compute_unit, "ways": ways,
            "next": self.bought.to_dict(),
            "seeds": [{"seeds": k, "half_width": width} for k, width in self.seeds], "seed_sd": self.seed_sd,
            "rng_seed": self.rng_seed, "notes": self.notes,
        }  # fmt: skip


@renamed(at="compute")
def plan(
    fit: SigmoidFit,
    *,
    target_half_width: float = TARGET,
    compute: float | None = None,
    next_compute: float | None = None,
    gain: float = GAIN,
    seed_sd: float = SEED_SD,
    rng: RngLike = None,
) -> Plan:
    """Estimate how much longer to run until ``A`` is identified, what else would help, and what the next hours bring.

    For each of 200 replicates of the fit, with its own curve and noise, the information of evaluations at the present
    spacing is integrated until the 95 % half-width falls to the target.

    Parameters
    ----------
    fit : SigmoidFit
        The run so far.
    target_half_width : float
        Of the 95 % interval, in units of the pass rate; for unbounded scores a share of their range, as in verdicts.
    compute : float, optional
        The target is of the curve at this compute instead of ``A``.
    next_compute : float, optional
        For the stop advice. Default: a round number near half of the compute so far.
    gain : float
        The stop advice says how likely it is that the next compute buys more than this; for unbounded scores a share of
        their range.
    seed_sd : float
        Between-seed standard deviation of ``A`` for one recipe.
    rng : int, Generator, SeedSequence or None
        Same seed, same numbers.

    Returns
    -------
    Plan

    Raises
    ------
    FitError
        With fewer than 7 fitted points, ``A`` fixed by the caller (then give ``compute=``), or a target that is not
        positive.

    Examples
    --------
    >>> from rlscaling import datasets, fit_trace, plan
    >>> result = plan(fit_trace(datasets.load_demo()["scalerl-8k"], max_compute=5000), rng=0)
    >>> 5000 < result.needed.low <= result.needed.median <= result.needed.high
    True
    """
    _check(fit, target_half_width, compute)
    check_seed_sd(seed_sd)
    budget = None if compute is None else float(check_budgets(fit, compute, option="compute=")[0])
    entropy, model = entropy_of(rng), fit.fitted_model()
    boot = bootstrap(fit, rng=entropy)
    if budget is None:
        low, high = boot.confidence_interval["A"]
    else:
        low, high = extrapolate(fit, budget, bootstrap=boot, track_record=False).confidence_interval.at(0)
    scale = score_scale(model)
    present = 0.5 * (high - low) / scale
    ways: tuple[Alternative, ...] = ()
    short = budget is None and target_half_width <= TARGET and fit.verdict is not Verdict.IDENTIFIED
    if fit.verdict.has_curve and (present > target_half_width or short):
        ways = _ways(model, boot.distribution[:N_DRAWS], target_half_width * scale, budget, present / target_half_width)
    bought = expected_gain(fit, next_compute, threshold=gain, bootstrap=boot, rng=entropy)
    variance = (present / Z95) ** 2 + seed_sd**2
    seeds = tuple((k, Z95 * math.sqrt(variance / k)) for k in (1, 2, 3))
    return Plan(
        fit, float(target_half_width), budget, present, ways, seeds, float(seed_sd), bought, entropy, fit.notes,
    )  # fmt: skip


def _check(fit: SigmoidFit, target: float, compute: float | None) -> None:
    if not isinstance(fit, SigmoidFit):
        raise FitError(f"plan takes a SigmoidFit, not {type(fit).__name__}; fit first")
    if not (isinstance(target, int | float | np.number) and 0.0 < target < math.inf):
        raise FitError(f"target_half_width={target!r} is not a positive number; give e.g. {TARGET:g}")
    check_enough_points(fit.n_points, "for a plan")
    if fit.options.A is not None and compute is None:
        raise FitError(
            f"A was given as {fit.options.A:g}: there is nothing to find out about it; give compute= to plan for the "
            "curve there"
        )


def _ways(model: FittedModel, draws: Array, target: float, at: float | None, excess: float) -> tuple[Alternative, ...]:
    """Return the run lengths that would do, each no shorter than what the present width and the verdict ask for."""
    C = model.series.compute
    step, last = float(np.median(np.diff(C))), float(C[-1])
    least = np.full(len(draws), last * math.sqrt(min(max(excess, 1.0), MOST_EXCESS)))
    if at is None and target <= TARGET * score_scale(model):
        least = np.maximum(least, HORIZON * np.sort(draws[:, 2]))

    def way(name: str, rate: Rate | None, cost: float) -> Alternative:
        needed = compute_needed(model, draws, target, rate=rate, at=at, n_ends=N_ENDS)
        hours = np.maximum(np.sort(needed), least)
        low, median, high = (float(hours[round(q * (len(hours) - 1))]) for q in BAND)
        return Alternative(
            name, ComputeNeeded(target / score_scale(model), median, low, high), cost * max(median - last, 0.0) / step
        )

    sampling = _sampling_variance(model)
    ways = [way("as now", None, 1.0), way("twice as often", _rate(sampling, MORE_OFTEN, 1.0), MORE_OFTEN)]
    if sampling > 0.0:
        ways.append(way(f"{MORE_PROMPTS:g} times the prompts", _rate(sampling, 1.0, MORE_PROMPTS), MORE_PROMPTS))
    return tuple(ways)


def _sampling_variance(model: FittedModel) -> float:
    """Return the variance of an evaluation that more prompts would lower; 0 where the trace has no counts."""
    series = model.series
    if series.se is not None:
        return float(np.mean(np.square(series.se)))
    if series.n_rollouts is None:
        return 0.0
    mean = np.clip(model.bootstrap_curve[: model.n], 0.0, 1.0)
    return float(np.mean(mean * (1.0 - mean) / 2.0 / series.n_rollouts))


def _rate(sampling: float, often: float, prompts: float) -> Rate:
    """Return how many times the information a unit of compute gives, with evaluations ``often`` times as dense.

    The noise is AR(1) training noise, correlated over compute, plus the sampling of prompts; denser evaluations share
    the same training noise, and more prompts lower the sampling noise alone.
    """

    def rate(rho: Array, sd: Array) -> Array:
        total = sd**2 / (1.0 - rho**2)
        white = np.minimum(sampling, total * (1.0 - rho))
        training = total - white
        r = np.minimum(rho * total / np.maximum(training, 1e-300), MOST_RHO)
        denser = r ** (1.0 / often)
        now = training * (1.0 + r) / (1.0 - r) + white
        then = (training * (1.0 + denser) / (1.0 - denser) + white / prompts) / often
        return np.asarray(now / np.maximum(then, 1e-300))

    return rate
