"""Pictures of comparisons: what they show and what they must not claim."""

from __future__ import annotations

import io

import numpy as np
import pytest
from matplotlib.figure import Figure

from helpers.recipe_fits import SCALERL, C, fitted
from rlscaling import compare, leave_one_out, plot_comparison, plot_crossover, plot_loo
from rlscaling.errors import FitError


def axes():
    return Figure(figsize=(9, 5), layout="constrained").add_subplot()


def drawn(ax):
    stream = io.BytesIO()
    ax.figure.savefig(stream, format="png", dpi=40)
    return stream.getvalue()


@pytest.fixture(scope="module")
def comparison():
    slow = (0.645, 1.70, 10909.0, 0.35)
    fits = {
        "fast": [fitted(SCALERL, 1), fitted(SCALERL, 2)],
        "slow": fitted(slow, 3, compute=np.arange(0, 77) * 650.0),
        "early": fitted(slow, 4, compute=C[:38]),
    }
    return compare(fits, rng=0)


def test_a_comparison_names_every_recipe_with_its_value_at_the_budget(comparison):
    ax = axes()
    assert plot_comparison(comparison, ax) is ax
    texts = [text.get_text() for text in ax.texts]
    assert len(texts) == 3
    assert all("P(best)" in text for text in texts)
    (early,) = [text for text in texts if text.startswith("early")]
    assert "±" not in early, "a ceiling that is not identified has an interval and no value"
    assert ax.get_title("left").startswith("best at 100,000 GPU-hours: ")
    low, high = ax.get_ylim()
    assert low < 0.35
    assert 0.64 < high < 1.3
    assert drawn(ax)


def test_more_than_six_recipes_are_grey():
    rng = np.random.default_rng(0)
    fits = {f"r{k}": fitted((rng.uniform(0.55, 0.65), 1.9, 2500.0, 0.35), [9, k]) for k in range(9)}
    ax = plot_comparison(compare(fits, rng=0, n_resamples=100))
    assert len(ax.texts) == 6
    assert "3 more in grey" in ax.get_title("left")


def test_crossover_is_marked_where_it_is(comparison):
    ax = axes()
    plot_crossover(comparison, "fast", "slow", ax)
    crossing = comparison.crossover("fast", "slow")
    (point,) = [line for line in ax.lines if line.get_label() == "crossing"]
    assert point.get_xdata()[0] == crossing.compute
    assert ax.get_title("left").startswith("slow overtakes fast at")
    assert ax.get_ylabel() == "fast - slow"
    assert drawn(ax)


def test_no_crossing_is_said():
    fits = {"a": fitted((0.65, 1.9, 2500.0, 0.35)), "b": fitted((0.6, 1.9, 2500.0, 0.35))}
    ax = plot_crossover(compare(fits, rng=0), "b", "a")
    assert ax.get_title("left") == "a leads throughout"
    with pytest.raises(FitError, match="none of the compared recipes"):
        plot_crossover(compare(fits, rng=0), "b", "c")


def test_lines_of_leave_one_out_have_slope_B():
    fits = {"scalerl": fitted(SCALERL, 5), "loo-savg": fitted((0.61, 1.5, 2542.0, 0.35), 6)}
    loo = leave_one_out(fits, rng=0)
    ax = axes()
    plot_loo(loo, ax)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    for line, name in zip(
        [line for line in ax.lines if len(line.get_xdata()) == 2], ("scalerl", "loo-savg"), strict=True
    ):
        x, y = np.log(line.get_xdata()), np.log(line.get_ydata())
        assert (y[1] - y[0]) / (x[1] - x[0]) == pytest.approx(loo.to_frame().loc[name, "B"])
    assert [text.get_text().splitlines()[0] for text in ax.texts] == ["loo-savg", "scalerl"]
    assert "one ceiling A = 0.6" in ax.get_title("left")
    assert drawn(ax)


def test_names_with_dollars_are_text():
    fits = {"a$b$": fitted(SCALERL, 7), "c": fitted((0.6, 1.9, 2500.0, 0.35), 8)}
    comparison = compare(fits, rng=0)
    assert drawn(plot_comparison(comparison, axes()))
    assert drawn(plot_crossover(comparison, "a$b$", "c", axes()))
