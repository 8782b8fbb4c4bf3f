"""``rlscaling train``: the fit at the end, JSON, and a pretrained model from end to end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from helpers.small_runs import TINY
from helpers.text_runs import WARMED
from helpers.tiny_checkpoints import SHORT
from rlscaling import cli, read_trace, read_traces
from rlscaling.cli import main
from rlscaling.trainer.model.hf_weights import load_model

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


def test_the_command_trains_evaluates_saves_and_fits(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Arithmetic word problems, end to end."""
    transformers = pytest.importorskip("transformers")
    settings = {**SHORT, **WARMED, "eval_every": 2}
    options = [part for key, value in settings.items() for part in (f"--{key.replace('_', '-')}", str(value))]
    files = ["--model", folder / "tiny-qwen2", "--data", f"words={folder / 'train.jsonl'}"]
    files += ["--downstream", f"harder={folder / 'harder.jsonl'}", "--out", tmp_path / "run"]
    files += ["--save-model", tmp_path / "trained"]
    assert main(["train", "--recipe", "scalerl", *map(str, files), "--steps", "10", *options]) == 0
    out = capsys.readouterr().out
    assert "repeated problems were left out" in out
    assert "10 steps, held-out pass rate" in out
    trace_path = tmp_path / "run" / "trace.jsonl"
    assert {trace.metadata["domain"] for trace in read_traces(trace_path).values()} == {"words", "harder"}
    words = read_trace(trace_path, domain="words")
    assert words.columns["step"].tolist() == list(range(0, 11, 2))
    assert words.metadata["downstream"] == ["harder"]
    assert words.pass_rate.max() > 0.1, "the warm-up left something to build on"
    assert set(words.columns["checks_failed"]) == {0}
    assert main(["fit", str(trace_path), "--min-compute", "0"]) == 0
    out = capsys.readouterr().out
    assert "words" in out
    assert "harder" in out
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "trained").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "trained")
    prompt = "Ann has 3 apples and gets 4 more. How many now?<think>"
    ids = tokenizer(prompt, return_tensors="pt").input_ids
    ours = load_model(tmp_path / "trained", 100)
    with torch.no_grad():
        assert (theirs(ids).logits - ours.logits(ours(ids))).abs().max() < 1e-4
