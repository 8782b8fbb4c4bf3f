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
# The bundled trainer runs the complete ScaleRL recipe (arXiv 2510.13786) on a task so small that a run takes minutes on
# one CPU core, and so simple that the best possible pass rate is *known*. A fit can therefore be checked against the
# true ceiling.
#
# The question here is one of the paper's: what does stale data cost? `scalerl` trains on batches that are one or two
# steps old, `scalerl-lag8` on batches that are eight steps old, with everything else equal. The runs are shorter than
# by default, but the code is the same; it needs torch (`pip install 'rlscaling[trainer]'`).

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
# A run writes a trace: one line per step, and one more for each evaluation on held-out prompts. The task is to sort
# four digits, one of which may be hidden. A hidden digit can only be guessed, which determines the ceiling recorded in
# the header of the trace.

# %%
traces = {name: read_trace(folder / name, compute_column="step", compute_unit="steps") for name in results}
ceiling = traces["scalerl"].metadata["ceilings"]["hidden-sort"]
print(f"best possible pass rate: {ceiling:.3f}")
traces["scalerl"]

# %% [markdown]
# ## How stale is the data?
#
# Every token records which version of the weights sampled it. A virtual clock decides which completions are in flight
# at what time, so the lags are the same in every repetition of a run.

# %%
steps = {name: [row for row in result.rows if row["kind"] == "train"] for name, result in results.items()}
lag = {name: np.mean([row["lag_mean"] for row in rows]) for name, rows in steps.items()}
largest_ratio = {name: np.median([row["ratio_max"] for row in rows]) for name, rows in steps.items()}
print("mean age of a batch, in steps:    ", {name: round(float(value), 1) for name, value in lag.items()})
print("largest importance ratio, median: ", {name: round(float(value), 1) for name, value in largest_ratio.items()})

# %% [markdown]
# ## What do the traces show?
#
# The fit begins after the first epoch, whose end the trace records. The verdict comes first: after such a short run the
# ceiling is known only roughly at best, and the fit says how much longer to train.

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
print(f"ceiling of scalerl, 95 % interval: {low:.2f} to {high:.2f}; true value {ceiling:.2f}")
print(f"final pass rate: fresh data {late['scalerl']:.3f}, data 8 steps old {late['scalerl-lag8']:.3f}")

assert lag["scalerl"] < 2 < 7 < lag["scalerl-lag8"]
assert low < ceiling < high
assert late["scalerl"] > late["scalerl-lag8"] + 0.03
assert traces["scalerl"].pass_rate[0] < 0.1
