"""From logs to traces with receipts: one trace for each run and score."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlscaling.errors import TraceError
from rlscaling.readers.logs.cumulative_compute import last_value, look_up
from rlscaling.readers.logs.frameworks import find
from rlscaling.readers.logs.log import Log
from rlscaling.readers.logs.log_reading import LogReading
from rlscaling.readers.logs.metric_choice import CandidateMetric
from rlscaling.readers.logs.resumes import IntArray, one_per_step
from rlscaling.readers.logs.stitching import stitched
from rlscaling.readers.options import FOR_HOURS, ReadOptions
from rlscaling.readers.receipt import Receipt
from rlscaling.readers.table import Parts, TableSource, nearest, scaled
from rlscaling.traces.series import check_series
from rlscaling.traces.trace import Trace


def parts_of_logs(logs: Sequence[Log], options: ReadOptions) -> Parts:
    """Return the traces in some logs, one for each run and score that the options leave."""
    if options.run is not None:
        logs = _of_run(logs, str(options.run))
    if options.stitch and len(logs) > 1:
        logs = [stitched(logs)]
    parts: Parts = {}
    for log, label in zip(logs, _labels(logs), strict=True):
        try:
            curves = _curves(log, options)
        except TraceError as error:
            curves = {"": functools.partial(_refuse, error)}
        parts |= {":".join(filter(None, (label, curve))): build for curve, build in curves.items()}
    return parts


def _of_run(logs: Sequence[Log], run: str) -> list[Log]:
    chosen = [log for log in logs if log.run == run]
    if chosen:
        return chosen
    names = list(dict.fromkeys(log.run for log in logs if log.run))
    if not names:
        raise TraceError(f"run={run!r} was given, but {logs[0].source} does not tell runs apart; leave the option out")
    raise TraceError(f"there is no run {run!r}; there are {', '.join(names[:20])}{nearest(run, names)}")


def _refuse(error: TraceError) -> Trace:
    raise error


def _labels(logs: Sequence[Log]) -> list[str]:
    if len(logs) == 1:
        return [""]
    names = [log.run or log.source for log in logs]
    return [name if names.count(name) == 1 else f"{name}#{i}" for i, name in enumerate(names, start=1)]


def _curves(log: Log, options: ReadOptions) -> dict[str, Callable[[], Trace]]:
    """Return the curves of a log: one for each score and each evaluation set that its rows name."""
    reading = LogReading(log, options)
    sets: list[str | None] = [*sorted({domain for domain in log.domains or () if domain is not None})]
    curves = [(metric, domain) for metric in reading.metrics for domain in sets or [None]]
    if options.domain is not None:
        curves = _of_domain(curves, options.domain, log.source)
    several = len({metric for metric, _ in curves}) > 1
    named: dict[str, Callable[[], Trace]] = {
        ":".join(filter(None, (metric.domain if several else "", domain or ""))): functools.partial(
            _trace, reading, metric, domain
        )
        for metric, domain in curves
    }
    return {"": next(iter(named.values()))} if len(named) == 1 else named


def _of_domain(
    curves: list[tuple[CandidateMetric, str | None]], wanted: str, source: str
) -> list[tuple[CandidateMetric, str | None]]:
    """Return the curves of a domain: the one in the score's name, the one of its rows, or both joined by a colon."""
    names = [
        (metric.domain, domain or "", ":".join(filter(None, (metric.domain, domain)))) for metric, domain in curves
    ]
    chosen = [curve for curve, name in zip(curves, names, strict=True) if wanted in filter(None, name)]
    if chosen:
        return chosen
    domains = list(dict.fromkeys(name[2] for name in names if name[2]))
    if not domains:
        raise TraceError(f"domain={wanted!r} was given, but {source} does not tell domains apart; leave the option out")
    raise TraceError(f"{source} has no domain {wanted!r}; it has {', '.join(domains)}{nearest(wanted, domains)}")


def _trace(reading: LogReading, metric: CandidateMetric, domain: str | None) -> Trace:
    log, options = reading.log, reading.options
    rows, compute = _evaluations(reading, metric, domain), reading.compute
    before = reading.framework.before_update if options.eval_before_update is None else options.eval_before_update
    at = reading.order[rows]
    if compute.running:
        C = last_value(compute.amount, reading.order, reading.keep, at, before=before and compute.unit != "steps")
        C = np.where(np.isnan(C) & (reading.steps.step[rows] <= 0), 0.0, C)
    else:
        C = look_up(compute.amount, reading.order, reading.keep, at, before=before)
        C = C + np.where(reading.steps.step[rows] <= 0, 0.0, reading.head())
    receipt = _receipt(reading, metric, domain, rows, before)
    notes: list[str] = [*log.notes]
    scale, y = scaled(reading.values[metric.key][rows], options, TableSource(), notes)
    try:
        C, y = check_series(C, y, scale=scale, rows=(rows + 1).tolist())
    except TraceError as error:
        raise TraceError(f"{log.source}, {metric.key}: {error}") from None
    receipt.assumed["scale"] = scale
    metadata: dict[str, Any] = {"scale": scale, "source": log.source}
    for key, value in (
        ("framework", receipt.framework), ("run", log.run), ("domain", receipt.domain),
        ("n_gpus", receipt.assumed.get("GPUs")),
    ):  # fmt: skip
        if value:
            metadata[key] = value
    notes += _notes(receipt)
    if compute.unit not in ("gpu-hours", "wall-hours") and (without_effect := options.without_effect(FOR_HOURS)):
        notes.append(f"{', '.join(without_effect)}: no effect on compute in {compute.unit}.")
    columns = _columns(reading, metric, rows, before)
    return Trace(
        C, y, compute_unit=compute.unit, columns=columns, metadata={**metadata, "receipt": receipt.to_dict()},
        notes=tuple(notes),
    )  # fmt: skip


