"""Problems from files as a task, and whole runs on them: a tiny model of the Qwen2 family, on one CPU."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from checkpoints import SHORT, edit_config, word_problems
from rlscaling import read_trace, read_traces
from rlscaling.cli import main
from rlscaling.journal import read_jsonl
from rlscaling.trainer import make_config, train
from rlscaling.trainer.config import TrainConfig, from_dict, to_dict
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.evaluate import generate_all
from rlscaling.trainer.model import build_model
from rlscaling.trainer.policy import token_logp
from rlscaling.trainer.pretrained import load_model
from rlscaling.trainer.rollout import Group, collate
from rlscaling.trainer.text_tasks import TextTask

pytest.importorskip("math_verify")

PHRASE = "Okay, time is up. Let me stop thinking and formulate a final answer now. </think>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``train.jsonl``, ``harder.jsonl`` and ``tiny-qwen2/``."""
    path = tmp_path_factory.mktemp("problems")
    word_problems().write_all(path, 300)
    return path


def config_of(folder: Path, **changes: Any) -> TrainConfig:
    given = {
        "model_path": str(folder / "tiny-qwen2"),
        "data": f"words={folder / 'train.jsonl'}",
        "downstream": f"harder={folder / 'harder.jsonl'}",
    }
    return make_config(**{**SHORT, **given, **changes})


def test_prompts_and_their_split(folder: Path) -> None:
    task = TextTask(config_of(folder))
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    harder = {json.loads(line)["problem"] for line in (folder / "harder.jsonl").read_text().splitlines()}
    texts = {row["problem"] for row in rows}
    assert len(texts) < len(rows), "some repeat"
    shown = [task.tokenizer.decode(task.train_prompt(i).ids) for i in range(task.n_train)]
    held_out = task.heldout_prompts(12)
    evaluated = [task.tokenizer.decode(prompt.ids) for prompt in held_out]
    assert all(text.endswith("How many now?<think>") for text in shown + evaluated)
    own = [text for text, prompt in zip(evaluated, held_out, strict=True) if prompt.domain == "words"]
    assert len(own) == 12
    assert not set(shown) & set(evaluated)
    assert {text.removesuffix("<think>") for text in shown + own} < texts - harder
    assert task.domains == ("words", "harder")
    assert task.downstream == ("harder",)
    everything = [*held_out, *(task.train_prompt(i) for i in range(task.n_train))]
    assert task.prompt_length == max(len(prompt.ids) for prompt in everything)
    assert len({len(task.train_prompt(i).ids) for i in range(task.n_train)}) > 1, "lengths differ"
    assert f"words: {len(rows) - len(texts):,} repeated problems were left out; each is kept once" in task.notes
    assert any("no supervised warm-up" in note and "have a solution" in note for note in task.notes)


