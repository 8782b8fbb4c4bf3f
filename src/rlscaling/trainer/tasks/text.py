"""Problems from files, answered by a pretrained model: prompts from a template, answers verified as mathematics.

The data sets of ``data`` are split into training and held-out prompts, each with a validation curve of its own; those
of ``downstream`` are evaluated on the same compute axis and never trained on [ScaleRL, 5].
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.settings.hf_config import read_architecture
from rlscaling.trainer.settings.task_constants import TEXT_TASK, parse_sources
from rlscaling.trainer.tasks.answers import find_answer
from rlscaling.trainer.tasks.problem_files import Domains, Problem, read_domains
from rlscaling.trainer.tasks.task import Ids, Prompt, Score
from rlscaling.trainer.tasks.tokenizer import TextTokenizer
from rlscaling.trainer.tasks.verifier import Verifier

if TYPE_CHECKING:
    import numpy as np

    from rlscaling.trainer.settings.config import TrainConfig


THINKING_TEMPLATE = "{problem}\nThink step by step, then put the final answer within \\boxed{}.\n{think}"
ANSWERING_TEMPLATE = "{problem}\nPut the final answer within \\boxed{}.\n"
NO_TOKEN = -1  # no token ends thinking


class TextTask:
    """The task of a run with ``data`` and ``model_path``; see ``Task`` for its attributes.

    Parameters
    ----------
    config
        ``data``, ``downstream``, ``model_path``, the template and the lengths.

    Raises
    ------
    TrainError
        For data, a tokenizer or lengths that do not go together.
    """

    name = TEXT_TASK

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.vocab_size = read_architecture(config.model_path).vocab_size
        self.tokenizer = TextTokenizer(config.model_path, self.vocab_size)
        self.verifier = Verifier(config.check_timeout)
        self.stop_ids = self.tokenizer.stop_ids
        self.pad_id = self.stop_ids[0]
        self.think_end_id, self.phrase = self._ends()
        data = read_domains(parse_sources(config.data, "data"), parse_sources(config.downstream, "downstream"))
        self.domains, self.downstream = tuple(data.problems), data.downstream
        self.fingerprint = data.fingerprint
        self.checks_failed = 0
        self.max_new_tokens = config.max_new_tokens
        self._notes = list(data.notes)
        self._train: list[Prompt] = []
        self._heldout: dict[str, list[Prompt]] = {}
        self._solutions: list[tuple[int, str]] = []
        self._split(data)
        self.n_train = len(self._train)
        self._check_sizes()
        prompts = [*self._train, *(prompt for own in self._heldout.values() for prompt in own)]
        self.prompt_length = max(len(prompt.ids) for prompt in prompts)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out of the data, and why."""
        return tuple(self._notes)

    @property
    def ceilings(self) -> dict[str, float]:
        """Empty: the best possible pass rate on real problems is unknown."""
        return {}

    def _ends(self) -> tuple[int, Ids]:
        """Return the token that ends thinking, and those of the phrase that ends it by force."""
        config = self.config
        marker = self.tokenizer.encode(config.think_end) if config.thinks else ()
        token = marker[0] if len(marker) == 1 else NO_TOKEN
        if config.length_control != "interruption":
            return token, (token,)
        if token == NO_TOKEN:
            raise TrainError(
                f"think_end={config.think_end!r} is {len(marker)} tokens to this tokenizer: where thinking ends could "
                "not be seen in time to interrupt it. Take a marker that is one token (an added_token of "
                "tokenizer.json), or length_control='penalty' or 'none'"
            )
        phrase = self.tokenizer.encode(config.time_up + config.think_end)
        if phrase[-1] != token or token in phrase[:-1]:
            raise TrainError(f"time_up={config.time_up!r} must not hold {config.think_end!r}, which is put after it")
        if config.interrupt_window[1] + len(phrase) >= config.max_new_tokens:
            raise TrainError(
                f"interrupt_window={config.interrupt_window} and the phrase of {len(phrase)} tokens leave nothing of "
                f"max_new_tokens={config.max_new_tokens} for the solution; raise solution_tokens"
            )
        return token, phrase

    # --- prompts ------------------------------------------------------------------------------------------------

    def _split(self, data: Domains) -> None:
        config, train = self.config, []
        for name, problems in data.problems.items():
            pairs = self._prompts(name, problems)
            if name in data.downstream:
                self._heldout[name] = self._evaluated(name, [prompt for _, prompt in pairs])
                continue
            held_out = [prompt for problem, prompt in pairs if problem.position < config.held_out_share]
            if not held_out:
                raise TrainError(
                    f"none of the {len(pairs):,} problems of {name} is held out at held_out_share="
                    f"{config.held_out_share:g}; raise it, so that the pass rate can be measured"
                )
            self._heldout[name] = self._evaluated(name, held_out)
            train += [pair for pair in pairs if pair[0].position >= config.held_out_share]
        train.sort(key=lambda pair: pair[0].position)  # domains mixed; the order of the files does not matter
        wanted = config.n_train_prompts or len(train)
        for i, (problem, prompt) in enumerate(train[:wanted]):
            self._train.append(_numbered(prompt, i))
            if problem.solution:
                self._solutions.append((i, problem.solution))

    def _prompts(self, domain: str, problems: Sequence[Problem]) -> list[tuple[Problem, Prompt]]:
        """Return the prompt of each problem that is not too long."""
        config = self.config
        template = config.prompt_template or (THINKING_TEMPLATE if config.thinks else ANSWERING_TEMPLATE)
        before, after = template.replace("{think}", config.think_start if config.thinks else "").split("{problem}")
        encoded = self.tokenizer.encode_prompts([f"{before}{problem.text}{after}" for problem in problems])
        plan = Prompt((), "", domain, 0, length=config.max_new_tokens, fixed=False, thinks=config.thinks)
        pairs = [
            (problem, dataclasses.replace(plan, ids=ids, answer=problem.answer))
            for problem, ids in zip(problems, encoded, strict=True)
            if len(ids) <= config.prompt_tokens
        ]
        if len(pairs) < len(problems):
            self._notes.append(
                f"{domain}: {len(problems) - len(pairs):,} of {len(problems):,} problems are longer than prompt_tokens="
                f"{config.prompt_tokens} with their template and were left out"
            )
        if not pairs and not problems:
            raise TrainError(f"no problem of {domain} is left: all of its problems stand in another data set as well")
        if not pairs:
            raise TrainError(f"no problem of {domain} is left: raise prompt_tokens={config.prompt_tokens}")
        return pairs

    def _evaluated(self, domain: str, prompts: list[Prompt]) -> list[Prompt]:
        wanted = self.config.eval_prompts
        if len(prompts) < wanted and domain not in self.downstream:
            self._notes.append(
                f"{domain}: {len(prompts):,} problems are held out, fewer than eval_prompts={wanted}; "
                "held_out_share decides how many"
            )
        if len(prompts) > wanted:
            self._notes.append(
                f"{domain}: {wanted:,} of {len(prompts):,} problems that are not trained on are evaluated"
            )
        return prompts[:wanted]

    def _check_sizes(self) -> None:
        config = self.config
        batch = config.prompts_per_step * (max(1, config.k) if config.schedule == "ppo-off-policy" else 1)
        if self.n_train < batch:
            raise TrainError(
                f"{self.n_train:,} problems are left to train on, less than one batch of {batch}; add problems, or "
                "lower prompts_per_step or held_out_share"
            )
        self._examples = self._demonstrations()

    def _demonstrations(self) -> list[tuple[Ids, Ids]]:
        """Return prompts and completions to imitate; none without a warm-up."""
        config, solutions = self.config, self._solutions
        if not config.warmup_steps:
            available = f"{len(solutions):,} problems have a solution: warmup_steps=N imitates them first"
            self._notes.append(f"no supervised warm-up; {available if solutions else 'the data have no solutions'}")
            return []
        if not solutions:
            raise TrainError(
                f"warmup_steps={config.warmup_steps}: the data have no solution to imitate; add a column 'solution', "
                "or leave the warm-up out"
            )
        end = f"\n{config.think_end}" if config.thinks else ""
        examples = []
        for i, solution in solutions:
            prompt = self._train[i]
            text = f"{solution}{end}\n\\boxed{{{prompt.answer}}}"
            examples.append((prompt.ids, (*self.tokenizer.encode(text), self.stop_ids[0])))
        fitting = [pair for pair in examples if len(pair[1]) <= config.max_new_tokens]
        if len(fitting) < len(examples):
            self._notes.append(
                f"{len(examples) - len(fitting):,} of {len(examples):,} solutions are longer than max_new_tokens="
                f"{config.max_new_tokens} and were left out of the warm-up"
            )
        if not fitting:
            raise TrainError(f"no solution fits into max_new_tokens={config.max_new_tokens}; raise it")
        return fitting

    def train_prompt(self, i: int) -> Prompt:
        """Return training prompt ``i``."""
        return self._train[i]

    def heldout_prompts(self, n: int) -> list[Prompt]:
        """Return at most ``n`` held-out prompts of each domain, domain after domain."""
        prompts = [prompt for domain in self.domains for prompt in self._heldout[domain][:n]]
        return [_numbered(prompt, i) for i, prompt in enumerate(prompts)]

    # --- completions --------------------------------------------------------------------------------------------

    def sft_example(self, i: int, rng: np.random.Generator) -> tuple[Ids, Ids]:
        """Return a prompt with its solution to imitate, the ``i``-th of those that have one."""
        return self._examples[i % len(self._examples)]

    def score(self, prompt: Prompt, completion: Ids, u: float | None = None) -> Score:
        """Check a completion; one without end, without an answer or whose check fails is wrong."""
        correct = float(self._is_right(prompt, completion))
        return Score(correct, 1.0 if correct else -1.0)

    def _is_right(self, prompt: Prompt, completion: Ids) -> bool:
        if not completion or completion[-1] not in self.stop_ids:
            return False
        text = self.tokenizer.decode(completion[:-1])
        answer = find_answer(text, self.config.think_end if prompt.thinks else "")
        if answer is None:
            return False
        right = self.verifier.check(prompt.answer, answer)
        if right is None:
            self.checks_failed += 1
        return bool(right)

    def state_dict(self) -> dict[str, Any]:
        """Return totals of the run so far: columns of every row, and part of a checkpoint."""
        return {"checks_failed": self.checks_failed}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state_dict``."""
        self.checks_failed = int(state["checks_failed"])


def _numbered(prompt: Prompt, index: int) -> Prompt:
    return dataclasses.replace(prompt, index=index)
