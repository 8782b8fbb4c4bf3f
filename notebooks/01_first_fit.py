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
# # A first fit: from 8,000 GPU-hours to 100,000
#
# What will each of two recipes reach at 100,000 GPU-hours, and how sure is that? The runs here are *simulated* from
# Table 1 of "The Art of Scaling Reinforcement Learning Compute for LLMs" (arXiv 2510.13786), so the true values are
# known: the ceiling of `scalerl` is 0.610, that of `batch-2048` is 0.645. Notebook 3 has the real runs of the paper.

# %%
import matplotlib.pyplot as plt

from rlscaling import (
    bootstrap,
    compute_to_reach,
    cutoff_sensitivity,
    datasets,
    extrapolate,
    fit_curve,
    fit_trace,
    plot_fit,
    plot_forecast,
)

runs = datasets.load_demo()
runs["scalerl"]

# %% [markdown]
# ## Early: the verdict comes first
#
# After 8,000 GPU-hours `scalerl` has passed its bend (the data end at three times `C_mid`). A fit prints its verdict
# before any number; in a notebook it is displayed as a table.

# %%
early = fit_trace(runs["scalerl-8k"])
early

# %% [markdown]
# `batch-2048` is slower: at 12,000 GPU-hours it has made half of its gain, and the honest answer is that its ceiling is
# not identified. The fit says how much longer to train.

# %%
slow_early = fit_trace(runs["batch-2048"].up_to(12_000))
print(slow_early)

# %% [markdown]
# ## Was the early forecast right?
#
# The fit to the first half also gives a forecast for 16,000 GPU-hours. The run continued, so we can check it.

# %%
forecast_16k = extrapolate(early, 16_000, rng=0)
seen = float(runs["scalerl"].pass_rate[-8:].mean())
low, high = forecast_16k.confidence_interval.at(0)
print(f"forecast from 8k: {forecast_16k.pass_rate[0]:.3f} (95 %: {low:.3f} to {high:.3f}); the run: {seen:.3f}")

# %% [markdown]
# ## Both complete runs, at 100,000 GPU-hours

# %%
fits = {name: fit_trace(runs[name]) for name in ("scalerl", "batch-2048")}
boots = {name: bootstrap(fit, rng=0) for name, fit in fits.items()}
forecasts = {name: extrapolate(fit, bootstrap=boots[name]) for name, fit in fits.items()}
forecasts["batch-2048"]

# %%
figure, axes = plt.subplots(1, 2, figsize=(12, 4.5), sharey=True)
for ax, forecast in zip(axes, forecasts.values(), strict=True):
    plot_forecast(forecast, ax=ax)
figure.tight_layout()

# %% [markdown]
# Both are `approximate`: they have shown five to six `C_mid`, and `identified` takes eight, because until then a curve
# that comes to its ceiling more slowly than a sigmoid looks the same. The intervals for *this run* and for *a new run*
# of this recipe differ, because seeds of one recipe end up to 0.015 apart in `A`; the second one includes this spread.

# %%
boots["batch-2048"]

# %% [markdown]
# How much compute does each need to reach 0.58?

# %%
for name, fit in fits.items():
    print(f"{name}: {compute_to_reach(fit, 0.58, bootstrap=boots[name])}")

# %% [markdown]
# ## The effect of the cutoff, and of a power law instead
#
# Evaluations before 1,500 GPU-hours are left out by default. It is worth checking that `A` does not depend on this
# cutoff:

# %%
print(cutoff_sensitivity(runs["scalerl"]))

# %% [markdown]
# A power law fitted to the first 50,000 hours of such a run predicts a ceiling far above what the run reaches (ScaleRL,
# appendix A.4). It is shown here for comparison only.

# %%
half = runs["batch-2048"].up_to(25_000)
power = fit_curve(half.compute, half.pass_rate, form="power-law")
sigmoid = fit_trace(half)
print(f"from 25k hours: power law A = {power.params['A']:.3f}, sigmoid A = {sigmoid.A:.3f} (true: 0.645)")

# %%
plot_fit(fits["scalerl"], bootstrap=boots["scalerl"])

# %% [markdown]
# ## Checking the claims above

# %%
assert str(early.verdict) == "approximate"
assert str(slow_early.verdict) == "ceiling-not-identified"
assert slow_early.compute_needed.median > 12_000
assert all(str(fit.verdict) == "approximate" for fit in fits.values())
assert low - 0.01 < seen < high + 0.01
for name, truth in (("scalerl", 0.610), ("batch-2048", 0.645)):
    a_low, a_high = boots[name].confidence_interval["A"]
    assert a_low < truth < a_high, name
assert power.params["A"] > sigmoid.A + 0.05
