"""Tokenizers that do not fit are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.text_runs import config_of, copy_model
from helpers.tiny_checkpoints import edit_config
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.tasks.text import TextTask


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
