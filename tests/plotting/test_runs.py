"""Pictures: what they show and what they must not claim."""

from __future__ import annotations

import subprocess
import sys
from unittest.mock import MagicMock

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from helpers.figures import drawn
from rlscaling import bootstrap, datasets, extrapolate, fit_sigmoid, plot_fit, plot_trace
from rlscaling.errors import FitError
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.plotting.runs import plot_runs


def new_axes() -> Axes:
    return Figure(layout="constrained").add_subplot()


def test_runs_take_fits_and_forecasts_too(whole: SigmoidFit, early: SigmoidFit) -> None:
    ax = plot_runs({"fit": whole, "forecast": extrapolate(early, 5000, rng=0)}, compute=50_000)
    assert "fit: approximate\n0.60" in ax.texts[0].get_text() + ax.texts[1].get_text()
    drawn(ax)


def test_runs_refuse_mixed_units_and_nothing(whole: SigmoidFit) -> None:
    C = np.linspace(1e9, 2e10, 30)
    other = fit_sigmoid(C, 0.3 + 0.3 / (1 + (4e9 / C) ** 2), compute_unit="tokens", min_compute=0)
    with pytest.raises(
        FitError, match="compute is in gpu-hours, tokens; give one or more runs with compute in one unit"
    ):
        plot_runs({"a": whole, "b": other})
    with pytest.raises(FitError, match="no runs were given"):
        plot_runs({})


def test_bootstrap_of_another_fit_is_refused(whole: SigmoidFit, early: SigmoidFit) -> None:
    with pytest.raises(FitError, match="belongs to another fit"):
        plot_fit(early, bootstrap=bootstrap(whole, n_resamples=50, rng=0))


def test_draws_on_the_given_axes_and_opens_no_window(whole: SigmoidFit) -> None:
    before = pyplot.get_fignums()
    ax = new_axes()
    assert plot_fit(whole, ax=ax) is ax
    assert plot_trace(datasets.load_demo()["scalerl"], ax=new_axes()) is not ax
    assert plot_fit(whole) is not ax
    assert pyplot.get_fignums() == before
    assert plot_fit(whole, legend=False).get_legend() is None


def test_plotting_leaves_matplotlib_as_it_was(whole: SigmoidFit) -> None:
    script = (
        "import matplotlib as mpl, sys; names = set(mpl.rcParams) - {'backend'}\n"
        "before = {name: mpl.rcParams[name] for name in names}\n"
        "from rlscaling import datasets, fit_trace, plot_fit\n"
        "plot_fit(fit_trace(datasets.load_demo()['scalerl']))\n"
        "assert 'matplotlib.pyplot' not in sys.modules; assert before == {name: mpl.rcParams[name] for name in names}"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_same_numbers_same_picture(whole: SigmoidFit) -> None:
    assert drawn(plot_fit(whole)) == drawn(plot_fit(whole))


def test_in_a_notebook_the_figure_is_one_that_is_shown(whole: SigmoidFit, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("IPython", "IPython.core", "IPython.core.pylabtools"):  # older matplotlib looks into the last
        monkeypatch.setitem(sys.modules, name, MagicMock(version_info=(9, 0), backend2gui={}))
    ax = plot_fit(whole)
    assert ax.figure.number in pyplot.get_fignums()
    pyplot.close(ax.figure)
    pyplot.uninstall_repl_displayhook()
