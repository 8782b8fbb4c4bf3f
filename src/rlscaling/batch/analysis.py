"""`Analysis` of one run, with all that was requested of it; and `analyse`, the same for many runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from functools import partial
from typing import Any, TypeVar, overload

from rlscaling.batch.sources import RunSource, message_of
from rlscaling.errors import FitError, WorkersError
from rlscaling.fitting.budgets import DEFAULT_COMPUTE
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import MIN_POINTS_FOR_INTERVAL
from rlscaling.forecasting.cutoffs import CutoffSensitivity, cutoff_sensitivity
from rlscaling.forecasting.extrapolate import COMBINED, METHODS, compute_to_reach, extrapolate, method_of
from rlscaling.forecasting.results import Forecast, Reach
from rlscaling.option_fields import level, number, option, workers
from rlscaling.parallel import count_workers, one_thread, run_tasks
from rlscaling.printing.numbers import unit_text
from rlscaling.serialization import plain
from rlscaling.solver.resampling import SCHEME
from rlscaling.uncertainty.bootstrap import BOOTSTRAP_SCHEMES, CHUNK, Bootstrap, bootstrap
from rlscaling.uncertainty.combined import AVERAGED
from rlscaling.uncertainty.seed_spread import SEED_SD
from rlscaling.version import __version__

T = TypeVar("T")
PER_TASK = 16_000  # replicates: about a second of work, a hundred times the cost of distributing a task
TASKS_PER_WORKER = 4  # at least, if there are enough runs: so that no worker waits long for the last one
Progress = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True)
class AnalysisOptions:
    """What is computed for every run.

    Attributes
    ----------
    options : dict
        Options of `fit_sigmoid`.
    compute_unit : str or None
        Unit with which saved fits are refitted; None keeps theirs.
    budgets : tuple of float or None
        Where to forecast; None: no forecast, empty: at the default budget.
    """

    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    compute_unit: str | None = None
    budgets: tuple[float, ...] | None = None
    reach: tuple[float, ...] = option(
        (), "also estimate the compute at which these pass rates are reached", metavar="R", parse=number,
        default_help="none", argparse={"nargs": "+"},
    )  # fmt: skip
    cutoffs: bool = option(False, "also show how A depends on --min-compute", default_help="no")
    scheme: str = option(
        SCHEME, "how the replicates behind the intervals are drawn; of the bootstraps only departures "
        "keeps its level on real runs", choices=tuple(BOOTSTRAP_SCHEMES),
    )  # fmt: skip
    forecast: str = option(
        COMBINED, "method of the forecast; combined: the sigmoid where its ceiling is known, else the mean of the last "
        "value, a damped trend and averaged, which averages over several forms of curve", choices=METHODS,
        parse=method_of,
    )  # fmt: skip
    n_resamples: int = option(1000, "number of replicates", least=2, flag="--resamples", metavar="N")
    confidence_level: float = option(
        0.95, "confidence level of the printed intervals; verdicts always use 0.95", metavar="P", parse=level
    )
    seed_sd: float = option(
        SEED_SD, "standard deviation of A between training runs of one recipe, for the new-run intervals", least=0.0,
        metavar="X",
    )  # fmt: skip
    seed: int = option(0, "seed of the random numbers: the same seed gives the same results", least=0, metavar="N")
    n_jobs: int = option(
        1, "number of workers; -1: one per core; the results do not depend on it", flag="--n-jobs --jobs", metavar="N",
        parse=workers,
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Analysis:
    """The analysis of one run.

    Attributes
    ----------
    bootstrap, forecast
        None with fewer than 7 points, which are too few for intervals; no forecast either without budgets.
    reach_targets : tuple of float
        The pass rates to reach, also where ``reach`` is empty for want of intervals.
    messages : tuple of str
        What the reader did and assumed; the command prints it on stderr.
    """

    name: str
    fit: SigmoidFit
    bootstrap: Bootstrap | None = None
    forecast: Forecast | None = None
    budgets: tuple[float, ...] = ()
    reach: tuple[Reach, ...] = ()
    reach_targets: tuple[float, ...] = ()
    cutoffs: CutoffSensitivity | None = None
    messages: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done and assumed."""
        return self.forecast.notes if self.forecast is not None else self.fit.notes


@dataclasses.dataclass(frozen=True)
class FailedAnalysis:
    """A run that could not be analysed, and why."""

    name: str
    error: str


Work = Callable[[RunSource, AnalysisOptions, Progress | None], T]


def fit_run(run: RunSource, options: AnalysisOptions, on_progress: Progress | None = None) -> SigmoidFit:
    """Return the fit of a run alone; a saved fit is refitted only where options of the fit are given."""
    return run.fit(options.options, options.compute_unit)


