"""``rlscaling train``, ``rlscaling recipes`` and ``python -m rlscaling.trainer``."""

from __future__ import annotations

import argparse
import dataclasses
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlscaling import cli, read_trace
from rlscaling.trainer import RECIPES, TrainConfig, TrainError
from rlscaling.trainer.__main__ import main
from rlscaling.trainer.jobs import jobs_of
from rlscaling.trainer.options import add_arguments, parse_field
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
        (["--seeds", "0,one"], "--seeds '0,one' is not a list of whole numbers"),
        (["--seeds", "1,1"], "--seeds 1,1 names a seed twice"),
    ],
)
def test_bad_options_are_refused_before_anything_is_written(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--out", str(tmp_path / "run"), *arguments]
    assert cli.main(["train", *arguments]) == 2
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert capsys.readouterr().err.replace("\n", " ").count(message) == 2
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


LEARNS = (
    "--seed 3 --steps 60 --eval-every 5 --n-train-prompts 640 --n-digits 3 --warmup-lr 5e-3 --warmup-steps 30 "
    "--eval-prompts 32 --eval-samples 4 --prompts-per-step 32 --generations 4"
)


def test_train_ends_with_the_fit_and_the_true_ceiling(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "run")
    assert cli.main(["train", "--out", out, *LEARNS.split()]) == 0
    printed = capsys.readouterr().out
    rows, *_ = printed.splitlines()
    assert rows.startswith(f"{out}/trace.jsonl: 60 steps, held-out pass rate 0.")
    assert "[scalerl, seed 3]: " in printed
    assert "9 points, 20 to 60 steps" in printed  # from the end of the first epoch, 640 / 32 steps, on
    trace = read_trace(out)
    assert f"best possible pass rate of the task: {trace.metadata['ceilings']['hidden-sort']:.3f}" in printed

    assert cli.main(["fit", out, "--min-compute", "epoch", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["compute_unit"] == "device-hours"


def test_the_command_named_after_a_run_shorter_than_an_epoch_fits_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = LEARNS.replace("--steps 60 --eval-every 5", "--steps 16 --eval-every 2")
    assert cli.main(["train", "--out", str(tmp_path / "run"), *settings.split()]) == 0
    printed = capsys.readouterr().out
    assert "no fit [" in printed
    (line,) = (line for line in printed.splitlines() if "fit it against measured time: " in line)
    command = line.partition("rlscaling ")[2].split()
    assert command[-2:] == ["--min-compute", "0"]
    assert cli.main(command) == 0


def test_train_in_json_has_every_seed_and_domain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--out", str(tmp_path), "--task", "sort+modular", "--seeds", "4,5", "--json", *TINY.split()]
    assert cli.main(["train", *arguments]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [run["seed"] for run in said["runs"]] == [4, 5]
    for run in said["runs"]:
        assert run["steps"] == 2
        assert [fit["ceiling"] for fit in run["fits"]] == [1.0, 1.0]
        assert all("error" in fit for fit in run["fits"])  # two steps are no first epoch


def test_a_taken_folder_stops_the_command_before_the_first_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "seed-1").mkdir()
    (tmp_path / "seed-1" / "trace.jsonl").write_text("{}\n")
    assert cli.main(["train", "--out", str(tmp_path), "--seeds", "0,1", *TINY.split()]) == 3
    assert "seed-1 holds a run already" in capsys.readouterr().err
    assert not (tmp_path / "seed-0").exists()


def test_recipes_show_every_field_with_its_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["recipes"]) == 0
    overview = capsys.readouterr().out
    assert all(f"\n{name}: " in overview for name in RECIPES)
    assert "ppo-off-policy-8   dapo     0.2/0.26" in overview
    assert cli.main(["recipes", "gspo", "--all", "--json"]) == 0
    (gspo,) = json.loads(capsys.readouterr().out)["recipes"]
    assert gspo["fields"]["loss"] == {"value": "gspo", "source": RECIPES["gspo"].source["loss"]}
    assert set(gspo["fields"]) == {field.name for field in dataclasses.fields(TrainConfig)} - {"recipe"}
    assert cli.main(["recipes", "gpso"]) == 2
    assert "did you mean gspo" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["kernels"], ["train", "--out", "run"]])
def test_without_torch_the_command_says_how_to_get_it(command: list[str], tmp_path: Path) -> None:
    script = "import sys; sys.modules['torch'] = None; from rlscaling.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", script, *command], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 3
    assert "the trainer needs torch, which is not installed: pip install 'rlscaling[trainer]'" in done.stderr


def test_paper_eval_sets_what_the_paper_says() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    (job,) = jobs_of(parser.parse_args(["--out", "run", "--paper-eval", "--eval-every", "50"]))
    assert (job.config.eval_prompts, job.config.eval_samples, job.config.eval_every) == (1000, 16, 50)
