"""`TrainConfig`: one field per setting, with help, choices and limits."""

from __future__ import annotations

import dataclasses

from rlscaling.option_fields import option
from rlscaling.trainer.algorithm.losses import LOSSES
from rlscaling.trainer.settings.task_constants import BASE_TASKS, TEXT_TASK, TIME_UP, parse_sources


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """The settings of one run. Every field is an option of the command line, with its help, choices and limits."""

    # the run
    recipe: str = option("scalerl", "recipe that the other fields started from")
    seed: int = option(0, "seed of the initial weights, the order of the prompts and every sampled token", least=0)
    device: str = option("cpu", "device of generation and training", choices=("cpu", "cuda"))
    threads: int = option(2, "CPU threads of torch; their number changes the last bits of a sum", above=0)
    steps: int = option(2000, "optimizer steps", least=0)
    checkpoint_every: int = option(100, "steps between checkpoints; 0 writes none", least=0)

    # the task
    task: str = option("hidden-sort", f"{', '.join(BASE_TASKS)}, two of them joined by +; text: the problems of data")
    n_train_prompts: int = option(6400, "training prompts; an epoch visits each once (text: 0 takes all)", least=0)
    n_digits: int = option(5, "digits to sort, or of each number to add", above=0)
    hidden_share: float = option(0.4, "share of hidden-sort prompts in which one digit is hidden", least=0, most=1)
    thinking_budget: int = option(0, "tokens an addition or text may think; 0 answers at once", least=0)
    max_new_tokens: int = option(0, "longest completion; 0 lets the task decide", least=0)

    # problems from files (task text)
    data: str = option("", "files of problems (.jsonl, .parquet), each a domain: math=a.jsonl,b.parquet")
    downstream: str = option("", "files of problems that are only evaluated, named as in data")
    held_out_share: float = option(
        0.05, "share of the problems that is never trained on, chosen by their text alone", above=0, most=1
    )
    prompt_tokens: int = option(1024, "longest prompt; longer ones are left out, and counted", above=0)
    solution_tokens: int = option(256, "longest solution after the thinking", above=0)
    prompt_template: str = option("", "text with {problem} and {think}, or @FILE; empty: our own")
    think_start: str = option("<think>", "marker that begins thinking: {think} of the template")
    think_end: str = option("</think>", "marker that ends thinking")
    time_up: str = option(TIME_UP, "what a forced interruption says before the marker that ends thinking")
    check_timeout: float = option(5.0, "seconds that comparing two answers may take; then the answer is wrong", above=0)

    # the model
    model_path: str = option(
        "",
        "folder of a pretrained model (Llama, Qwen2, Qwen3); the sizes below are then its own",
        flag="--model-path --model",
    )
    d_model: int = option(32, "width", above=0)
    n_layers: int = option(2, "layers", above=0)
    n_heads: int = option(4, "query heads", above=0)
    n_kv_heads: int = option(2, "key and value heads, shared by groups of query heads", above=0)
    d_ff: int = option(96, "inner width of the feed-forward blocks (of each expert)", above=0)
    tied_head: bool = option(False, "use the embedding as head")
    head_dtype: str = option(
        "fp32", "precision of the logits, in generator and trainer alike", choices=("fp32", "bf16")
    )
    dtype: str = option(
        "fp32", "precision of the other weights; the optimizer keeps FP32 copies", choices=("fp32", "bf16")
    )
    n_experts: int = option(0, "experts of each feed-forward block; 0 is a dense model", least=0)
    top_k_experts: int = option(2, "experts that a token visits", above=0)
    load_balance: float = option(0.01, "weight of the load-balance loss of a mixture of experts", least=0)
    rope_theta: float = option(100.0, "base of the rotary position angles", above=0)

    # the algorithm [ScaleRL, 3]
    schedule: str = option("pipeline", "PipelineRL-k or PPO-off-policy-k", choices=("pipeline", "ppo-off-policy"))
    k: int = option(8, "steps that generation may be ahead (pipeline) or updates per batch (ppo-off-policy)", least=0)
    loss: str = option("cispo", "policy loss", choices=tuple(LOSSES))
    clip_low: float = option(0.0, "the ratio is clipped below 1 - clip_low (cispo: no lower bound)", least=0)
    clip_high: float = option(4.0, "the ratio is clipped above 1 + clip_high (cispo: above clip_high itself)", least=0)
    aggregation: str = option("prompt", "what is averaged over", choices=("prompt", "sample", "token"))
    advantage_norm: str = option("batch", "whose standard deviation divides", choices=("batch", "prompt", "none"))
    zero_variance: str = option("drop", "prompts that are all right or all wrong", choices=("drop", "keep"))
    curriculum: str = option(
        "npr", "No-Positive-Resampling, or every prompt in every epoch", choices=("npr", "uniform")
    )
    npr_threshold: float = option(0.9, "pass rate over all visits from which a prompt leaves the pool", least=0, most=1)
    length_control: str = option("none", "what ends long thinking", choices=("interruption", "penalty", "none"))
    interrupt_window: tuple[int, int] = option((0, 0), "thinking is ended after so many tokens; 0 0: from the budget")
    penalty_max: int = option(0, "length at which the penalty reaches -1; 0: max_new_tokens", least=0)
    penalty_cache: int = option(0, "tokens over which the penalty grows; 0: a seventh of penalty_max", least=0)
    prompts_per_step: int = option(32, "prompts of an update", above=0)
    generations: int = option(16, "completions of a prompt", above=0)
    micro_batch: int = option(
        0, "completions per backward pass, whole prompts each; 0: all of the update at once", least=0
    )
    temperature: float = option(1.0, "sampling temperature, in generator, trainer and evaluation", above=0)

    # the optimizer
    lr: float = option(5e-4, "learning rate of AdamW, constant after the warm-up", above=0)
    lr_warmup: int = option(100, "steps of linear warm-up", least=0)
    adam_beta1: float = option(0.9, "decay of the first moment", least=0, most=1)
    adam_beta2: float = option(0.999, "decay of the second moment", least=0, most=1)
    adam_eps: float = option(1e-15, "AdamW's epsilon", above=0)
    weight_decay: float = option(0.01, "decoupled weight decay", least=0)
    grad_clip: float = option(1.0, "norm the gradient is clipped to; 0 leaves it", least=0)

    # the supervised warm-up
    warmup_steps: int = option(60, "supervised steps before training", least=0)
    warmup_batch: int = option(64, "examples of a supervised step", above=0)
    warmup_lr: float = option(1e-3, "learning rate of the warm-up", above=0)

    # the evaluation
    eval_every: int = option(40, "steps between evaluations; one more before the first step", above=0)
    eval_prompts: int = option(512, "held-out prompts of each domain", above=0)
    eval_samples: int = option(8, "completions of each held-out prompt", above=0)

    # the virtual clock: it decides who waits, and nothing measured enters it
    clock_generators: int = option(4, "modelled devices that generate", above=0)
    clock_trainers: int = option(1, "modelled devices that train", above=0)
    clock_decode_base: float = option(1.0, "modelled time of a decoding call, whatever its rows", least=0)
    clock_decode_row: float = option(0.01, "modelled time of a decoding call for each row", least=0)
    clock_update_token: float = option(0.004, "modelled time of an update for each completion token", least=0)

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


FIELDS = {field.name: field for field in dataclasses.fields(TrainConfig)}
"""Name -> field."""