def full_analysis(run: RunSource, options: AnalysisOptions, on_progress: Progress | None = None) -> Analysis:
    """Return the fit of a run with its intervals, forecasts and whatever else the options request."""
    fit = fit_run(run, options)
    messages = () if run.source is None or isinstance(run.source, SigmoidFit) else run.source.notes
    budgets = () if options.budgets is None else _budgets(fit, options.budgets)
    cutoffs = cutoff_sensitivity(fit) if options.cutoffs else None
    analysis = Analysis(
        run.name, fit, budgets=budgets, reach_targets=options.reach, cutoffs=cutoffs, messages=messages
    )  # fmt: skip
    if fit.n_points < MIN_POINTS_FOR_INTERVAL:
        return analysis
    boot = bootstrap(
        fit, scheme=options.scheme, n_resamples=options.n_resamples, confidence_level=options.confidence_level,
        rng=options.seed, n_jobs=options.n_jobs, seed_sd=options.seed_sd, on_progress=on_progress,
    )  # fmt: skip
    return dataclasses.replace(
        analysis,
        bootstrap=boot,
        forecast=_forecast(fit, budgets, options, boot) if budgets else None,
        reach=tuple(compute_to_reach(fit, pass_rate, bootstrap=boot) for pass_rate in options.reach),
    )


def _forecast(fit: SigmoidFit, budgets: tuple[float, ...], options: AnalysisOptions, boot: Bootstrap) -> Forecast:
    if options.forecast == AVERAGED:
        forecast = extrapolate(fit, budgets, method=AVERAGED, seed_sd=options.seed_sd, rng=options.seed)
        return forecast.at_level(options.confidence_level)
    return extrapolate(fit, budgets, method=options.forecast, bootstrap=boot)


def _budgets(fit: SigmoidFit, budgets: tuple[float, ...]) -> tuple[float, ...]:
    if budgets:
        return budgets
    if fit.compute_unit != "gpu-hours":
        raise FitError(
            f"compute is in {unit_text(fit.compute_unit)}, for which there is no default budget; give one with "
            f"--compute, e.g. --compute {10 * fit.compute_range[1]:.1g}"
        )
    return (DEFAULT_COMPUTE,)


def analyse_run(
    run: RunSource, options: AnalysisOptions, on_progress: Progress | None = None
) -> Analysis | FailedAnalysis:
    """Return the analysis of one run, or why it failed; the numbers depend on that run and the options alone."""
    return _attempt(full_analysis, run, options, on_progress)


def _attempt(
    work: Work[T], run: RunSource, options: AnalysisOptions, on_progress: Progress | None
) -> T | FailedAnalysis:
    try:
        with one_thread:
            return work(run, options, on_progress)
    except WorkersError:  # says nothing about the run
        raise
    except Exception as error:
        return FailedAnalysis(run.name, message_of(error))


@overload
def analyse(
    runs: Sequence[RunSource], options: AnalysisOptions, *, on_progress: Progress | None = ...,
    on_replicates: Callable[[str], Progress | None] = ...,
) -> list[Analysis | FailedAnalysis]: ...  # fmt: skip


@overload
def analyse(
    runs: Sequence[RunSource], options: AnalysisOptions, *, work: Work[T], on_progress: Progress | None = ...,
    on_replicates: Callable[[str], Progress | None] = ...,
) -> list[T | FailedAnalysis]: ...  # fmt: skip


def analyse(
    runs: Sequence[RunSource],
    options: AnalysisOptions,
    *,
    work: Work[Any] = full_analysis,
    on_progress: Progress | None = None,
    on_replicates: Callable[[str], Progress | None] = lambda name: None,
) -> list[Any]:
    """Return the analysis of every run, in order; a run that fails does not affect the others.

    Parameters
    ----------
    runs : sequence of RunSource
    options : AnalysisOptions
        ``n_jobs`` is the number of workers.
    work : callable
        What to do with a run, by default everything that the options request: takes (run, options, progress callback of
        the replicates). With several workers it must be a function of a module.
    on_progress : callable, optional
        Called with (runs done, runs in all).
    on_replicates : callable, optional
        Gives the progress callback of a run by its name, if runs are analysed one after the other.

    Returns
    -------
    list
        For each run the result of ``work``, or a `FailedAnalysis`.
    """
    results: dict[int, Any] = {}
    with closing(over_runs(partial(_attempt, work), runs, options, on_replicates)) as finished:
        for some in finished:
            results |= dict(some)
            if on_progress is not None:
                on_progress(len(results), len(runs))
    return [results[index] for index in range(len(runs))]


