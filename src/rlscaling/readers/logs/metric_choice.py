"""Which of a log's metrics is the pass rate: one that is plainly meant, or none, never a coin toss."""

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


def choose_scores(log: Log, framework: Framework, options: ReadOptions, receipt: Receipt) -> list[CandidateMetric]:
    """Return the metrics to read, each a curve of its own.

    Raises
    ------
    TraceError
        When none is there, or several could be meant; the message lists them with counts and ranges.
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
        scores = [_score(key, framework) for key in keys]
        if len(scores) > 1:  # several are told apart by the set they name, or else by their whole names
            domains = [score.domain for score in scores]
            plain = "" in domains or len(set(domains)) < len(domains)
            scores = [score._replace(domain=score.key if plain else score.domain) for score in scores]
    else:
        scores = [_plainest(log, framework, options, receipt)]
    for score in scores:
        if re.fullmatch(framework.training, score.key):
            receipt.warn(
                f"{score.key} is the reward in training, not a held-out pass rate: it rises on prompts that the run "
                "has seen, and may rise while held-out accuracy falls.",
                "name a held-out metric with metric= / --metric, or state in your report that none was held out",
                decide=True,
            )
    return scores


def _plainest(log: Log, framework: Framework, options: ReadOptions, receipt: Receipt) -> CandidateMetric:
    ranks = [[_score(key, framework) for key in rank] for rank in _ranks(log, framework)]
    of_domain = [[score for score in found if score.domain == options.domain] for found in ranks]
    for found in of_domain if options.domain is not None and any(of_domain) else ranks:
        if len(found) > 1 and options.domain is not None and all(score.domain for score in found):
            there = list(dict.fromkeys(score.domain for score in found))
            if options.domain not in there:
                hint = nearest(options.domain, there)
                raise TraceError(f"{log.source} has no domain {options.domain!r}; it has {', '.join(there)}{hint}")
        if len(found) > 1:
            raise TraceError(
                f"{log.source}: the pass rate could be any of {len(found)} metrics; choose with {OPTION} (one curve "
                f"for each that it matches). {listing(log, [score.key for score in found])}"
            )
        if found:
            if not framework.name:
                receipt.assumed["pass rate"] = f"{found[0].key}, by its name; {OPTION} chooses"
            return found[0]
    raise TraceError(
        f"{log.source}: no metric looks like a held-out pass rate; name one with {OPTION}. "
        f"{listing(log, candidates(log))}"
    )


def _ranks(log: Log, framework: Framework) -> list[list[str]]:
    """Return the metrics that each rank of names matches, most plainly named first."""
    if framework is not UNKNOWN:
        return [find_all([pattern], log.keys) for pattern in framework.scores]
    usable = [key for key in log.keys if not key.startswith("_") and not re.search(NOT_A_PASS_RATE, key.lower())]
    return [[key for key in usable if re.search(pattern, key.lower())] for pattern in PASS_RATE_NAMES]


def _score(key: str, framework: Framework) -> CandidateMetric:
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
