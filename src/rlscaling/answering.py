"""The answer on one run, the fit and all that was asked of it; and the answers on many, side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any, TypeVar

from rlscaling.bootstrapping import CHUNK, SEED_SD, bootstrap
from rlscaling.errors import FitError, WorkersError
from rlscaling.forecast import DEFAULT_COMPUTE, CutoffSensitivity, compute_to_reach, cutoff_sensitivity, extrapolate
from rlscaling.intervals import Bootstrap, Forecast, Reach
from rlscaling.printing import unit_text
from rlscaling.results import SigmoidFit
from rlscaling.runs import Run, said
from rlscaling.verdict import MIN_POINTS_FOR_INTERVAL
from rlscaling.workers import count_workers, one_thread, run_tasks

T = TypeVar("T")
PER_TASK = 16_000  # replicates: about a second of work, a hundred times what it costs to hand out a task
TASKS_PER_WORKER = 4  # at least, where there are runs for it: so that no worker waits long for the last one
Progress = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True)
class Request:
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
class Answer:
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
class Refusal:
    """A run that could not be answered, and why."""

    name: str
    error: str


def answer(run: Run, request: Request, on_progress: Progress | None = None) -> Answer | Refusal:
    """Return the answer on one run; the numbers depend on that run and the request alone."""
    try:
        with one_thread:
            return _answer(run, request, on_progress)
    except WorkersError:  # says nothing about the run
        raise
    except Exception as error:
        return Refusal(run.name, said(error))


def _answer(run: Run, request: Request, on_progress: Progress | None) -> Answer:
    fit = run.fit(request.options, request.compute_unit)
    told = () if run.source is None or isinstance(run.source, SigmoidFit) else run.source.notes
    budgets = () if request.budgets is None else _budgets(fit, request.budgets)
    cutoffs = cutoff_sensitivity(fit) if request.cutoffs else None
    asked = Answer(run.name, fit, budgets=budgets, reach_asked=request.reach, cutoffs=cutoffs, told=told)
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


def _forecast(fit: SigmoidFit, budgets: tuple[float, ...], request: Request, boot: Bootstrap) -> Forecast:
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

Work = Callable[[Run, Request, Progress | None], T]


def over_runs(
    work: Work[T],
    runs: Sequence[Run],
    request: Request,
    on_replicates: Callable[[str], Progress | None] = lambda name: None,
) -> Generator[list[tuple[int, T]], None, None]:
    """Yield (index of the run, result of ``work``), some at a time, as they finish.

    With several workers a task is some whole runs; where the runs are fewer than the workers and have many replicates,
    the runs are done one after the other and their replicates side by side. No number depends on which.

    Parameters
    ----------
    work : callable
        A function of a module: (run, request, progress callback) to a result.
    runs : sequence of Run
        What to work on.
    request : Request
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


def _some(work: Work[T], runs: Sequence[Run], request: Request) -> list[T]:
    return [work(run, request, None) for run in runs]
