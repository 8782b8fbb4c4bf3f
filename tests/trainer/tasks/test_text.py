"""Problems from files as a task: prompts, scores, demonstrations, the end of thinking."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from helpers.text_runs import config_of, copy_model
from helpers.tiny_checkpoints import edit_config
from rlscaling.trainer import train
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.generation.evaluate import generate_all
from rlscaling.trainer.generation.rollout import Group, collate
from rlscaling.trainer.model.build import build_model
from rlscaling.trainer.model.scoring import token_logp
from rlscaling.trainer.tasks.text import TextTask

pytest.importorskip("math_verify")

PHRASE = "Okay, time is up. Let me stop thinking and formulate a final answer now. </think>"


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
    task.verifier.check = lambda gold, answer: None  # type: ignore[method-assign]
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
        unpadded = torch.tensor([[*rollout.prompt.ids, *rollout.tokens]])
        with torch.no_grad():
            logits = model.logits(model(unpadded[:, :-1]))[0, len(rollout.prompt.ids) - 1 :]
        picked = logits.log_softmax(-1).gather(1, unpadded[0, len(rollout.prompt.ids) :, None])[:, 0]
        torch.testing.assert_close(picked, batch.old_logp[i, : len(picked)], atol=1e-5, rtol=1e-4)


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


def test_half_a_character_is_no_text(folder: Path, tmp_path: Path) -> None:
    rows = '{"problem": "one", "answer": "1"}\n{"problem": "a \\ud800 b", "answer": "1"}\n'
    (tmp_path / "bad.jsonl").write_text(rows)
    with pytest.raises(TrainError, match="line 2: the problem has half of a character"):
        TextTask(config_of(folder, data=f"words={tmp_path / 'bad.jsonl'}"))
