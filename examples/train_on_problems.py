"""Train a tiny model of the Qwen2 family on word problems, evaluate it on a downstream set, save it, fit its trace.

Run it with ``python train_on_problems.py``; it needs ``rlscaling[trainer,math]`` and writes to ``runs-problems/`` in
the current folder. A real model is trained in the same way: another ``model_path``, other ``data``, and no warm-up.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from word_problems import write_all

from rlscaling import fit_trace, read_trace
from rlscaling.trainer import make_config, train

OUT = Path("runs-problems")
SETTINGS = {
    "thinking_budget": 16, "solution_tokens": 40, "prompt_template": "{problem}{think}", "held_out_share": 0.1,
    "warmup_steps": 170, "warmup_lr": 3e-3, "lr": 3e-4, "lr_warmup": 5, "k": 4, "generations": 8,
    "eval_every": 8, "eval_prompts": 80, "eval_samples": 4, "threads": 1,
}  # fmt: skip

shutil.rmtree(OUT, ignore_errors=True)
write_all(OUT, 1000)
config = make_config(
    "scalerl",
    steps=48,
    model_path=str(OUT / "tiny-qwen2"),
    data=f"words={OUT / 'train.jsonl'}",
    downstream=f"harder={OUT / 'harder.jsonl'}",
    **SETTINGS,
)
result = train(config, OUT / "run", save_model=OUT / "trained")
for note in result.notes:
    print(note)
for domain in ("words", "harder"):
    trace = read_trace(result.trace_path, domain=domain)
    print(f"{domain}: {trace.pass_rate[0]:.3f} -> {trace.pass_rate[-1]:.3f}")
    print(fit_trace(trace, min_compute=0))  # the first word says whether so short a run can tell the ceiling
assert result.pass_rates[48] > result.pass_rates[0] + 0.05, "nothing was learnt"
assert (OUT / "trained" / "model.safetensors").is_file()
