"""The report: what stands on the page, that it needs nothing else, its size, and the command that writes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.report_pages import DEMO, Page
from rlscaling import FitError, Trace, datasets, fit_trace, make_report, simulate

TRUTH = datasets.table1()["scalerl"]


def test_numbers_are_those_of_the_results(report) -> None:
    page = Page(report.html)
    best = report.comparison.leader
    assert f"{best} is" in page.text[1]
    first = report.runs[0]
    assert first.name == best
    assert page.text.count(str(first.fit.verdict)) >= 1
    low, high = first.bootstrap.confidence_interval["A"]
    assert any(text == f"[{low:.3f}, {high:.3f}]" for text in page.text)
    assert first.backtest.headline in page.text
    assert first.plan.headline in page.text


def test_the_same_seed_gives_the_same_page(report) -> None:
    again = make_report(
        {name: DEMO[name] for name in ("scalerl", "batch-2048")} | {"three": DEMO["scalerl"].up_to(500)}, rng=0
    )
    assert again.html == report.html


def test_fifty_runs_with_many_points_stay_under_a_megabyte() -> None:
    C = np.arange(0.0, 16_000.0, 16.0)
    runs = {f"run-{k}": simulate(TRUTH, compute=C if k < 3 else C[::20], rng=k, wander_sd=0.005) for k in range(20)}
    report = make_report(runs, rng=0, n_resamples=100)
    assert sum(run.detailed for run in report.runs) == 8
    assert len(report.html.encode()) < 1e6
    assert "12 more runs have their row among the verdicts" in " ".join(Page(report.html).text)


def test_a_run_of_many_evaluations_stays_small() -> None:
    C = np.geomspace(50.0, 16_000.0, 20_000)
    report = make_report({"big": simulate(TRUTH, compute=C, rng=0)}, rng=0, n_resamples=100)
    assert len(report.html.encode()) < 1e6


def test_a_fit_and_other_units_have_a_report_too() -> None:
    steps = Trace(DEMO["scalerl"].compute, DEMO["scalerl"].pass_rate, compute_unit="steps")
    report = make_report({"a": fit_trace(steps, min_compute=1500), "b": steps}, min_compute=1500, rng=0)
    text = Page(report.html).text
    assert report.comparison is None
    assert "no budget was given" in report.not_compared
    assert any(line.startswith("no backtest: a saved fit holds no trace") for line in text)


def test_what_cannot_be_reported_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FitError, match="no run could be fitted: x: "):
        make_report({"x": DEMO["scalerl"].up_to(500)})
    with pytest.raises(FitError, match="weights= is an option of one fit; give make_report the fits"):
        make_report({"a": DEMO["scalerl"]}, weights=[1.0])
    with pytest.raises(FitError, match="no runs were given"):
        make_report({})
    with pytest.raises(FitError, match="takes runs by name"):
        make_report([DEMO["scalerl"]])
    with pytest.raises(FitError, match="'zzz', which is none of the runs"):
        make_report({"x": DEMO["scalerl"]}, recipes={"zzz": "q"})
    steps = Trace(DEMO["scalerl"].compute, DEMO["scalerl"].pass_rate, compute_unit="steps")
    with pytest.raises(FitError, match="gpu-hours and steps; make a report for each"):
        make_report({"x": DEMO["scalerl"], "y": steps}, min_compute=0)
    taken = tmp_path / "r.html"
    taken.write_text("mine")
    report = make_report({"scalerl": DEMO["scalerl"]}, rng=0, n_resamples=100)
    with pytest.raises(FitError, match="exists and is not written over"):
        report.write(taken)
    with pytest.raises(FitError, match="does not exist"):
        report.write(tmp_path / "none" / "r.html")
    with pytest.raises(FitError, match="is a folder"):
        report.write(tmp_path, overwrite=True)
    assert taken.read_text() == "mine"
    report.write(taken, overwrite=True)
    assert taken.read_text().startswith("<!doctype html>")
    assert [file.name for file in tmp_path.iterdir()] == ["r.html"]


def test_budgets_may_be_given_by_their_old_name_until_1_0() -> None:
    report = make_report({"scalerl": DEMO["scalerl"]}, at=50_000, rng=0, n_resamples=100)
    assert report.at == report.compute == (50_000.0,)
