"""``rlscaling train``: train the runs, then say what their traces tell about the ceiling, and what it really is."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import Any

from rlscaling.batch.analysis import Analysis, AnalysisOptions, FailedAnalysis, analyse_run, document, record
from rlscaling.batch.sources import RunSource
from rlscaling.cli.inputs import UsageError
from rlscaling.cli.output import Printer, print_json
from rlscaling.readers.read import read_traces
from rlscaling.traces.trace import Trace
from rlscaling.trainer.command.jobs import FinishedJob, jobs_of, run_jobs
from rlscaling.trainer.errors import TrainError

REQUEST = AnalysisOptions(options={"min_compute": "epoch"}, compute_unit=None)
"""The fit at the end: on the step axis, which is the same whatever else the machine does, after the first epoch."""


@dataclasses.dataclass(frozen=True)
class Summary:
    """A trained run and the fit of each of its domains."""

    trained: FinishedJob
    answers: list[Analysis | FailedAnalysis]
    ceilings: list[float | None]  # of each domain: the best possible pass rate, where it is known

    def record(self) -> dict[str, Any]:
        """Return the JSON object of the run."""
        config, result = self.trained.job.config, self.trained.result
        rates = result.pass_rates
        return {
            "trace": str(result.trace_path),
            "recipe": config.recipe,
            "seed": config.seed,
            "steps": result.steps,
            "stopped": result.stopped,
            "notes": list(result.notes),
            "pass_rate": {str(step): rates[step] for step in (min(rates), max(rates))},
            "fits": [
                record(given, REQUEST) | {"ceiling": ceiling}
                for given, ceiling in zip(self.answers, self.ceilings, strict=True)
            ],
        }


def train(args: argparse.Namespace) -> int:
    """Train every run asked for, tell of each as it ends, and return the exit code."""
    try:
        jobs = jobs_of(args)
    except TrainError as error:
        raise UsageError(str(error)) from None
    summaries = []
    try:
        for trained in run_jobs(jobs, resume=args.resume):
            summary = _summarize(trained)
            summaries.append(summary)
            if not args.json:
                _tell(summary)
    except KeyboardInterrupt:
        print(f"\nrlscaling: interrupted; {args.out} is whole up to its last row: --resume goes on", file=sys.stderr)
        raise
    if args.json:
        records = [summary.record() for summary in summaries]
        head = document([], REQUEST)
        head.pop("runs")
        print_json(head | (records[0] if len(records) == 1 else {"runs": records}))
    return 0


def _summarize(trained: FinishedJob) -> Summary:
    path = trained.result.trace_path
    assert path is not None  # the command always has a folder
    traces = read_traces(path, compute_column="step", compute_unit="steps")
    answers = [analyse_run(_run(name, trace, trained), REQUEST) for name, trace in traces.items()]
    return Summary(trained, answers, [_ceiling(trace) for trace in traces.values()])


def _run(name: str, trace: Trace, trained: FinishedJob) -> RunSource:
    config = trained.job.config
    domain = name.partition(":")[2]
    return RunSource(f"{config.recipe}, seed {config.seed}{', ' * bool(domain)}{domain}", trace)


def _ceiling(trace: Trace) -> float | None:
    known: dict[str, float] = trace.metadata.get("ceilings", {})
    return known.get(trace.metadata["domain"])


def _tell(summary: Summary) -> None:
    printer, folder = Printer(sys.stdout), summary.trained.job.folder
    printer.line(str(summary.trained))
    for note in summary.trained.result.notes:
        printer.line(f"  {note}")
    for given, ceiling in zip(summary.answers, summary.ceilings, strict=True):
        if isinstance(given, Analysis):
            printer.answer(given, REQUEST)
        else:
            printer.line(f"no fit [{given.name}]: {given.error}")
        if ceiling is not None:
            printer.line(f"  best possible pass rate of the task: {ceiling:.3f}")
    # a run that is shorter than an epoch has nothing behind it
    floor = "epoch" if any(isinstance(given, Analysis) for given in summary.answers) else "0"
    printer.line(f"  fit it against measured time: rlscaling fit {folder} --min-compute {floor}")
