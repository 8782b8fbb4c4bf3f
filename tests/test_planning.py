"""Backtests, plans and the monitor: closed forms, planted changes, bad input."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from rlscaling import (
    FitError,
    Trace,
    allocate,
    backtest,
    datasets,
    fit_sigmoid,
    fit_trace,
    monitor,
    plan,
    plot_backtest,
    plot_plan,
    refit,
    simulate,
)
from rlscaling.monitoring import reference_fit

TRUTH = datasets.table1()["scalerl"]
RUN = datasets.load_demo()["scalerl"]


def test_backtest_of_a_noise_free_sigmoid_is_exact() -> None:
    trace = simulate(TRUTH, compute=np.arange(0, 16_001, 200.0), n_prompts=None, name="exact")
    found = backtest(trace, cutoffs=[8000], rng=0)
    assert found.score("sigmoid", 2.0).median_error < 1e-6
    late = trace.compute > 0.8 * 16_000
    last = float(np.mean(trace.pass_rate[trace.compute <= 8000][-2:]))  # the last twentieth of 41
    assert found.score("last_value", 2.0).median_error == pytest.approx(abs(last - trace.pass_rate[late].mean()))
    assert found.score("sigmoid", 2.0).wins == 1


def test_backtest_counts_what_its_table_says() -> None:
    found = backtest(RUN, models=("sigmoid", "last_value"), rng=0)
    frame = found.to_frame()
    chosen = frame[(frame.model == "sigmoid") & (frame.beyond <= 2.0 * (1 + 1e-9))]
    held = int(((chosen.low <= chosen.actual) & (chosen.actual <= chosen.high)).sum())
    score = found.score("sigmoid", 2.0)
    assert (score.held, score.of) == (held, len(chosen))
    assert found.to_dict()["scores"][0]["held"] == held
    assert str(found).startswith("on this run a forecast to 2x (sigmoid) has been off by")
    assert "nearest at 2x" in found.advice
    assert found.headline in found._repr_html_()


def test_backtest_refuses_bad_input() -> None:
    with pytest.raises(FitError, match="no later evaluations"):
        backtest(RUN, cutoffs=[16_000])
    with pytest.raises(FitError, match="cutoff 300: .* too few"):
        backtest(RUN, cutoffs=[300])
    with pytest.raises(FitError, match="choose from"):
        backtest(RUN, models=("crystal_ball",))
    with pytest.raises(FitError, match="takes a Trace"):
        backtest(fit_trace(RUN))  # type: ignore[arg-type]
    with pytest.raises(FitError, match="first half of the run cannot be fitted"):
        backtest(RUN.up_to(3500.0))
    with pytest.raises(FitError, match="not backtested"):
        plot_backtest(backtest(RUN, cutoffs=[8000], rng=0), model="auto")


def test_plot_backtest_draws_every_cutoff() -> None:
    ax = plot_backtest(backtest(RUN, cutoffs=[5000, 8000], rng=0), model="sigmoid")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["evaluations", "from 5,000", "from 8,000"]


def test_plot_plan_draws_every_way_and_marks_what_never_comes() -> None:
    found = plan(fit_trace(RUN, max_compute=5000), rng=0)
    ax = plot_plan(found)
    assert [label.get_text() for label in ax.get_yticklabels()] == [way.name for way in found.ways]
    bars = [line for line in ax.lines if line.get_linewidth() == 7]
    for bar, way in zip(bars, found.ways, strict=True):
        assert bar.get_xdata()[0] == pytest.approx(way.compute.low)
    never = plot_plan(plan(fit_trace(RUN, max_compute=5000), target_half_width=1e-7, rng=0))
    assert sum(line.get_marker() == ">" for line in never.lines) == len(found.ways)
    assert "no run length" in never.get_title("left")
    assert (
        plot_plan(plan(fit_trace(RUN), target_half_width=0.1, rng=0))
        .get_title("left")
        .startswith("[scalerl] A is known")
    )


def test_plan_grows_with_the_demand_and_says_when_reached() -> None:
    fit = fit_trace(RUN, max_compute=5000)
    loose, tight = (plan(fit, target_half_width=x, rng=0).needed for x in (0.04, 0.01))
    assert fit.compute_range[1] <= loose.low <= loose.median <= loose.high
    assert tight.median > loose.median
    done = plan(fit_trace(RUN), rng=0)
    assert done.reached
    assert done.needed is None
    assert str(done).startswith("A is known to ±0.02 already")
    assert done.to_dict()["reached"] is True


def test_plan_alternatives_never_need_more() -> None:
    found = plan(fit_trace(RUN, max_compute=5000), target_half_width=0.01, rng=0)
    now, often, prompts = (way.compute.median for way in found.ways)
    assert often <= now
    assert prompts <= now
    assert [way.name for way in found.ways] == ["as now", "twice as often", "4 times the prompts"]


def test_more_prompts_help_as_far_as_sampling_is_the_noise() -> None:
    """White noise that is all sampling: four times the prompts are a quarter of the variance."""
    from rlscaling.planning import _rate

    rho, sd = np.array([0.0, 0.9]), np.array([0.01, 0.01])
    assert _rate(1e-4, 1.0, 4.0)(rho, sd)[0] == pytest.approx(4.0)
    assert _rate(1e-4, 2.0, 1.0)(rho, sd)[0] == pytest.approx(2.0)
    assert np.all(_rate(0.0, 1.0, 4.0)(rho, sd) == pytest.approx(1.0))


def test_stop_advice_matches_the_curve_late() -> None:
    found = plan(fit_trace(RUN), next_compute=10_000, rng=0)
    true_gain = float(TRUTH.predict(26_000) - TRUTH.predict(16_000))
    assert abs(found.gain - true_gain) < 2.5 * found.gain_error
    assert found.stop_advice.startswith("the next 10,000 GPU-hours buy")


def test_plan_of_rewards_takes_shares_of_their_range() -> None:
    part = RUN.up_to(5000)
    fits = [fit_sigmoid(part.compute, unit * part.pass_rate - 30, A_max=np.inf) for unit in (1.0, 50.0)]
    one, other = (plan(fit, rng=0) for fit in fits)
    assert other.present == pytest.approx(one.present, rel=1e-6)
    assert other.needed.median == pytest.approx(one.needed.median, rel=0.05)
    assert [width for _, width in other.seeds] == pytest.approx([width for _, width in one.seeds], rel=1e-6)


def test_plan_is_the_same_for_the_same_seed() -> None:
    fit = fit_trace(RUN, max_compute=6000)
    assert plan(fit, at=20_000, rng=1).to_dict() == plan(fit, at=20_000, rng=1).to_dict()


def test_plan_refuses_or_says_so() -> None:
    fit = fit_trace(RUN, max_compute=5000)
    with pytest.raises(FitError, match="not a positive number"):
        plan(fit, target_half_width=0.0)
    with pytest.raises(FitError, match="seed_sd=-0.1 must be"):
        plan(fit, seed_sd=-0.1)
    with pytest.raises(FitError, match="A was given as 0.6"):
        plan(refit(fit, A=0.6))
    with pytest.raises(FitError, match="too few for a plan"):
        plan(fit_trace(RUN, max_compute=2500))
    with pytest.raises(FitError, match="takes a SigmoidFit"):
        plan(RUN)  # type: ignore[arg-type]
    unreachable = plan(fit, target_half_width=1e-7, rng=0)
    assert "no run length" in unreachable.headline
    assert unreachable.to_dict()["ways"][0]["median"] is None
    C = np.arange(0.0, 16_001.0, 400.0)
    flat = fit_trace(Trace(C, 0.4 + 0.005 * np.random.default_rng(0).standard_normal(len(C))))
    assert plan(flat, rng=0).headline.startswith("no plan: the verdict is flat")


def test_monitor_is_quiet_on_the_curve_and_notices_a_fall() -> None:
    fit = fit_trace(RUN, max_compute=9000)
    healthy = monitor(RUN, fit)
    assert healthy.status == "healthy"
    assert healthy.cusum.max() < healthy.limit
    late = np.maximum(np.cumsum(RUN.compute > 12_000), 0)
    fallen = monitor(Trace(RUN.compute, RUN.pass_rate - 0.01 * late), fit)
    assert fallen.status == "alarm"
    assert fallen.direction == "below"
    noticed = fallen.alarms[0].compute
    assert np.sum((RUN.compute > 12_000) & (RUN.compute <= noticed)) <= 12
    assert fallen.headline.startswith("alarm: the run has left its curve: below it")
    assert fallen.to_dict()["alarms"][0]["kind"] == "left-curve"
    assert str(healthy).splitlines()[0].startswith("healthy")


def test_residuals_of_healthy_runs_are_standard_normal() -> None:
    """Sum of squares of 8 runs' residuals, chi-square: between 0.6 and 1.3 of its mean (the noise is taken large)."""
    z = []
    for seed in range(8):
        trace = simulate(TRUTH, compute=np.arange(0, 16_000, 216.2), rho=0.5, wander_sd=0.005, rng=seed)
        z.append(monitor(trace, fit_trace(trace, max_compute=8500)).z)
    assert 0.6 < np.mean(np.concatenate(z) ** 2) < 1.3


