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
# # Your own logs
#
# From the files that a trainer leaves on disk to a fit, a forecast and a page to share. The notebook writes its own
# logs, so that it runs anywhere: one in the format of verl's file logger, one as a plain CSV file, and one from a
# training loop of your own. Replace them with your paths.

# %%
import json
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from rlscaling import TraceWriter, datasets, extrapolate, fit_trace, make_report, plot_runs, read_trace, read_traces

folder = Path(tempfile.mkdtemp())
truth = datasets.table1()
rng = np.random.default_rng(0)


def measured(params, compute):
    """Return the mean pass rate of 1,000 prompts x 16 samples, given the curve of a recipe."""
    mean = params.predict(compute)
    return mean + np.sqrt(mean * (1 - mean) / 16_000) * rng.standard_normal(np.shape(mean))


# %% [markdown]
# ## A log from verl
#
# One JSON object per step, and an evaluation every 10 steps. Nothing in it is called "compute" or "GPU-hours", and the
# number of GPUs is only implied by the throughput: tokens / (GPUs x seconds).

# %%
GPUS, SECONDS = 256, 300.0
rows = [{"step": 0, "data": {"val-core/math/acc/mean@16": float(measured(truth["scalerl"], 0.0))}}]
for step in range(1, 751):
    hours = step * GPUS * SECONDS / 3600
    data = {
        "training/global_step": step,
        "timing_s/step": SECONDS,
        "perf/time_per_step": SECONDS,
        "perf/total_num_tokens": 2.5e7,
        "perf/throughput": 2.5e7 / (GPUS * SECONDS),
        "response_length/clip_ratio": 0.04,
    }
    if step % 10 == 0:
        data |= {"val-core/math/acc/mean@16": float(measured(truth["scalerl"], hours)), "timing_s/testing": 600.0}
    rows.append({"step": step, "data": data})
(folder / "verl.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

verl = read_trace(folder / "verl.jsonl")
verl

# %% [markdown]
# The receipt says what was read, assumed and left out. (`rlscaling ingest` keeps it with the trace, and `rlscaling
# doctor` reports problems.)

# %%
receipt = verl.metadata["receipt"]
for key in ("framework", "columns", "assumed", "rows_read", "rows_kept", "dropped"):
    print(f"{key}: {receipt[key]}")

# %% [markdown]
# ## A table
#
# Columns are recognised by their names, and every guess is reported; `compute_column=`, `pass_rate_column=`,
# `compute_unit=` and `scale=` set them explicitly. `scale="percent"` says that the values are percentages, not
# fractions.

# %%
C = np.arange(0, 16_001, 200.0)
table = pd.DataFrame({"gpu_hours": C, "accuracy": 100 * measured(truth["generations-8"], C)})
table.to_csv(folder / "table.csv", index=False)
csv = read_trace(folder / "table.csv", scale="percent")
csv.notes

# %% [markdown]
# ## Your own loop
#
# A row is on disk when `write` returns, so a killed job loses no row.

# %%
header = {"recipe": "batch-512", "seed": 1, "n_gpus": 256, "compute_unit": "gpu-hours"}
with TraceWriter(folder / "mine.jsonl", header) as log:
    for step, hours in enumerate(np.arange(0, 16_001, 200.0)):
        rate = float(measured(truth["batch-512"], hours))
        log.write("eval", step=step, compute_gpu_hours=hours, pass_rate=rate, n_prompts=1000, n_samples=16)
mine = read_trace(folder / "mine.jsonl")

# %% [markdown]
# ## All runs together

# %%
traces = {"verl": verl, "table": csv, "mine": mine}
fits = {name: fit_trace(trace) for name, trace in traces.items()}
for name, fit in fits.items():
    print(f"{name}: {fit.verdict}, {fit.reason}")
plot_runs({name: extrapolate(fit, 100_000, rng=0) for name, fit in fits.items()})

# %% [markdown]
# One page for the team, with verdicts, comparison, forecasts, backtests, plans and receipts. It is a single file and
# needs no network.

# %%
page = make_report(traces, title="Three recipes", rng=0).write(folder / "report.html")
print(f"{page.name}: {page.stat().st_size / 1e3:.0f} kB")

# %% [markdown]
# The same from a shell:
#
# ```bash
# rlscaling doctor runs/
# rlscaling ingest runs/ -o runs.parquet
# rlscaling fit runs.parquet --compute 100000
# rlscaling report runs.parquet -o report.html
# ```

# %% [markdown]
# ## Checking the claims above

# %%
assert receipt["framework"] == "verl"
assert "256" in str(receipt["assumed"]["GPUs"])
assert abs(verl.compute[-1] - 750 * GPUS * SECONDS / 3600) < 1e-6 * verl.compute[-1]
assert len(csv) == 81
assert csv.pass_rate.max() < 1.0
assert len(mine) == 81
for name, row in (("verl", "scalerl"), ("table", "generations-8"), ("mine", "batch-512")):
    low, high = fits[name].confidence_interval["A"]
    assert low < truth[row].A < high, name
assert page.stat().st_size < 1e6
assert "http" not in page.read_text().replace("http://www.w3.org", "")
assert list(read_traces([folder / "mine.jsonl"])) == ["mine"]
