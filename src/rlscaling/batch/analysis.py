"""The answer on one run, the fit and all that was asked of it; and the answers on many, side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any, TypeVar

from rlscaling.batch.sources import RunSource, said
from rlscaling.errors import FitError, WorkersError
from rlscaling.fitting.budgets import DEFAULT_COMPUTE
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import MIN_POINTS_FOR_INTERVAL
from rlscaling.forecasting.cutoffs import CutoffSensitivity, cutoff_sensitivity
from rlscaling.forecasting.extrapolate import compute_to_reach, extrapolate
from rlscaling.forecasting.results import Forecast, Reach
from rlscaling.parallel import count_workers, one_thread, run_tasks
from rlscaling.printing.numbers import unit_text
from rlscaling.serialization import finite
from rlscaling.uncertainty.bootstrap import CHUNK, Bootstrap, bootstrap
from rlscaling.uncertainty.seed_spread import SEED_SD
from rlscaling.version import __version__

T = TypeVar("T")
PER_TASK = 16_000  # replicates: about a second of work, a hundred times what it costs to hand out a task
TASKS_PER_WORKER = 4  # at least, where there are runs for it: so that no worker waits long for the last one
Progress = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True)
class AnalysisOptions:
    """What is asked of every run. ``budgets``: None no forecast, empty the default one."""

    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    compute_unit: str | None = None
    budgets: tuple[float, ...] | None = None
    reach: tuple[float, ...] = ()
    cutoffs: bool = False
    scheme: str = "ar1"
    forecast: str = "sigmoid"
    n_resamples: int = 1000
    confidence_level: float = 0.95
    seed_sd: float = SEED_SD
    seed: int = 0
    n_jobs: int = 1


@dataclasses.dataclass(frozen=True)
class Analysis:
    """The answer on one run; with fewer than 7 points ``bootstrap`` and ``forecast`` are None: no intervals."""

    name: str
    fit: SigmoidFit
    bootstrap: Bootstrap | None = None
    forecast: Forecast | None = None
    budgets: tuple[float, ...] = ()
    reach: tuple[Reach, ...] = ()
    reach_asked: tuple[float, ...] = ()
    cutoffs: CutoffSensitivity | None = None
    told: tuple[str, ...] = ()  # what the reader said: it goes to stderr

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done and assumed."""
        return self.forecast.notes if self.forecast is not None else self.fit.notes


@dataclasses.dataclass(frozen=True)
class FailedAnalysis:
    """A run that could not be answered, and why."""

    name: str
    error: str


def answer(run: RunSource, request: AnalysisOptions, on_progress: Progress | None = None) -> Analysis | FailedAnalysis:
    """Return the answer on one run; the numbers depend on that run and the request alone."""
    try:
        with one_thread:
            return _answer(run, request, on_progress)
    except WorkersError:  # says nothing about the run
        raise
    except Exception as error:
        return FailedAnalysis(run.name, said(error))


def _answer(run: RunSource, request: AnalysisOptions, on_progress: Progress | None) -> Analysis:
    fit = run.fit(request.options, request.compute_unit)
    told = () if run.source is None or isinstance(run.source, SigmoidFit) else run.source.notes
    budgets = () if request.budgets is None else _budgets(fit, request.budgets)
    cutoffs = cutoff_sensitivity(fit) if request.cutoffs else None
    asked = Analysis(run.name, fit, budgets=budgets, reach_asked=request.reach, cutoffs=cutoffs, told=told)
    if fit.n_points < MIN_POINTS_FOR_INTERVAL:
        return asked
    boot = bootstrap(
        fit, scheme=request.scheme, n_resamples=request.n_resamples, confidence_level=request.confidence_level,
        rng=request.seed, n_jobs=request.n_jobs, seed_sd=request.seed_sd, on_progress=on_progress,
    )  # fmt: skip
    return dataclasses.replace(
        asked,
        bootstrap=boot,
        forecast=_forecast(fit, budgets, request, boot) if budgets else None,
        reach=tuple(compute_to_reach(fit, pass_rate, bootstrap=boot) for pass_rate in request.reach),
    )


def _forecast(fit: SigmoidFit, budgets: tuple[float, ...], request: AnalysisOptions, boot: Bootstrap) -> Forecast:
    if request.forecast == "sigmoid":
        return extrapolate(fit, budgets, bootstrap=boot)
    found = extrapolate(fit, budgets, method=request.forecast, seed_sd=request.seed_sd, rng=request.seed)
    return found.at_level(request.confidence_level)


def _budgets(fit: SigmoidFit, given: tuple[float, ...]) -> tuple[float, ...]:
    if given:
        return given
    if fit.compute_unit != "gpu-hours":
        raise FitError(
            f"compute is in {unit_text(fit.compute_unit)}, for which there is no default budget; give one with --to, "
            f"e.g. --to {10 * fit.compute_range[1]:.1g}"
        )
    return (DEFAULT_COMPUTE,)


# --- many runs ----------------------------------------------------------------------------------------------

Work = Callable[[RunSource, AnalysisOptions, Progress | None], T]


