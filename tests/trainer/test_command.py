"""``python -m rlscaling.trainer``: options, progress line, exit codes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from rlscaling import read_trace
from rlscaling.trainer import TrainError
from rlscaling.trainer.__main__ import main
from rlscaling.trainer.options import parse_field
from rlscaling.trainer.progress import Progress

TINY = "--threads 1 --steps 2 --warmup-steps 2 --prompts-per-step 4 --generations 2 --eval-prompts 4 --eval-samples 2"


def test_command_leaves_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--recipe", "dapo", "--out", str(tmp_path), *TINY.split()]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith(f"{tmp_path}/trace.jsonl: 2 steps, held-out pass rate ")
    assert captured.err == ""  # no progress line when piped
    assert read_trace(tmp_path / "trace.jsonl").metadata["recipe"] == "dapo"
    assert main(["--recipe", "dapo", "--out", str(tmp_path), *TINY.split()]) == 3
    assert "holds a run already" in capsys.readouterr().err
    assert main(["--recipe", "dapo", "--out", str(tmp_path), *TINY.split(), "--resume"]) == 0


def test_several_seeds_share_a_folder(tmp_path: Path) -> None:
    assert main(["--out", str(tmp_path), "--seeds", "0,1", *TINY.split()]) == 0
    seeds = [read_trace(tmp_path / f"seed-{seed}" / "trace.jsonl").metadata["seed"] for seed in (0, 1)]
    assert seeds == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--recipe", "scalrl"], "did you mean scalerl"),
        (["--lr", "fast"], "--lr 'fast' is not of type float; its default is"),
        (["--prompts-per-step", "100000"], "less than one batch"),
    ],
)
def test_bad_options_are_refused_before_anything_is_written(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--out", str(tmp_path / "run"), *arguments]) == 3
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_fields_are_parsed_by_type() -> None:
    assert parse_field("tied_head", "no", bool) is False
    assert parse_field("interrupt_window", "28,36", tuple) == (28, 36)
    with pytest.raises(TrainError, match="--tied-head 'maybe' is not of type bool; its default is False"):
        parse_field("tied_head", "maybe", bool)


def test_progress_line_shows_reward_pass_rate_and_time_left() -> None:
    stream = io.StringIO()
    progress = Progress(10, stream, live=True)
    row: dict[str, Any] = {"kind": "train", "reward_mean": -0.5}
    progress({"kind": "eval", "domain": "sort", "pass_rate": 0.25})
    progress({**row, "step": 1, "tokens_generated": 100})
    progress({**row, "step": 10, "tokens_generated": 1000})
    progress.close()
    assert "step 10/10  reward -0.50  pass rate 0.250" in stream.getvalue()
    assert stream.getvalue().endswith("0:00 left\n")


def test_progress_is_quiet_when_piped() -> None:
    stream = io.StringIO()
    progress = Progress(10, stream)
    progress({"kind": "eval", "domain": "sort", "pass_rate": 0.25})
    progress.close()
    assert stream.getvalue() == ""
