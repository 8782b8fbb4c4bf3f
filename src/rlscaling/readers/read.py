"""`read_trace`, `read_traces`: the evaluations in trace files, tables, and logs of trainers and loggers."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rlscaling.errors import TraceError
from rlscaling.readers.options import ReadOptions
from rlscaling.readers.paths import expand, find_one, stem, unique_names
from rlscaling.readers.registry import parts_of, stitched_parts
from rlscaling.readers.table import Parts
from rlscaling.traces.trace import Trace


def read_trace(
    path: str | os.PathLike[str],
    *,
    compute_column: str | None = None,
    pass_rate_column: str | None = None,
    compute_unit: str | None = None,
    scale: str = "auto",
    run: str | int | None = None,
    run_column: str | None = None,
    domain: str | None = None,
    drop_missing: bool = False,
    metric: str | None = None,
    compute_from: str | None = None,
    n_gpus: float | None = None,
    device_factor: float | str | None = None,
    eval_time: str = "exclude",
    eval_before_update: bool | None = None,
    gap: float | None = None,
    resume: str = "last",
    missing_start: str = "refuse",
    compute: str | None = None,
) -> Trace:
    r"""Read one run's evaluations from a log.

    ``Trace.notes`` states what was assumed or left out; for logs of trainers, ``Trace.metadata["receipt"]`` is the
    whole receipt. Compute is summed over training rows and looked up at the step of each evaluation.

    Parameters
    ----------
    path
        A trace of this package (JSON lines or Parquet), a CSV, Parquet or JSON file with any column names,
        a log of a trainer (verl, TRL, W&B, TensorBoard, MLflow, trackio, printed lines ...), or a folder that holds
        one of these.
    compute_column, pass_rate_column
        The columns to take; by default ``compute`` or ``compute_gpu_hours`` and ``pass_rate``, else the ones
        with the plainest names.
    compute_unit
        One of ``COMPUTE_UNITS``; by default that of the file or of the column's name, else GPU-hours.
    scale
        What the scores are: ``"fraction"``, ``"percent"``, ``"pm1"`` (from -1 to 1), ``"reward"`` (unbounded), or
        ``"auto"``: fractions, but a reward where values between 0 and 2 can be neither fractions nor percentages;
        ``Trace.notes`` then says so.
    run
        The run to take from a file that holds several.
    run_column
        The column that distinguishes runs; by default ``run``, ``run_id``, ``run_name``, or ``recipe``,
        ``name`` and ``seed`` together.
    domain
        The domain to take from a file that holds several.
    drop_missing
        Leave out rows without a pass rate or compute, and note how many. The options below are for logs of trainers.
    metric
        Name, or glob, of the metric that is the pass rate; by default the one with the plainest name.
    compute_from
        What to count compute in: ``"gpu-hours"`` (default), ``"wall-hours"``, ``"tokens"``, ``"flops"`` or ``"steps"``.
    n_gpus
        GPUs of the run, generators and trainers together; needed where the log does not state it.
    device_factor
        Hours are multiplied by it, to convert those of one device to another's; ``"A100:H100"`` takes the ratio of
        the peak dense 16-bit matrix rates stated by their makers (a table in ``readers/devices.py``; not measured),
        ``"price:A100:H100"`` that of their prices per hour.
    eval_time
        ``"exclude"`` the time of evaluations from compute, or ``"include"`` it.
    eval_before_update
        Whether the evaluation in a row was made before the row's update; by default what the framework does.
    gap
        Seconds without a row that count as a pause, where time is taken from the clock.
    resume
        Which rows count when a resumed run repeated steps: the ``"last"`` ones (useful compute), the ``"first"``, or
        ``"all"`` (executed compute).
    missing_start
        ``"refuse"`` a log whose first steps are missing, or ``"estimate"`` what they cost.
    compute
        The former name of ``compute_from``, taken until version 1.0.

    Returns
    -------
    Trace
        The evaluations, pass rates as fractions unless the scale is ``"reward"``.

    Raises
    ------
    TraceError
        When the file cannot be used as it stands; the message names the place, the reason and the remedy.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run7.csv"
    >>> _ = path.write_text("gpu_hours,accuracy\n0,0.31\n100,0.35\n200,0.38\n")
    >>> trace = read_trace(path)
    >>> trace
    Trace('run7': 3 evaluations, 0 to 200 gpu-hours, pass rate 0.31 to 0.38)
    >>> trace.notes
    ("Took column 'accuracy' as the pass rate; pass_rate_column= / --pass-rate-column chooses.",)
    """
    options = ReadOptions(
        compute_column=compute_column, pass_rate_column=pass_rate_column, compute_unit=compute_unit, scale=scale,
        run=run, run_column=run_column, domain=domain, drop_missing=drop_missing, metric=metric,
        compute_from=compute_from, n_gpus=n_gpus, device_factor=device_factor, eval_time=eval_time,
        eval_before_update=eval_before_update, gap=gap, resume=resume, missing_start=missing_start, compute=compute,
    )  # fmt: skip
    file = find_one(path)
    parts = parts_of(file, options)
    if len(parts) > 1:
        raise TraceError(
            f"{file.name} holds {len(parts)} runs or domains: {', '.join(list(parts)[:20])}; choose with "
            "run= / --run (or domain= / --domain), or read all of them with read_traces"
        )
    trace = next(iter(parts.values()))()
    return trace if trace.name else trace.named(stem(Path(path), file))


def read_traces(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], **options: Any) -> dict[str, Trace]:
    """Read every run of some files.

    Parameters
    ----------
    paths
        A file, a folder, a glob such as ``"runs/*/trace.jsonl"``, or several of these.
    **options
        As for ``read_trace``, for every file; ``stitch=True`` takes all logs as pieces of one run.

    Returns
    -------
    dict of str to Trace
        By file stem, with as much of the folder as makes it unique; ``stem:run`` and ``stem:domain`` where
        one file holds several.

    Raises
    ------
    TraceError
        When one of the files cannot be used as it stands.
    """
    read_options = ReadOptions(**options)
    items = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not items:
        raise TraceError("no files were given; name at least one")
    files = {file.resolve(): (path, file) for item in items for path, file in expand(item)}
    names = unique_names(list(files.values()))
    if read_options.stitch:
        return _built(names[0], stitched_parts([file for _, file in files.values()], read_options))
    traces: dict[str, Trace] = {}
    for name, (_, file) in zip(names, files.values(), strict=True):
        traces |= _built(name, parts_of(file, read_options))
    return traces


def _built(name: str, parts: Parts) -> dict[str, Trace]:
    """Return the traces of one source, after which its content may be freed."""
    keys = {label: f"{name}:{label}" if label else name for label in parts}
    return {keys[label]: build().named(keys[label]) for label, build in parts.items()}
