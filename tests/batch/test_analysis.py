"""Tests of `rlscaling/batch/analysis.py`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.fit_tables import FEW
from rlscaling.batch.analysis import (
    AnalysisOptions,
    FailedAnalysis,
    analyse,
    analyse_run,
    fit_run,
    over_runs,
    runs_per_task,
)
from rlscaling.batch.sources import RunSource


@pytest.mark.parametrize(("n_runs", "n_resamples"), [(1, 1000), (7, 10), (24, 100), (1000, 1000), (10**6, 10**5)])
def test_tasks_of_runs_share_the_work_out_and_are_not_long(n_runs, n_resamples):
    size = runs_per_task(n_runs, n_resamples, 2)
    assert size >= 1
    assert size == 1 or (size * n_resamples <= 16_000 and n_runs // size >= 8)


def test_few_runs_with_many_replicates_give_the_same_as_run_by_run():
    from joblib import parallel_config

    runs = [RunSource(name, trace) for name, trace in FEW.items()]
    options = AnalysisOptions(n_resamples=1000, n_jobs=4)
    one = {
        i: found.bootstrap.distribution
        for some in over_runs(analyse_run, runs[2:], replace(options, n_jobs=1))
        for i, found in some
    }
    with parallel_config("threading"):
        for some in over_runs(analyse_run, runs[2:], options):
            for i, found in some:
                np.testing.assert_array_equal(found.bootstrap.distribution, one[i])


def test_a_run_that_fails_leaves_the_others():
    runs = [RunSource(name, trace) for name, trace in FEW.items()]
    seen = []
    fits = analyse(runs, AnalysisOptions(), work=fit_run, on_progress=lambda done, total: seen.append((done, total)))
    assert [type(fit).__name__ for fit in fits] == ["SigmoidFit", "FailedAnalysis", "SigmoidFit", "SigmoidFit"]
    assert fits[1].name == "run01"
    assert "a fit needs 5" in fits[1].error
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_fault_of_the_package_is_told_as_one():
    def broken(run, options, on_progress):
        raise KeyError("x")

    (failed,) = analyse([RunSource("a", FEW["run00"])], AnalysisOptions(), work=broken)
    assert failed == FailedAnalysis("a", "KeyError: 'x'; this is a fault of rlscaling, please report it")
