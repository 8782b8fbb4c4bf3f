"""One measured training run, ours or TRL's, in the environment that holds both: called by ``trainer_vs_trl.py``.

    python _trl_worker.py {ours|trl} SETTINGS.json START.pt END.pt

Both begin with the weights in START.pt and leave theirs in END.pt. Standard output is one JSON object.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from rlscaling.trainer import make_config
from rlscaling.trainer.settings.config import TrainConfig
from rlscaling.trainer.tasks.arithmetic import spell
from rlscaling.trainer.tasks.make import make_task
from rlscaling.trainer.tasks.task import Prompt
from rlscaling.trainer.training.run_state import RunState

SKIPPED = 2  # steps at the beginning that no clock counts: first calls compile, allocate and import


def ours(config: TrainConfig, start: Path, end: Path) -> dict[str, Any]:
    from rlscaling.trainer.training.checkpoint import RunFolder
    from rlscaling.trainer.training.update import update

    run = RunState.new(config)
    run.learner.folder = RunFolder(None, {})
    run.learner.model.load_state_dict(torch.load(start))
    run.learner.optimizer.adopt()
    clock = Clock()
    for _ in range(config.steps):
        groups = run.cluster.next_batch(run.learner.model)
        update(run.learner, groups)
        run.cluster.pushed()
        clock.step(sum(group.n_tokens for group in groups))
    torch.save(run.learner.model.state_dict(), end)
    return clock.result()


class Clock:
    """Seconds and completion tokens of the steps that count."""

    def __init__(self) -> None:
        self.steps = self.tokens = 0
        self.began = 0.0

    def step(self, tokens: int) -> None:
        self.steps += 1
        if self.steps > SKIPPED:
            self.tokens += tokens
        elif self.steps == SKIPPED:
            self.began = time.perf_counter()

    def result(self) -> dict[str, Any]:
        return {"seconds": time.perf_counter() - self.began, "tokens": self.tokens, "torch": torch.__version__}


def trl(config: TrainConfig, start: Path, end: Path) -> dict[str, Any]:
    import random

    import datasets
    import transformers
    from trl import GRPOConfig, GRPOTrainer

    transformers.utils.logging.set_verbosity_error()
    task = make_task(config)
    prompts = [task.train_prompt(i) for i in range(task.n_train)]
    tokenizer = _tokenizer(task.vocab, task.pad_id, task.eos_id)
    clock, draw = Clock(), random.Random(config.seed)
    words = {word: i for i, word in enumerate(task.vocab)}

    def reward(prompts: list[str], completions: list[str], index: list[int], **_: Any) -> list[float]:
        ids = [tuple(words[word] for word in text.split() if word in words) for text in completions]
        clock.step(sum(map(len, ids)))
        return [task.score(_of(index[i]), ids[i], draw.random()).reward for i in range(len(ids))]

    def _of(i: int) -> Prompt:
        return prompts[i]

    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=len(task.vocab), hidden_size=config.d_model, intermediate_size=config.d_ff,
            num_hidden_layers=config.n_layers, num_attention_heads=config.n_heads,
            num_key_value_heads=config.n_kv_heads, rms_norm_eps=1e-6, tie_word_embeddings=config.tied_head,
            rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
            max_position_embeddings=task.prompt_length + task.max_new_tokens,
            pad_token_id=task.pad_id, eos_token_id=task.eos_id, bos_token_id=None,
        )
    )  # fmt: skip
    weights = torch.load(start)
    model.load_state_dict({k if k.startswith("lm_head") else f"model.{k}": v for k, v in weights.items()})
    with tempfile.TemporaryDirectory() as folder:
        settings = GRPOConfig(
            output_dir=folder, use_cpu=True, bf16=False, fp16=False, seed=config.seed, max_steps=config.steps,
            per_device_train_batch_size=config.rollouts_per_step, num_generations=config.generations,
            steps_per_generation=1, num_iterations=1, max_completion_length=task.max_new_tokens,
            temperature=config.temperature, top_k=0, top_p=1.0, beta=0.0, loss_type="grpo", scale_rewards="group",
            epsilon=config.clip_high, learning_rate=config.lr, lr_scheduler_type="constant_with_warmup",
            warmup_steps=config.lr_warmup, adam_beta1=config.adam_beta1, adam_beta2=config.adam_beta2,
            adam_epsilon=config.adam_eps, weight_decay=config.weight_decay, max_grad_norm=config.grad_clip,
            gradient_checkpointing=False, logging_strategy="no", save_strategy="no", report_to="none",
            disable_tqdm=True, remove_unused_columns=False, dataloader_num_workers=0,
        )  # fmt: skip
        rows = [{"prompt": " ".join(spell(prompt.ids, task)), "index": i} for i, prompt in enumerate(prompts)]
        trainer = GRPOTrainer(
            model, reward, args=settings, train_dataset=datasets.Dataset.from_list(rows), processing_class=tokenizer
        )
        trainer.train()
    state = {key.removeprefix("model."): value for key, value in model.state_dict().items()}
    torch.save(state, end)
    import trl as package

    return clock.result() | {"trl": package.__version__, "transformers": transformers.__version__}


def _tokenizer(vocab: tuple[str, ...], pad: int, eos: int) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(vocab)}, unk_token=vocab[pad]))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token=vocab[pad], eos_token=vocab[eos], unk_token=vocab[pad], padding_side="left"
    )


def main() -> None:
    which, settings, start, end = sys.argv[1:]
    fields = json.loads(Path(settings).read_text())
    config = make_config(**fields)
    torch.set_num_threads(config.threads)
    torch.manual_seed(config.seed)
    print(json.dumps({"ours": ours, "trl": trl}[which](config, Path(start), Path(end))))


if __name__ == "__main__":
    main()
