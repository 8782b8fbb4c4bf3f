"""Many runs at once: the same numbers as one by one, on any workers; nothing lost or twice when one is killed."""

from __future__ import annotations

import pytest

from helpers.fit_tables import FEW, SMALL
from helpers.worker_jobs import N_RESAMPLES, N_RUNS, some_runs
from rlscaling import FitError, Trace, fit_many
from rlscaling.errors import RLScalingError


def test_a_refused_run_is_a_row_with_the_reason_and_stops_nobody():
    found = fit_many(FEW, **SMALL)
    assert [row["run"] for row in found.rows] == list(FEW)
    assert list(found.refused) == ["run01"]
    assert "a fit needs 5" in found.refused["run01"]
    assert (found.rows[1]["A"], found.rows[1]["verdict"]) == (None, None)
    assert found.verdicts == {"identified": 3, "refused": 1}
    assert str(found) == "4 runs: 3 identified, 1 refused"


def test_with_raise_a_refused_run_stops_the_work():
    with pytest.raises(FitError, match=r"run01: .*a fit needs 5"):
        fit_many(FEW, on_error="raise", **SMALL)


@pytest.mark.parametrize(
    ("runs", "options", "message"),
    [
        (FEW, {"n_jobs": 0}, r"n_jobs=0 is not a number of workers: 1, 2, ... or -1 for all cores \(--n-jobs\)"),
        (FEW, {"n_jobs": 1.5}, "n_jobs=1.5 is not a number of workers"),
        (FEW, {"n_resamples": 1}, "n_resamples=1 must be a whole number of 2 or more"),
        (FEW, {"scheme": "magic"}, "scheme='magic' is unknown"),
        (FEW, {"seed_sd": -1}, "seed_sd=-1 must be a finite number"),
        (FEW, {"confidence_level": 95}, "for 95 % give 0.95"),
        (FEW, {"compute": 0}, "compute=0: a budget is a positive, finite amount"),
        (FEW, {"compute": []}, r"compute=\[\]: a budget is"),
        (FEW, {"rng": -1}, "rng=-1 is not a seed"),
        (FEW, {"rng": 2**64}, "is too large for the table's column of seeds"),
        (FEW, {"on_error": "ignore"}, "on_error='ignore' is unknown"),
        (FEW, {"weights": [1]}, "weights= is an option of one fit"),
        (FEW, {"min_computee": 1}, "unknown option 'min_computee'"),
        (FEW, {"B_bounds": (5, 1)}, "B_bounds"),
        (FEW, {"read": {}}, "these are no paths"),
        (FEW, {"resume": True}, "resume= and overwrite= are about the table at out="),
        ("x.csv", {"read": {"colour": 1}}, "'colour': ...} is unknown; the options of reading are compute_column"),
        ([], {}, "no runs were given"),
        ({}, {}, "no runs were given"),
        ([Trace([0, 1], [0.1, 0.2])], {}, "run 1 has no name; give a mapping"),
        ([Trace([0, 1], [0.1, 0.2], name="a")] * 2, {}, "1 names stand for two runs or more, 'a' first"),
        ([FEW["run00"], "x.csv"], {}, "run 2 is a str: fit_many takes Traces or fits, or paths, not both|run 1 has no"),
        ({"a": 3}, {}, "run 1 is a int"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_before_any_work(runs, options, message):
    with pytest.raises(RLScalingError, match=message):
        fit_many(runs, **options)


def test_the_simulated_runs_are_what_they_are_meant_to_be():
    assert (len(some_runs()), N_RESAMPLES) == (N_RUNS, 100)
