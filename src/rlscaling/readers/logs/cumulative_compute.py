"""The compute at every evaluation: summed over training rows, then looked up at the evaluation's step.

It is never forward-filled and never summed over evaluation rows: a log has one row per training step, and fewer
evaluations.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from rlscaling.arrays import FloatArray
from rlscaling.errors import TraceError
from rlscaling.readers.decoding.values import as_number
from rlscaling.readers.logs.frameworks import Framework, find, find_all
from rlscaling.readers.logs.log import TIME, Log
from rlscaling.readers.logs.resumes import BoolArray, IntArray
from rlscaling.readers.options import ReadOptions
from rlscaling.readers.receipt import Receipt

HOUR = 3600.0
PAUSE = 3600.0  # seconds without a row after which a run counts as paused, or 5 steps if these are longer
NEAR = 0.01  # a GPU count that follows from logged rates is rounded if a whole number is this close


@dataclasses.dataclass(frozen=True)
class StepColumns:
    """Step, seconds and clock of each row: arrays of shape (n_rows,), NaN where a row has none."""

    step: FloatArray
    seconds: FloatArray
    testing: FloatArray
    testing_inside: bool
    clock: FloatArray

    @property
    def training(self) -> BoolArray:
        """Rows of training steps: those with seconds, or all with a clock where none has any."""
        timed = np.isfinite(self.seconds)
        return timed if timed.any() else np.isfinite(self.clock)

    @property
    def stepped(self) -> bool:
        """Whether any row has a step."""
        return bool(np.isfinite(self.step).any())

    @property
    def place(self) -> FloatArray:
        """What rows are placed by: their step, or the clock where none of them has a step."""
        return self.step if self.stepped else self.clock

    @property
    def by_clock(self) -> bool:
        """Whether time is taken from the wall clock."""
        return not np.isfinite(self.seconds).any() and bool(np.isfinite(self.clock).any())


def steps_of(log: Log, framework: Framework, receipt: Receipt) -> StepColumns:
    """Return step, seconds and clock of every row."""
    step_keys = find_all(framework.step, log.keys)
    seconds = find(framework.seconds, log.keys)
    phases = find_all([framework.summed], log.keys) if seconds is None else []
    testing = find_all(framework.testing, log.keys)
    clock = find((TIME, "time"), log.keys)
    loaded = log.load([*step_keys, *filter(None, (seconds, clock)), *phases, *testing])
    step = np.full(log.n_rows, math.nan)
    for key in step_keys:
        step = np.where(np.isfinite(step), step, loaded[key])
    none = np.full(log.n_rows, math.nan)
    spent = loaded[seconds] if seconds else total([loaded[key] for key in phases], log.n_rows)
    tested = total([loaded[key] for key in testing], log.n_rows)
    negative = int((spent < 0).sum() + (tested < 0).sum())
    if negative:
        receipt.warn(
            f"{negative} times of {log.source} are below 0 seconds, and were left out.",
            "look at these rows: a clock was set back, or the file is damaged", decide=True,
        )  # fmt: skip
        spent, tested = (np.where(column < 0, math.nan, column) for column in (spent, tested))
    for role, keys in (("step", step_keys), ("seconds", [seconds] if seconds else phases), ("evaluation", testing)):
        if keys:
            receipt.columns[f"{role} seconds" if role == "evaluation" else role] = " + ".join(keys[:4])
    inside = framework.testing_inside
    if inside is None:
        inside = holds_testing(spent, tested)
    return StepColumns(step, spent, tested, inside, loaded[clock] if clock else none)


def total(columns: Sequence[FloatArray], n_rows: int) -> FloatArray:
    """Return the sum over columns, of the values that are present; NaN where none is."""
    if not columns:
        return np.full(n_rows, math.nan)
    stacked = np.stack(columns)
    finite = np.isfinite(stacked)
    return np.where(finite.any(axis=0), np.where(finite, stacked, 0.0).sum(axis=0), math.nan)


def holds_testing(seconds: FloatArray, testing: FloatArray) -> bool:
    """Return whether steps with an evaluation are longer than the others by more than half its time.

    verl counted the evaluation in the time of its step until August 2025 (its change 3117), and not since.
    """
    tested = np.isfinite(testing) & (testing > 0) & np.isfinite(seconds)
    plain = np.isfinite(seconds) & ~tested
    if not tested.any() or not plain.any():
        return False
    longer = np.median(seconds[tested]) - np.median(seconds[plain])
    return bool(longer > 0.5 * np.median(testing[tested]))


def gpu_count(log: Log, framework: Framework, steps: StepColumns, options: ReadOptions, receipt: Receipt) -> FloatArray:
    """Return the number of GPUs at every row, generators counted.

    Raises
    ------
    TraceError
        When neither the caller nor the log states it.
    """
    recovered = _recovered(log, framework, steps)
    counts = recovered[np.isfinite(recovered)]
    common = float(np.median(counts)) if len(counts) else math.nan
    if options.n_gpus is not None:
        receipt.assumed |= {"GPUs": options.n_gpus, "GPUs from": "n_gpus= / --n-gpus"}
        if len(counts) and abs(common - options.n_gpus) > NEAR * common:
            receipt.warn(
                f"{options.n_gpus:g} GPUs were given, but the log's own rates give {common:g}.",
                "check n_gpus= / --n-gpus, or leave it out", decide=True,
            )  # fmt: skip
        if _trainers(log, framework) == options.n_gpus:
            receipt.warn(
                f"{options.n_gpus:g} GPUs are those of the trainers alone; count the generators.",
                "give the number of all GPUs with n_gpus= / --n-gpus", decide=True,
            )  # fmt: skip
        return np.full(log.n_rows, float(options.n_gpus))
    if len(counts):
        receipt.assumed |= {"GPUs": common, "GPUs from": "tokens / (tokens per second and GPU x seconds), row by row"}
        if counts.min() < counts.max():
            receipt.assumed["GPUs"] = f"{counts.min():g} to {counts.max():g}"
        return np.where(np.isfinite(recovered), recovered, common)
    configured = _configured(log, framework)
    if configured is not None:
        n, how = configured
        receipt.assumed |= {"GPUs": n, "GPUs from": f"the run's configuration: {how}"}
        return np.full(log.n_rows, n)
    who = f"{framework.name} logs do not hold" if framework.name else "the log does not hold"
    trainers = _trainers(log, framework)
    only = f" (its rates imply {trainers:g} trainer GPUs; generators come on top)" if trainers else ""
    raise TraceError(
        f"{log.source}: {who} the number of GPUs here{only}; give it with n_gpus= / --n-gpus (generators and trainers "
        f"together), or choose another unit: compute_from='steps' / --compute-from steps{_token_hint(log, framework)}"
    )


def _trainers(log: Log, framework: Framework) -> float | None:
    """Return the number of trainer GPUs, where the rates of all and of one of them are logged."""
    keys = [find((key,), log.keys) for key in framework.trainer_rates]
    if not keys or None in keys:
        return None
    loaded = log.load([key for key in keys if key is not None])
    all_rates, single_rates = loaded.values()
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (all_rates / single_rates)[np.isfinite(all_rates) & np.isfinite(single_rates) & (single_rates > 0)]
    return float(np.round(np.median(ratio))) if len(ratio) else None


def _token_hint(log: Log, framework: Framework) -> str:
    tokens = find((*framework.tokens, *framework.tokens_so_far), log.keys)
    return " or --compute-from tokens" if tokens else ""


def _recovered(log: Log, framework: Framework, steps: StepColumns) -> FloatArray:
    """Return the number of GPUs implied by tokens, rate per GPU and seconds of each step; NaN where there is none."""
    tokens, rate = find(framework.tokens, log.keys), find(framework.rate, log.keys)
    if tokens is None or rate is None:
        return np.full(log.n_rows, math.nan)
    loaded = log.load([tokens, rate])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        n = loaded[tokens] / (loaded[rate] * steps.seconds)
    n = np.where((n > 0) & (n < 1e7), n, math.nan)
    whole = np.round(n)
    return np.where(np.abs(n - whole) <= NEAR * n, whole, n)


def _configured(log: Log, framework: Framework) -> tuple[float, str] | None:
    """Return the sum of the GPUs in the run's configuration, and the sum in words."""
    config = {key.replace("/", "."): value for key, value in log.config.items()}
    shared = any(str(config.get(name)).lower() in ("true", "1") for name in framework.colocated)
    for products in framework.gpus:
        counts = [[as_number(config.get(name)) for name in product] for product in products]
        complete = [all(value is not None and value > 0 for value in values) for values in counts]
        if not complete[0]:
            continue
        used = [i for i in range(len(products)) if complete[i] and (i == 0 or not shared)]
        n = sum(math.prod(value or 0.0 for value in counts[i]) for i in used)
        return n, " + ".join(" x ".join(products[i]) for i in used) + (" (colocated)" if shared else "")
    return None