def with_columns(**columns: np.ndarray) -> Trace:
    return dataclasses.replace(RUN, columns={**RUN.columns, **columns})


def test_monitor_warns_of_truncation_entropy_and_a_stall() -> None:
    fit, n = fit_trace(RUN, max_compute=9000), len(RUN)
    trace = with_columns(truncation_rate=np.linspace(0.02, 0.15, n), entropy=np.geomspace(1.0, 0.01, n))
    kinds = [alarm.kind for alarm in monitor(trace, fit).alarms]
    assert kinds == ["truncation", "entropy"]
    fine = with_columns(truncation_rate=np.full(n, 0.09), entropy=np.geomspace(1.0, 0.1, n))
    assert monitor(fine, fit).healthy
    logged = with_columns(wall_time=600.0 * np.arange(n))
    assert monitor(logged, fit, idle=2900.0).healthy
    (alarm,) = monitor(logged, fit, idle=3100.0).alarms
    assert "no row for 3,100 s, where one came every 600 s" in alarm.message


def test_monitor_refuses_what_it_cannot_watch() -> None:
    fit = fit_trace(RUN, max_compute=9000)
    with pytest.raises(FitError, match="the trace is in tokens"):
        monitor(dataclasses.replace(RUN, compute_unit="tokens"), fit)
    with pytest.raises(FitError, match="too few to watch"):
        monitor(RUN, fit_trace(RUN, max_compute=2500))
    with pytest.raises(FitError, match="takes a Trace and a SigmoidFit"):
        monitor(fit, RUN)  # type: ignore[arg-type]
    C = np.arange(0.0, 8001.0, 200.0)
    flat = Trace(C, 0.4 + 0.005 * np.random.default_rng(0).standard_normal(len(C)))
    with pytest.raises(FitError, match="no curve to leave"):
        monitor(flat, fit_trace(flat))
    assert monitor(RUN.up_to(9000), fit).status == "waiting"
    assert "make the fit anew" in monitor(RUN, fit_trace(RUN, max_compute=5000)).notes[0]


