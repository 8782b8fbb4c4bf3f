"""Which metric of a log is the pass rate: the one whose name says so, never a guess among several."""

from __future__ import annotations

import fnmatch
import re
from typing import NamedTuple

import numpy as np

from rlscaling.errors import TraceError
from rlscaling.readers.column_names import NOT_A_PASS_RATE, PASS_RATE_NAMES
from rlscaling.readers.logs.frameworks import UNKNOWN, Framework, find_all
from rlscaling.readers.logs.log import Log
from rlscaling.readers.options import ReadOptions
from rlscaling.readers.receipt import Receipt
from rlscaling.readers.table import nearest

OPTION = "metric= / --metric GLOB"
LISTED = 20


class CandidateMetric(NamedTuple):
    """A metric that is read as a pass rate."""

    key: str
    domain: str = ""
    n_samples: int | None = None


def choose_metrics(log: Log, framework: Framework, options: ReadOptions, receipt: Receipt) -> list[CandidateMetric]:
    """Return the metrics to read, each a curve of its own.

    Raises
    ------
    TraceError
        When there is none, or several could be meant; the message lists them with counts and ranges.
    """
    wanted = options.metric or options.pass_rate_column
    if wanted is not None:
        keys = [key for key in log.keys if key == wanted]
        keys = keys or [key for key in log.keys if fnmatch.fnmatchcase(key, wanted)]
        if not keys:
            hint = nearest(wanted, list(log.keys))
            raise TraceError(
                f"{log.source} has no metric {wanted!r} ({OPTION}){hint or '.'} {listing(log, candidates(log))}"
            )
        metrics = [_metric(key, framework) for key in keys]
        if len(metrics) > 1:  # several are distinguished by the set in their names, or else by their whole names
            domains = [metric.domain for metric in metrics]
            plain = "" in domains or len(set(domains)) < len(domains)
            metrics = [metric._replace(domain=metric.key if plain else metric.domain) for metric in metrics]
    else:
        metrics = [_plainest(log, framework, options, receipt)]
    for metric in metrics:
        if re.fullmatch(framework.training, metric.key):
            receipt.warn(
                f"{metric.key} is the reward in training, not a held-out pass rate: it rises on prompts that the run "
                "has seen, and may rise while held-out accuracy falls.",
                "name a held-out metric with metric= / --metric, or state in your report that none was held out",
                decide=True,
            )
    return metrics


def _plainest(log: Log, framework: Framework, options: ReadOptions, receipt: Receipt) -> CandidateMetric:
    ranks = [[_metric(key, framework) for key in rank] for rank in _ranks(log, framework)]
    of_domain = [[metric for metric in metrics if metric.domain == options.domain] for metrics in ranks]
    for metrics in of_domain if options.domain is not None and any(of_domain) else ranks:
        if len(metrics) > 1 and options.domain is not None and all(metric.domain for metric in metrics):
            domains = list(dict.fromkeys(metric.domain for metric in metrics))
            if options.domain not in domains:
                hint = nearest(options.domain, domains)
                raise TraceError(f"{log.source} has no domain {options.domain!r}; it has {', '.join(domains)}{hint}")
        if len(metrics) > 1:
            raise TraceError(
                f"{log.source}: the pass rate could be any of {len(metrics)} metrics; choose with {OPTION} (one curve "
                f"for each that it matches). {listing(log, [metric.key for metric in metrics])}"
            )
        if metrics:
            if not framework.name:
                receipt.assumed["pass rate"] = f"{metrics[0].key}, by its name; {OPTION} chooses"
            return metrics[0]
    raise TraceError(
        f"{log.source}: no metric looks like a held-out pass rate; name one with {OPTION}. "
        f"{listing(log, candidates(log))}"
    )


def _ranks(log: Log, framework: Framework) -> list[list[str]]:
    """Return the metrics that match each rank of names, the plainest names first."""
    if framework is not UNKNOWN:
        return [find_all([pattern], log.keys) for pattern in framework.scores]
    usable = [key for key in log.keys if not key.startswith("_") and not re.search(NOT_A_PASS_RATE, key.lower())]
    return [[key for key in usable if re.search(pattern, key.lower())] for pattern in PASS_RATE_NAMES]


def _metric(key: str, framework: Framework) -> CandidateMetric:
    for pattern in framework.scores:
        if match := re.fullmatch(pattern, key):
            groups = match.groupdict()
            n = groups.get("n")
            return CandidateMetric(key, groups.get("domain") or "", int(n) if n and len(n) < 7 else None)
    return CandidateMetric(key)


def candidates(log: Log) -> list[str]:
    """Return the metrics whose names could mean a score, or all where none does."""
    like = [key for key in log.keys if re.search(r"acc|reward|score|pass|success|val|eval|test|return", key.lower())]
    return like or [key for key in log.keys if not key.startswith("_")]


def listing(log: Log, keys: list[str]) -> str:
    """Return one sentence that lists metrics with their counts and ranges."""
    shown = []
    for key, column in log.load(keys[:LISTED]).items():
        values = column[np.isfinite(column)]
        span = f", {values.min():.4g} to {values.max():.4g}" if len(values) else ""
        shown.append(f"{key} ({len(values)} value{'s' if len(values) != 1 else ''}{span})")
    more = f", and {len(keys) - LISTED} more" if len(keys) > LISTED else ""
    return f"The metrics are: {', '.join(shown)}{more}." if shown else "It holds no metrics."
