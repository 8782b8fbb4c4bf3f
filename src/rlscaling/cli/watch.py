"""``rlscaling watch``: fit a log again as rows arrive, and say when the run has left its curve."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import glob
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from rlscaling.batch.analysis import SCHEMA_VERSION
from rlscaling.cli import output
from rlscaling.cli.commands import REFUSED
from rlscaling.cli.inputs import UsageError, find_runs, fit_options
from rlscaling.errors import RLScalingError
from rlscaling.fitting.fit import fit_trace
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.forecasting.monitor import MonitorReport, monitor, reference_fit
from rlscaling.printing.numbers import number, unit_text
from rlscaling.readers.paths import forget, is_remote
from rlscaling.traces.trace import Trace
from rlscaling.version import __version__


@dataclasses.dataclass(frozen=True)
class WatchStep:
    """What one look at a log has found, as far as it went; ``waiting`` says why no further.

    ``fit`` is of the whole run, ``reference`` of its beginning, by which the rest is watched.
    """

    name: str
    trace: Trace | None = None
    fit: SigmoidFit | None = None
    reference: SigmoidFit | None = None
    report: MonitorReport | None = None
    waiting: str = ""

    @property
    def line(self) -> str:
        """The state of the run on one line."""
        state = f"waiting: {self.waiting}" if self.report is None else self.report.headline
        parts = [f"{self.name}: {state}"]
        if self.trace is not None:
            at = f"{number(float(self.trace.compute[-1]))} {unit_text(self.trace.compute_unit)}"
            parts.append(f"{len(self.trace)} evaluations to {at}, pass rate {self.trace.pass_rate[-1]:.3f}")
        if self.fit is not None:
            parts.append(f"{self.fit.verdict}: {self.fit.reason}")
        return " | ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the look as JSON-ready values."""
        report = None if self.report is None else self.report.to_dict()
        out: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "version": __version__, "run": self.name}
        out |= {"verdict": "waiting" if report is None else report["status"], "reason": self.line}
        out |= {"alarms": [] if report is None else report["alarms"]}
        if self.trace is not None:
            out |= {"evaluations": len(self.trace), "compute": float(self.trace.compute[-1])}
            out |= {"pass_rate": float(self.trace.pass_rate[-1])}
        if self.fit is not None:
            out |= {"fit": {"verdict": str(self.fit.verdict), "reason": self.fit.reason, "A": self.fit.A}}
        return out | {"monitor": report}

    def now(self, idle: float | None) -> WatchStep:
        """Return the look with the report of the monitor, ``idle`` seconds after the last row."""
        if self.trace is None or self.reference is None:
            return self
        try:
            return dataclasses.replace(self, report=monitor(self.trace, self.reference, idle=idle))
        except RLScalingError as error:
            return dataclasses.replace(self, waiting=str(error))


def watch(args: argparse.Namespace) -> int:
    """Answer ``rlscaling watch``: once, or until Ctrl-C, which ends it with exit code 0."""
    options, path = fit_options(args), args.paths[0]
    live = sys.stdout.isatty() and not args.json and not args.once
    shown, read, found = "", None, None
    try:
        while True:
            state = _state(path)
            if found is None or state != read or is_remote(path):
                forget()
                found, read = look(args, options), state
            found = found.now(_idle(state))
            if args.once or found.line != shown:
                _show(found, args, live)
            if args.once:
                return REFUSED if found.trace is None else 0
            shown = found.line
            time.sleep(args.interval)
    except KeyboardInterrupt:
        if live:
            print()
        return 0


def look(args: argparse.Namespace, options: dict[str, Any]) -> WatchStep:
    """Read the log and fit it; what cannot be said yet is waited for."""
    runs = find_runs(args)
    if len(runs) > 1:
        names = ", ".join(run.name for run in runs)
        raise UsageError(f"{args.paths[0]} holds {len(runs)} runs ({names}); choose one with --run or --domain")
    found = WatchStep(runs[0].name)
    try:
        found = dataclasses.replace(found, trace=(trace := runs[0].trace()))
        found = dataclasses.replace(found, fit=fit_trace(trace, **options))
        found = dataclasses.replace(found, reference=reference_fit(trace, **options))
    except RLScalingError as error:
        return dataclasses.replace(found, waiting=str(error))
    return found if found.reference else dataclasses.replace(found, waiting="too few evaluations to watch the run by")


def _show(found: WatchStep, args: argparse.Namespace, live: bool) -> None:
    if args.json and args.once:
        output.print_json(found.to_dict())
    elif args.json:
        print(json.dumps(found.to_dict(), allow_nan=False), flush=True)
    elif live:
        width = shutil.get_terminal_size().columns - 1
        print(f"\r{found.line[:width]:{width}}", end="", flush=True)
    else:
        print(found.line, flush=True)


def _state(path: str) -> dict[Path, tuple[float, int]]:
    """Return when each file of the run was written, and its size: what has not changed is not read again.

    A database grows in the ``-wal`` beside it.
    """
    named = [Path(path)] if Path(path).exists() else [Path(p) for p in glob.glob(path, recursive=True)]
    files = [p for top in named for p in (top.rglob("*") if top.is_dir() else [top, Path(f"{top}-wal")])]
    state = {}
    for file in filter(Path.is_file, files):
        with contextlib.suppress(FileNotFoundError):  # a checkpoint that was replaced meanwhile
            state[file] = (file.stat().st_mtime, file.stat().st_size)
    return state


def _idle(state: dict[Path, tuple[float, int]]) -> float | None:
    """Return the seconds since a file of the run was written, or None where there is none yet."""
    return time.time() - max(written for written, _ in state.values()) if state else None
