"""Sorting (a digit may be hidden), addition and modular addition, alone or two at once.

A prompt is a few token ids, the same number for every prompt of a task, padded on the left. Which prompts exist is
fixed once for all runs: the seed of a run does not change what ``train_prompt(17)`` is. Held-out prompts come first
and are never trained on.
"""

from __future__ import annotations

import dataclasses
import functools
import random
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.settings.config import TrainConfig
from rlscaling.trainer.settings.task_constants import HELD_OUT, MODULUS, answer_length, task_space
from rlscaling.trainer.tasks.task import HIDDEN_SCORE, Ids, Prompt, Score, Task

VOCAB = ("<pad>", "<eos>", *"0123456789", "?", "=", "+", "<think>", ".", "<time-is-up>", "</think>")
"""Tokens of all tasks; a task that does not think has only those up to the plus sign."""

PAD, EOS = 0, 1
_DIGIT = 2
_HIDDEN, _EQUALS, _PLUS, _THINK, _DAWDLE, _TIME_UP, _END_THINK = range(12, 19)
_INTERRUPTED_SHARE = 0.2
_OVERLONG_SHARE = 0.1


def true_ceiling(prompts: Sequence[Prompt]) -> float:
    """Return the best mean pass rate that any model can reach on these prompts."""
    return sum(prompt.ceiling for prompt in prompts) / len(prompts)


class _ArithmeticTask:
    """The tokens that the tasks of this module share; nothing outside the settings enters a task."""

    vocab: tuple[str, ...] = VOCAB[: _PLUS + 1]
    pad_id, eos_id, think_end_id = PAD, EOS, _END_THINK
    stop_ids: Ids = (EOS,)
    phrase: Ids = (_TIME_UP, _END_THINK)
    downstream: tuple[str, ...] = ()
    fingerprint = ""
    notes: tuple[str, ...] = ()

    @property
    def vocab_size(self) -> int:
        return len(self.vocab)

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        assert not state


def spell(ids: Sequence[int], task: Task) -> str:
    """Return the tokens of a task of this module as text."""
    assert isinstance(task, _ArithmeticTask)
    return "".join(task.vocab[i] for i in ids)


@functools.lru_cache(maxsize=65536)
def _digits(number: int | str, width: int = 0) -> Ids:
    """Return the tokens of a number; scoring needs the same ones over and over."""
    return tuple(_DIGIT + int(c) for c in str(number).zfill(width))


class _SingleTask(_ArithmeticTask, ABC):
    """One task: the split into training and held-out prompts, and scoring.

    A subclass says what prompt belongs to a number below ``task_space``.
    """

    name = ""

    def __init__(self, config: TrainConfig, prompt_length: int) -> None:
        self.domains: tuple[str, ...] = (self.name,)
        self.n_digits = config.n_digits
        self.prompt_length = prompt_length
        self.answer_length = answer_length(self.name, config.n_digits)
        self.max_new_tokens = config.max_new_tokens
        self.n_train = config.n_train_prompts // len(config.domains)
        self._n_heldout = config.eval_prompts
        plenty = task_space(self.name, config.n_digits) >= 4 * (HELD_OUT + self.n_train)
        reserved = HELD_OUT if plenty else config.eval_prompts
        self._heldout, self._train = self._split(reserved)

    def _split(self, reserved: int) -> tuple[list[Prompt], list[Prompt]]:
        """Return the held-out and the training prompts, no two of them with the same ids."""
        space = task_space(self.name, self.n_digits)
        # random.Random promises the same numbers in every version; the seed is the data set's, not the run's
        draw, n = random.Random(0), min(space, 2 * (reserved + self.n_train))
        # a range longer than sys.maxsize cannot be sampled, and need not be: two draws are never alike
        codes = iter(
            draw.sample(range(space), n) if space <= sys.maxsize else [draw.randrange(space) for _ in range(n)]
        )
        seen: set[Ids] = set()

        def fresh(index: int) -> Prompt:
            # two numbers that differ only in the hidden digit are one prompt
            for code in codes:
                prompt = self._prompt(code, index)
                if prompt.ids not in seen:
                    seen.add(prompt.ids)
                    return prompt
            raise TrainError(
                f"{self.name} with n_digits={self.n_digits} has no {reserved + self.n_train} different prompts: raise "
                "n_digits, or lower n_train_prompts"
            )

        return [fresh(i) for i in range(reserved)], [fresh(i) for i in range(self.n_train)]

    @property
    def ceilings(self) -> dict[str, float]:
        return {self.name: true_ceiling(self.heldout_prompts(self._n_heldout))}

    def train_prompt(self, i: int) -> Prompt:
        return self._train[i]

    def heldout_prompts(self, n: int) -> list[Prompt]:
        reserved = len(self._heldout)
        if n > reserved:
            raise TrainError(
                f"{n} held-out prompts of {self.name} were requested, {reserved} are reserved; take at most that many"
            )
        return self._heldout[:n]

    def sft_example(self, i: int, rng: np.random.Generator) -> tuple[Ids, Ids]:
        prompt = self.train_prompt(i)
        return prompt.ids, self._demonstration(prompt, rng)

    def score(self, prompt: Prompt, completion: Ids, u: float | None = None) -> Score:
        correct = self._correct(prompt, completion, u)
        return Score(correct, 1.0 if correct == 1.0 else -1.0)

    @abstractmethod
    def _prompt(self, code: int, index: int) -> Prompt:
        """Return the prompt that a number stands for."""

    def _demonstration(self, prompt: Prompt, rng: np.random.Generator) -> Ids:
        return _digits(prompt.answer)

    def _correct(self, prompt: Prompt, completion: Ids, u: float | None) -> float:
        return float(completion == _digits(prompt.answer))