def test_reference_lies_well_before_the_end() -> None:
    assert reference_fit(RUN.up_to(3200)) is None
    for end in (6000.0, 9000.0, 16_000.0):
        last = RUN.up_to(end).compute[-1]
        assert 1.3 < last / reference_fit(RUN.up_to(end)).compute_range[1] < 2.2


def test_shares_follow_the_rule_of_chen() -> None:
    """Three recipes, leader first: shares of the others as (error / gap)^2, the leader's by its root."""
    from rlscaling.allocation import _shares

    error = np.array([0.01, 0.02, 0.01])
    found = _shares(np.array([0.6, 0.56, 0.58]), error, np.array([0.8, 0.1, 0.1]))
    w = np.array([0.0, (0.02 / 0.04) ** 2, (0.01 / 0.02) ** 2])
    w[0] = 0.01 * np.sqrt(np.sum((w / error) ** 2))
    assert found == pytest.approx(w / w.sum())
    assert _shares(np.array([0.6, 0.5]), error[:2], np.array([0.99, 0.01])).tolist() == [1.0, 0.0]


def test_allocate_gives_nothing_to_runs_off_the_law() -> None:
    C, rng = np.arange(0.0, 16_001.0, 400.0), np.random.default_rng(0)
    noise = 0.005 * rng.standard_normal((2, len(C)))
    flat, falling = fit_trace(Trace(C, 0.4 + noise[0])), fit_trace(Trace(C, 0.6 - 0.2 * C / 16_000 + noise[1]))
    split = allocate({"a": fit_trace(RUN), "flat": flat, "down": falling}, 1e4, rng=0)
    assert {s.recipe: s.compute for s in split.shares} == {"a": pytest.approx(1e4), "flat": 0.0, "down": 0.0}
    with pytest.raises(FitError, match="every run is flat, falling or no sigmoid"):
        allocate({"flat": flat, "down": falling}, 1e4)
    assert "buy" not in str(plan(falling, rng=0))


def test_allocate_drops_the_hopeless_and_refuses_bad_input() -> None:
    fits = {"good": fit_trace(RUN), "bad": fit_trace(Trace(RUN.compute, 0.5 * RUN.pass_rate))}
    found = allocate(fits, 10_000, at=32_000, rng=0)
    assert found.headline == "extend good by 10,000 GPU-hours; drop bad"
    assert found.to_dict()["shares"][1]["compute"] == 0.0
    assert str(found).startswith("extend good")
    with pytest.raises(FitError, match="two recipes or more"):
        allocate({"good": fits["good"]}, 10_000)
    with pytest.raises(FitError, match="budget is a positive"):
        allocate(fits, -1.0)
    with pytest.raises(FitError, match="one unit"):
        allocate(fits | {"t": refit(fits["good"], compute_unit="steps", min_compute=0)}, 10_000)
