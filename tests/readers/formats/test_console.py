"""Printed lines of TRL and verl."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers import log_files
from helpers.log_files import verl
from rlscaling import read_trace


def test_trl_printed_dicts(tmp_path):
    text = "\r 0%| | 0/100 [00:00<?]\r 50%| | 2/4 [00:10<00:10]\n"
    text += "{'loss': 0.1, 'step_time': '18.0', 'rewards/acc': 0.1, 'epoch': 0.1}\n"
    text += "\r 100%| | 4/4 [00:20<00:00]{'eval_loss': 0.1, 'eval_rewards/acc/mean': np.float64(0.4)}\n"
    text += "{'loss': nan, 'step_time': 18.0, 'epoch': 0.2}\n{'loss': __import__('os').system('touch PWNED')}\n"
    path = tmp_path / "stdout.log"
    path.write_text(text)
    trace = read_trace(path, n_gpus=100)
    assert trace.pass_rate.tolist() == [0.4]
    assert trace.compute.tolist() == pytest.approx([2])
    assert not Path("PWNED").exists()


RAY = "\x1b[36m(TaskRunner pid=17)\x1b[0m "


@pytest.mark.parametrize("variant", ["ray", "numpy", "markdown"])
def test_verl_console(tmp_path, variant):
    out = []
    for row in log_files.verl_rows(steps=20, every=10):
        step = row.get("training/global_step", 0)
        cells = [f"{key}:{f'np.float64({value})' if variant == 'numpy' else value}" for key, value in row.items()]
        out.append(f"{RAY if variant == 'ray' else ''}step:{step} - " + " - ".join(cells))
    text = "\n".join(["loading", *out, "done"])
    path = tmp_path / "train.log"
    path.write_text(f"# A run\n```text\n{text}" if variant == "markdown" else text)
    trace = read_trace(path)
    assert trace.columns["step"].tolist() == [0, 10, 20]
    assert trace.metadata["n_gpus"] == 256
    clean = read_trace(verl(tmp_path, log_files.verl_rows(steps=20, every=10)))
    np.testing.assert_allclose(trace.compute, clean.compute)


def test_verl_console_of_2024_with_old_names(tmp_path):
    out = ["step:0 - val/test_score/openai/gsm8k:0.3"]
    for step in range(1, 5):
        score = f"val/test_score/openai/gsm8k:{0.3 + step / 10} - " if step % 2 == 0 else ""
        out.append(f"step:{step} - {score}timing/step:36.0 - critic/score/mean:-0.25 - training/global_step:{step}")
    path = tmp_path / "old.log"
    path.write_text("\n".join(out))
    trace = read_trace(path, n_gpus=100)
    assert trace.compute.tolist() == pytest.approx([0, 2, 4])
    assert trace.metadata["domain"] == "openai/gsm8k"