class Sort(_SingleTask):
    """Sort the digits: ``31254=`` is answered by ``12345``."""

    name = "sort"

    def __init__(self, config: TrainConfig) -> None:
        super().__init__(config, config.n_digits + 1)

    def _prompt(self, code: int, index: int) -> Prompt:
        digits = str(code).zfill(self.n_digits)
        ids = (*_digits(digits), _EQUALS)
        return Prompt(ids, "".join(sorted(digits)), self.name, index, length=self.answer_length)


class HiddenSort(Sort):
    """Sort the digits, one of which is not shown in a known share of the prompts: ``31?54=``.

    In training the hidden digit is drawn for each completion, so that no model can learn it. In evaluation the ten
    completions that are right for some digit score 0.1, the probability of guessing it: the ceiling is exact.
    """

    name = "hidden-sort"

    def __init__(self, config: TrainConfig) -> None:
        self.hidden_share = config.hidden_share
        super().__init__(config)

    def _prompt(self, code: int, index: int) -> Prompt:
        prompt = super()._prompt(code, index)
        # the share is met exactly in any number of prompts it divides
        if int((index + 1) * self.hidden_share + 1e-9) == int(index * self.hidden_share + 1e-9):
            return prompt
        place = random.Random(code).randrange(self.n_digits)
        shown = [i for j, i in enumerate(prompt.ids[:-1]) if j != place]
        ids = (*prompt.ids[:place], _HIDDEN, *prompt.ids[place + 1 :])
        answer = "".join(str(i - _DIGIT) for i in sorted(shown))
        return dataclasses.replace(prompt, ids=ids, answer=answer, hidden=True)

    def _demonstration(self, prompt: Prompt, rng: np.random.Generator) -> Ids:
        return self._with(prompt, int(rng.integers(10))) if prompt.hidden else _digits(prompt.answer)

    def _correct(self, prompt: Prompt, completion: Ids, u: float | None) -> float:
        if not prompt.hidden:
            return super()._correct(prompt, completion, u)
        if u is not None:
            return float(completion == self._with(prompt, int(10 * u)))
        rest = list(completion)
        for i in _digits(prompt.answer):
            if i not in rest:
                return 0.0
            rest.remove(i)
        consistent = len(rest) == 1 and _DIGIT <= rest[0] < _DIGIT + 10 and list(completion) == sorted(completion)
        return HIDDEN_SCORE if consistent else 0.0

    def _with(self, prompt: Prompt, digit: int) -> Ids:
        return tuple(sorted((*_digits(prompt.answer), _DIGIT + digit)))


class Modular(_SingleTask):
    """Add two numbers below 100 modulo 20: ``47+85=`` is answered by ``12``."""

    name = "modular"

    def __init__(self, config: TrainConfig) -> None:
        super().__init__(config, 6)

    def _prompt(self, code: int, index: int) -> Prompt:
        a, b = divmod(code, 100)
        ids = (*_digits(a, 2), _PLUS, *_digits(b, 2), _EQUALS)
        return Prompt(ids, f"{(a + b) % MODULUS:02}", self.name, index, length=self.answer_length)


