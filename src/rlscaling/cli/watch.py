"""``rlscaling watch``."""

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
from rlscaling.cli import options, output
from rlscaling.cli.arguments import UsageError
from rlscaling.cli.exit_codes import EXIT_CODES, REFUSED
from rlscaling.cli.inputs import WatchRequest, find_runs, watch_request
from rlscaling.errors import RLScalingError
from rlscaling.fitting.fit import fit_trace
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import MIN_POINTS_FOR_INTERVAL
from rlscaling.forecasting.gain import Gain, expected_gain
from rlscaling.forecasting.monitor import MonitorReport, monitor, reference_fit
from rlscaling.option_fields import positive
from rlscaling.printing.numbers import number, unit_text
from rlscaling.readers.paths import forget, is_remote
from rlscaling.traces.trace import Trace
from rlscaling.version import __version__

EXAMPLES = f"""\
examples:
  rlscaling watch runs/scalerl
  rlscaling watch runs/scalerl --once --json

{EXIT_CODES}"""


@dataclasses.dataclass(frozen=True)
class WatchStep:
    """One look at a log, as far as it could be analysed; ``waiting`` says why no further.

    ``fit`` is of the whole run, ``reference`` of its beginning, by which the rest is watched.
    """

    name: str
    trace: Trace | None = None
    fit: SigmoidFit | None = None
    reference: SigmoidFit | None = None
    report: MonitorReport | None = None
    gain: Gain | None = None
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
        if self.gain is not None:
            parts.append(self.gain.sentence)
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
        if self.gain is not None:
            out |= {"next": self.gain.to_dict()}
        return out | {"monitor": report}

    def now(self, idle: float | None) -> WatchStep:
        """Return the look with the report of the monitor, ``idle`` seconds after the last row."""
        if self.trace is None or self.reference is None:
            return self
        try:
            return dataclasses.replace(self, report=monitor(self.trace, self.reference, idle=idle))
        except RLScalingError as error:
            return dataclasses.replace(self, waiting=str(error))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.epilog = EXAMPLES
    options.add_paths(parser, "a growing trace or log, or a folder with a trace.jsonl", nargs=1)
    group = parser.add_argument_group("watch")
    group.add_argument("--once", action="store_true", help="check once and exit (default: until Ctrl-C)")
    group.add_argument(
        "--interval", metavar="S", type=positive, default=10.0, help="seconds between checks (default: 10)"
    )
    options.add_seed(group)
    options.add_fit_options(parser)
    options.add_reading_options(parser, without=("compute_unit", "device_factor"))
    options.add_json(parser.add_argument_group("output"))


def run(args: argparse.Namespace) -> int:
    """Watch a run, once or until Ctrl-C, which ends it with exit code 0."""
    request = watch_request(args)
    path, live = request.inputs.paths[0], sys.stdout.isatty() and not request.output.json and not request.once
    shown, read, step = "", None, None
    try:
        while True:
            state = _state(path)
            if step is None or state != read or is_remote(path):
                forget()
                step, read = look(request), state
            step = step.now(_idle(state))
            if request.once or step.line != shown:
                _show(step, request, live)
            if request.once:
                return REFUSED if step.trace is None else 0
            shown = step.line
            time.sleep(request.interval)
    except KeyboardInterrupt:
        if live:
            print()
        return 0


def look(request: WatchRequest) -> WatchStep:
    """Read the log and fit it; where that is not possible yet, the step says what it waits for."""
    runs = find_runs(request.inputs)
    if len(runs) > 1:
        names, path = ", ".join(run.name for run in runs), request.inputs.paths[0]
        raise UsageError(f"{path} holds {len(runs)} runs ({names}); choose one with --run or --domain")
    step = WatchStep(runs[0].name)
    try:
        step = dataclasses.replace(step, trace=(trace := runs[0].trace()))
        step = dataclasses.replace(step, fit=(fit := fit_trace(trace, **request.analysis.options)))
        step = dataclasses.replace(step, reference=reference_fit(trace, **request.analysis.options))
        if fit.verdict.has_curve and fit.n_points >= MIN_POINTS_FOR_INTERVAL:
            step = dataclasses.replace(step, gain=expected_gain(fit, rng=request.analysis.seed))
    except RLScalingError as error:
        return dataclasses.replace(step, waiting=str(error))
    return step if step.reference else dataclasses.replace(step, waiting="too few evaluations to watch the run by")


def _show(step: WatchStep, request: WatchRequest, live: bool) -> None:
    if request.output.json and request.once:
        output.print_json(step.to_dict())
    elif request.output.json:
        print(json.dumps(step.to_dict(), allow_nan=False), flush=True)
    elif live:
        width = shutil.get_terminal_size().columns - 1
        print(f"\r{step.line[:width]:{width}}", end="", flush=True)
    else:
        print(step.line, flush=True)


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
