"""Tests of `rlscaling/plotting/compute_axis.py`."""

from __future__ import annotations

from rlscaling import Trace, plot_trace


def test_axis_is_logarithmic_with_a_place_for_zero(demo: dict[str, Trace]) -> None:
    ax = plot_trace(demo["scalerl"])
    assert ax.get_xscale() == "log"
    ax.figure.canvas.draw()
    labels = [text.get_text() for text in ax.get_xticklabels()]
    assert labels[0] == "0"
    assert "10,000" in labels
    zero, first = ax.get_xticks()[0], demo["scalerl"].compute[1]
    assert ax.get_xlim()[0] < zero < first
    assert ax.get_xlabel() == "compute (GPU-hours)"
    assert ax.get_ylabel() == "held-out pass rate"
    assert "(simulated)" in ax.get_title("left")


def test_without_an_evaluation_at_zero_there_is_no_zero() -> None:
    ax = plot_trace(Trace([1e9, 2e9, 5e10], [0.3, 0.35, 0.4], compute_unit="tokens", name="t"))
    ax.figure.canvas.draw()
    labels = [text.get_text() for text in ax.get_xticklabels()]
    assert "0" not in labels
    assert "$10^{9}$" in labels
    assert ax.get_xlabel() == "compute (tokens)"
