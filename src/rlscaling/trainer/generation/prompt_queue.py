"""Completions that wait for a slot, first come, first served; the prompt of a group is read once for all of them."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor

from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.generation.kv_cache import KVCache
from rlscaling.trainer.generation.prefill import read_prompts
from rlscaling.trainer.model.decoder import Decoder
from rlscaling.trainer.tasks.task import Prompt


@dataclasses.dataclass(frozen=True)
class SampleRange:
    """Completions of one group: the samples ``first`` to ``first + n - 1``."""

    group: int
    prompt: Prompt
    n: int
    first: int = 0

    def check(self, longest: int) -> None:
        """Check that the completions can be sampled in a task whose completions have up to ``longest`` tokens."""
        if self.n < 1:
            raise TrainError(f"{self.n} completions of group {self.group} leave nothing to sample; take at least 1")
        if not self.prompt.ids:
            raise TrainError(f"the prompt of group {self.group} is empty; a completion needs a token to go on from")
        if not 1 <= self.prompt.length <= longest:
            raise TrainError(
                f"the completions of group {self.group} may have length={self.prompt.length} tokens; the task allows "
                f"1 to max_new_tokens={longest}"
            )

    def check_fits(self, most: int) -> None:
        """Check that the model has positions for the prompt and its completions."""
        read, sampled = len(self.prompt.ids), self.prompt.length
        if read + sampled > most:
            raise TrainError(
                f"the prompt of group {self.group} has {read} tokens and its completions up to {sampled}; the model "
                f"has max_positions={most}: shorten one of them, or raise max_positions"
            )


@dataclasses.dataclass(frozen=True)
class PrefilledRanges:
    """Completions whose prompts were read together."""

    ranges: list[SampleRange]  # g
    cache: KVCache  # of g rows
    hidden: Tensor  # (g, D)
    n_read: int  # tokens read; 0 where the prompt had been read before


@dataclasses.dataclass(frozen=True)
class _PrefilledPrompt:
    """A prompt that was read, while completions of it wait for a slot."""

    group: int
    version: int  # of the weights that read it
    cache: KVCache  # of one row
    hidden: Tensor  # (1, D)


class PromptQueue:
    """Completions without a slot.

    Attributes
    ----------
    n : int
        How many.
    """

    def __init__(self) -> None:
        self.n = 0
        self._waiting: deque[SampleRange] = deque()
        self._prefilled: _PrefilledPrompt | None = None

    def add(self, samples: SampleRange) -> None:
        """Let the completions of a group wait."""
        self._waiting.append(samples)
        self.n += samples.n

    def take(self, free: int | None) -> list[SampleRange]:
        """Return the first ``free`` completions, None for all, and let them wait no longer; a group may be parted."""
        left = self.n if free is None else min(free, self.n)
        self.n -= left
        taken: list[SampleRange] = []
        while left:
            samples = self._waiting.popleft()
            if samples.n > left:
                rest = dataclasses.replace(samples, first=samples.first + left, n=samples.n - left)
                self._waiting.appendleft(rest)
                samples = dataclasses.replace(samples, n=left)
            taken.append(samples)
            left -= samples.n
        return taken

    def prefill(
        self, model: Decoder, version: int, ranges: Sequence[SampleRange], pad_id: int
    ) -> Iterator[PrefilledRanges]:
        """Read the prompts of completions just taken; weights of another version read that of a parted group again."""
        if not ranges:
            return
        earlier, self._prefilled = self._prefilled, None
        if earlier is not None and (earlier.group, earlier.version) == (ranges[0].group, version):
            yield PrefilledRanges([ranges[0]], earlier.cache, earlier.hidden, 0)
            self._keep(earlier)
            ranges = ranges[1:]
        for prompts in read_prompts(model, [samples.prompt.ids for samples in ranges], pad_id):
            together = [ranges[i] for i in prompts.numbers]
            n_read = sum(len(samples.prompt.ids) for samples in together)
            yield PrefilledRanges(together, prompts.cache, prompts.hidden, n_read)
            for row, samples in enumerate(together):
                if self._is_parted(samples.group):
                    hidden = prompts.hidden[row : row + 1].clone()
                    self._keep(_PrefilledPrompt(samples.group, version, prompts.cache.row(row), hidden))

    def _is_parted(self, group: int) -> bool:
        return bool(self._waiting) and self._waiting[0].group == group

    def _keep(self, prefilled: _PrefilledPrompt) -> None:
        if self._is_parted(prefilled.group):
            self._prefilled = prefilled

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint holds."""
        state: dict[str, Any] = {"pending": [(s.group, s.prompt.index, s.n, s.first) for s in self._waiting]}
        if (prefilled := self._prefilled) is not None:
            state["prefilled"] = {
                "group": prefilled.group,
                "version": prefilled.version,
                "cache": prefilled.cache.state_dict(),
                "hidden": prefilled.hidden.clone(),
            }
        return state

    def load_state_dict(
        self, state: Mapping[str, Any], prompt_of: Callable[[int], Prompt], model: Decoder | None
    ) -> list[SampleRange]:
        """Go on from ``state_dict``; return the completions that wait."""
        self._waiting, self._prefilled = deque(), None
        for group, index, n, first in state["pending"]:
            self._waiting.append(SampleRange(group, prompt_of(index), n, first))
        self.n = sum(samples.n for samples in self._waiting)
        if (saved := state.get("prefilled")) is not None:
            assert model is not None, "a prompt that was read needs the model's sizes"
            device = model.embed_tokens.weight.device
            cache = KVCache.from_state(model.spec, saved["cache"], device)
            self._prefilled = _PrefilledPrompt(saved["group"], saved["version"], cache, saved["hidden"].to(device))
        return list(self._waiting)