class Addition(_SingleTask):
    """Add two numbers; with a thinking budget, digit by digit from the right before the answer.

    ``47+85=`` is answered by ``132``. Thinking, ``47+85=<think>`` is completed to ``2131....</think>132<eos>``: digit
    of the sum and carry of each column, then dots for as long as the model likes. The examples of the warm-up dawdle
    for a geometric time, beyond the budget in a share of ``_OVERLONG_SHARE``, and a fifth of them are interrupted:
    length control has something to act on.
    """

    name = "addition"

    def __init__(self, config: TrainConfig) -> None:
        n, self.budget, self.window = config.n_digits, config.thinking_budget, config.interrupt_window
        self.interrupts = config.length_control == "interruption"
        super().__init__(config, 2 * n + 2 + bool(self.budget))
        if self.budget:
            self.vocab = VOCAB
            # a memoryless stop: the chance of dawdling on, taken over the tokens left, is the share of the overlong
            self.stop = 1 - _OVERLONG_SHARE ** (1 / max(1, self.budget - 2 * n))

    def _prompt(self, code: int, index: int) -> Prompt:
        n = self.n_digits
        a, b = divmod(code, 10**n)
        ids = (*_digits(a, n), _PLUS, *_digits(b, n), _EQUALS)
        answer = str(a + b).zfill(n + 1)
        if not self.budget:
            return Prompt(ids, answer, self.name, index, length=self.answer_length)
        length = self.max_new_tokens
        return Prompt((*ids, _THINK), answer, self.name, index, length=length, fixed=False, thinks=True)

    def _demonstration(self, prompt: Prompt, rng: np.random.Generator) -> Ids:
        answer = _digits(prompt.answer)
        if not self.budget:
            return answer
        thought = self._columns(prompt) + (_DAWDLE,) * int(rng.geometric(self.stop) - 1)
        low, high = self.window
        stop_at = int(rng.integers(low, high + 1)) if self.interrupts else len(thought)
        if rng.random() < _INTERRUPTED_SHARE:
            stop_at = int(rng.integers(2 * self.n_digits, self.budget + 1))
            thought += (_DAWDLE,) * (stop_at + 1 - len(thought))
        end = (_END_THINK,) if len(thought) <= stop_at else self.phrase
        return (*thought[:stop_at], *end, *answer, EOS)[: self.max_new_tokens]

    def _columns(self, prompt: Prompt) -> Ids:
        """Return the digit of the sum and the carry of each column, from the right."""
        n, ids, carry, columns = self.n_digits, prompt.ids, 0, []
        for j in range(n - 1, -1, -1):
            carry, digit = divmod(ids[j] + ids[n + 1 + j] - 2 * _DIGIT + carry, 10)
            columns += [_DIGIT + digit, _DIGIT + carry]
        return tuple(columns)

    def _correct(self, prompt: Prompt, completion: Ids, u: float | None) -> float:
        if not prompt.thinks:
            return super()._correct(prompt, completion, u)
        if _END_THINK not in completion:
            return 0.0
        solution = completion[completion.index(_END_THINK) + 1 :]
        return float(solution == (*_digits(prompt.answer), EOS))


class JoinedTasks(_ArithmeticTask):
    """Two tasks at once: their training prompts alternate, and each is a domain with its own pass rate."""

    def __init__(self, parts: Sequence[_SingleTask]) -> None:
        self.parts = tuple(parts)
        self.name = "+".join(part.name for part in parts)
        self.domains = tuple(part.name for part in parts)
        self.vocab = max((part.vocab for part in parts), key=len)
        self.prompt_length = max(part.prompt_length for part in parts)
        self.max_new_tokens = max(part.max_new_tokens for part in parts)
        self.n_train = sum(part.n_train for part in parts)
        self._by_name = dict(zip(self.domains, parts, strict=True))
        train = [parts[i % len(parts)].train_prompt(i // len(parts)) for i in range(self.n_train)]
        self._train = [self._padded(prompt, i) for i, prompt in enumerate(train)]

    @property
    def ceilings(self) -> dict[str, float]:
        """Best pass rate that any model can reach on the held-out prompts of each task."""
        return {domain: ceiling for part in self.parts for domain, ceiling in part.ceilings.items()}

    def train_prompt(self, i: int) -> Prompt:
        """Return training prompt ``i``."""
        return self._train[i]

    def heldout_prompts(self, n: int) -> list[Prompt]:
        """Return the first ``n`` held-out prompts of each task, task after task."""
        own = [prompt for part in self.parts for prompt in part.heldout_prompts(n)]
        return [self._padded(prompt, i) for i, prompt in enumerate(own)]

    def sft_example(self, i: int, rng: np.random.Generator) -> tuple[Ids, Ids]:
        """Return training prompt ``i`` and a completion to imitate."""
        j, which = divmod(i, len(self.parts))
        return self.train_prompt(i).ids, self.parts[which].sft_example(j, rng)[1]

    def score(self, prompt: Prompt, completion: Ids, u: float | None = None) -> Score:
        """Score a completion by the task of its prompt."""
        return self._by_name[prompt.domain].score(prompt, completion, u)

    def _padded(self, prompt: Prompt, index: int) -> Prompt:
        ids = (PAD,) * (self.prompt_length - len(prompt.ids)) + prompt.ids
        return dataclasses.replace(prompt, ids=ids, index=index)
