"""``trainer_state.json``: the checkpoint with the highest number counts."""

from __future__ import annotations

import json

import pytest

from rlscaling import read_traces


def trl_state(folder, steps=8):
    history = []
    for step in range(2, steps + 1, 2):
        history.append(
            {"step": step, "step_time": 18.0, "reward": 0.1, "rewards/acc/mean": 0.1, "num_tokens": 50 * step}
        )
        if step % 4 == 0:
            for i, name in enumerate("ab"):
                history.append({"step": step, f"eval_{name}_runtime": 9.0, "eval_rewards/acc/mean": step / 20 + i / 10})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": history, "global_step": steps}))


def test_trl_takes_the_checkpoint_with_the_highest_number(tmp_path):
    trl_state(tmp_path / "checkpoint-12", 12)
    trl_state(tmp_path / "checkpoint-8", 8)
    runs = read_traces(tmp_path, n_gpus=100)
    assert [name.rpartition(":")[2] for name in runs] == ["a", "b"]
    a, b = runs.values()
    assert a.columns["step"].tolist() == [4, 8, 12]
    assert a.compute.tolist() == pytest.approx([2, 4, 6])  # 18 s a step, the mean over a window of two
    assert b.pass_rate.tolist() == pytest.approx([0.3, 0.5, 0.7])
    included = read_traces(tmp_path, n_gpus=100, eval_time="include")
    assert next(iter(included.values())).compute.tolist() == pytest.approx([2.5, 5, 7.5])  # both sets' evaluations
