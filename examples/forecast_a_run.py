"""Fit a run that ships with the package, forecast it to 100,000 GPU-hours and draw the figure.

Run it with ``python forecast_a_run.py``; it writes ``forecast.png`` to the current folder.
"""

from __future__ import annotations

from rlscaling import bootstrap, compute_to_reach, datasets, extrapolate, fit_trace, plot_forecast

# A simulated run whose true ceiling is A = 0.61. For your own run: trace = rlscaling.read_trace("run.csv")
trace = datasets.load_demo()["scalerl"]

fit = fit_trace(trace)  # leaves out the first 1,500 GPU-hours; the evaluation at 0 is an observation of R0
draws = bootstrap(fit, rng=0)
print(draws)  # the verdict first, then the parameters with their intervals

forecast = extrapolate(fit, [30_000, 100_000], bootstrap=draws)
print(forecast)
print(compute_to_reach(fit, 0.58, bootstrap=draws))

# The same run after 3,000 GPU-hours: too early to tell, and the verdict says so.
early = fit_trace(trace.up_to(3000))
print(early)

ax = plot_forecast(forecast, bootstrap=draws)
ax.figure.savefig("forecast.png", dpi=150)
print("wrote forecast.png")

low, high = forecast.confidence_interval.at(-1)
assert str(fit.verdict) == "approximate"  # `identified` takes 8 C_mid; this run has shown 6
assert low < 0.61 < high
assert str(early.verdict) == "ceiling-not-identified"
