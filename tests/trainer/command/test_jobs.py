"""``python -m rlscaling.trainer``: its runs, seeds and folders."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from helpers.small_runs import SMALL, TINY
from helpers.torchrun import TORCHRUN
from rlscaling import read_trace
from rlscaling.trainer import TrainError, make_config
from rlscaling.trainer.__main__ import main
from rlscaling.trainer.command.arguments import add_arguments
from rlscaling.trainer.command.jobs import TrainingJob, jobs_of, run_jobs


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


def test_paper_eval_sets_what_the_paper_says() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    (job,) = jobs_of(parser.parse_args(["--out", "run", "--paper-eval", "--eval-every", "50"]))
    assert (job.config.eval_prompts, job.config.eval_samples, job.config.eval_every) == (1000, 16, 50)


def test_the_command_of_one_process_refuses_to_be_a_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TrainError, match="this is rank 1 of 2 and would train the same run as the others"):
        next(run_jobs([TrainingJob(make_config(**SMALL), tmp_path / "run")], resume=False))