def over_runs(
    work: Work[T],
    runs: Sequence[RunSource],
    request: AnalysisOptions,
    on_replicates: Callable[[str], Progress | None] = lambda name: None,
) -> Generator[list[tuple[int, T]], None, None]:
    """Yield (index of the run, result of ``work``), some at a time, as they finish.

    With several workers a task is some whole runs; where the runs are fewer than the workers and have many replicates,
    the runs are done one after the other and their replicates side by side. No number depends on which.

    Parameters
    ----------
    work : callable
        A function of a module: (run, request, progress callback) to a result.
    runs : sequence of RunSource
        What to work on.
    request : AnalysisOptions
        What is asked; its ``n_jobs`` says how many workers.
    on_replicates : callable, optional
        Gives the progress callback of a run by its name, where runs are done one after the other.
    """
    if not runs:
        return
    workers = count_workers(request.n_jobs)
    if request.n_jobs == 1 or (len(runs) < workers and request.n_resamples >= workers * CHUNK) or len(runs) == 1:
        for index, run in enumerate(runs):
            yield [(index, work(run, request, on_replicates(run.name)))]
        return
    size = runs_per_task(len(runs), request.n_resamples, workers)
    alone = dataclasses.replace(request, n_jobs=1)
    tasks = ((work, runs[start : start + size], alone) for start in range(0, len(runs), size))
    with closing(run_tasks(_some, tasks, request.n_jobs, call="fit_many")) as finished:
        for number, results in finished:
            yield list(enumerate(results, start=number * size))


def runs_per_task(n_runs: int, n_resamples: int, workers: int) -> int:
    """Return how many runs go into a task: few enough to share the work out, enough to make handing out cheap."""
    return max(1, min(PER_TASK // n_resamples, n_runs // (TASKS_PER_WORKER * workers)))


def _some(work: Work[T], runs: Sequence[RunSource], request: AnalysisOptions) -> list[T]:
    return [work(run, request, None) for run in runs]


SCHEMA_VERSION = 1
INTERVALS = ("ci", "ci_new_run", "standard_error", "half_width_68")


def record(given: Analysis | FailedAnalysis, request: AnalysisOptions) -> dict[str, Any]:
    """Return the JSON object of one run; a refused run is ``{"run", "error"}``."""
    if isinstance(given, FailedAnalysis):
        return {"run": given.name, "error": given.error}
    fit, boot = given.fit, given.bootstrap
    intervals = dict.fromkeys(INTERVALS) if boot is None else boot.to_dict()
    needed = fit.compute_needed
    out: dict[str, Any] = {"verdict": str(fit.verdict), "reason": fit.reason, "run": given.name}
    out |= {name: finite(getattr(fit.params, name)) for name in ("R0", "A", "B", "C_mid")}
    out |= {
        "R0_source": fit.R0_source,
        **{name: intervals[name] for name in INTERVALS},
        "confidence_level": request.confidence_level,
        "n_points": fit.n_points,
        "compute_range": list(fit.compute_range),
        "compute_unit": fit.compute_unit,
        "min_compute": fit.options.min_compute,
        "max_compute": finite(fit.options.max_compute),
        "ssr": finite(fit.ssr),
        "at_bound": list(fit.at_bound),
        "compute_needed": None
        if needed is None
        else {key: finite(value) for key, value in dataclasses.asdict(needed).items()},
        "at_twice": None if fit.at_twice is None else {"pass_rate": fit.at_twice[0], "ci": list(fit.at_twice[1:])},
        "extrapolation": _extrapolation(given),
        "reach": _reach(given),
        "notes": list(given.notes),
        "scheme": request.scheme,
        "n_resamples": 0 if boot is None else boot.n_resamples,
        "seed_sd": request.seed_sd,
    }
    if given.cutoffs is not None:
        out["cutoffs"] = _cutoffs(given.cutoffs)
    return out


def _extrapolation(given: Analysis) -> list[dict[str, Any]]:
    if given.forecast is not None:
        return given.forecast.to_dict()
    last = given.fit.compute_range[1]
    return [
        {
            "compute": budget,
            "pass_rate": finite(float(given.fit.predict(budget))),
            "ci": None,
            "ci_new_run": None,
            "prediction": None,
            "beyond": budget / last,
            "supported": False,
        }
        for budget in given.budgets
    ]


def _reach(given: Analysis) -> list[dict[str, Any]]:
    if given.bootstrap is None:
        at = [float(given.fit.compute_to_reach(pass_rate)) for pass_rate in given.reach_asked]
        return [
            {"pass_rate": pass_rate, "compute": finite(compute), "ci": None, "probability": None}
            for pass_rate, compute in zip(given.reach_asked, at, strict=True)
        ]
    return [
        {
            "pass_rate": reach.pass_rate,
            "compute": finite(reach.compute),
            "ci": [finite(value) for value in reach.confidence_interval],
            "probability": reach.probability,
        }
        for reach in given.reach
    ]


def _cutoffs(cutoffs: CutoffSensitivity) -> dict[str, Any]:
    rows = [
        {key: finite(value) if isinstance(value, float) else value for key, value in row.items()}
        for row in cutoffs.rows
    ]
    return {"rows": rows, "moves": finite(cutoffs.moves), "warning": cutoffs.warning}


def document(answers: Sequence[Analysis | FailedAnalysis], request: AnalysisOptions) -> dict[str, Any]:
    """Return the JSON object of the whole command: the run's own when there is one, else with ``runs``."""
    head = {"schema_version": SCHEMA_VERSION, "version": __version__, "seed": request.seed}
    records = [record(given, request) for given in answers]
    return records[0] | head if len(records) == 1 else {**head, "runs": records}