def test_long_prompts_are_left_out_and_counted(folder: Path) -> None:
    everything = TextTask(config_of(folder))
    sizes = sorted(len(everything.train_prompt(i).ids) for i in range(everything.n_train))
    cap = sizes[len(sizes) // 2]
    task = TextTask(config_of(folder, prompt_tokens=cap))
    assert task.n_train == sum(size <= cap for size in sizes)
    assert any(f"are longer than prompt_tokens={cap} with their template and were left out" in n for n in task.notes)
    with pytest.raises(TrainError, match="no problem of words is left: raise prompt_tokens=3"):
        TextTask(config_of(folder, prompt_tokens=3))


def test_scores(folder: Path) -> None:
    task = TextTask(config_of(folder))
    prompt, end = task.train_prompt(0), task.stop_ids[0]

    def reward(text: str, *, ended: bool = True) -> float:
        return task.score(prompt, (*task.tokenizer.encode(text), *((end,) if ended else ()))).reward

    right = f"</think>\\boxed{{{prompt.answer}}}"
    assert reward(right) == 1
    assert reward(f"1+1</think>Answer: {prompt.answer}") == 1
    assert reward(f"</think>\\boxed{{0{prompt.answer}.0}}") == 1, "as mathematics"
    assert reward(right, ended=False) == -1, "truncated"
    assert reward(f"\\boxed{{{prompt.answer}}}") == -1, "still thinking"
    assert reward("</think>\\boxed{99}") == -1
    assert reward("</think>") == -1
    assert task.state_dict() == {"checks_failed": 0}
    task.checker.check = lambda gold, given: None  # type: ignore[method-assign]
    assert reward("</think>\\boxed{x}") == -1
    assert task.state_dict() == {"checks_failed": 1}


def test_demonstrations_are_right_answers(folder: Path) -> None:
    task = TextTask(config_of(folder, warmup_steps=5))
    for i in range(40):
        prompt, completion = task.sft_example(i, np.random.default_rng(0))
        owner = next(task.train_prompt(j) for j in range(task.n_train) if task.train_prompt(j).ids == prompt)
        assert task.score(owner, completion).correct == 1
    assert not any("no supervised warm-up" in note for note in task.notes)
    longest = max(len(completion) for _, completion in task._examples)
    short = config_of(folder, warmup_steps=5, solution_tokens=1, thinking_budget=longest - 2, length_control="none")
    task = TextTask(short)
    cut = f"solutions are longer than max_new_tokens={longest - 1} and were left out"
    assert any(cut in note for note in task.notes)
    with pytest.raises(TrainError, match="no solution fits into max_new_tokens=6"):
        TextTask(config_of(folder, warmup_steps=5, solution_tokens=1, thinking_budget=5, length_control="none"))


def test_thinking_is_ended_by_the_phrase(folder: Path) -> None:
    config = config_of(folder, thinking_budget=8, interrupt_window=(4, 8))
    task = TextTask(config)
    assert task.tokenizer.decode(task.phrase) == PHRASE
    model = build_model(config, task)
    rollouts = generate_all(model, task, task.heldout_prompts(6), 4, seed=1, window=config.interrupt_window)
    interrupted = [rollout for rollout in rollouts if rollout.interrupted]
    assert len(interrupted) > 12
    for rollout in interrupted:
        n = int(np.argmin(rollout.sampled))
        assert 4 <= n <= 8
        assert tuple(rollout.tokens[n : n + len(task.phrase)]) == task.phrase[: len(rollout.tokens) - n]
        assert not rollout.sampled[n : n + len(task.phrase)].any()
        assert rollout.sampled[n + len(task.phrase) :].all()
    for rollout in rollouts:
        assert rollout.truncated == (rollout.tokens[-1] not in task.stop_ids)


def test_generator_and_trainer_agree_on_prompts_of_different_lengths(folder: Path) -> None:
    config = config_of(folder)
    task = TextTask(config)
    model = build_model(config, task)
    prompts = task.heldout_prompts(12)
    assert len({len(prompt.ids) for prompt in prompts}) > 1
    rollouts = generate_all(model, task, prompts, 2, seed=3)
    batch = collate([Group(0, rollouts[0].prompt, tuple(rollouts))], task.pad_id)
    with torch.no_grad():
        logp = token_logp(model, batch.prompt_ids, batch.tokens, batch.mask, batch.prompt_length)
    torch.testing.assert_close(logp, batch.old_logp[batch.mask], atol=1e-5, rtol=1e-4)
    for i, rollout in enumerate(rollouts[:6]):  # and each alone, without any padding
        alone = torch.tensor([[*rollout.prompt.ids, *rollout.tokens]])
        with torch.no_grad():
            logits = model.logits(model(alone[:, :-1]))[0, len(rollout.prompt.ids) - 1 :]
        picked = logits.log_softmax(-1).gather(1, alone[0, len(rollout.prompt.ids) :, None])[:, 0]
        torch.testing.assert_close(picked, batch.old_logp[i, : len(picked)], atol=1e-5, rtol=1e-4)


REFUSED = [
    ({"model_path": ""}, "task='text' needs a pretrained model; set model_path"),
    ({"data": ""}, "task='text' needs problems to train on"),
    ({"task": "sort"}, r"data='words=.*' with task='sort', which makes its own problems"),
    ({"d_model": 64}, "d_model=64 beside model_path=.*: the checkpoint decides the sizes"),
    ({"n_experts": 4}, "n_experts=4 beside model_path"),
    ({"prompt_template": "{question}"}, r"must hold \{problem\} exactly once"),
    ({"prompt_template": "@missing.txt"}, "prompt_template='@missing.txt': the file cannot be read"),
    ({"think_end": ""}, "think_end='' with a thinking budget"),
    ({"held_out_share": 1.0}, "held_out_share=1 leaves nothing to train on"),
    ({"held_out_share": 0.0}, "held_out_share=0 leaves nothing to do"),
    ({"thinking_budget": 0, "length_control": "interruption"}, "without a thinking budget"),
    ({"interrupt_window": (4, 40)}, "does not lie within thinking_budget=16"),
    ({"max_new_tokens": 16}, "leaves no room for the solution"),
    ({"n_train_prompts": 5}, "n_train_prompts=5 is less than one batch of 6"),
]


@pytest.mark.parametrize(("changes", "match"), REFUSED, ids=[match for _, match in REFUSED])
def test_settings_that_cannot_run_are_refused_without_reading_data(folder: Path, changes: Any, match: str) -> None:
    with pytest.raises(TrainError, match=match):
        config_of(folder, **changes)


REFUSED_LATER = [
    ({"think_end": "End of thought."}, r"think_end='End of thought.' is \d+ tokens to this tokenizer"),
    ({"time_up": "Stop.</think>"}, "must not hold '</think>'"),
    ({"solution_tokens": 10}, "leave nothing of max_new_tokens=26 for the solution"),
    ({"held_out_share": 1e-9}, "none of the .* problems of words is held out at held_out_share=1e-09"),
    ({"prompts_per_step": 290}, "problems are left to train on, less than one batch of 290"),
    ({"max_new_tokens": 400}, "the model was made for 256"),
]


@pytest.mark.parametrize(("changes", "match"), REFUSED_LATER, ids=[match for _, match in REFUSED_LATER])
def test_data_and_models_that_do_not_go_together_are_refused(folder: Path, changes: Any, match: str) -> None:
    with pytest.raises(TrainError, match=match):
        train(config_of(folder, **changes))


def test_a_marker_of_several_tokens_is_fine_without_interruption(folder: Path) -> None:
    task = TextTask(config_of(folder, think_end="End of thought.", length_control="none"))
    prompt = task.train_prompt(0)
    completion = task.tokenizer.encode(f"1+1 End of thought. \\boxed{{{prompt.answer}}}")
    assert task.score(prompt, (*completion, task.stop_ids[0])).correct == 1


def test_warm_up_needs_solutions(folder: Path, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    for row in rows:
        del row["solution"]
    (tmp_path / "plain.jsonl").write_text("\n".join(map(json.dumps, rows)))
    plain = {"data": f"words={tmp_path / 'plain.jsonl'}"}
    with pytest.raises(TrainError, match="warmup_steps=5: the data have no solution to imitate"):
        TextTask(config_of(folder, warmup_steps=5, **plain))
    assert "no supervised warm-up; the data have no solutions" in TextTask(config_of(folder, **plain)).notes


def copy_model(folder: Path, target: Path) -> str:
    shutil.copytree(folder / "tiny-qwen2", target)
    return str(target)


def test_wrong_tokenizers_are_refused(folder: Path, tmp_path: Path) -> None:
    model = copy_model(folder, tmp_path / "model")
    edit_config(tmp_path / "model", eos_token_id=None)
    settings = tmp_path / "model" / "tokenizer_config.json"
    TextTask(config_of(folder, model_path=model))  # the tokenizer's own settings name it as well
    settings.unlink()
    with pytest.raises(TrainError, match="does not say which token ends a text"):
        TextTask(config_of(folder, model_path=model))
    edit_config(tmp_path / "model", eos_token_id=[0, 5000])
    with pytest.raises(TrainError, match=r"eos_token_id \(0, 5000\) lies outside"):
        TextTask(config_of(folder, model_path=model))
    edit_config(tmp_path / "model", eos_token_id=[0, 5])
    assert TextTask(config_of(folder, model_path=model)).stop_ids == (0, 5)
    edit_config(tmp_path / "model", vocab_size=100)
    with pytest.raises(TrainError, match=r"has tokens up to number \d+, and the model's embedding has 100 rows"):
        TextTask(config_of(folder, model_path=model))
    (tmp_path / "model" / "tokenizer.json").write_text("{}")
    with pytest.raises(TrainError, match="tokenizer.json cannot be read"):
        TextTask(config_of(folder, model_path=model))
    (tmp_path / "model" / "tokenizer.json").unlink()
    with pytest.raises(TrainError, match="has no tokenizer.json; write it with"):
        TextTask(config_of(folder, model_path=model))


def test_any_stop_token_ends_a_completion(folder: Path, tmp_path: Path) -> None:
    model = copy_model(folder, tmp_path / "model")
    edit_config(tmp_path / "model", eos_token_id=[0, *range(20, 60)])
    config = config_of(folder, model_path=model)
    task = TextTask(config)
    rollouts = generate_all(build_model(config, task), task, task.heldout_prompts(6), 4, seed=1)
    ends = {int(rollout.tokens[-1]) for rollout in rollouts if not rollout.truncated}
    assert len(ends) > 1
    assert ends <= set(task.stop_ids)
    for rollout in rollouts:
        assert not set(rollout.tokens[:-1].tolist()) & set(task.stop_ids)


def test_a_tokenizer_that_ends_every_text_is_refused(folder: Path, tmp_path: Path) -> None:
    from tokenizers import Tokenizer, processors

    model = copy_model(folder, tmp_path / "model")
    path = str(tmp_path / "model" / "tokenizer.json")
    tokenizer = Tokenizer.from_file(path)
    end = [("<|endoftext|>", 0)]
    tokenizer.post_processor = processors.TemplateProcessing(single="<|endoftext|> $A", special_tokens=end)
    tokenizer.save(path)
    task = TextTask(config_of(folder, model_path=model))
    assert task.train_prompt(0).ids[0] == 0, "what begins every text begins the prompts"
    tokenizer.post_processor = processors.TemplateProcessing(single="$A <|endoftext|>", special_tokens=end)
    tokenizer.save(path)
    with pytest.raises(TrainError, match="puts an end token after every text"):
        TextTask(config_of(folder, model_path=model))


def test_the_settings_survive_the_header(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "template.txt").write_text("Q: {problem}\nA: {think}")
    config = config_of(folder, prompt_template=f"@{tmp_path / 'template.txt'}")
    assert config.prompt_template == "Q: {problem}\nA: {think}"
    assert from_dict(json.loads(json.dumps(to_dict(config)))) == config
    assert (config.d_model, config.n_layers, config.tied_head, config.task) == (32, 2, True, "text")
    assert config.max_new_tokens == 16 + 40


# --- whole runs -----------------------------------------------------------------------------------------------


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a trace without measured times."""
    timed = ("compute", "eval_gpu_hours", "lost_gpu_hours", "wall_time")
    return [
        {key: value for key, value in row.items() if key not in timed and not key.startswith("seconds_")}
        for row in read_jsonl(path)[1]
    ]


def test_a_resumed_run_is_the_run_that_nothing_interrupted(folder: Path, tmp_path: Path) -> None:
    config = config_of(folder, steps=6, checkpoint_every=3, warmup_steps=60, warmup_lr=5e-3)
    train(config, tmp_path / "whole")

    class Killed(Exception):  # noqa: N818
        pass

    def kill(row: dict[str, Any]) -> None:
        if row["kind"] == "train" and row["step"] == 5:
            raise Killed

    with pytest.raises(Killed):
        train(config, tmp_path / "cut", on_row=kill)
    moved = tmp_path / "moved"
    shutil.copytree(folder, moved)  # where the files lie does not matter
    lines = (moved / "train.jsonl").read_text().splitlines()
    (moved / "train.jsonl").write_text("\n".join(sorted(lines)) + "\n")  # nor their order
    again = config_of(moved, steps=6, checkpoint_every=3, warmup_steps=60, warmup_lr=5e-3)
    train(again, tmp_path / "cut", resume=True, save_model=tmp_path / "saved")
    assert rows_of(tmp_path / "cut" / "trace.jsonl") == rows_of(tmp_path / "whole" / "trace.jsonl")
    trained, before = load_model(tmp_path / "saved", 100), load_model(folder / "tiny-qwen2", 100)
    assert not torch.equal(trained.embed_tokens.weight, before.embed_tokens.weight)
    (moved / "train.jsonl").write_text("\n".join(lines[:-40]) + "\n")
    with pytest.raises(TrainError, match="belongs to a run of other settings"):
        train(again, tmp_path / "cut", resume=True)


@pytest.mark.parametrize(
    "recipe",
    [pytest.param("gspo", marks=pytest.mark.slow), pytest.param("dapo", marks=pytest.mark.slow), "loo-lp"],
)
def test_other_recipes_train_on_text(recipe: str, folder: Path) -> None:
    changes: dict[str, Any] = {"k": 1} if recipe == "dapo" else {}
    config = config_of(folder, recipe=recipe, steps=2, warmup_steps=100, warmup_lr=5e-3, eval_every=2, **changes)
    result = train(config)
    assert result.steps == 2
    last = {row["domain"]: row["pass_rate"] for row in result.rows if row["kind"] == "eval"}
    assert set(last) == {"words", "harder"}
    assert result.pass_rates[2] == last["words"], "a downstream set is no part of the held-out pass rate"


WARMED = {"warmup_steps": 120, "warmup_lr": 3e-3, "length_control": "none", "prompts_per_step": 12, "generations": 8,
          "eval_prompts": 30, "eval_samples": 4, "lr": 3e-4, "lr_warmup": 5}  # fmt: skip


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


@pytest.mark.slow
def test_word_problems_are_learnt(tmp_path: Path) -> None:
    """Reinforcement learning raises the pass rate on problems that were never seen, two standard errors apart."""
    word_problems().write_all(tmp_path, 1000)
    settings = {**WARMED, "warmup_steps": 170, "prompts_per_step": 32, "eval_prompts": 80, "eval_every": 8}
    result = train(config_of(tmp_path, steps=48, **settings))
    rows = [row for row in result.rows if row["kind"] == "eval" and row["domain"] == "words"]
    first, last = rows[0], rows[-3:]
    rise = sum(row["pass_rate"] for row in last) / 3 - first["pass_rate"]
    assert rise > 2 * (first["pass_rate_se"] ** 2 + last[0]["pass_rate_se"] ** 2 / 3) ** 0.5


def test_saving_is_refused_before_training(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainError, match="save_model='x' without model_path"):
        train(make_config(steps=1), save_model="x")
    with pytest.raises(TrainError, match="exists and is not empty"):
        train(config_of(folder), tmp_path / "run", save_model=folder)
    assert not (tmp_path / "run").exists()


def test_what_would_fail_at_the_end_is_refused_at_the_start(folder: Path, tmp_path: Path) -> None:
    config = config_of(folder, steps=1)
    with pytest.raises(TrainError, match="is the folder of the run itself"):
        train(config, tmp_path / "run", save_model=tmp_path / "run")
    (tmp_path / "file").write_text("x")
    with pytest.raises(TrainError, match="is no folder that can be written to"):
        train(config, tmp_path / "run", save_model=tmp_path / "file" / "model")
    if not torch.cuda.is_available():
        with pytest.raises(TrainError, match="device='cuda': this torch (is a CPU build|finds no GPU)"):
            train(config_of(folder, device="cuda"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(TrainError, match="all of its problems stand in another data set as well"):
        TextTask(config_of(folder, downstream=f"again={folder / 'train.jsonl'}"))
    model = tmp_path / "tall"
    shutil.copytree(folder / "tiny-qwen2", model)
    edit_config(model, num_hidden_layers=10**9)
    with pytest.raises(TrainError, match=r"num_hidden_layers is 1000000000, but weights of \d layers are there"):
        load_model(model, 64)


def test_half_a_character_is_no_text(folder: Path, tmp_path: Path) -> None:
    rows = '{"problem": "one", "answer": "1"}\n{"problem": "a \\ud800 b", "answer": "1"}\n'
    (tmp_path / "bad.jsonl").write_text(rows)
    with pytest.raises(TrainError, match="line 2: the problem has half of a character"):
        TextTask(config_of(folder, data=f"words={tmp_path / 'bad.jsonl'}"))
