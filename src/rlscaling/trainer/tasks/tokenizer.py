"""``tokenizer.json`` of a model folder: text to token ids and back, and which tokens end a completion."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlscaling.trainer.errors import TrainError, needing
from rlscaling.trainer.settings.hf_config import read_json


class TextTokenizer:
    """``tokenizer.json`` of a model folder.

    Parameters
    ----------
    folder
        The model folder.
    vocab_size
        Rows of the model's embedding.

    Attributes
    ----------
    stop_ids : tuple of int
        Tokens any of which ends a completion, as ``config.json``, ``generation_config.json`` and
        ``tokenizer_config.json`` name them.

    Raises
    ------
    TrainError
        When there is no such file, it has tokens beyond the embedding, or nothing says how a text ends.
    """

    def __init__(self, folder: str | Path, vocab_size: int) -> None:
        folder = Path(folder)
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise TrainError(
                f"{folder} has no tokenizer.json; write it with AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)"
            )
        with needing("tokenizers", "trainer"):
            from tokenizers import Tokenizer
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises nothing more exact
            raise TrainError(f"{path} cannot be read ({error}); copy it again") from None
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        largest = max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
        if largest >= vocab_size:
            raise TrainError(
                f"{path} has tokens up to number {largest:,}, and the model's embedding has {vocab_size:,} rows: it is "
                "the tokenizer of another model; copy the right one"
            )
        self.stop_ids = self._stops(folder, vocab_size)

    def _stops(self, folder: Path, vocab_size: int) -> tuple[int, ...]:
        ids: list[Any] = []
        for name in ("config.json", "generation_config.json"):
            if (folder / name).is_file():
                eos = read_json(folder / name, "").get("eos_token_id")
                ids += eos if isinstance(eos, list) else [eos]
        if (folder / "tokenizer_config.json").is_file():
            named = read_json(folder / "tokenizer_config.json", "").get("eos_token")
            text = named.get("content") if isinstance(named, dict) else named
            ids.append(self._tokenizer.token_to_id(text) if isinstance(text, str) else None)
        stop_ids = tuple(sorted({token for token in ids if type(token) is int}))
        if not stop_ids:
            raise TrainError(
                f"{folder} does not say which token ends a text (eos_token_id in config.json or generation_config.json"
                ", eos_token in tokenizer_config.json); without it no completion would end"
            )
        if stop_ids[-1] >= vocab_size or stop_ids[0] < 0:
            raise TrainError(
                f"{folder}: eos_token_id {stop_ids} lies outside the {vocab_size:,} tokens of the embedding"
            )
        return stop_ids

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a text that continues another: nothing is put before or after."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def encode_prompts(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Return the tokens of texts that begin a sequence, with what the tokenizer puts before them.

        Raises
        ------
        TrainError
            When it ends them as well: a completion could not go on.
        """
        ids = [tuple(encoded.ids) for encoded in self._tokenizer.encode_batch(list(texts))]
        if ids and ids[0] and ids[0][-1] in self.stop_ids:
            raise TrainError("the tokenizer puts an end token after every text; remove that from its post_processor")
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, special ones included."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))
