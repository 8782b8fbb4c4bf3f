"""Tasks: disjoint splits, exact ceilings, answers checked against Python's own arithmetic and sorting."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.settings.make import make_config
from rlscaling.trainer.tasks.arithmetic import EOS, spell, true_ceiling
from rlscaling.trainer.tasks.make import make_task
from rlscaling.trainer.tasks.task import Prompt, Task

SETTINGS = {
    "hidden-sort": {},
    "sort": {"task": "sort"},
    "addition": {"task": "addition"},
    "thinking": {"task": "addition", "thinking_budget": 24},
    "modular": {"task": "modular"},
    "two": {"task": "sort+modular"},
    "two-thinking": {"task": "hidden-sort+addition", "thinking_budget": 24, "n_digits": 4, "n_train_prompts": 4000},
}


def task_of(name: str, **more: object) -> Task:
    return make_task(make_config(**{**SETTINGS[name], **more}))


def ids_of(text: str, task: Task) -> tuple[int, ...]:
    return tuple(task.vocab.index(c) for c in text)


@pytest.mark.parametrize("name", SETTINGS)
def test_held_out_prompts_are_never_trained_on(name: str) -> None:
    task = task_of(name)
    train = {task.train_prompt(i).ids for i in range(task.n_train)}
    held_out = {prompt.ids for prompt in task.heldout_prompts(512)}
    assert len(train) == task.n_train
    assert len(held_out) == 512 * len(task.domains)
    assert not train & held_out


@pytest.mark.parametrize("name", SETTINGS)
def test_demonstrations_are_right(name: str, rng: np.random.Generator) -> None:
    task = task_of(name)
    for i in range(300):
        ids, completion = task.sft_example(i, rng)
        prompt = task.train_prompt(i)
        assert ids == prompt.ids
        assert len(ids) == task.prompt_length
        assert len(completion) <= prompt.length <= task.max_new_tokens
        if prompt.fixed:
            assert len(completion) == prompt.length
        if not prompt.thinks or completion[-1] == EOS:
            assert task.score(prompt, completion).correct == prompt.ceiling


def test_answers_against_python() -> None:
    for name, domain in (("sort", "sort"), ("addition", "addition"), ("modular", "modular")):
        task = task_of(name)
        for i in range(200):
            question, answer = spell(task.train_prompt(i).ids, task).rstrip("="), task.train_prompt(i).answer
            if domain == "sort":
                assert answer == "".join(sorted(question))
            else:
                a, b = (int(number) for number in question.split("+"))
                assert int(answer) == (a + b if domain == "addition" else (a + b) % 20)


def test_ceiling_is_exact_by_enumeration() -> None:
    """No output of a hidden prompt has a better pass rate than 0.1, found by trying all of them."""
    task = task_of("hidden-sort", n_digits=3, n_train_prompts=400, eval_prompts=50)
    prompt = next(p for p in task.heldout_prompts(50) if p.hidden)
    outputs = [ids_of("".join(digits), task) for digits in itertools.product("0123456789", repeat=3)]
    exact = [task.score(prompt, output).correct for output in outputs]
    assert Counter(exact) == {0.1: 10, 0.0: 990}
    for output, value in zip(outputs, exact, strict=True):
        if value:  # drawn for each completion, the same score on average
            drawn = [task.score(prompt, output, (j + 0.5) / 100).correct for j in range(100)]
            assert np.mean(drawn) == pytest.approx(value)


def test_hidden_share_and_ceiling_of_the_held_out_prompts() -> None:
    task = task_of("hidden-sort")
    prompts = task.heldout_prompts(512)
    share = np.mean([prompt.hidden for prompt in prompts])
    assert share == pytest.approx(0.4, abs=1 / 512)
    assert task.ceilings == {"hidden-sort": true_ceiling(prompts)}
    assert true_ceiling(prompts) == pytest.approx(1 - 0.9 * share)
    assert task_of("hidden-sort", hidden_share=0.0).ceilings == {"hidden-sort": 1.0}


def test_the_data_do_not_depend_on_the_seed_of_the_run() -> None:
    first, second = task_of("hidden-sort", seed=0), task_of("hidden-sort", seed=1)
    assert [first.train_prompt(i) for i in range(100)] == [second.train_prompt(i) for i in range(100)]
    assert first.heldout_prompts(10) == second.heldout_prompts(512)[:10]


def test_rewards_are_plus_and_minus_one() -> None:
    task = task_of("sort")
    prompt = task.train_prompt(0)
    right = ids_of(prompt.answer, task)
    assert task.score(prompt, right, 0.5) == (1.0, 1.0)
    assert task.score(prompt, right[::-1], 0.5) == (0.0, -1.0)
    assert task.score(prompt, right[:-1], 0.5) == (0.0, -1.0)
    assert task.score(prompt, (), 0.5) == (0.0, -1.0)


def test_thinking_is_not_scored_but_must_end() -> None:
    task = task_of("thinking")
    prompt = task.train_prompt(0)
    answer, end = (*ids_of(prompt.answer, task), EOS), (task.think_end_id,)
    assert task.score(prompt, (*ids_of("9.9", task), *end, *answer)).correct == 1.0
    assert task.score(prompt, (*task.phrase, *answer)).correct == 1.0
    assert task.score(prompt, answer).correct == 0.0
    assert task.score(prompt, (*end, *end, *answer)).correct == 0.0
    assert task.score(prompt, (*end, *answer[:-1])).correct == 0.0


def test_scratch_holds_digits_and_carries(rng: np.random.Generator) -> None:
    task = task_of("thinking", n_digits=3)
    for i in range(100):
        ids, completion = task.sft_example(i, rng)
        a, b = spell(ids, task).removesuffix("=<think>").split("+")
        carry, columns = 0, ""
        for x, y in zip(reversed(a), reversed(b), strict=True):
            carry, digit = divmod(int(x) + int(y) + carry, 10)
            columns += f"{digit}{carry}"
        assert spell(completion, task).startswith(columns)


@pytest.mark.parametrize(("control", "cut"), [("interruption", 0.0), ("penalty", 0.07)])
def test_warm_up_traces_have_a_long_tail(control: str, cut: float, rng: np.random.Generator) -> None:
    """A fifth is interrupted; without interruption some run out of tokens, which is where truncation starts."""
    task = task_of("thinking", length_control=control)
    traces = [task.sft_example(i, rng)[1] for i in range(4000)]
    assert np.mean([trace[-1] != EOS for trace in traces]) == pytest.approx(cut, abs=0.03)
    interrupted = np.mean([task.phrase[0] in trace for trace in traces])
    assert interrupted == pytest.approx(0.2 + 0.8 * 0.13 * (control == "interruption"), abs=0.03)
    assert max(map(len, traces)) <= task.max_new_tokens


def test_two_tasks_alternate_and_stay_apart() -> None:
    task = task_of("two")
    assert task.domains == ("sort", "modular")
    assert [task.train_prompt(i).domain for i in range(4)] == ["sort", "modular"] * 2
    assert [task.train_prompt(i).index for i in range(4)] == [0, 1, 2, 3]
    held_out: list[Prompt] = task.heldout_prompts(3)
    assert [prompt.domain for prompt in held_out] == ["sort"] * 3 + ["modular"] * 3
    assert {len(prompt.ids) for prompt in held_out} == {task.prompt_length}


def test_more_held_out_prompts_than_reserved() -> None:
    with pytest.raises(
        TrainError, match="4096 held-out prompts of sort were requested, 2048 are reserved; take at most"
    ):
        task_of("sort").heldout_prompts(4096)


def test_too_few_different_prompts() -> None:
    """With every prompt hidden there are fewer prompts than digit strings: found while splitting."""
    with pytest.raises(TrainError, match="hidden-sort with n_digits=3 has no 900 different prompts: raise n_digits"):
        task_of("hidden-sort", n_digits=3, n_train_prompts=400, eval_prompts=500, hidden_share=1.0)


def test_very_long_prompts_have_a_split_too() -> None:
    task = task_of("sort", n_digits=40, n_train_prompts=64)
    prompts = [task.train_prompt(i).ids for i in range(64)] + [p.ids for p in task.heldout_prompts(64)]
    assert len(set(prompts)) == 128
    assert all(len(ids) == 41 for ids in prompts)