def over_runs(
    work: Work[T],
    runs: Sequence[RunSource],
    options: AnalysisOptions,
    on_replicates: Callable[[str], Progress | None] = lambda name: None,
) -> Generator[list[tuple[int, T]], None, None]:
    """Yield (index of the run, result of ``work``), a few at a time, as they finish.

    With several workers a task consists of several whole runs. If the runs are fewer than the workers and have many
    replicates, the runs are processed one after the other and their replicates in parallel. The numbers do not depend
    on it. The parameters are those of `analyse`.
    """
    if not runs:
        return
    workers = count_workers(options.n_jobs)
    if options.n_jobs == 1 or (len(runs) < workers and options.n_resamples >= workers * CHUNK) or len(runs) == 1:
        for index, run in enumerate(runs):
            yield [(index, work(run, options, on_replicates(run.name)))]
        return
    size = runs_per_task(len(runs), options.n_resamples, workers)
    in_process = dataclasses.replace(options, n_jobs=1)
    tasks = ((work, runs[start : start + size], in_process) for start in range(0, len(runs), size))
    with closing(run_tasks(_some, tasks, options.n_jobs, call="fit_many")) as finished:
        for index, results in finished:
            yield list(enumerate(results, start=index * size))


def runs_per_task(n_runs: int, n_resamples: int, workers: int) -> int:
    """Return how many runs form a task: few enough to balance the load, enough to keep the overhead small."""
    return max(1, min(PER_TASK // n_resamples, n_runs // (TASKS_PER_WORKER * workers)))


def _some(work: Work[T], runs: Sequence[RunSource], options: AnalysisOptions) -> list[T]:
    return [work(run, options, None) for run in runs]


# --- as JSON ------------------------------------------------------------------------------------------------

SCHEMA_VERSION = 2  # of the JSON of the command: 2 since headline, rng_seed and half_width_68
INTERVALS = ("ci", "ci_new_run", "standard_error", "half_width_68")


def record(analysis: Analysis | FailedAnalysis, options: AnalysisOptions) -> dict[str, Any]:
    """Return the JSON object of one run; that of a failed analysis is ``{"run", "error"}``."""
    if isinstance(analysis, FailedAnalysis):
        return {"run": analysis.name, "error": analysis.error}
    fit, boot = analysis.fit, analysis.bootstrap
    intervals = dict.fromkeys(INTERVALS) if boot is None else boot.to_dict()
    out: dict[str, Any] = {"verdict": str(fit.verdict), "reason": fit.reason, "run": analysis.name}
    out |= {name: getattr(fit.params, name) for name in ("R0", "A", "B", "C_mid")}
    out |= {
        "R0_source": fit.R0_source,
        **{name: intervals[name] for name in INTERVALS},
        "confidence_level": options.confidence_level,
        "n_points": fit.n_points,
        "compute_range": fit.compute_range,
        "compute_unit": fit.compute_unit,
        "min_compute": fit.options.min_compute,
        "max_compute": fit.options.max_compute,
        "ssr": fit.ssr,
        "at_bound": fit.at_bound,
        "compute_needed": None if fit.compute_needed is None else dataclasses.asdict(fit.compute_needed),
        "at_twice": None if fit.at_twice is None else {"pass_rate": fit.at_twice[0], "ci": fit.at_twice[1:]},
        "extrapolation": _extrapolation(analysis),
        **({} if analysis.forecast is None else _method(analysis.forecast)),
        "reach": _reach(analysis),
        "notes": analysis.notes,
        "scheme": options.scheme,
        "n_resamples": 0 if boot is None else boot.n_resamples,
        "seed_sd": options.seed_sd,
    }
    if (cutoffs := analysis.cutoffs) is not None:
        out["cutoffs"] = {"rows": cutoffs.rows, "moves": cutoffs.moves, "warning": cutoffs.warning}
    return dict(plain(out))


def _extrapolation(analysis: Analysis) -> list[dict[str, Any]]:
    if analysis.forecast is not None:
        return analysis.forecast.to_dict()
    last = analysis.fit.compute_range[1]
    return [
        {
            "compute": budget,
            "pass_rate": analysis.fit.predict(budget),
            "ci": None,
            "ci_new_run": None,
            "prediction": None,
            "beyond": budget / last,
            "supported": False,
        }
        for budget in analysis.budgets
    ]


def _method(forecast: Forecast) -> dict[str, Any]:
    """Return how the forecast was made, and how it would have done on the run's own past."""
    past = forecast.past
    return {
        "forecast_method": forecast.method,
        "past_forecast": None if past is None else dataclasses.asdict(past) | {"error": past.error},
    }


def _reach(analysis: Analysis) -> list[dict[str, Any]]:
    if analysis.bootstrap is None:
        return [
            {"pass_rate": target, "compute": analysis.fit.compute_to_reach(target), "ci": None, "probability": None}
            for target in analysis.reach_targets
        ]
    return [
        {
            "pass_rate": reach.pass_rate,
            "compute": reach.compute,
            "ci": reach.confidence_interval,
            "probability": reach.probability,
        }
        for reach in analysis.reach
    ]


def document(analyses: Sequence[Analysis | FailedAnalysis], options: AnalysisOptions) -> dict[str, Any]:
    """Return the JSON object of a command: that of the run if there is one, else with ``runs``."""
    head = {"schema_version": SCHEMA_VERSION, "version": __version__, "seed": options.seed}
    records = [record(analysis, options) for analysis in analyses]
    return records[0] | head if len(records) == 1 else {**head, "runs": records}