def seconds_of_rows(
    steps: StepColumns, framework: Framework, options: ReadOptions, piece: IntArray, receipt: Receipt
) -> FloatArray:
    """Return the seconds that each row adds to the training time, 0 where it adds none."""
    if steps.by_clock:
        spent = _clock_seconds(steps, options, piece, receipt)
    else:
        spent = np.where(np.isfinite(steps.seconds), steps.seconds, 0.0)
        if framework.window:
            spent = spent * _window(steps)
    tested = np.where(np.isfinite(steps.testing), steps.testing, 0.0)
    inside = steps.testing_inside or steps.by_clock
    part = "part" if inside else "not part"
    if tested.any():
        receipt.assumed["evaluation time"] = f"{options.eval_time}d; it is {part} of the time of a step"
    else:
        receipt.assumed["evaluation time"] = f"not logged; taken to be {part} of the time of a step"
    if inside and options.eval_time == "exclude":
        spent = spent - tested
    elif not inside and options.eval_time == "include":
        spent = spent + tested
    return np.maximum(spent, 0.0)


def _window(steps: StepColumns) -> FloatArray:
    """Return how many steps each training row stands for: those since the training row before it."""
    covered = np.zeros(len(steps.step))
    rows = np.flatnonzero(steps.training & np.isfinite(steps.step))
    at = steps.step[rows]
    if len(rows):
        reached = np.maximum.accumulate(at)
        before = np.concatenate([[0.0], reached[:-1]])
        # after a resume the row before lies ahead: the largest earlier step below this one counts
        for i in np.flatnonzero(at <= before):
            below = at[:i][at[:i] < at[i]]
            before[i] = below.max() if len(below) else 0.0
        covered[rows] = at - before
    return covered


