"""Batched sampling with per-token log-probabilities; completions in flight outlive a change of weights.

A call of the decoder samples one token of every live row. Rows are independent of each other: what a completion
draws is a function of seed, group, sample and position (``rng.py``), so neither the batch around it nor a resume
changes it, rounding in the matrix products aside.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from rlscaling.trainer import rng
from rlscaling.trainer.kernels import ops
from rlscaling.trainer.model import Decoder, KVCache
from rlscaling.trainer.rollout import Rollout, pad_ids
from rlscaling.trainer.tasks import Prompt, Task

MAX_EVALUATION_ROWS = 4096


@dataclasses.dataclass(frozen=True)
class Sampling:
    """How completions are drawn.

    Attributes
    ----------
    key
        From ``rng.key_of``.
    generations
        Completions of a group: the stream of a completion is ``group * generations + sample``.
    temperature
        Divides the logits.
    window
        Thinking still going on is ended after a number of tokens drawn from here; None never ends it.
    exact_score
        Score what is hidden by its mean (evaluation) instead of drawing it (training).
    """

    key: int
    generations: int
    temperature: float = 1.0
    window: tuple[int, int] | None = None
    exact_score: bool = False


@dataclasses.dataclass
class _Rows:
    """The state of N rows in flight, T tokens at most."""

    group: Tensor  # (N,)
    sample: Tensor  # (N,)
    limit: Tensor  # (N,) tokens after which the row ends
    fixed: Tensor  # (N,) bool: reaching the limit is no truncation
    thinking: Tensor  # (N,) bool
    interrupt_at: Tensor  # (N,) tokens of thinking after which it is ended
    forced: Tensor  # (N,) tokens of the phrase already given; 0 where not interrupted
    n: Tensor  # (N,) tokens so far
    tokens: Tensor  # (N, T)
    logp: Tensor  # (N, T) float32
    sampled: Tensor  # (N, T) bool
    version: Tensor  # (N, T)

    def __len__(self) -> int:
        return len(self.n)

    def map(self, change: Any) -> _Rows:
        return _Rows(**{f.name: change(getattr(self, f.name)) for f in dataclasses.fields(self)})

    def append(self, other: _Rows) -> _Rows:
        return _Rows(**{name: torch.cat((value, getattr(other, name))) for name, value in vars(self).items()})


class Generator:
    """Completions in flight.

    Parameters
    ----------
    task
        What is asked and how it is scored.
    sampling
        How completions are drawn.

    Attributes
    ----------
    n_sampled, n_prefilled : int
        Tokens sampled, and prompt tokens read, since the start.
    """

    def __init__(self, task: Task, sampling: Sampling) -> None:
        self.task, self.sampling = task, sampling
        self.n_sampled = self.n_prefilled = 0
        self._prompts: dict[int, Prompt] = {}
        self._pending: list[tuple[int, Prompt, int]] = []
        self._rows: _Rows | None = None
        self._cache: KVCache | None = None

    @property
    def n_live(self) -> int:
        """Rows that the next call samples a token for."""
        return sum(n for _, _, n in self._pending) + (len(self._rows) if self._rows else 0)

    def start(self, groups: Sequence[tuple[int, Prompt, int]]) -> None:
        """Add rows: number of the group, its prompt, how many completions; read at the next call."""
        self._pending.extend(groups)

    @torch.inference_mode()
    def advance(self, model: Decoder, version: int, max_calls: int | None = None) -> list[Rollout]:
        """Sample one token of every live row in each call, and return the completions that ended.

        Parameters
        ----------
        model
            The policy as it is now; rows go on from keys and values that earlier weights left in the cache.
        version
            Updates done to its weights; noted at every token sampled.
        max_calls
            Calls to make; None goes on until no row is live.

        Returns
        -------
        list of Rollout
            In the order in which they ended, those of one call in the order of their start.
        """
        finished: list[Rollout] = []
        calls = 0
        while self.n_live and (max_calls is None or calls < max_calls):
            hidden = self._forward(model)
            self._sample(model, hidden, version)
            finished += self._take_finished()
            calls += 1
        return finished

    def _forward(self, model: Decoder) -> Tensor:
        """Return the hidden state from which each row's next token comes, (N, D); new rows join here."""
        parts = []
        if self._rows is not None:
            rows = self._rows
            last = rows.tokens.gather(1, rows.n[:, None] - 1)
            parts.append(model(last, cache=self._cache)[:, -1])
        if self._pending:
            new, cache, hidden = self._prefill(model)
            self._rows = self._rows.append(new) if self._rows is not None else new
            self._cache = self._cache.append(cache) if self._cache is not None else cache
            parts.append(hidden)
        return torch.cat(parts)

    def _prefill(self, model: Decoder) -> tuple[_Rows, KVCache, Tensor]:
        """Read each new prompt once and share its keys and values among its completions."""
        pending, self._pending = self._pending, []
        device = model.embed_tokens.weight.device
        self._prompts.update({group: prompt for group, prompt, _ in pending})
        prompts, lengths = pad_ids([prompt.ids for _, prompt, _ in pending], self.task.pad_id)  # (g, P)
        cache = KVCache.empty(model.spec, len(pending), device)
        hidden = model(prompts.to(device), cache=cache)
        # padding stands last: no token sees it, and the completion is written over its keys and values
        cache.positions = lengths.to(device)
        hidden = hidden[torch.arange(len(pending), device=device), cache.positions - 1]
        self.n_prefilled += int(lengths.sum())
        copies = torch.tensor([n for _, _, n in pending], device=device)
        source = torch.repeat_interleave(torch.arange(len(pending), device=device), copies)
        return self._new_rows(pending, source, copies, device), cache.keep(source), hidden[source]

    def _new_rows(
        self, pending: list[tuple[int, Prompt, int]], source: Tensor, copies: Tensor, device: torch.device
    ) -> _Rows:
        facts = [(group, prompt.length, prompt.fixed, prompt.thinks) for group, prompt, _ in pending]
        group, limit, fixed, thinks = torch.tensor(facts, dtype=torch.long, device=device)[source].unbind(1)
        n = len(source)
        zero = torch.zeros(n, dtype=torch.long, device=device)
        shape = (n, self.task.max_new_tokens)
        rows = _Rows(
            group=group,
            sample=torch.arange(n, device=device) - (copies.cumsum(0) - copies)[source],
            limit=limit,
            fixed=fixed.bool(),
            thinking=thinks.bool(),
            interrupt_at=limit,
            forced=zero,
            n=zero.clone(),
            tokens=torch.full(shape, self.task.pad_id, device=device),
            logp=torch.zeros(shape, device=device),
            sampled=torch.zeros(shape, dtype=torch.bool, device=device),
            version=torch.zeros(shape, dtype=torch.long, device=device),
        )
        if self.sampling.window is not None:
            low, high = self.sampling.window
            u = self._draw(rows, rng.INTERRUPT_POSITION)
            rows.interrupt_at = low + (u.double() * (high - low + 1)).long()
        return rows

    def _streams(self, rows: _Rows) -> Tensor:
        return rows.group * self.sampling.generations + rows.sample

    def _draw(self, rows: _Rows, position: int) -> Tensor:
        """Return one uniform number for each row, (N,)."""
        streams = self._streams(rows)
        return rng.uniforms(self.sampling.key, streams, torch.full_like(streams, position), 1)[:, 0]

    def _sample(self, model: Decoder, hidden: Tensor, version: int) -> None:
        """Give each row its next token: sampled, or the next of the phrase that ends thinking."""
        rows = self._rows
        assert rows is not None
        sampling = self.sampling
        tokens, logp = ops.sample(
            model.logits(hidden), self._streams(rows), rows.n, key=sampling.key, temperature=sampling.temperature
        )
        at = rows.n[:, None]
        sampled = torch.ones_like(rows.thinking)
        if sampling.window is not None:
            force = rows.thinking & (rows.n >= rows.interrupt_at)
            phrase = torch.tensor(self.task.phrase, device=tokens.device)
            tokens = torch.where(force, phrase[rows.forced.clamp(max=len(phrase) - 1)], tokens)
            logp = logp.masked_fill(force, 0.0)
            rows.forced = rows.forced + force
            sampled = ~force
        rows.tokens.scatter_(1, at, tokens[:, None])
        rows.logp.scatter_(1, at, logp[:, None])
        rows.sampled.scatter_(1, at, sampled[:, None])
        rows.version.scatter_(1, at, version)
        rows.n = rows.n + 1
        rows.thinking = rows.thinking & (tokens != self.task.think_end_id)
        self.n_sampled += int(sampled.sum()) if sampling.window is not None else len(rows)

    def _take_finished(self) -> list[Rollout]:
        """Take the rows that ended out of the batch and return them."""
        rows = self._rows
        assert rows is not None
        assert self._cache is not None
        last = rows.tokens.gather(1, rows.n[:, None] - 1)[:, 0]
        ended = torch.isin(last, torch.tensor(self.task.stop_ids, device=last.device))
        done = ended | (rows.n >= rows.limit)
        n_done = int(done.sum())
        if not n_done:
            return []
        if n_done == len(rows):
            out, self._rows, self._cache = rows, None, None
        else:
            left = (~done).nonzero()[:, 0]
            out, ended = rows.map(lambda value: value[done]), ended[done]
            self._rows, self._cache = rows.map(lambda value: value[left]), self._cache.keep(left)
        return self._rollouts(out, out.fixed | ended)

    def _rollouts(self, rows: _Rows, complete: Tensor) -> list[Rollout]:
        u = None if self.sampling.exact_score else self._draw(rows, rng.SCORE_POSITION).tolist()
        tokens, logp, sampled, version = (
            value.cpu().numpy() for value in (rows.tokens, rows.logp, rows.sampled, rows.version)
        )
        listed = rows.tokens.tolist()
        columns = (rows.group, rows.sample, rows.n, rows.forced > 0, complete)
        out = []
        for i, (group, sample, n, interrupted, whole) in enumerate(
            zip(*(column.tolist() for column in columns), strict=True)
        ):
            prompt = self._prompts[group]
            correct, reward = self.task.score(prompt, tuple(listed[i][:n]), None if u is None else u[i])
            part = slice(n)
            out.append(
                Rollout(
                    group=group,
                    sample=sample,
                    prompt=prompt,
                    tokens=tokens[i, part],
                    logp=logp[i, part],
                    sampled=sampled[i, part],
                    version=version[i, part],
                    truncated=not whole,
                    interrupted=interrupted,
                    correct=correct,
                    reward=reward,
                )
            )
        self._forget_prompts()
        return out

    def _forget_prompts(self) -> None:
        live = set(self._rows.group.tolist()) if self._rows is not None else set()
        self._prompts = {group: prompt for group, prompt in self._prompts.items() if group in live}

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint holds: rows in flight with their cache, and rows not yet read."""
        live, cache = self._rows, self._cache
        return {
            "rows": None if live is None else {name: value.clone() for name, value in vars(live).items()},
            "cache": None if cache is None else cache.state_dict(),
            "prompts": {group: prompt.index for group, prompt in self._prompts.items()},
            "pending": [(group, prompt.index, n) for group, prompt, n in self._pending],
            "counts": (self.n_sampled, self.n_prefilled),
        }

    def load_state_dict(self, state: Mapping[str, Any], model: Decoder | None = None) -> None:
        """Go on from ``state_dict``; prompts are training prompts, found by their index."""
        prompt = self.task.train_prompt
        self._rows = self._cache = None
        self._prompts = {group: prompt(index) for group, index in state["prompts"].items()}
        self._pending = [(group, prompt(index), n) for group, index, n in state["pending"]]
        self.n_sampled, self.n_prefilled = state["counts"]
        if state["rows"] is not None:
            assert model is not None, "rows in flight need the model's sizes"
            device = model.embed_tokens.weight.device
            self._rows = _Rows(**{name: value.to(device) for name, value in state["rows"].items()})
            self._cache = KVCache.from_state(model.spec, state["cache"], device)


def generate_all(
    model: Decoder,
    task: Task,
    prompts: Sequence[Prompt],
    n: int,
    *,
    seed: int,
    temperature: float = 1.0,
    window: tuple[int, int] | None = None,
    version: int = 0,
    max_rows: int = MAX_EVALUATION_ROWS,
) -> list[Rollout]:
    """Return ``n`` completions of each prompt for an evaluation: prompt after prompt, scored exactly.

    Parameters
    ----------
    model
        The policy.
    task
        Where the prompts come from.
    prompts
        Held-out prompts; the group of a completion is its prompt's number here.
    n
        Completions of a prompt.
    seed
        Another one gives other completions; training never shares its noise with an evaluation.
    temperature, window
        As in ``Sampling``.
    version
        Noted at every token.
    max_rows
        Completions at once.

    Returns
    -------
    list of Rollout
        Of length ``len(prompts) * n``, sorted by group and sample.
    """
    key = rng.key_of(seed, rng.EVALUATION)
    generator = Generator(task, Sampling(key, n, temperature, window, exact_score=True))
    at_once = max(1, max_rows // n)
    rollouts = []
    for first in range(0, len(prompts), at_once):
        part = prompts[first : first + at_once]
        generator.start([(first + i, prompt, n) for i, prompt in enumerate(part)])
        rollouts += generator.advance(model, version)
    return sorted(rollouts, key=lambda r: (r.group, r.sample))
