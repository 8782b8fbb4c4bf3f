"""Is a forecast of a real run nearer than its last value, and does its interval hold?

    python benchmarks/forecast.py [--data ../shared/data] [--json out.json]

Held-out curves of real runs (`val` in traces_sources.csv), cut at a half and a quarter of their compute ("whole run"),
and also of their first 75 and 55 % ("all"). The error is that of the mean of the evaluations in the last fifth. The
sources (one task, or one base model, of one repository) fall into two halves: `Prior` was chosen on the first, the
second is the score. Intervals are for one evaluation, at 95 %. Without the data it says so and exits with 0.
"""

from __future__ import annotations

import _common  # isort: skip  (before numpy: one thread)

import csv
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from _common import Check
from rlscaling import RLScalingError, Trace, backtest, read_trace

METHODS = ("last-value", "power-law", "sigmoid", "averaged")
ENDS = (1.0, 0.75, 0.55)
FACTORS = (2.0, 4.0)
LEAST = 7  # evaluations before the cut


@dataclass(frozen=True)
class Outcome:
    """One forecast of one curve: errors by model, evaluations held and of how many."""

    curve: str
    source: str
    end: float
    factor: float
    error: dict[str, float]
    held: dict[str, tuple[int, int]]


def source_of(name: str) -> str:
    """Return the task, or base model, that a curve shares with others: no source is in both halves."""
    parts = name.split("_")
    if parts[0] == "drqv2":
        return "_".join(parts[:-1])  # seeds and their mean
    return "_".join(parts[:2]) if parts[0] in ("kanishkg", "tdmpc2") else parts[0]


def curves(folder: Path) -> dict[str, Trace]:
    """Return the held-out curves, by name."""
    with open(folder / "traces_sources.csv", encoding="utf-8") as file:
        names = [row["file"] for row in csv.DictReader(file) if row["kind"] == "val"]
    return {name[:-4]: read_trace(folder / "traces" / name, scale="auto") for name in sorted(names)}


def outcome(name: str, trace: Trace, end: float, factor: float) -> Outcome | None:
    """Return how the forecasts to the end of a curve's first part did, from ``1 / factor`` of it."""
    part = trace.up_to(float(trace.compute[-1]) * end)
    last = float(part.compute[-1])
    cutoff = last / factor
    late = part.compute > 0.8 * last
    if np.sum(part.compute <= cutoff) < LEAST or late.sum() < 2:
        return None
    # the first evaluation is the anchor even where it is not at compute 0
    options = {"min_compute": float(np.nextafter(part.compute[0], np.inf))}
    try:
        found = backtest(part, cutoffs=[cutoff], methods=METHODS, rng=zlib.crc32(name.encode()), **options)
    except RLScalingError as error:
        print(f"{name}, to {end:g}, {factor:g}x: {error}")
        return None
    errors, held = {}, {}
    for origin in found.origins:
        inside = np.array(origin.compute) > 0.8 * last
        off = np.array(origin.forecast) - np.array(origin.actual)
        errors[origin.method] = abs(float(off[inside].mean()))
        low, high, y = (np.array(a)[inside] for a in (origin.low, origin.high, origin.actual))
        held[origin.method] = (int(np.sum((low <= y) & (y <= high))), int(np.isfinite(low).sum()))
    return Outcome(name, source_of(name), end, factor, errors, held)


def table(title: str, outcomes: list[Outcome]) -> dict[str, float]:
    """Print one table and return its numbers."""
    numbers = {}
    print(f"\n{title}")
    print(f"{'':12}{'to':>4}{'n':>5}  beats last value  median |error|  mean |error|  interval holds")
    for factor in FACTORS:
        for model in METHODS:
            chosen = [o for o in outcomes if o.factor == factor]
            e, base = (np.array([o.error[m] for o in chosen]) for m in (model, "last-value"))
            wins = float(np.mean(e < base))
            shares = [held / n for held, n in (o.held[model] for o in chosen) if n]
            held = float(np.mean(shares)) if shares else float("nan")
            numbers |= {f"{model} {factor:g}x wins": wins, f"{model} {factor:g}x held": held}
            won = "" if model == "last-value" else f"{wins:.2f}"
            print(
                f"{model:12}{factor:3g}x{len(e):5}{won:>18}{np.median(e):16.4f}{e.mean():14.4f}"
                f"{f'{held:.2f} ({len(shares)})' if shares else '':>16}",
                flush=True,
            )
    return numbers


def main() -> int:
    parser = _common.arguments(__doc__ or "")
    args, there = _common.with_real_curves(parser)
    if not there:
        return 0
    began = time.time()
    runs = curves(args.data)
    every = [outcome(name, trace, end, f) for name, trace in runs.items() for end in ENDS for f in FACTORS]
    outcomes = [o for o in every if o is not None]
    sources = sorted({o.source for o in outcomes})
    halves = {"chosen on (first half)": set(sources[::2]), "scored on (second half)": set(sources[1::2])}
    numbers = {}
    for half, chosen in halves.items():
        print(f"\n{half}: {', '.join(sorted(chosen))}")
        mine = [o for o in outcomes if o.source in chosen]
        table(f"{half}, whole runs", [o for o in mine if o.end == 1.0])
        numbers = table(f"{half}, all", mine)
    whole = table("both halves, whole runs", [o for o in outcomes if o.end == 1.0])
    table("both halves, all", outcomes)
    print(f"\n{len(runs)} curves, {len(outcomes)} forecasts, {time.time() - began:.0f} s")
    checks = [
        Check("second half, averaged beats last value, 2x", numbers["averaged 2x wins"], 0.65, True, ""),
        Check("second half, averaged beats last value, 4x", numbers["averaged 4x wins"], 0.84, True, ""),
        Check("second half, interval holds, 2x", numbers["averaged 2x held"], 0.90, True, ""),
        Check("second half, interval holds, 4x", numbers["averaged 4x held"], 0.90, True, ""),
        Check("whole runs, both halves, averaged beats last value, 2x", whole["averaged 2x wins"], 0.65, True, ""),
        Check("whole runs, both halves, averaged beats last value, 4x", whole["averaged 4x wins"], 0.84, True, ""),
    ]
    return _common.finish("forecasts of real runs", checks, _common.versions("rlscaling", "numpy"), args.json)


if __name__ == "__main__":
    raise SystemExit(main())
