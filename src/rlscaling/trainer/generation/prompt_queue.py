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
        """Refuse what cannot be sampled in a task whose completions have up to ``longest`` tokens."""
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
        """Refuse a prompt whose completions are longer than the model has positions for."""
        read, sampled = len(self.prompt.ids), self.prompt.length
        if read + sampled > most:
            raise TrainError(
                f"the prompt of group {self.group} has {read} tokens and its completions up to {sampled}; the model "
                f"has max_positions={most}: shorten one of them, or raise max_positions"
            )


@dataclasses.dataclass(frozen=True)
class PrefilledShares:
    """Shares whose prompts were read together."""

    shares: list[SampleRange]  # g
    cache: KVCache  # of g rows
    hidden: Tensor  # (g, D)
    n_read: int  # tokens read; 0 where the prompt was known


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
        self._shares: deque[SampleRange] = deque()
        self._known: _PrefilledPrompt | None = None

    def add(self, share: SampleRange) -> None:
        """Let the completions of a group wait."""
        self._shares.append(share)
        self.n += share.n

    def take(self, free: int | None) -> list[SampleRange]:
        """Return the first ``free`` completions, None for all, and let them wait no longer; a group may be parted."""
        left = self.n if free is None else min(free, self.n)
        self.n -= left
        taken: list[SampleRange] = []
        while left:
            share = self._shares.popleft()
            if share.n > left:
                rest = dataclasses.replace(share, first=share.first + left, n=share.n - left)
                self._shares.appendleft(rest)
                share = dataclasses.replace(share, n=left)
            taken.append(share)
            left -= share.n
        return taken

    def read(
        self, model: Decoder, version: int, shares: Sequence[SampleRange], pad_id: int
    ) -> Iterator[PrefilledShares]:
        """Read the prompts of shares just taken; weights of another version read the prompt of a parted group again."""
        if not shares:
            return
        known, self._known = self._known, None
        if known is not None and (known.group, known.version) == (shares[0].group, version):
            yield PrefilledShares([shares[0]], known.cache, known.hidden, 0)
            self._know(known)
            shares = shares[1:]
        ids = [share.prompt.ids for share in shares]
        for reading in read_prompts(model, ids, pad_id):
            together = [shares[i] for i in reading.prompts]
            yield PrefilledShares(
                together, reading.cache, reading.hidden, sum(len(share.prompt.ids) for share in together)
            )
            for row, share in enumerate(together):
                if self._is_parted(share.group):
                    hidden = reading.hidden[row : row + 1].clone()
                    self._know(_PrefilledPrompt(share.group, version, reading.cache.row(row), hidden))

    def _is_parted(self, group: int) -> bool:
        return bool(self._shares) and self._shares[0].group == group

    def _know(self, known: _PrefilledPrompt) -> None:
        if self._is_parted(known.group):
            self._known = known

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint holds."""
        state: dict[str, Any] = {"pending": [(s.group, s.prompt.index, s.n, s.first) for s in self._shares]}
        if (known := self._known) is not None:
            state["known"] = {
                "group": known.group,
                "version": known.version,
                "cache": known.cache.state_dict(),
                "hidden": known.hidden.clone(),
            }
        return state

    def load_state_dict(
        self, state: Mapping[str, Any], prompt_of: Callable[[int], Prompt], model: Decoder | None
    ) -> list[SampleRange]:
        """Go on from ``state_dict`` and return who waits."""
        self._shares, self._known = deque(), None
        for group, index, n, first in state["pending"]:
            self._shares.append(SampleRange(group, prompt_of(index), n, first))
        self.n = sum(share.n for share in self._shares)
        if (known := state.get("known")) is not None:
            assert model is not None, "a prompt that was read needs the model's sizes"
            device = model.embed_tokens.weight.device
            cache = KVCache.from_state(model.spec, known["cache"], device)
            self._known = _PrefilledPrompt(known["group"], known["version"], cache, known["hidden"].to(device))
        return list(self._shares)
