"""Write word problems with their answers as JSON lines, and a tiny untrained model in Hugging Face's layout.

``python word_problems.py`` writes ``word-problems/``: ``train.jsonl`` (with worked solutions), ``harder.jsonl`` (of the
same kind, larger numbers, for evaluation only) and ``tiny-qwen2/``. Data of your own need ``problem`` and ``answer``.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

NAMES = ("Ann", "Ben", "Cleo", "Dan", "Eve", "Finn")
THINGS = ("apples", "books", "coins", "marbles", "pens")
STORIES = (
    ("{name} has {a} {things} and gets {b} more.", 1),
    ("{name} has {a} {things} and gives {b} of them away.", -1),
)
END, THINK, END_THINK = "<|endoftext|>", "<think>", "</think>"


def word_problem(draw: random.Random, largest: int) -> dict[str, str]:
    """One problem about numbers up to `largest`, its answer, and a solution to imitate."""
    story, sign = draw.choice(STORIES)
    a, b = draw.randint(1, largest), draw.randint(1, largest)
    if sign < 0:
        a, b = max(a, b), min(a, b)
    text = story.format(name=draw.choice(NAMES), a=a, b=b, things=draw.choice(THINGS))
    answer = str(a + sign * b)
    return {"problem": f"{text} How many now?", "answer": answer, "solution": f"{a}{'+-'[sign < 0]}{b}={answer}"}


def write_problems(path: Path, n: int, *, largest: int = 9, seed: int = 0) -> Path:
    """Write `n` problems, some of which repeat."""
    draw = random.Random(seed)
    lines = [json.dumps(word_problem(draw, largest)) for _ in range(n)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_tokenizer(folder: Path, texts: list[str], vocab_size: int = 160) -> int:
    """Train a byte-level tokenizer on some texts, with single digits and markers of thinking; return its size."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    digits, by_bytes = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, by_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    letters = sorted({letter for text in texts for letter in text if letter.isascii() and letter not in " \n"})
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=[END, THINK, END_THINK], initial_alphabet=letters, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END, "pad_token": END}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return tokenizer.get_vocab_size()


def write_model(folder: Path, texts: list[str], *, width: int = 32, seed: int = 0) -> Path:
    """Write an untrained model of the Qwen2 family: config.json, tokenizer.json, model.safetensors."""
    import torch

    from rlscaling.trainer.model.decoder import Decoder
    from rlscaling.trainer.model.hf_weights import model_spec, save_model
    from rlscaling.trainer.settings.hf_config import read_architecture

    plan = folder.with_name(f"{folder.name}-plan")
    plan.mkdir(parents=True)
    vocab_size = write_tokenizer(plan, texts)
    config: dict[str, Any] = {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": vocab_size, "hidden_size": width,
        "intermediate_size": 3 * width, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu",
        "tie_word_embeddings": True, "eos_token_id": 0, "bos_token_id": 0, "use_sliding_window": False,
    }  # fmt: skip
    (plan / "config.json").write_text(json.dumps(config, indent=2))
    torch.manual_seed(seed)
    model = Decoder(model_spec(read_architecture(plan), positions=1))
    save_model(model, plan, folder)
    for path in plan.iterdir():
        path.unlink()
    plan.rmdir()
    return folder


def write_all(folder: Path, n: int = 2000) -> None:
    """Write both data sets and the model."""
    folder.mkdir(parents=True, exist_ok=True)
    write_problems(folder / "train.jsonl", n)
    write_problems(folder / "harder.jsonl", 60, largest=12, seed=1)
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text(encoding="utf-8").splitlines()]
    texts = [f"{row['problem']}\n{row['solution']}\n\\boxed{{{row['answer']}}}" for row in rows]
    texts += ["Okay, time is up. Let me stop thinking and formulate a final answer now."] * 20
    write_model(folder / "tiny-qwen2", texts)


if __name__ == "__main__":
    write_all(Path("word-problems"))
    print("wrote word-problems/train.jsonl, word-problems/harder.jsonl and word-problems/tiny-qwen2/")
