"""``rlscaling train``."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import Any

from rlscaling.batch.analysis import Analysis, AnalysisOptions, FailedAnalysis, analyse_run, document, record
from rlscaling.batch.sources import RunSource
from rlscaling.cli import options
from rlscaling.cli.arguments import UsageError
from rlscaling.cli.exit_codes import EXIT_CODES
from rlscaling.cli.output import Printer, print_json
from rlscaling.readers.read import read_traces
from rlscaling.traces.trace import Trace
from rlscaling.trainer.command import arguments
from rlscaling.trainer.command.jobs import FinishedJob, jobs_of, run_jobs
from rlscaling.trainer.errors import TrainError

ANALYSIS = AnalysisOptions(options={"min_compute": "epoch"}, compute_unit=None)
"""The fit at the end: on the step axis, which is the same whatever else the machine does, after the first epoch."""


EXAMPLES = f"""\
examples (they need torch: pip install 'rlscaling[trainer]'):
  rlscaling train --out runs/scalerl
  rlscaling train --recipe dapo --steps 400 --seeds 0,1,2 --out runs/dapo
  rlscaling train --out runs/scalerl --resume

{EXIT_CODES}"""


@dataclasses.dataclass(frozen=True)
class Summary:
    """A trained run and the fit of each of its domains."""

    trained: FinishedJob
    analyses: list[Analysis | FailedAnalysis]
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
                record(analysis, ANALYSIS) | {"ceiling": ceiling}
                for analysis, ceiling in zip(self.analyses, self.ceilings, strict=True)
            ],
        }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.epilog = EXAMPLES
    arguments.add_arguments(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Train every run, print a summary of each as it ends, and return the exit code."""
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
                _print(summary)
    except KeyboardInterrupt:
        print(f"\nrlscaling: interrupted; {args.out} is whole up to its last row: --resume goes on", file=sys.stderr)
        raise
    if args.json:
        records = [summary.record() for summary in summaries]
        head = document([], ANALYSIS)
        head.pop("runs")
        print_json(head | (records[0] if len(records) == 1 else {"runs": records}))
    return 0


def _summarize(trained: FinishedJob) -> Summary:
    path = trained.result.trace_path
    assert path is not None  # the command always has a folder
    traces = read_traces(path, compute_column="step", compute_unit="steps")
    analyses = [analyse_run(_run(name, trace, trained), ANALYSIS) for name, trace in traces.items()]
    return Summary(trained, analyses, [_ceiling(trace) for trace in traces.values()])


def _run(name: str, trace: Trace, trained: FinishedJob) -> RunSource:
    config = trained.job.config
    domain = name.partition(":")[2]
    return RunSource(f"{config.recipe}, seed {config.seed}{', ' * bool(domain)}{domain}", trace)


def _ceiling(trace: Trace) -> float | None:
    known: dict[str, float] = trace.metadata.get("ceilings", {})
    return known.get(trace.metadata["domain"])


def _print(summary: Summary) -> None:
    printer, folder = Printer(sys.stdout), summary.trained.job.folder
    printer.line(str(summary.trained))
    for note in summary.trained.result.notes:
        printer.line(f"  {note}")
    for analysis, ceiling in zip(summary.analyses, summary.ceilings, strict=True):
        if isinstance(analysis, Analysis):
            printer.analysis(analysis, ANALYSIS)
        else:
            printer.line(f"no fit [{analysis.name}]: {analysis.error}")
        if ceiling is not None:
            printer.line(f"  best possible pass rate of the task: {ceiling:.3f}")
    # a run that is shorter than an epoch has nothing behind it
    floor = "epoch" if any(isinstance(analysis, Analysis) for analysis in summary.analyses) else "0"
    printer.line(f"  fit it against measured time: rlscaling fit {folder} --min-compute {floor}")