def _evaluations(reading: LogReading, metric: CandidateMetric, domain: str | None) -> IntArray:
    """Return the rows that are evaluations of this curve, one for each step; count the others in the receipt."""
    values = reading.values[metric.key]
    scored = np.isfinite(values)
    if domain is not None:
        scored &= np.array([other == domain for other in reading.log.domains or ()])
    placed = scored & np.isfinite(reading.steps.place)
    rows = np.flatnonzero(placed & reading.keep)
    once = one_per_step(reading.order, rows, reading.options.resume)
    once = once[np.argsort(reading.order[once], kind="stable")]
    if not len(once):
        raise TraceError(f"{reading.log.source}: {metric.key} has no value in a row with a step; check the log")
    receipt = reading.receipt
    receipt.dropped = {}
    unusable = reading.log.unusable.get(metric.key, 0) if domain is None else 0
    receipt.drop("with a score that is not a number (NaN, null, text)", unusable)
    receipt.drop("without this score", reading.log.n_rows - int(scored.sum()) - unusable)
    receipt.drop("scored, but without a step", int((scored & ~placed).sum()))
    receipt.drop(
        f"replayed after a resume (the {'first' if reading.options.resume == 'first' else 'last'} copy counts)",
        int((placed & ~reading.keep).sum()),
    )
    receipt.drop("scored again at the same step", len(rows) - len(once))
    return once


def _receipt(reading: LogReading, metric: CandidateMetric, domain: str | None, rows: IntArray, before: bool) -> Receipt:
    receipt = reading.receipt.copy()
    receipt.files = reading.files
    receipt.domain = ":".join(filter(None, (metric.domain, domain or "")))
    receipt.columns = {"pass rate": metric.key, **receipt.columns}
    receipt.rows_kept = len(rows)
    receipt.assumed["evaluated"] = f"{'before' if before else 'after'} the update of the row's step"
    n_resumes = int(reading.piece[-1]) if len(reading.piece) else 0
    if n_resumes:
        replayed = int((reading.training & ~reading.keep).sum())
        receipt.assumed["resumes"] = f"{n_resumes}; {replayed} training rows replayed; policy: {reading.options.resume}"
    for text in reading.framework.caveats:
        receipt.warn(text, "check that it holds for your version of the framework")
    return receipt


def _notes(receipt: Receipt) -> list[str]:
    """Return the sentences of a receipt that belong in the notes of a fit."""
    kind = f"Read as {receipt.framework or receipt.reader}: pass rate {receipt.columns['pass rate']!r}"
    gpus = receipt.assumed.get("GPUs")
    hours = "" if gpus is None else f", {gpus if isinstance(gpus, str) else f'{gpus:g}'} GPUs"
    source = f" ({receipt.assumed['GPUs from']})" if gpus is not None else ""
    notes = [f"{kind}{hours}{source}; evaluation time {receipt.assumed.get('evaluation time', 'not counted')}."]
    noted = ("resumes", "missing start", "pauses", "device factor")
    notes += [f"{key.capitalize()}: {receipt.assumed[key]}." for key in noted if key in receipt.assumed]
    return notes + [finding.what for finding in receipt.warnings]


def _columns(reading: LogReading, metric: CandidateMetric, rows: IntArray, before: bool) -> dict[str, Any]:
    """Return the other values of each evaluation."""
    at, log = reading.order[rows], reading.log
    columns: dict[str, Any] = {"step": reading.steps.step[rows]} if reading.steps.stepped else {}
    if metric.n_samples is not None:
        columns["n_samples"] = np.full(len(rows), float(metric.n_samples))
    if reading.compute.testing.any():
        testing = look_up(reading.compute.testing, reading.order, reading.keep, at, before=False)
        columns["eval_gpu_hours" if reading.compute.unit == "gpu-hours" else "eval_hours"] = testing
    for name, pattern in reading.framework.columns:
        key = find((pattern,), log.keys)
        if key is not None:
            values = last_value(log.column(key), reading.order, reading.keep, at, before=before)
            if np.isfinite(values).any():
                columns[name] = values
    clock = reading.steps.clock
    if np.isfinite(clock).any():
        columns["wall_time"] = clock[rows] - np.nanmin(clock)
    return columns
