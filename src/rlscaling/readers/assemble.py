"""From a log to the traces in it: scores, steps, resumes, compute, and the receipt of it all."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlscaling.errors import TraceError
from rlscaling.schema import FloatArray, check_series
from rlscaling.trace import Trace

from .axis import HOUR, Steps, gpu_count, last_value, look_up, seconds_of_rows, steps_of, total
from .devices import device_factor
from .frameworks import UNKNOWN, Framework, find, framework_of
from .log import Log, stitched
from .options import AXES, ReadOptions
from .receipt import Receipt, fingerprints
from .resumes import BoolArray, IntArray, kept_rows, one_per_step, segments
from .scores import Score, candidates, choose_scores, listing
from .table import Origin, Parts, nearest, scaled

FLOPS = r"(.+/)?(total_)?flo(p|ps|s)"


@dataclasses.dataclass(frozen=True)
class Compute:
    """What every row adds to the compute, shape (n_rows,), or the compute so far where ``running``."""

    unit: str
    amount: FloatArray
    testing: FloatArray
    running: bool = False


class Reading:
    """One log under one set of options; what its curves share is worked out once."""

    def __init__(self, log: Log, options: ReadOptions) -> None:
        self.log, self.options = log, options
        self.framework: Framework = framework_of(log.keys) or UNKNOWN
        self.receipt = Receipt(reader=log.reader, framework=self.framework.name, run=log.run, rows_read=log.n_rows)
        self.scores = choose_scores(log, self.framework, options, self.receipt)

    @functools.cached_property
    def files(self) -> list[dict[str, Any]]:
        """The inputs, by name, size and hash."""
        return fingerprints(self.log.files, self.log.content, hashed=self.options.receipt)

    @functools.cached_property
    def values(self) -> dict[str, FloatArray]:
        """The column of every score."""
        return self.log.load([score.key for score in self.scores])

    @functools.cached_property
    def steps(self) -> Steps:
        """Step, seconds and clock of every row."""
        steps = steps_of(self.log, self.framework, self.receipt)
        if not np.isfinite(steps.step).any():
            if not np.isfinite(steps.clock).any():
                raise TraceError(
                    f"{self.log.source}: no row says its step or its time, so evaluations cannot be placed; log a "
                    f"step with them. {listing(self.log, candidates(self.log))}"
                )
            return dataclasses.replace(steps, step=steps.clock)
        return steps

    @functools.cached_property
    def training(self) -> BoolArray:
        """Rows of training steps: those with seconds, else those without a score."""
        scored = np.isfinite(np.stack(list(self.values.values()))).any(axis=0)
        return self.steps.training if not self.steps.by_clock else self.steps.training & ~scored

    @functools.cached_property
    def piece(self) -> IntArray:
        """Which piece of a resumed run each row belongs to."""
        timed = bool(np.isfinite(self.steps.seconds).any())
        rows = self.training if self.training.any() else np.isfinite(self.steps.step)
        return segments(self.steps.step, rows, strict=not timed)

    @functools.cached_property
    def keep(self) -> BoolArray:
        """Rows that count under the resume policy."""
        return kept_rows(self.steps.step, self.training, self.piece, self.options.resume)

    @functools.cached_property
    def order(self) -> FloatArray:
        """What rows are ordered by: the step, or piece and step where every piece counts."""
        step = self.steps.step
        if self.options.resume != "all" or not self.piece.any():
            return step
        ordered: FloatArray = step + self.piece * (np.nanmax(np.abs(step)) + 1)
        return ordered

    @functools.cached_property
    def compute(self) -> Compute:
        """The compute of every row, in the unit asked for."""
        options, log, receipt = self.options, self.log, self.receipt
        unit = options.compute or (options.compute_unit if options.compute_unit in AXES else None) or "gpu-hours"
        no_time = np.zeros(log.n_rows)
        if unit == "steps":
            return Compute(unit, self.order, no_time, running=True)
        if unit in ("tokens", "flops"):
            return self._logged(unit, no_time)
        if not self.steps.training.any():
            other = "give the log of its training steps, or count compute in steps: --compute steps / compute='steps'"
            raise TraceError(f"{log.source}: no row says how long a training step took; {other}")
        per_hour = np.full(log.n_rows, 1.0)
        if unit == "gpu-hours":
            per_hour = gpu_count(log, self.framework, self.steps, options, receipt)
        seconds = seconds_of_rows(self.steps, self.framework, options, self.piece, receipt)
        if options.device_factor is not None:
            factor, how = device_factor(options.device_factor)
            per_hour = per_hour * factor
            receipt.assumed["device factor"] = how
        tested = np.where(np.isfinite(self.steps.testing), self.steps.testing, 0.0)
        found = Compute(unit, seconds * per_hour / HOUR, tested * per_hour / HOUR)
        self._report_time(found)
        return found

    def _logged(self, unit: str, no_time: FloatArray) -> Compute:
        names = (FLOPS,) if unit == "flops" else self.framework.tokens
        running = find((FLOPS,) if unit == "flops" else self.framework.tokens_so_far, self.log.keys)
        key = running or find(names, self.log.keys)
        if key is None:
            raise TraceError(
                f"{self.log.source}: no metric counts {unit} here; choose another axis with compute= / --compute "
                f"({', '.join(AXES)})"
            )
        self.receipt.columns[unit] = key
        column = self.log.column(key)
        amount = column if running else np.where(np.isfinite(column), column, 0.0)
        return Compute(unit, amount, no_time, running=running is not None)

    def _report_time(self, found: Compute) -> None:
        """Write on the receipt what the rows add up to, and what is missing among them."""
        useful, executed = float(found.amount[self.keep].sum()), float(found.amount.sum())
        self.receipt.assumed |= {f"useful {found.unit}": useful, f"executed {found.unit}": executed}
        if self.framework.window or self.steps.by_clock:
            return
        there = np.unique(self.steps.step[self.steps.training & self.keep & np.isfinite(self.steps.step)])
        if len(there) < 2:
            return
        stride = float(np.median(np.diff(there)))
        missing = int(there[-1] - there[0] + 1) - len(there)
        if stride > 1:
            self.receipt.warnings.append(
                f"Training rows stand at every {stride:g} steps only; the time of the steps between is not in the log."
            )
        elif missing > 0:
            share = missing / (missing + len(there))
            self.receipt.warnings.append(
                f"{missing} of {missing + len(there)} steps have no training row: {share:.1%} of the time is missing."
            )

    def head(self) -> float:
        """Return the compute of steps before the first row, where the log begins late.

        Raises
        ------
        TraceError
            When the beginning is missing and nobody said what to do about it.
        """
        amount, training = self.compute.amount, self.training & self.keep & np.isfinite(self.steps.step)
        if self.compute.running or self.steps.by_clock or self.framework.window or not training.any():
            return 0.0
        first = float(self.steps.step[training].min())
        absent = first - 1
        if absent < 1:
            return 0.0
        if self.options.missing_start == "refuse":
            raise TraceError(
                f"{self.log.source} begins at step {first:g}: the {absent:g} steps before it are not in it, so its "
                "compute so far is unknown (a restart may have erased them). Give the earlier piece as well with "
                "stitch=True / --stitch, count compute='steps' / --compute steps, or let the missing steps cost what "
                "the others cost: missing_start='estimate' / --missing-start estimate"
            )
        per_step = float(np.median(amount[training]))
        self.receipt.assumed["missing start"] = (
            f"{absent:g} steps at {per_step:.4g} {self.compute.unit} each, the median of the others"
        )
        return absent * per_step


def parts_of_logs(logs: Sequence[Log], options: ReadOptions) -> Parts:
    """Return the traces in some logs, one for each run and score that the options leave."""
    if options.stitch and len(logs) > 1:
        logs = [stitched(logs)]
    if options.run is not None:
        there = [log.run for log in logs]
        logs = [log for log in logs if log.run == str(options.run)]
        if not logs:
            hint = nearest(str(options.run), there)
            raise TraceError(f"there is no run {options.run!r}; there are {', '.join(there[:20])}{hint}")
    parts: Parts = {}
    for log, label in zip(logs, _labels(logs), strict=True):
        try:
            found = _curves(log, options)
        except TraceError as error:
            found = {"": functools.partial(_refuse, error)}
        parts |= {":".join(filter(None, (label, inner))): build for inner, build in found.items()}
    return parts


def _refuse(error: TraceError) -> Trace:
    raise error


def _labels(logs: Sequence[Log]) -> list[str]:
    if len(logs) == 1:
        return [""]
    names = [log.run or log.source for log in logs]
    return [name if names.count(name) == 1 else f"{name}#{i}" for i, name in enumerate(names, start=1)]


def _curves(log: Log, options: ReadOptions) -> dict[str, Callable[[], Trace]]:
    reading = Reading(log, options)
    curves: dict[str, Callable[[], Trace]] = {}
    for score in reading.scores:
        sets: list[str | None] = [*sorted({domain for domain in log.domains or () if domain is not None})]
        for domain in sets or [None]:
            name = ":".join(filter(None, (score.domain if len(reading.scores) > 1 else "", domain or "")))
            curves[name] = functools.partial(_trace, reading, score, domain)
    if len(curves) == 1:
        return {"": next(iter(curves.values()))}
    if options.domain is not None:
        if options.domain not in curves:
            raise TraceError(
                f"{log.source} has no domain {options.domain!r}; it has {', '.join(curves)}"
                f"{nearest(options.domain, list(curves))}"
            )
        return {"": curves[options.domain]}
    return curves


def _trace(reading: Reading, score: Score, domain: str | None) -> Trace:
    log, options = reading.log, reading.options
    rows, compute = _evaluations(reading, score, domain), reading.compute
    before = reading.framework.before_update if options.eval_before_update is None else options.eval_before_update
    at = reading.order[rows]
    if compute.running:
        C = last_value(compute.amount, reading.order, reading.keep, at, before=before and compute.unit != "steps")
        C = np.where(np.isnan(C) & (reading.steps.step[rows] <= 0), 0.0, C)
    else:
        offset = reading.head()
        C = look_up(compute.amount, reading.order, reading.keep, at, before=before) + offset
        C = np.where(reading.steps.step[rows] <= 0, np.minimum(C, C - offset), C)
    receipt = _receipt(reading, score, domain, rows, before)
    notes: list[str] = [*log.notes]
    scale, y = scaled(reading.values[score.key][rows], options, Origin(), notes)
    try:
        C, y = check_series(C, y, scale=scale, rows=(rows + 1).tolist())
    except TraceError as error:
        raise TraceError(f"{log.source}, {score.key}: {error}") from None
    receipt.assumed["scale"] = scale
    metadata: dict[str, Any] = {"scale": scale, "source": log.source}
    for key, value in (
        ("framework", receipt.framework), ("run", log.run), ("domain", receipt.domain),
        ("n_gpus", receipt.assumed.get("GPUs")),
    ):  # fmt: skip
        if value:
            metadata[key] = value
    notes += _notes(receipt)
    columns = _columns(reading, score, rows, before)
    return Trace(
        C, y, compute_unit=compute.unit, columns=columns, metadata={**metadata, "receipt": receipt.to_dict()},
        notes=tuple(notes),
    )  # fmt: skip


def _evaluations(reading: Reading, score: Score, domain: str | None) -> IntArray:
    """Return the rows that are evaluations of this curve, one for each step; count the others."""
    values, step = reading.values[score.key], reading.steps.step
    scored = np.isfinite(values)
    if domain is not None:
        scored &= np.array([other == domain for other in reading.log.domains or ()])
    placed = scored & np.isfinite(step)
    rows = np.flatnonzero(placed & reading.keep)
    once = one_per_step(reading.order, rows, reading.options.resume)
    once = once[np.argsort(reading.order[once], kind="stable")]
    if not len(once):
        raise TraceError(f"{reading.log.source}: {score.key} has no value at a known step; check the log")
    receipt = reading.receipt
    receipt.dropped = {}
    receipt.drop("without this score", reading.log.n_rows - int(scored.sum()))
    receipt.drop("scored, but without a step", int((scored & ~placed).sum()))
    receipt.drop(
        f"replayed after a resume (the {'first' if reading.options.resume == 'first' else 'last'} copy counts)",
        int((placed & ~reading.keep).sum()),
    )
    receipt.drop("scored again at the same step", len(rows) - len(once))
    return once


def _receipt(reading: Reading, score: Score, domain: str | None, rows: IntArray, before: bool) -> Receipt:
    receipt = reading.receipt.copy()
    receipt.files = reading.files
    receipt.domain = ":".join(filter(None, (score.domain, domain or "")))
    receipt.columns = {"pass rate": score.key, **receipt.columns}
    receipt.rows_kept = len(rows)
    receipt.assumed["evaluated"] = f"{'before' if before else 'after'} the update of the row's step"
    n = int(reading.piece[-1]) if len(reading.piece) else 0
    if n:
        replayed = int((reading.training & ~reading.keep).sum())
        receipt.assumed["resumes"] = f"{n}; {replayed} training rows replayed; policy: {reading.options.resume}"
    receipt.warnings += [text for text in reading.framework.caveats if text not in receipt.warnings]
    return receipt


def _notes(receipt: Receipt) -> list[str]:
    """Return the sentences of a receipt that a fit must carry along."""
    kind = f"Read as {receipt.framework or receipt.reader}: pass rate {receipt.columns['pass rate']!r}"
    gpus = receipt.assumed.get("GPUs")
    hours = "" if gpus is None else f", {gpus if isinstance(gpus, str) else f'{gpus:g}'} GPUs"
    source = f" ({receipt.assumed['GPUs from']})" if gpus is not None else ""
    notes = [f"{kind}{hours}{source}; evaluation time {receipt.assumed.get('evaluation time', 'not counted')}."]
    if "resumes" in receipt.assumed:
        notes.append(f"Resumes: {receipt.assumed['resumes']}.")
    return notes + receipt.warnings


def _columns(reading: Reading, score: Score, rows: IntArray, before: bool) -> dict[str, Any]:
    """Return what else is known at each evaluation."""
    at, log = reading.order[rows], reading.log
    columns: dict[str, Any] = {"step": reading.steps.step[rows]}
    if score.n_samples is not None:
        columns["n_samples"] = np.full(len(rows), float(score.n_samples))
    if reading.compute.testing.any():
        tested = look_up(reading.compute.testing, reading.order, reading.keep, at, before=False)
        columns["eval_gpu_hours" if reading.compute.unit == "gpu-hours" else "eval_hours"] = tested
    for name, pattern in reading.framework.columns:
        key = find((pattern,), log.keys)
        if key is not None:
            values = last_value(log.column(key), reading.order, reading.keep, at, before=before)
            if np.isfinite(values).any():
                columns[name] = values
    clock = total([reading.steps.clock], log.n_rows)
    if np.isfinite(clock).any():
        columns["wall_time"] = clock[rows] - np.nanmin(clock)
    return columns


__all__ = ["Reading", "parts_of_logs"]
