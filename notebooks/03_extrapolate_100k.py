# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # From an early log to 100,000 GPU-hours
#
# What can be said about 100,000 GPU-hours after 3,000, 8,000, 16,000 or 25,000? The run here is *simulated* from
# Table 1 of "The Art of Scaling Reinforcement Learning Compute for LLMs" (arXiv 2510.13786), batch 2048: its ceiling is
# 0.645, half of the gain is reached at 10,909 GPU-hours, and at 100,000 it reaches 0.638. It is evaluated on 1,000
# prompts x 16 samples every 216 hours, with correlated training noise like that of real held-out curves.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from rlscaling import (
    Trace,
    backtest,
    bootstrap,
    cutoff_sensitivity,
    datasets,
    extrapolate,
    fit_power_law,
    fit_trace,
    plan,
    plot_backtest,
    plot_forecast,
    simulate,
)

truth = datasets.table1()["batch-2048"]
at_100k = float(truth.predict(100_000))
run = simulate(truth, compute=np.arange(0, 100_001, 216.2), rng=1, rho=0.6, wander_sd=0.004)
run

# %% [markdown]
# ## The same forecast at different times

# %%
ENDS = (3_000, 8_000, 16_000, 25_000, 50_000)
forecasts = {end: extrapolate(fit_trace(run.up_to(end)), 100_000, rng=0) for end in ENDS}
pd.DataFrame(
    [
        {
            "data to": end,
            "verdict": str(f.fit.verdict),
            "R at 100k": round(float(f.pass_rate[0]), 3) if f.supported[0] else "not identified",
            "95 %": np.round(f.confidence_interval.at(0), 3).tolist(),
            "times the data": round(float(f.beyond[0]), 1),
        }
        for end, f in forecasts.items()
    ]
)

# %% [markdown]
# A 3,000-hour log says nothing about 100,000 hours, so the forecast is an interval without a number. Once the run has
# passed its bend, from about 1.5 times `C_mid` on, there is a number, and its interval narrows with every further
# hour.

# %%
figure, axes = plt.subplots(1, 2, figsize=(14, 4.8), layout="constrained", sharey=True)
for ax, end in zip(axes, (8_000, 25_000), strict=True):
    f = forecasts[end]
    plot_forecast(f, ax=ax, bootstrap=bootstrap(f.fit, rng=0))
    ax.axhline(at_100k, color="#777777", lw=0.8, ls=":")

# %% [markdown]
# The dotted line is what the run actually reaches. How much longer must it run until its ceiling is known to ±0.02?
# Make a plan at 8,000 GPU-hours, and repeat it later:

# %%
early = forecasts[8_000].fit
needed = plan(early, rng=0)
needed

# %% [markdown]
# ## Does the result depend on the cutoff?
#
# The paper leaves out the first 1,500 GPU-hours. It is worth checking whether `A` depends on this choice:

# %%
sensitivity = cutoff_sensitivity(run.up_to(25_000))
print(sensitivity)

# %% [markdown]
# ## A power law instead? (appendix A.4)
#
# `A - D / C**B` is the tail of the sigmoid. Fitted to a window that begins during the rise, it predicts a ceiling that
# is never reached. This is `A` of both laws over the paper's three windows, without noise and with it:

# %%
clean = Trace(run.compute, truth.predict(run.compute))
rows = []
for low, high in ((1_500, 50_000), (5_000, 50_000), (30_000, 60_000)):
    for what, trace in (("no noise", clean), ("noise", run)):
        inside = (trace.compute >= low) & (trace.compute <= high)
        power = fit_power_law(trace.compute[inside], trace.pass_rate[inside], min_compute=0)
        sigmoid = fit_trace(trace, min_compute=low, max_compute=high)
        rows.append({"from": low, "to": high, "data": what, "power law A": power.A, "sigmoid A": sigmoid.A})
laws = pd.DataFrame(rows).round(3)
laws

# %% [markdown]
# From 1,500 hours the power law ends at its bound, from 5,000 hours it gives 0.745, and it only agrees with the sigmoid
# where the curve has flattened. The sigmoid gives 0.645 in every window.

# %% [markdown]
# ## Were earlier forecasts right?
#
# A backtest applies the same check to the run itself: it fits each beginning of the run and compares the forecast with
# what was observed later. Show it beside every forecast on which a decision depends.

# %%
result = backtest(
    run.up_to(50_000), cutoffs=[12_500, 25_000], methods=("sigmoid", "power-law", "last-value", "averaged"), rng=0
)
plot_backtest(result)
result

# %% [markdown]
# ## Checking the claims above

# %%
assert not forecasts[3_000].supported[0]
assert not forecasts[8_000].supported[0]
assert all(forecasts[end].supported[0] for end in (25_000, 50_000))
for end, f in forecasts.items():
    low, high = f.confidence_interval.at(0)
    assert low <= at_100k <= high, end
widths = [float(np.ptp(forecasts[end].confidence_interval.at(0))) for end in ENDS]
assert widths[-1] < 0.02 < 0.2 < widths[0]
assert needed.needed is not None
assert needed.needed.median > 8_000
assert sensitivity.moves < 0.05
noise_free = laws[laws["data"] == "no noise"]
assert noise_free["power law A"].tolist() == [1.0, 0.745, 0.648]
assert noise_free["sigmoid A"].tolist() == [0.645, 0.645, 0.645]
assert laws["power law A"].iloc[1] > 0.95
assert abs(laws["sigmoid A"].iloc[1] - 0.645) < 0.01
assert result.score("sigmoid", 2.0).median_error < result.score("last-value", 2.0).median_error
