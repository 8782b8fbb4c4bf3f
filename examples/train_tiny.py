"""Train two recipes for a few steps, fit both, and compare them with the ceiling that is known.

Run it with ``python train_tiny.py``; it needs torch and writes to ``runs-tiny/`` in the current folder.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from rlscaling import fit_trace, read_trace
from rlscaling.trainer import make_config, train

OUT = Path("runs-tiny")
TINY = {"steps": 120, "eval_every": 10, "n_train_prompts": 1280, "n_digits": 4, "eval_prompts": 128, "threads": 1}

shutil.rmtree(OUT, ignore_errors=True)
for recipe in ("scalerl", "loo-8op"):
    result = train(make_config(recipe, **TINY), OUT / recipe)
    trace = read_trace(result.trace_path)
    print(f"{recipe}: {trace}, best possible {trace.metadata['ceilings']['hidden-sort']:.3f}")
    print(fit_trace(trace, min_compute=0))  # the first word says whether so short a run can tell the ceiling
    assert trace.pass_rate[-1] > trace.pass_rate[0] + 0.1, "nothing was learnt"
