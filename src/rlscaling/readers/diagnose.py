"""What would go wrong with a run that was read, each finding with its remedy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from rlscaling.arrays import FloatArray
from rlscaling.readers.receipt import Finding
from rlscaling.traces.trace import Trace

SAMPLED = {
    500: "W&B's run.history() returns 500 rows whatever the run has; take run.scan_history(), or the .wandb file",
    1000: "TensorBoard's own CSV and JSON downloads hold 1,000 points; give the event files",
    10_000: "TensorBoard's EventAccumulator keeps 10,000 points of a tag; give the event files",
}
EXPORTS = ("csv", "json", "json lines", "parquet")
"""Readers of exports, which may be sampled; logs of trainers and loggers are always read whole."""

TRUNCATED = 0.10
LARGEST_SIZE = 20_000  # completions in an evaluation; with more, a score's fraction says nothing of them
EXACT = 1e-9


def examine(trace: Trace) -> list[Finding]:
    """Return what is doubtful about one run.

    Examples
    --------
    >>> trace = Trace([5, 10, 15, 20], [0.0, 0.0, 0.0, 0.0], columns={"truncation_rate": [0.1, 0.2, 0.3, 0.4]})
    >>> for finding in examine(trace):
    ...     print(finding.severity, finding.what)
    warn the first evaluation is at 5 gpu-hours: there is none before training
    warn the score is 0 in all 4 evaluations
    warn truncated completions: up to 40.0 %
    """
    return list(_findings(trace, trace.metadata.get("receipt") or {}))


def _findings(trace: Trace, receipt: Mapping[str, Any]) -> Iterator[Finding]:
    rows_read = receipt.get("rows_read", 0)
    if rows_read in SAMPLED and receipt.get("reader") in EXPORTS and not _evenly_spaced(trace):
        yield Finding("decide", f"exactly {rows_read:,} rows were read: a sampled history", SAMPLED[rows_read])
    if "resumes" in receipt.get("assumed", {}):
        hours = _hours(receipt["assumed"])
        yield Finding(
            "warn", f"steps go back or repeat: resumed {receipt['assumed']['resumes']}{hours}",
            "choose the rows that count with --resume last|first|all",
        )  # fmt: skip
    for warning in receipt.get("warnings", ()):
        yield Finding(**warning)
    if trace.compute[0] > 0:
        yield Finding(
            "warn", f"the first evaluation is at {trace.compute[0]:.4g} {trace.compute_unit}: there is none before "
            "training", "evaluate the base model as well (step 0), or give its pass rate with --R0",
        )  # fmt: skip
    constant = trace.pass_rate[0]
    if len(trace) > 3 and np.all(trace.pass_rate == constant):
        yield Finding(
            "warn", f"the score is {constant:g} in all {len(trace)} evaluations",
            "check the reward function and the answers' format: the run may have failed",
        )  # fmt: skip
    sizes = mixed_sizes(trace.pass_rate)
    if sizes:
        yield Finding(
            "decide",
            f"evaluations of different size: some scores are multiples of 1/{sizes[0]}, others of 1/{sizes[1]}",
            "split the run where the evaluation set changed, or leave one kind out",
        )  # fmt: skip
    cut = trace.columns.get("truncation_rate")
    if cut is not None and np.nanmax(np.append(cut, 0.0)) > TRUNCATED:
        yield Finding(
            "warn", f"truncated completions: up to {float(np.nanmax(cut)):.1%}".replace("%", " %"),
            "raise the length limit: the ceiling that is fitted would be that of the limit",
        )  # fmt: skip
    for note in trace.notes:
        if "__MIN" in note and "differ" in note:
            yield Finding("decide", note, "export the history of the run, or read its .wandb file")
        elif "cut short" in note or "not objects" in note:
            yield Finding("warn", note, "copy the file again; the last line of a running log may be half written")


def _evenly_spaced(trace: Trace) -> bool:
    """Return whether the steps of the evaluations are equally spaced, but for the last one: then none was left out."""
    step = trace.compute if trace.compute_unit == "steps" else trace.columns.get("step")
    if step is None or len(step) < 3:
        return False
    gaps = np.diff(np.asarray(step, dtype=np.float64))
    return bool((gaps[:-1] == gaps[0]).all() and gaps[-1] <= gaps[0])


def _hours(assumed: Mapping[str, Any]) -> str:
    useful = next((value for key, value in assumed.items() if key.startswith("useful ")), None)
    executed = next((value for key, value in assumed.items() if key.startswith("executed ")), None)
    return f"; {useful:,.4g} useful of {executed:,.4g} executed" if useful is not None and executed is not None else ""


def mixed_sizes(scores: FloatArray) -> tuple[int, int] | None:
    """Return the sizes of two kinds of evaluation that the scores are fractions of, or None.

    A mean over n completions is a multiple of 1/n. When no single n of at most 20,000 explains all scores, but two do,
    the evaluation changed within the run.

    Examples
    --------
    >>> mixed_sizes(np.array([101 / 1024, 203 / 1024, 47 / 200, 51 / 200, 307 / 1024]))
    (1024, 200)
    >>> mixed_sizes(np.array([0.1, 0.25, 0.375])) is None
    True
    """
    fractions = [Fraction(float(score)).limit_denominator(LARGEST_SIZE) for score in scores]
    if any(abs(float(fraction) - score) > EXACT for fraction, score in zip(fractions, scores, strict=True)):
        return None
    sizes = [fraction.denominator for fraction in fractions]
    if not sizes or _common(sizes) <= LARGEST_SIZE:
        return None
    largest = max(sizes)
    group = _common(size for size in sizes if largest % size == 0)
    others = [size for size in sizes if group % size]
    rest = _common(others)
    return (group, rest) if len(others) > 1 and rest <= LARGEST_SIZE else None


def _common(sizes: Iterable[int]) -> int:
    return math.lcm(*sizes)


def identical_inputs(receipts: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[tuple[str, Finding]]:
    """Yield a finding for every run whose input is, byte for byte, that of an earlier one under another name."""
    first_runs: dict[tuple[str, str, str], str] = {}
    for run, receipt in receipts:
        files = sorted((str(file["sha256"]), file["name"]) for file in receipt.get("files", ()))
        if not files:
            continue
        key = ("+".join(digest for digest, _ in files), str(receipt.get("run")), str(receipt.get("domain")))
        if key in first_runs and first_runs[key] != run:
            what = f"its input is the same, byte for byte, as that of {first_runs[key]}"
            yield run, Finding("decide", what, "leave one of them out: one run must not count as two training runs")
        first_runs.setdefault(key, run)
