"""Columns, units and scales of a trace."""

from __future__ import annotations

from collections.abc import Mapping

SCHEMA_VERSION = 1
COMPUTE_UNITS = ("gpu-hours", "device-hours", "wall-hours", "tokens", "flops", "rollouts", "steps")
SCALES = ("fraction", "percent", "pm1", "reward")

COLUMNS: Mapping[str, tuple[str, str]] = {
    "kind": ("text", "What the row records: eval (an evaluation) or train (a training step)."),
    "step": ("steps", "Optimizer steps taken when the row was written; 0 is the model before training."),
    "domain": ("text", "Which evaluation set the pass rate belongs to, such as math or code."),
    "wall_time": ("s", "Wall-clock time since the run began, summed over resumes."),
    "compute": ("the header's compute_unit", "Training compute so far when it is not counted in GPU-hours."),
    "compute_gpu_hours": ("gpu-hours", "Training compute so far over all devices, evaluation time left out."),
    "eval_gpu_hours": ("gpu-hours", "Compute spent on evaluations so far; not part of compute_gpu_hours."),
    "modelled_gpu_hours": (
        "gpu-hours",
        "Training compute so far that the cost model predicts for the modelled cluster.",
    ),
    "lost_gpu_hours": ("gpu-hours", "Compute spent so far on steps that a resume threw away."),
    "flops": ("flops", "Floating-point operations of generation and training so far."),
    "tokens_generated": ("tokens", "Tokens sampled by the generators so far."),
    "tokens_trained": ("tokens", "Completion tokens that entered the loss so far."),
    "rollouts": ("rollouts", "Completions sampled so far."),
    "pass_rate": ("fraction", "Mean over prompts and samples of the 0/1 outcome of an evaluation."),
    "n_prompts": ("prompts", "Prompts in the evaluation."),
    "n_samples": ("samples", "Completions drawn for each prompt of the evaluation."),
    "pass_rate_se": (
        "fraction",
        "Standard error of pass_rate from sampling completions of the same prompts.",
    ),
    "truncation_rate": ("fraction", "Share of completions cut off at the length limit."),
    "mean_length": ("tokens", "Mean length of a completion."),
    "entropy": ("nats", "Mean entropy of the policy's next-token distribution."),
    "loss": ("1", "Value of the training loss."),
    "reward_mean": ("reward", "Mean reward of the completions of the step, before filters."),
    "grad_norm": ("1", "Norm of the gradient before clipping."),
    "clip_fraction": ("fraction", "Share of trained tokens whose importance ratio was clipped."),
    "ratio_mean": ("1", "Mean importance ratio of trainer to generator over trained tokens."),
    "ratio_max": ("1", "Largest importance ratio of trainer to generator over trained tokens."),
    "mismatch": (
        "nats",
        "Mean absolute difference of log-probabilities, trainer minus generator, at equal weights.",
    ),
    "lag_mean": ("steps", "Mean age of the weights that generated the trained completions."),
    "lag_max": ("steps", "Largest age of the weights that generated the trained completions."),
    "effective_batch": ("rollouts", "Completions left in the batch after filters."),
    "idle_fraction": ("fraction", "Share of device time in the step spent waiting."),
    "tokens_per_second": ("tokens/s", "Completion tokens of the step over the wall time it took, all ranks together."),
    "peak_state_bytes": (
        "bytes",
        "Most that weights, gradients and optimizer state have taken on one trainer rank.",
    ),
    "pool_left": ("prompts", "Training prompts that the curriculum still draws from."),
    "train_pass_rate": ("fraction", "Share of right answers among the step's completions, before filters."),
    "interruption_rate": ("fraction", "Share of the step's completions whose thinking was ended by force."),
    "checks_failed": ("answers", "Answers so far whose check hung or crashed; they count as wrong."),
    "epoch": ("epochs", "Passes over the training prompts begun before the current one."),
    "seconds_generate": ("s", "Measured time spent generating so far."),
    "seconds_train": ("s", "Measured time spent on updates so far."),
    "seconds_evaluate": ("s", "Measured time spent on evaluations so far."),
    "seconds_warmup": ("s", "Measured time of the supervised warm-up."),
    "seconds_checkpoint": ("s", "Measured time spent writing checkpoints so far."),
}
"""Column name -> (unit, definition). Columns that are not listed are allowed in a row and kept."""

VERL_NAMES: Mapping[str, tuple[str, str]] = {
    "step": ("training/global_step", ""),
    "domain": ("val-core/<data source>/acc/mean@<n>", "the data source"),
    "pass_rate": ("val-core/<data source>/acc/mean@<n>", ""),
    "n_samples": ("val-core/<data source>/acc/mean@<n>", "the n"),
    "compute_gpu_hours": ("perf/time_per_step", "seconds of a step, to be multiplied by the devices"),
    "tokens_generated": ("perf/total_num_tokens", "of a step, prompts included"),
    "truncation_rate": ("response_length/clip_ratio", ""),
    "mean_length": ("response_length/mean", ""),
    "entropy": ("actor/entropy", ""),
    "loss": ("actor/pg_loss", ""),
    "reward_mean": ("critic/score/mean", ""),
    "grad_norm": ("actor/grad_norm", ""),
    "clip_fraction": ("actor/pg_clipfrac", ""),
    "ratio_mean": ("rollout_corr/rollout_is_mean", ""),
    "ratio_max": ("rollout_corr/rollout_is_max", ""),
    "mismatch": ("training/rollout_probs_diff_mean", "of probabilities, not of their logarithms"),
    "idle_fraction": ("fully_async/trainer/idle_ratio", "of the trainers alone"),
    "tokens_per_second": ("perf/throughput", "of a device, prompts included"),
    "epoch": ("training/epoch", ""),
    "seconds_generate": ("timing_s/gen", "of a step"),
    "seconds_train": ("timing_s/update_actor", "of a step"),
    "seconds_evaluate": ("timing_s/testing", "of a step"),
    "seconds_checkpoint": ("timing_s/save_checkpoint", "of a step"),
}
"""Column name -> (the metric of verl that comes nearest, how it differs). Columns that are not listed have none."""
