"""`TrainConfig`: one field per setting, with help, choices and limits."""

from __future__ import annotations

import dataclasses
from typing import Any

from rlscaling.trainer.settings.task_constants import BASE_TASKS, TEXT_TASK, TIME_UP, parse_sources


def _field(default: Any, help: str, choices: tuple[str, ...] = ()) -> Any:
    return dataclasses.field(default=default, metadata={"help": help, "choices": choices})


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """The settings of one run. Every field is an option of the command line, and its help is in its metadata."""

    # the run
    recipe: str = _field("scalerl", "recipe that the other fields started from")
    seed: int = _field(0, "seed of the initial weights, the order of the prompts and every sampled token")
    device: str = _field("cpu", "device of generation and training", ("cpu", "cuda"))
    threads: int = _field(2, "CPU threads of torch; their number changes the last bits of a sum")
    steps: int = _field(2000, "optimizer steps")
    checkpoint_every: int = _field(100, "steps between checkpoints; 0 writes none")

    # the task
    task: str = _field("hidden-sort", f"{', '.join(BASE_TASKS)}, two of them joined by +; text: the problems of data")
    n_train_prompts: int = _field(6400, "training prompts; an epoch visits each once (text: 0 takes all)")
    n_digits: int = _field(5, "digits to sort, or of each number to add")
    hidden_share: float = _field(0.4, "share of hidden-sort prompts in which one digit is hidden")
    thinking_budget: int = _field(0, "tokens an addition or text may think; 0 answers at once")
    max_new_tokens: int = _field(0, "longest completion; 0 lets the task decide")

    # problems from files (task text)
    data: str = _field("", "files of problems (.jsonl, .parquet), each a domain: math=a.jsonl,b.parquet")
    downstream: str = _field("", "files of problems that are only evaluated, named as in data")
    held_out_share: float = _field(0.05, "share of the problems that is never trained on, chosen by their text alone")
    prompt_tokens: int = _field(1024, "longest prompt; longer ones are left out, and counted")
    solution_tokens: int = _field(256, "longest solution after the thinking")
    prompt_template: str = _field("", "text with {problem} and {think}, or @FILE; empty: our own")
    think_start: str = _field("<think>", "marker that begins thinking: {think} of the template")
    think_end: str = _field("</think>", "marker that ends thinking")
    time_up: str = _field(TIME_UP, "what a forced interruption says before the marker that ends thinking")
    check_timeout: float = _field(5.0, "seconds that comparing two answers may take; then the answer is wrong")

    # the model
    model_path: str = _field("", "folder of a pretrained model (Llama, Qwen2, Qwen3); the sizes below are then its own")
    d_model: int = _field(32, "width")
    n_layers: int = _field(2, "layers")
    n_heads: int = _field(4, "query heads")
    n_kv_heads: int = _field(2, "key and value heads, shared by groups of query heads")
    d_ff: int = _field(96, "inner width of the feed-forward blocks (of each expert)")
    tied_head: bool = _field(False, "use the embedding as head")
    head_dtype: str = _field("fp32", "precision of the logits, in generator and trainer alike", ("fp32", "bf16"))
    dtype: str = _field("fp32", "precision of the other weights; the optimizer keeps FP32 copies", ("fp32", "bf16"))
    n_experts: int = _field(0, "experts of each feed-forward block; 0 is a dense model")
    top_k_experts: int = _field(2, "experts that a token visits")
    load_balance: float = _field(0.01, "weight of the load-balance loss of a mixture of experts")
    rope_theta: float = _field(100.0, "base of the rotary position angles")

    # the algorithm [ScaleRL, 3]
    schedule: str = _field("pipeline", "PipelineRL-k or PPO-off-policy-k", ("pipeline", "ppo-off-policy"))
    k: int = _field(8, "steps that generation may be ahead (pipeline) or updates per batch (ppo-off-policy)")
    loss: str = _field("cispo", "policy loss", ("cispo", "dapo", "grpo", "gspo", "reinforce"))
    clip_low: float = _field(0.0, "the ratio is clipped below 1 - clip_low (cispo: no lower bound)")
    clip_high: float = _field(4.0, "the ratio is clipped above 1 + clip_high (cispo: above clip_high itself)")
    aggregation: str = _field("prompt", "what is averaged over", ("prompt", "sample", "token"))
    advantage_norm: str = _field("batch", "whose standard deviation divides", ("batch", "prompt", "none"))
    zero_variance: str = _field("drop", "prompts that are all right or all wrong", ("drop", "keep"))
    curriculum: str = _field("npr", "No-Positive-Resampling, or every prompt in every epoch", ("npr", "uniform"))
    npr_threshold: float = _field(0.9, "pass rate over all visits from which a prompt leaves the pool")
    length_control: str = _field("none", "what ends long thinking", ("interruption", "penalty", "none"))
    interrupt_window: tuple[int, int] = _field((0, 0), "thinking is ended after so many tokens; 0 0: from the budget")
    penalty_max: int = _field(0, "length at which the penalty reaches -1; 0: max_new_tokens")
    penalty_cache: int = _field(0, "tokens over which the penalty grows; 0: a seventh of penalty_max")
    prompts_per_step: int = _field(32, "prompts of an update")
    generations: int = _field(16, "completions of a prompt")
    micro_batch: int = _field(0, "completions per backward pass, whole prompts each; 0: all of the update at once")
    temperature: float = _field(1.0, "sampling temperature, in generator, trainer and evaluation")

    # the optimizer
    lr: float = _field(5e-4, "learning rate of AdamW, constant after the warm-up")
    lr_warmup: int = _field(100, "steps of linear warm-up")
    adam_beta1: float = _field(0.9, "decay of the first moment")
    adam_beta2: float = _field(0.999, "decay of the second moment")
    adam_eps: float = _field(1e-15, "AdamW's epsilon")
    weight_decay: float = _field(0.01, "decoupled weight decay")
    grad_clip: float = _field(1.0, "norm the gradient is clipped to; 0 leaves it")

    # the supervised warm-up
    warmup_steps: int = _field(60, "supervised steps before training")
    warmup_batch: int = _field(64, "examples of a supervised step")
    warmup_lr: float = _field(1e-3, "learning rate of the warm-up")

    # the evaluation
    eval_every: int = _field(40, "steps between evaluations; one more before the first step")
    eval_prompts: int = _field(512, "held-out prompts of each domain")
    eval_samples: int = _field(8, "completions of each held-out prompt")

    # the virtual clock: it decides who waits, and nothing measured enters it
    clock_generators: int = _field(4, "modelled devices that generate")
    clock_trainers: int = _field(1, "modelled devices that train")
    clock_decode_base: float = _field(1.0, "modelled time of a decoding call, whatever its rows")
    clock_decode_row: float = _field(0.01, "modelled time of a decoding call for each row")
    clock_update_token: float = _field(0.004, "modelled time of an update for each completion token")

    @property
    def domains(self) -> tuple[str, ...]:
        """Names of the tasks or data sets trained on."""
        return tuple(parse_sources(self.data, "data")) if self.is_text else tuple(self.task.split("+"))

    @property
    def is_text(self) -> bool:
        """Whether the problems come from files."""
        return self.task == TEXT_TASK

    @property
    def thinks(self) -> bool:
        """Whether completions may think before they answer."""
        return self.thinking_budget > 0

    @property
    def rollouts_per_step(self) -> int:
        """Completions of an update, before filters."""
        return self.prompts_per_step * self.generations


_FIELDS = {f.name: f for f in dataclasses.fields(TrainConfig)}
