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
# # Train two recipes, fit both
#
# The bundled trainer runs the whole ScaleRL recipe (arXiv 2510.13786) on a task so small that a CPU core needs
# minutes for a run, and so plain that the best possible pass rate is *known*. So a fit can be checked against the
# truth.
#
# The question here is one of the paper's: what does stale data cost? `scalerl` trains on batches that are one or two
# steps old, `scalerl-lag8` on batches that are eight steps old, all else equal. Settings are shortened, the code is
# the same; it needs torch (`pip install 'rlscaling[trainer]'`).

# %%
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from rlscaling import fit_trace, plot_fit, read_trace
from rlscaling.trainer import make_config, train

SHORT = {"n_digits": 4, "n_train_prompts": 3200, "steps": 500, "eval_every": 20, "eval_prompts": 256}
folder = Path(mkdtemp())

results = {name: train(make_config(name, **SHORT), folder / name) for name in ("scalerl", "scalerl-lag8")}
{name: f"{result.rows[-1]['wall_time']:.0f} s" for name, result in results.items()}

# %% [markdown]
# A run leaves a trace: one line a step, one more for each evaluation on held-out prompts. The task sorts four digits
# of which one may be hidden; a hidden digit can only be guessed, and that is the ceiling in the header of the trace.

# %%
traces = {name: read_trace(folder / name, compute_column="step", compute_unit="steps") for name in results}
ceiling = traces["scalerl"].metadata["ceilings"]["hidden-sort"]
print(f"best possible pass rate: {ceiling:.3f}")
traces["scalerl"]

# %% [markdown]
# ## How stale is the data?
#
# Every token knows which version of the weights sampled it. A virtual clock decides what is in flight when, so the
# lags are the same in every repetition of a run.

# %%
steps = {name: [row for row in result.rows if row["kind"] == "train"] for name, result in results.items()}
lag = {name: np.mean([row["lag_mean"] for row in rows]) for name, rows in steps.items()}
largest_ratio = {name: np.median([row["ratio_max"] for row in rows]) for name, rows in steps.items()}
print("mean age of a batch, in steps:    ", {name: round(float(value), 1) for name, value in lag.items()})
print("largest importance ratio, median: ", {name: round(float(value), 1) for name, value in largest_ratio.items()})

# %% [markdown]
# ## What do the traces tell?
#
# The fit begins after the first epoch, which the trace records. The verdict comes first: of so short a run, the
# ceiling is known roughly at best, and the fit says how much further to run.

# %%
fits = {name: fit_trace(trace, min_compute="epoch") for name, trace in traces.items()}
fits["scalerl"]

# %%
ax = plot_fit(fits["scalerl"])
ax.plot(traces["scalerl-lag8"].compute, traces["scalerl-lag8"].pass_rate, "s", ms=4, color="C1", label="scalerl-lag8")
ax.axhline(ceiling, color="0.4", ls=":", label="best possible")
ax.legend()

# %% [markdown]
# ## Conclusion

# %%
low, high = fits["scalerl"].confidence_interval["A"]
late = {name: float(trace.pass_rate[-5:].mean()) for name, trace in traces.items()}
print(f"interval of the ceiling of scalerl: {low:.2f} to {high:.2f}; the truth is {ceiling:.2f}")
print(f"pass rate at the end: fresh {late['scalerl']:.3f}, 8 steps old {late['scalerl-lag8']:.3f}")

assert lag["scalerl"] < 2 < 7 < lag["scalerl-lag8"]
assert low < ceiling < high
assert late["scalerl"] > late["scalerl-lag8"] + 0.03
assert traces["scalerl"].pass_rate[0] < 0.1
