"""Tests of `rlscaling/plotting/elements.py`."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.axes import Axes

from helpers.figures import drawn
from rlscaling import Trace, bootstrap, extrapolate, fit_sigmoid, fit_trace, plot_fit, plot_forecast
from rlscaling.fitting.sigmoid_fit import SigmoidFit, SigmoidParams
from rlscaling.plotting.runs import plot_runs


def legend(ax: Axes) -> list[str]:
    box = ax.get_legend()
    assert box is not None
    return [text.get_text() for text in box.get_texts()]


def line(ax: Axes, label: str):
    (found,) = [item for item in ax.lines if str(item.get_label()).startswith(label)]
    return found


def curve(ax: Axes):
    (found,) = [item for item in ax.lines if item.get_label() == "fit"]
    return found


def horizontals(ax: Axes) -> list[float]:
    """Heights of the lines that run across the whole axes: the ceiling."""
    return [item.get_ydata()[0] for item in ax.lines if list(item.get_xdata()) == [0, 1]]


def test_fit_shows_used_left_out_anchor_and_ceiling(whole: SigmoidFit) -> None:
    ax = plot_fit(whole, bootstrap=bootstrap(whole, n_resamples=100, rng=0))
    assert ax.get_title("left").startswith("approximate: A is known to within ±0.05")
    used, left_out = line(ax, "fitted"), line(ax, "left out")
    assert len(used.get_xdata()) == whole.n_points == 97
    assert len(left_out.get_xdata()) == 9
    assert left_out.get_markerfacecolor() == "none"
    anchor = line(ax, "anchor for R0")
    assert anchor.get_marker() == "D"
    assert anchor.get_xdata()[0] == ax.get_xticks()[0], "the anchor is at compute 0"
    assert horizontals(ax) == [whole.A]
    assert any(text.startswith("A = 0.61") for text in legend(ax))


def test_curve_is_solid_in_the_fitted_range_and_dashed_outside(whole: SigmoidFit) -> None:
    ax = plot_fit(whole)
    solid, dashed = curve(ax), line(ax, "outside")
    assert solid.get_linestyle() == "-"
    assert dashed.get_linestyle() == "--"
    assert (solid.get_xdata()[0], solid.get_xdata()[-1]) == whole.compute_range
    np.testing.assert_allclose(solid.get_ydata(), whole.predict(solid.get_xdata()))


def test_band_is_the_interval_of_the_draws(whole: SigmoidFit) -> None:
    boot = bootstrap(whole, n_resamples=100, rng=0)
    ax = plot_fit(whole, bootstrap=boot)
    (band,) = [patch for patch in ax.collections if "interval of the curve" in str(patch.get_label())]
    corners = band.get_paths()[0].vertices
    last = corners[:, 0].max()
    ends = corners[np.isclose(corners[:, 0], last), 1]
    expected = extrapolate(whole, last, bootstrap=boot).confidence_interval.at(0)
    np.testing.assert_allclose([ends.min(), ends.max()], expected)


@pytest.mark.parametrize("with_bootstrap", [False, True])
def test_unidentified_ceiling_is_hatched_and_has_no_line(early: SigmoidFit, with_bootstrap: bool) -> None:
    ax = plot_fit(early, bootstrap=bootstrap(early, n_resamples=200, rng=0) if with_bootstrap else None)
    assert ax.get_title("left").startswith("ceiling-not-identified: ")
    assert horizontals(ax) == []
    (strip,) = [patch for patch in ax.collections if patch.get_hatch()]
    assert strip.get_label().startswith("A not identified, 95 %: [")
    dashed = [item for item in ax.lines if item.get_linestyle() == "--"]
    assert max(item.get_xdata()[-1] for item in dashed) <= 2 * early.compute_range[1], "no curve beyond twice the data"


def test_falling_and_flat_have_no_ceiling_and_no_extrapolation(rng: np.random.Generator) -> None:
    C = np.arange(0.0, 16000, 400)
    for slope, verdict in ((-0.1, "falling"), (0.0, "flat")):
        fit = fit_sigmoid(C, 0.5 + slope * C / C[-1] + 0.005 * rng.standard_normal(len(C)))
        ax = plot_fit(fit, bootstrap=bootstrap(fit, n_resamples=50, rng=0))
        assert ax.get_title("left").startswith(verdict)
        assert horizontals(ax) == []
        curves = [item for item in ax.lines if item.get_linestyle() in ("-", "--") and len(item.get_xdata()) > 2]
        assert max(item.get_xdata()[-1] for item in curves) <= fit.compute_range[1]
        drawn(ax)


def test_given_ceiling_is_said() -> None:
    C = np.arange(0.0, 16000, 400)
    params = SigmoidParams(0.61, 1.9, 2500, 0.35)
    ax = plot_fit(fit_sigmoid(C, params.predict(C), A=0.61))
    assert "A = 0.61 (given)" in legend(ax)


def test_too_few_points_for_an_interval(demo: dict[str, Trace]) -> None:
    ax = plot_fit(fit_trace(demo["scalerl"].up_to(2200)))
    assert "A not identified" in legend(ax)
    assert horizontals(ax) == []
    drawn(ax)


def test_unbounded_scores_are_called_scores() -> None:
    C = np.linspace(10, 1000, 30)
    fit = fit_sigmoid(C, 300 + 200 / (1 + (100 / C) ** 2), A_max=math.inf, min_compute=0)
    assert plot_fit(fit).get_ylabel() == "score"


def test_forecast_shows_budgets_with_their_intervals(whole: SigmoidFit) -> None:
    boot = bootstrap(whole, n_resamples=100, rng=0)
    forecast = extrapolate(whole, [30_000, 100_000], bootstrap=boot)
    ax = plot_forecast(forecast, bootstrap=boot)
    for i, label in enumerate(("at 30,000: 0.60", "at 100,000: 0.61")):
        marker = line(ax, label)
        assert list(marker.get_ydata()) == [forecast.pass_rate[i]]
    bars = [item for item in ax.lines if item.get_label() == "_bar"]
    np.testing.assert_allclose(np.transpose([bar.get_ydata() for bar in bars]), forecast.confidence_interval)


def test_unsupported_budget_has_no_marker(early: SigmoidFit) -> None:
    ax = plot_forecast(extrapolate(early, [5000, 100_000], rng=0))
    assert line(ax, "at 5,000: ").get_marker() == "s"
    far = line(ax, "at 100,000: not identified [")
    assert far.get_marker() == "None"


def test_many_budgets_share_one_legend_entry(whole: SigmoidFit) -> None:
    labels = legend(plot_forecast(extrapolate(whole, np.geomspace(2e4, 1e5, 8), rng=0)))
    assert "forecast, 95 %" in labels
    assert not [label for label in labels if label.startswith("at ")]


def test_runs_are_labelled_at_their_ends_without_overlap(demo: dict[str, Trace]) -> None:
    fits = {name: fit_trace(demo[name]) for name in ("scalerl", "batch-512", "batch-2048")}
    boots = {name: bootstrap(fit, n_resamples=50, rng=0) for name, fit in fits.items()}
    ax = plot_runs(boots, compute=100_000)
    drawn(ax)
    texts = {text.get_text().partition(":")[0]: text for text in ax.texts}
    assert set(texts) == set(fits)
    boxes = sorted((text.get_window_extent() for text in texts.values()), key=lambda box: box.y0)
    assert all(below.y1 <= above.y0 + 1 for below, above in pairwise(boxes))
    assert len({text.get_color() for text in texts.values()}) == 3


@pytest.mark.filterwarnings("error")
def test_bug_a_constant_run_has_limits_of_some_height():
    ax = plot_fit(fit_sigmoid(np.arange(0, 16_001, 400.0), np.ones(41)))
    low, high = ax.get_ylim()
    assert low < 1.0 < high
