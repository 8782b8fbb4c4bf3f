"""`Generator`: completions in flight, sampled with their log-probabilities; they outlive a change of weights.

A call of the decoder samples one token of every live row. Rows are independent of each other: what a completion
draws is a function of seed, group, sample and position (``rng.py``), so neither the batch around it nor a resume
changes it, rounding in the matrix products aside. A row that ends leaves its slot to the next completion that waits
(continuous batching), so the number of slots bounds the memory, and a long completion holds up no other.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rlscaling.trainer import rng
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.generation.paged_cache import PagedCache
from rlscaling.trainer.generation.prompt_queue import PromptQueue, SampleRange
from rlscaling.trainer.generation.rollout import Rollout
from rlscaling.trainer.generation.slots import Slots, SlotState, compaction
from rlscaling.trainer.kernels import ops
from rlscaling.trainer.model.decoder import Decoder
from rlscaling.trainer.tasks.task import Prompt, Task

if TYPE_CHECKING:
    from rlscaling.trainer.settings.config import TrainConfig


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


class Generator:
    """Completions in flight.

    Parameters
    ----------
    task
        The prompts, and how completions are scored.
    sampling
        How completions are drawn.
    slots
        Rows decoded at once; further completions wait, in the order of their start, for one that ends. None decodes
        all at once.

    Attributes
    ----------
    n_sampled, n_prefilled : int
        Tokens sampled, and prompt tokens read, since the start.

    Raises
    ------
    TrainError
        Without a slot.
    """

    def __init__(self, task: Task, sampling: Sampling, *, slots: int | None = None) -> None:
        if slots is not None and slots < 1:
            raise TrainError(f"slots={slots} decodes nothing; take at least 1, or None for all completions at once")
        self.task, self.sampling, self.slots = task, sampling, slots
        self.n_sampled = self.n_prefilled = 0
        self._stop_ids = torch.tensor(task.stop_ids)
        self._clear()

    @classmethod
    def for_training(cls, config: TrainConfig, task: Task, slots: int) -> Generator:
        """Return what samples the training completions of a run, at most ``slots`` of them at a time."""
        window = config.interrupt_window if config.length_control == "interruption" else None
        sampling = Sampling(rng.key_of(config.seed), config.generations, config.temperature, window)
        return cls(task, sampling, slots=slots)

    def _clear(self) -> None:
        self._prompts: dict[int, Prompt] = {}  # of groups in flight
        self._unfinished: Counter[int] = Counter()  # completions of each
        self._unchecked: list[SampleRange] = []  # against the sizes of the model
        self._queue = PromptQueue()
        self._in_flight = Slots(self.slots)
        self._cache: PagedCache | None = None  # there is one while rows are live

    def _expect(self, samples: SampleRange) -> None:
        self._prompts[samples.group] = samples.prompt
        self._unfinished[samples.group] += samples.n
        self._unchecked.append(samples)

    @property
    def n_live(self) -> int:
        """Rows that the next call samples a token for."""
        n = len(self._in_flight) + self._queue.n
        return n if self.slots is None else min(n, self.slots)

    def start(self, groups: Sequence[tuple[int, Prompt, int]]) -> None:
        """Add completions: number of the group, its prompt, how many; read when there are slots, from the next call on.

        Raises
        ------
        TrainError
            For a group that is in flight already, no completions, and a prompt without tokens or with a limit that the
            task does not have.
        """
        new = [SampleRange(group, prompt, n) for group, prompt, n in groups]
        taken = set(self._prompts)
        for samples in new:
            if samples.group in taken:
                raise TrainError(
                    f"group {samples.group} is in flight already and would be sampled twice; take another number"
                )
            samples.check(self.task.max_new_tokens)
            taken.add(samples.group)
        for samples in new:
            self._expect(samples)
            self._queue.add(samples)

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
            In the order in which they ended, those of one call by group and sample.

        Raises
        ------
        TrainError
            When a prompt and its completion are longer than the model has positions for.
        """
        finished: list[Rollout] = []
        calls = 0
        while self._unchecked:
            self._unchecked[-1].check_fits(model.spec.max_positions)
            self._unchecked.pop()
        while self.n_live and (max_calls is None or calls < max_calls):
            hidden = self._forward(model, version)
            self._sample(model, hidden, version)
            finished += self._take_finished()
            calls += 1
        return finished

    def _forward(self, model: Decoder, version: int) -> Tensor:
        """Return the hidden state from which each row's next token comes, (N, D); new rows join here."""
        parts = []
        if self._in_flight.live is not None:
            parts.append(model(self._in_flight.live.last, cache=self._cache)[:, -1])
        parts += self._fill(model, version)
        return torch.cat(parts)

    def _fill(self, model: Decoder, version: int) -> list[Tensor]:
        """Give free slots to the completions that have waited longest; return the states that they begin with."""
        free = None if self.slots is None else self.slots - len(self._in_flight)
        hidden = []
        for prefilled in self._queue.prefill(model, version, self._queue.take(free), self.task.pad_id):
            device = prefilled.hidden.device
            copies = torch.tensor([samples.n for samples in prefilled.ranges], device=device)
            source = torch.repeat_interleave(torch.arange(len(prefilled.ranges), device=device), copies)
            if self._cache is None:
                self._cache = PagedCache(model.spec, device, self.slots)
            self._cache.extend(prefilled.cache, source)
            self._in_flight.extend(self._new_state(prefilled.ranges, source, copies))
            self.n_prefilled += prefilled.n_read
            hidden.append(prefilled.hidden[source])
        return hidden

    def _new_state(self, ranges: Sequence[SampleRange], source: Tensor, copies: Tensor) -> SlotState:
        facts = [(s.group, s.first, s.prompt.length, s.prompt.fixed, s.prompt.thinks) for s in ranges]
        table = torch.tensor(facts, dtype=torch.long, device=source.device)
        group, first, limit, fixed, thinks = table[source].unbind(1)
        n = len(source)
        zero = torch.zeros(n, dtype=torch.long, device=source.device)
        shape = (n, self.task.max_new_tokens)
        state = SlotState(
            group=group,
            sample=first + torch.arange(n, device=source.device) - (copies.cumsum(0) - copies)[source],
            limit=limit,
            fixed=fixed.bool(),
            thinking=thinks.bool(),
            interrupt_at=limit,
            forced=zero,
            n=zero,
            tokens=torch.full(shape, self.task.pad_id, device=source.device),
            logp=torch.zeros(shape, device=source.device),
            sampled=torch.zeros(shape, dtype=torch.bool, device=source.device),
            version=torch.zeros(shape, dtype=torch.long, device=source.device),
        )
        if self.sampling.window is None:
            return state
        low, high = self.sampling.window
        u = self._draw(state, rng.INTERRUPT_POSITION)
        return dataclasses.replace(state, interrupt_at=low + (u.double() * (high - low + 1)).long())

    def _streams(self, state: SlotState) -> Tensor:
        return state.group * self.sampling.generations + state.sample

    def _draw(self, state: SlotState, position: int) -> Tensor:
        """Return one uniform number for each row, (N,)."""
        streams = self._streams(state)
        return rng.uniforms(self.sampling.key, streams, torch.full_like(streams, position), 1)[:, 0]

    def _sample(self, model: Decoder, hidden: Tensor, version: int) -> None:
        """Give each row its next token: sampled, or the next of the phrase that ends thinking."""
        state = self._in_flight.live
        assert state is not None
        sampling = self.sampling
        tokens, logp = ops.sample(
            model.logits(hidden), self._streams(state), state.n, key=sampling.key, temperature=sampling.temperature
        )
        at = state.n[:, None]
        sampled = torch.ones_like(state.thinking)
        if sampling.window is not None:
            force = state.thinking & (state.n >= state.interrupt_at)
            phrase = torch.tensor(self.task.phrase, device=tokens.device)
            tokens = torch.where(force, phrase[state.forced.clamp(max=len(phrase) - 1)], tokens)
            logp = logp.masked_fill(force, 0.0)
            state.forced.add_(force)
            sampled = ~force
        state.tokens.scatter_(1, at, tokens[:, None])
        state.logp.scatter_(1, at, logp[:, None])
        state.sampled.scatter_(1, at, sampled[:, None])
        state.version.scatter_(1, at, version)
        state.n.add_(1)
        state.thinking.logical_and_(tokens != self.task.think_end_id)
        self.n_sampled += int(sampled.sum()) if sampling.window is not None else len(state)

    def _take_finished(self) -> list[Rollout]:
        """Take the rows that ended out of their slots and return them."""
        state = self._in_flight.live
        assert state is not None
        assert self._cache is not None
        last = state.last[:, 0]
        self._stop_ids = self._stop_ids.to(last.device)  # copied once
        ended = torch.isin(last, self._stop_ids)
        done = ended | (state.n >= state.limit)
        n_left = len(state) - int(done.sum())
        if n_left == len(state):
            return []
        at = done.nonzero()[:, 0]
        at = at[self._streams(state)[at].argsort()]
        out, complete = state.select(at), state.fixed[at] | ended[at]
        movers, holes = compaction(done, n_left)
        self._in_flight.compact(movers, holes, n_left)
        self._cache.compact(movers, holes, n_left)
        if not n_left:
            self._cache = None
        return self._rollouts(out, complete)

    def _rollouts(self, state: SlotState, complete: Tensor) -> list[Rollout]:
        u = None if self.sampling.exact_score else self._draw(state, rng.SCORE_POSITION).tolist()
        tokens, logp, sampled, version = (
            value.cpu().numpy() for value in (state.tokens, state.logp, state.sampled, state.version)
        )
        listed = state.tokens.tolist()
        columns = (state.group, state.sample, state.n, state.forced > 0, complete)
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
            self._unfinished[group] -= 1
            if not self._unfinished[group]:
                del self._unfinished[group], self._prompts[group]
        return out

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint holds: rows in flight with their cache, and completions that wait for a slot."""
        return {
            "rows": self._in_flight.state_dict(),
            "cache": None if self._cache is None else self._cache.state_dict(),
            "prompts": {group: prompt.index for group, prompt in self._prompts.items()},
            "counts": (self.n_sampled, self.n_prefilled),
            **self._queue.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any], model: Decoder | None = None) -> None:
        """Go on from ``state_dict``; prompts are training prompts, found by their index.

        Raises
        ------
        TrainError
            When more rows are in flight than there are slots, or they belong to a model of other sizes.
        """
        n_rows = len(state["rows"]["n"]) if state["rows"] is not None else 0
        if self.slots is not None and n_rows > self.slots:
            raise TrainError(f"{n_rows} rows are in flight and slots={self.slots}; go on with at least {n_rows}")
        self._clear()
        prompt_of = self.task.train_prompt
        self.n_sampled, self.n_prefilled = state["counts"]
        self._prompts = {group: prompt_of(index) for group, index in state["prompts"].items()}
        for samples in self._queue.load_state_dict(state, prompt_of, model):
            self._expect(samples)
        if n_rows:
            assert model is not None, "rows in flight need the model's sizes"
            device = model.embed_tokens.weight.device
            self._in_flight.load_state_dict(state["rows"], device)
            self._cache = PagedCache.from_state(model.spec, state["cache"], device, self.slots)
            self._unfinished.update(state["rows"]["group"].tolist())
