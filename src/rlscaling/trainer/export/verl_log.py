"""Traces as verl's log: the metrics of its file logger, so that what reads verl's logs reads ours.

``{"step": s, "data": {metric: value}}`` a line. Totals of the trace become amounts of a step: seconds, tokens, and
tokens a second and device, from which readers find the number of devices, as in verl's own logs.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rlscaling.files import check_not_there, replace_file
from rlscaling.traces.jsonl import read_jsonl
from rlscaling.traces.schema import VERL_NAMES
from rlscaling.trainer.errors import TrainError

HOUR = 3600.0
TOTALS = ("tokens_generated", "eval_gpu_hours")
SAME = {name: metric for name, (metric, how) in VERL_NAMES.items() if not how and "<" not in metric}
"""Columns that verl has under another name, with the same meaning."""


def verl_rows(header: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield (step, metrics) of each step, in the order of the trace.

    Parameters
    ----------
    header
        First line of the trace: ``compute_column`` and ``n_devices``.
    rows
        The other lines: ``train`` rows and the ``eval`` rows of the same step, one for each domain.

    Examples
    --------
    >>> header = {"compute_column": "compute", "n_devices": 2}
    >>> train = {"kind": "train", "step": 1, "compute": 0.5, "tokens_generated": 9000, "mean_length": 5.0}
    >>> test = {"kind": "eval", "step": 1, "compute": 0.5, "pass_rate": 0.25, "domain": "sort", "n_samples": 16}
    >>> for step, metrics in verl_rows(header, [train, test]):
    ...     print(step, metrics["timing_s/step"], metrics["perf/throughput"], metrics["val-core/sort/acc/mean@16"])
    1 900.0 5.0 0.25
    """
    column, n = header.get("compute_column", "compute_gpu_hours"), header.get("n_devices", 1)
    before: dict[str, float] = {}
    for step, group in itertools.groupby(rows, key=lambda row: int(row["step"])):
        metrics: dict[str, float] = {}
        now = dict(before)
        trained = False
        for row in group:
            now |= {name: row[name] for name in (column, *TOTALS) if row.get(name) is not None}
            if row["kind"] == "train":
                trained = True
                metrics |= {metric: row[name] for name, metric in SAME.items() if _is_number(row.get(name))}
            elif row["kind"] == "eval":
                domain, samples = row.get("domain") or "heldout", int(row.get("n_samples") or 1)
                metrics[f"val-core/{domain}/acc/mean@{samples}"] = row["pass_rate"]
        grown = {name: value - before.get(name, 0.0) for name, value in now.items()}
        if trained:
            metrics |= _step(grown, column, n)
        if grown.get("eval_gpu_hours", 0.0) > 0:
            metrics["timing_s/testing"] = grown["eval_gpu_hours"] * HOUR / n
        before = now
        yield step, metrics


def _step(grown: Mapping[str, float], column: str, n: int) -> dict[str, float]:
    """Return what a step cost: seconds, tokens, tokens a second and device."""
    seconds, tokens = grown.get(column, 0.0) * HOUR / n, grown.get("tokens_generated", 0.0)
    costs = {"timing_s/step": seconds, "perf/time_per_step": seconds, "perf/total_num_tokens": tokens}
    return costs | ({"perf/throughput": tokens / (seconds * n)} if seconds > 0 else {})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def export_log(trace: str | Path, target: str | Path, *, overwrite: bool = False) -> int:
    """Write a trace of the bundled trainer as a log of verl's file logger.

    Parameters
    ----------
    trace
        ``trace.jsonl`` of a run, finished or not, or its folder.
    target
        The file to write, ``.jsonl``.
    overwrite
        Replace what is there.

    Returns
    -------
    int
        Lines written.

    Raises
    ------
    TrainError
        When the trace is not one of the trainer's, or the target cannot be written.
    """
    trace, target = Path(trace), Path(target)
    if trace.is_dir():
        trace = trace / "trace.jsonl"
    if not trace.is_file():
        raise TrainError(f"no such file: {trace}; give the trace.jsonl of a run")
    header, rows, _ = read_jsonl(trace)
    if not any(row.get("kind") == "train" for row in rows):
        raise TrainError(f"{trace} has no rows of training steps: it is no trace of the trainer, or it has just begun")
    if target.suffix != ".jsonl":
        raise TrainError(f"{target}: verl's file logger writes JSON lines; end the name in .jsonl")
    check_not_there(target, overwrite and target.resolve() != trace.resolve(), error=TrainError)
    kept = [row for row in rows if row.get("kind") in ("train", "eval")]
    lines = [json.dumps({"step": step, "data": data}, allow_nan=False) for step, data in verl_rows(header, kept)]
    replace_file(target, ("\n".join(lines) + "\n").encode(), error=TrainError)
    return len(lines)
