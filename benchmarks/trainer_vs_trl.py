"""Tokens per second of the bundled trainer against TRL's GRPOTrainer: same model, task, batch, steps, objective.

    python benchmarks/trainer_vs_trl.py            # installs the latest TRL into an environment of its own
    python benchmarks/trainer_vs_trl.py --python PATH-TO-A-PYTHON-THAT-HAS-TRL

Both run on policy with GRPO (clip 0.2, prompt normalisation, sample average), begin with the same weights after the
same supervised warm-up, and use the same torch, one thread, no evaluation. They take turns, three times; figures are
medians. At the end our evaluation scores the weights of both.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

import torch

from _common import Check, arguments, finish, versions  # first: it keeps BLAS on one thread
from rlscaling.trainer import make_config
from rlscaling.trainer.generation.evaluate import evaluate
from rlscaling.trainer.training.run_state import RunState
from rlscaling.trainer.training.warmup import supervised_warmup

HERE = Path(__file__).parent
SAME = {
    "recipe": "grpo", "schedule": "ppo-off-policy", "k": 1, "head_dtype": "fp32", "threads": 1, "checkpoint_every": 0,
}  # fmt: skip
SIZES = {
    "26 k parameters, 512 rows x 5 tokens": ({"steps": 200}, 2.0),
    "3 M parameters, 128 rows x 64 tokens": (
        {
            "task": "sort", "n_digits": 64, "d_model": 256, "n_layers": 4, "n_heads": 8, "n_kv_heads": 4,
            "d_ff": 640, "prompts_per_step": 16, "generations": 8, "steps": 5, "eval_prompts": 64,
            "warmup_steps": 20, "lr": 1e-4,
        },
        1.0,
    ),
}  # fmt: skip
ROUNDS = 3


def environment() -> Path:
    """Return a Python that has TRL, made where there is none."""
    folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "rlscaling-benchmarks" / "trl"
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"installing TRL into {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True)
    wanted = f"torch=={torch.__version__.split('+')[0]}"
    subprocess.run([python, "-m", "pip", "install", "-q", "--upgrade", "trl", wanted], check=True)
    return python


def measure(python: Path, which: str, settings: Path, start: Path, end: Path) -> dict[str, Any]:
    """Run one trainer in its own process; return its seconds and tokens."""
    env = {**os.environ, "PYTHONPATH": str(HERE.parent / "src"), "TOKENIZERS_PARALLELISM": "false"}
    command = [str(python), str(HERE / "_trl_worker.py"), which, str(settings), str(start), str(end)]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{which} failed:\n{done.stderr[-4000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def compare(
    python: Path, name: str, fields: dict[str, Any], target: float, folder: Path
) -> tuple[Check, dict[str, Any]]:
    """Return the ratio of our tokens per second to TRL's, and everything behind it."""
    settings, start = folder / "settings.json", folder / "start.pt"
    settings_of_run = SAME | fields
    settings.write_text(json.dumps(settings_of_run))
    config = make_config(**settings_of_run)
    torch.set_num_threads(1)
    run = RunState.new(config)
    supervised_warmup(run.learner.model, run.learner.task, config)
    torch.save(run.learner.model.state_dict(), start)
    speeds: dict[str, list[float]] = {"ours": [], "trl": []}
    about: dict[str, Any] = {}
    for round_ in range(ROUNDS):
        for which in speeds:
            measured = measure(python, which, settings, start, folder / f"{which}.pt")
            speeds[which].append(measured["tokens"] / measured["seconds"])
            about |= measured
            print(f"  {name}, round {round_ + 1}: {which} {speeds[which][-1]:,.0f} tokens/s", file=sys.stderr)
    rates = {which: _pass_rate(run, folder / f"{which}.pt") for which in ("start", *speeds)}
    median = {which: statistics.median(values) for which, values in speeds.items()}
    note = (
        f"{median['ours']:,.0f} against {median['trl']:,.0f} tokens/s; pass rate after {config.steps} steps "
        f"{rates['ours']:.3f} and {rates['trl']:.3f} from {rates['start']:.3f}"
    )
    ratio = statistics.median(a / b for a, b in zip(speeds["ours"], speeds["trl"], strict=True))
    parameters = sum(weight.numel() for weight in run.learner.model.parameters())
    more = {"speeds": speeds, "pass_rate": rates, "parameters": parameters, "trl": about["trl"]}
    return Check(name, ratio, target, at_least=True, note=note), more


def _pass_rate(run: RunState, weights: Path) -> float:
    run.learner.model.load_state_dict(torch.load(weights))
    (result,) = evaluate(run.learner.model, run.learner.task, run.heldout, run.learner.config, seed=1)
    return result.pass_rate


def main() -> int:
    parser = arguments(__doc__ or "")
    parser.add_argument("--python", type=Path, help="a Python with trl and torch (default: an environment of its own)")
    options = parser.parse_args()
    python = options.python or environment()
    checks, more = [], {}
    for name, (fields, target) in SIZES.items():
        with tempfile.TemporaryDirectory() as folder:
            check, more[name] = compare(python, name, fields, target, Path(folder))
        checks.append(check)
    about = versions("torch") | {"trl": str(more[name]["trl"])}
    return finish("Trainer against TRL's GRPOTrainer, tokens per second", checks, about, options.json, dict(more))


if __name__ == "__main__":
    sys.exit(main())
