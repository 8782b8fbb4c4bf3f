"""One log under one set of options: its candidate metrics, steps and resumes, and the compute of every row."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from rlscaling.arrays import FloatArray
from rlscaling.errors import TraceError
from rlscaling.readers.column_names import compute_of, unit_of
from rlscaling.readers.devices import device_factor
from rlscaling.readers.logs.cumulative_compute import HOUR, PAUSE, StepColumns, gpu_count, seconds_of_rows, steps_of
from rlscaling.readers.logs.frameworks import UNKNOWN, Framework, find, framework_of
from rlscaling.readers.logs.log import Log
from rlscaling.readers.logs.metric_choice import candidates, choose_metrics, listing
from rlscaling.readers.logs.resumes import BoolArray, IntArray, executed, kept_rows, segments
from rlscaling.readers.options import COMPUTE_SOURCES, ReadOptions
from rlscaling.readers.receipt import Receipt, fingerprints
from rlscaling.readers.table import nearest

UNEXPLAINED = 1.25  # times the accounted time
MUCH = 0.1  # share of the steps whose time may be missing before the user must decide
FLOPS = r"(.+/)?(total_)?flo(p|ps|s)"


@dataclasses.dataclass(frozen=True)
class ComputePerRow:
    """What every row adds to the compute, shape (n_rows,), or the compute so far where ``running``."""

    unit: str
    amount: FloatArray
    testing: FloatArray
    running: bool = False


class LogReading:
    """One log under one set of options; what its curves share is computed once."""

    def __init__(self, log: Log, options: ReadOptions) -> None:
        self.log, self.options = log, options
        self.framework: Framework = framework_of(log.keys) or UNKNOWN
        self.receipt = Receipt(reader=log.reader, framework=self.framework.name, run=log.run, rows_read=log.n_rows)
        self.metrics = choose_metrics(log, self.framework, options, self.receipt)

    @functools.cached_property
    def files(self) -> list[dict[str, Any]]:
        """The inputs, by name, size and hash."""
        return fingerprints(self.log.files, self.log.content, hashed=self.options.receipt)

    @functools.cached_property
    def values(self) -> dict[str, FloatArray]:
        """The column of every metric that is read."""
        return self.log.load([metric.key for metric in self.metrics])

    @functools.cached_property
    def steps(self) -> StepColumns:
        """Step, seconds and clock of every row."""
        steps = steps_of(self.log, self.framework, self.receipt)
        if not np.isfinite(steps.place).any():
            raise TraceError(
                f"{self.log.source}: no row has a step or a time, so evaluations cannot be placed; log a "
                f"step with them. {listing(self.log, candidates(self.log))}"
            )
        return steps

    @functools.cached_property
    def training(self) -> BoolArray:
        """Rows of training steps: those with seconds, else those without a score; all, if every row has one."""
        scored = np.isfinite(np.stack(list(self.values.values()))).any(axis=0)
        rows = self.steps.training if not self.steps.by_clock else self.steps.training & ~scored
        return rows if rows.any() else np.isfinite(self.steps.place)

    @functools.cached_property
    def piece(self) -> IntArray:
        """Which piece of a resumed run each row belongs to."""
        if not self.steps.stepped:
            return np.zeros(self.log.n_rows, dtype=np.int64)
        timed = bool(np.isfinite(self.steps.seconds).any())
        return segments(self.steps.step, self.training, strict=not timed)

    @functools.cached_property
    def keep(self) -> BoolArray:
        """Rows that count under the resume policy."""
        return kept_rows(self.steps.place, self.training, self.piece, self.options.resume)

    @functools.cached_property
    def order(self) -> FloatArray:
        """What rows are ordered by: their place, or their piece and place when every piece counts."""
        if not self._repeats_count:
            return self.steps.place
        ordered: FloatArray = self.steps.place + self.piece * (np.nanmax(np.abs(self.steps.place)) + 1)
        return ordered

    @property
    def _repeats_count(self) -> bool:
        """Whether repeated steps count again."""
        return self.options.resume == "all" and bool(self.piece.any())

    @functools.cached_property
    def compute(self) -> ComputePerRow:
        """The compute of every row, in the unit of the options."""
        if self.options.compute_column is not None:
            return self._named(self.options.compute_column)
        unit = self._unit()
        if unit == "steps":
            if not self.steps.stepped:
                raise TraceError(f"{self.log.source}: no row has a step; count compute in another unit")
            return self._running(unit, self.steps.step)
        return self._logged(unit) if unit in ("tokens", "flops") else self._timed(unit)

    def _unit(self) -> str:
        """Return the unit in ``compute_from``, or in ``compute_unit``, which is for columns but may name it too."""
        options = self.options
        units = [unit for unit in dict.fromkeys((options.compute_from, options.compute_unit)) if unit is not None]
        if len(units) > 1:
            raise TraceError(
                f"{self.log.source}: compute_from={units[0]!r} and compute_unit={units[1]!r} contradict each other; "
                "give one of them"
            )
        unit = units[0] if units else "gpu-hours"
        if unit not in COMPUTE_SOURCES:
            raise TraceError(
                f"{self.log.source}: {unit} cannot be counted from a log; choose compute_from= / --compute-from "
                f"({', '.join(COMPUTE_SOURCES)}), or name the metric that counts them with compute_column= / "
                "--compute-column"
            )
        return unit

    def _named(self, key: str) -> ComputePerRow:
        """Return the compute so far, as counted by a metric of the log."""
        if self.options.compute_from is not None:
            raise TraceError(
                f"{self.log.source}: compute_from={self.options.compute_from!r} and compute_column={key!r} contradict "
                "each other; give one of them"
            )
        if key not in self.log.keys:
            raise TraceError(
                f"{self.log.source} has no metric {key!r} (compute_column= / --compute-column)"
                f"{nearest(key, list(self.log.keys))} {listing(self.log, list(self.log.keys))}"
            )
        unit = self.options.compute_unit or unit_of(key) or "gpu-hours"
        self.receipt.columns["compute"] = key
        self.receipt.assumed["compute unit"] = (
            f"{unit} of {key}, a running count; compute_unit= / --compute-unit chooses"
        )
        said: list[str] = []
        count = compute_of(key, self.log.column(key), unit, said)
        self.receipt.assumed |= {"scale of the compute": " ".join(said)} if said else {}
        return self._running(unit, count)

    def _running(self, unit: str, count: FloatArray) -> ComputePerRow:
        if self._repeats_count:
            count = executed(count, self.steps.step, self.piece)
        return ComputePerRow(unit, count, np.zeros(self.log.n_rows), running=True)

    def _timed(self, unit: str) -> ComputePerRow:
        options, log, steps = self.options, self.log, self.steps
        if not steps.training.any():
            raise TraceError(
                f"{log.source}: no row states how long a training step took; give the log of its training steps, or "
                "count compute in steps: compute_from='steps' / --compute-from steps"
            )
        if self.framework.window and not steps.by_clock and not steps.stepped:
            raise TraceError(
                f"{log.source}: {self.framework.name}'s seconds are a mean over steps, but no row has a step; log "
                "the step with them, or count compute otherwise with compute_from= / --compute-from"
            )
        per_hour = np.full(log.n_rows, 1.0)
        if unit == "gpu-hours":
            per_hour = gpu_count(log, self.framework, steps, options, self.receipt)
        seconds = seconds_of_rows(steps, self.framework, options, self.piece, self.receipt)
        if options.device_factor is not None:
            factor, how = device_factor(options.device_factor)
            per_hour = per_hour * factor
            self.receipt.assumed["device factor"] = how
        tested = np.where(np.isfinite(steps.testing), steps.testing, 0.0)
        self._report_clock(float(seconds.sum() + (tested.sum() if options.eval_time == "exclude" else 0.0)))
        compute = ComputePerRow(unit, seconds * per_hour / HOUR, tested * per_hour / HOUR)
        self._report_time(compute)
        return compute

    def _logged(self, unit: str) -> ComputePerRow:
        names = (FLOPS,) if unit == "flops" else self.framework.tokens
        running = find((FLOPS,) if unit == "flops" else self.framework.tokens_so_far, self.log.keys)
        key = running or find(names, self.log.keys)
        if key is None:
            raise TraceError(
                f"{self.log.source}: no metric counts {unit} here; choose another unit with compute_from= / "
                f"--compute-from ({', '.join(COMPUTE_SOURCES)})"
            )
        self.receipt.columns[unit] = key
        column = self.log.column(key)
        if running is not None:
            return self._running(unit, column)
        amount = np.where(np.isfinite(column), column, 0.0)
        self._report_unplaced(amount)
        return ComputePerRow(unit, amount, np.zeros(self.log.n_rows))

    def _report_unplaced(self, amount: FloatArray) -> None:
        """Warn of rows that add to the compute but have no step, so that they precede no evaluation."""
        lost = int(((amount > 0) & ~np.isfinite(self.steps.place)).sum())
        if lost:
            self.receipt.warn(
                f"{lost} of the training rows of {self.log.source} have no step: their compute is part of "
                "no evaluation's.", "log the step with every row",
            )  # fmt: skip

    def _report_clock(self, accounted: float) -> None:
        """Warn if much more time passed than steps and evaluations took, in seconds."""
        clock = self.steps.clock
        if self.steps.by_clock or not np.isfinite(clock).any():
            return
        passed = float(np.nanmax(clock) - np.nanmin(clock))
        if passed > UNEXPLAINED * accounted + PAUSE:
            self.receipt.warn(
                f"{passed / HOUR:,.1f} hours passed by the clock of {self.log.source}; its steps and evaluations "
                f"account for {accounted / HOUR:,.1f}.",
                "pauses need not be counted; steps that a resumed run repeated and its logger dropped, as W&B does, "
                "are missing from the executed hours",
            )  # fmt: skip

    def _report_time(self, compute: ComputePerRow) -> None:
        """Enter in the receipt what the rows add up to, and which are missing."""
        useful, executed_amount = float(compute.amount[self.keep].sum()), float(compute.amount.sum())
        self.receipt.assumed |= {f"useful {compute.unit}": useful, f"executed {compute.unit}": executed_amount}
        self._report_unplaced(compute.amount)
        steps = self.steps
        if self.framework.window or steps.by_clock or not steps.stepped:
            return
        logged = np.unique(steps.step[steps.training & self.keep & np.isfinite(steps.step)])
        if len(logged) < 2:
            return
        stride = float(np.median(np.diff(logged)))
        missing = int(logged[-1] - logged[0] + 1) - len(logged)
        if stride > 1:
            self.receipt.warn(
                f"Only one in {stride:g} steps has a training row; the time of the steps between is not in the log.",
                "log the time of every step, or count steps: compute_from='steps' / --compute-from steps",
            )
        elif missing > 0:
            share = missing / (missing + len(logged))
            self.receipt.warn(
                f"{missing} of {missing + len(logged)} steps have no training row: {share:.1%} of the time is missing.",
                "look for the piece that holds them, and give both with stitch=True / --stitch", decide=share > MUCH,
            )  # fmt: skip

    def head(self) -> float:
        """Return the compute of the steps before the first row, when the beginning of the log is missing.

        Raises
        ------
        TraceError
            When it is missing and ``missing_start`` does not say that it is to be estimated.
        """
        steps = self.steps
        training = steps.training & self.keep & np.isfinite(steps.step)
        if self.compute.running or steps.by_clock or self.framework.window or not training.any():
            return 0.0
        first = float(steps.step[training].min())
        absent = first - 1
        if absent < 1:
            return 0.0
        if self.options.missing_start == "refuse":
            raise TraceError(
                f"{self.log.source} begins at step {first:g}: the {absent:g} steps before it are not in it, so its "
                "compute so far is unknown (a restart may have erased them); give the earlier piece as well with "
                "stitch=True / --stitch, count steps (compute_from='steps' / --compute-from steps), or let the missing "
                "steps cost what the others cost: missing_start='estimate' / --missing-start estimate"
            )
        per_step = float(np.median(self.compute.amount[training]))
        self.receipt.assumed["missing start"] = (
            f"{absent:g} steps at {per_step:.4g} {self.compute.unit} each, the median of the others"
        )
        return absent * per_step
