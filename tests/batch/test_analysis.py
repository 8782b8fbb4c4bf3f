"""Tests of `rlscaling/batch/analysis.py`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.fit_tables import FEW
from rlscaling.batch.analysis import AnalysisOptions, over_runs, runs_per_task
from rlscaling.batch.sources import RunSource


@pytest.mark.parametrize(("n_runs", "n_resamples"), [(1, 1000), (7, 10), (24, 100), (1000, 1000), (10**6, 10**5)])
def test_tasks_of_runs_share_the_work_out_and_are_not_long(n_runs, n_resamples):
    size = runs_per_task(n_runs, n_resamples, 2)
    assert size >= 1
    assert size == 1 or (size * n_resamples <= 16_000 and n_runs // size >= 8)


def test_few_runs_with_many_replicates_give_the_same_as_run_by_run():
    from joblib import parallel_config

    runs = [RunSource(name, trace) for name, trace in FEW.items()]
    asked = AnalysisOptions(n_resamples=1000, n_jobs=4)
    one = {
        i: found.bootstrap.distribution
        for some in over_runs(_answered, runs[2:], replace(asked, n_jobs=1))
        for i, found in some
    }
    with parallel_config("threading"):
        for some in over_runs(_answered, runs[2:], asked):
            for i, found in some:
                np.testing.assert_array_equal(found.bootstrap.distribution, one[i])


def _answered(run, request, on_progress):
    from rlscaling.batch.analysis import answer

    return answer(run, request, on_progress)