def _clock_seconds(steps: StepColumns, options: ReadOptions, piece: IntArray, receipt: Receipt) -> FloatArray:
    """Return the time since the row before, 0 after a pause and where a resumed piece begins."""
    spent = np.zeros(len(steps.clock))
    rows = np.flatnonzero(np.isfinite(steps.clock) & np.isfinite(steps.place))
    rows = rows[np.argsort(steps.clock[rows], kind="stable")]
    passed = np.diff(steps.clock[rows])
    typical = float(np.median(passed[passed > 0])) if (passed > 0).any() else 0.0
    longest = options.gap or max(PAUSE, 5 * typical)
    paused = passed > longest
    spent[rows[1:]] = np.where(paused | (np.diff(piece[rows]) > 0), 0.0, passed)
    receipt.assumed["time"] = f"wall clock between rows; pauses of more than {longest:g} s left out (gap= / --gap)"
    if paused.any():
        receipt.assumed["pauses"] = f"{int(paused.sum())}, {passed[paused].sum() / HOUR:.3g} hours in total"
    return spent


def look_up(amount: FloatArray, step: FloatArray, keep: BoolArray, at: FloatArray, *, before: bool) -> FloatArray:
    """Return the amount summed over the kept rows up to some steps; ``before`` leaves these steps themselves out."""
    rows = np.flatnonzero(keep & np.isfinite(step) & (amount != 0))
    order = rows[np.argsort(step[rows], kind="stable")]
    so_far = np.concatenate([[0.0], np.cumsum(amount[order])])
    sums: FloatArray = so_far[np.searchsorted(step[order], at, side="left" if before else "right")]
    return sums


def last_value(values: FloatArray, step: FloatArray, keep: BoolArray, at: FloatArray, *, before: bool) -> FloatArray:
    """Return the value of the last kept row up to some steps that has one; NaN where there is none."""
    rows = np.flatnonzero(keep & np.isfinite(step) & np.isfinite(values))
    if not len(rows):
        return np.full(len(at), math.nan)
    order = rows[np.argsort(step[rows], kind="stable")]
    index = np.searchsorted(step[order], at, side="left" if before else "right") - 1
    return np.where(index >= 0, values[order[np.maximum(index, 0)]], math.nan)
