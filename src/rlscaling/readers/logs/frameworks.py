"""Metric names of each training framework, as data: one entry per framework.

All names are regular expressions that must match a whole key. ``AT`` is the sign between ``mean`` and its count, which
tensorboardX and MLflow rewrite. `Framework` documents the fields; ``docs/logs.md`` describes the frameworks.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable

AT = r"(?:@|_at_|_)"


@dataclasses.dataclass(frozen=True)
class Framework:
    """How one framework names its metrics.

    Parameters
    ----------
    name
        The framework.
    marks
        Keys by which its logs are recognised; one is enough.
    scores
        Keys of a held-out pass rate, most plainly named first; the groups ``domain`` and ``n`` name the evaluation
        set and the completions per prompt.
    training
        Keys of the training reward, which is not a held-out score.
    step
        Keys of the optimizer step; the first that is present counts.
    seconds
        Keys of the seconds that a training step took.
    summed
        Keys of phases whose seconds add up to a step, where there is no total.
    window
        ``seconds`` is the mean over the steps since the row before.
    testing
        Keys of the seconds that an evaluation took.
    testing_inside
        Whether ``seconds`` holds those; None when that changed between versions, and must be seen from the numbers.
    before_update
        The evaluation in a row was made before the row's update.
    tokens, tokens_so_far
        Keys of the tokens of a step, and of their running sum.
    rate
        Key of tokens a second and GPU, from which the number of GPUs follows: tokens / (rate * seconds).
    clock
        Its logs have no seconds per step, only times, so that a table with its names and a clock is a log as well.
        (In any log without seconds, of whatever framework, time is taken from the clock.)
    trainer_rates
        Keys of tokens a second of all trainers and of each: their ratio is the number of trainers, without generators.
    gpus
        Alternatives, each a list of products of settings: the first is the trainers' GPUs and must be present; the
        others are added where they are present and the run is not ``colocated``.
    colocated
        Settings that are true when generators share the trainers' GPUs.
    columns
        Our name of a column -> its keys.
    caveats
        What one must know to read the numbers, a sentence each; they go into every receipt.
    """

    name: str
    marks: tuple[str, ...]
    scores: tuple[str, ...]
    training: str = r"(?!)"
    step: tuple[str, ...] = ("_step",)
    seconds: tuple[str, ...] = ()
    summed: str = r"(?!)"
    window: bool = False
    testing: tuple[str, ...] = ()
    testing_inside: bool | None = False
    before_update: bool = False
    tokens: tuple[str, ...] = ()
    tokens_so_far: tuple[str, ...] = ()
    rate: tuple[str, ...] = ()
    trainer_rates: tuple[str, ...] = ()
    clock: bool = False
    gpus: tuple[tuple[tuple[str, ...], ...], ...] = ()
    colocated: tuple[str, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    caveats: tuple[str, ...] = ()


VERL = Framework(
    name="verl",
    marks=(r"val-(core|aux)/.*", r"val/test_score/.*", r"timing(_s|\(s\))/(step|gen)", r"perf/time_per_step"),
    scores=(
        rf"val-core/(?P<domain>.+)/acc/mean{AT}(?P<n>\d+)",
        rf"val-core/(?P<domain>.+)/(score|reward)/mean{AT}(?P<n>\d+)",
        r"val/(test_score|acc)/(?P<domain>.+)",
        rf"val-aux/(?P<domain>.+)/(acc|score)/mean{AT}(?P<n>\d+)",
    ),
    training=r"critic/(score|rewards)/mean",
    step=(r"training/global_step", r"_step", r"step"),
    seconds=(r"timing_s/step", r"timing\(s\)/step", r"timing/step", r"perf/time_per_step"),
    testing=(r"timing_s/testing", r"timing\(s\)/testing", r"timing/testing"),
    testing_inside=None,
    tokens=(r"perf/total_num_tokens",),
    rate=(r"perf/throughput",),
    gpus=((("trainer.nnodes", "trainer.n_gpus_per_node"),), (("nnodes", "n_gpus_per_node"),)),
    columns=(
        ("truncation_rate", r"response_length/clip_ratio"),
        ("mean_length", r"response_length/mean"),
        ("entropy", r"actor/entropy(_loss)?"),
        ("epoch", r"training/epoch"),
    ),
)

TRL = Framework(
    name="TRL",
    marks=(
        r"(train/)?step_time",
        r"eval[_/]([^/]+_)?rewards/.*",
        r"(train/)?(completions/.*|completion_length|frac_reward_zero_std)",
    ),
    scores=(
        r"eval[_/](?:(?P<domain>[^/]+)_)?rewards/(?!.*/std$)[^/]+(/mean)?",
        r"eval[_/](?:(?P<domain>[^/]+)_)?reward",
    ),
    training=r"(train/)?(reward|rewards/(?!.*/std$).+)",
    step=(r"train/global_step", r"step", r"global_step"),
    seconds=(r"(train/)?step_time",),
    window=True,
    testing=(r"eval[_/](.+_)?runtime",),
    tokens_so_far=(r"(train/)?num_tokens",),
    columns=(
        ("truncation_rate", r"(train/)?completions/clipped_ratio"),
        ("mean_length", r"(train/)?(completions/mean_length|completion_length)"),
        ("entropy", r"(train/)?entropy"),
        ("reward_mean", r"(train/)?reward"),
        ("clip_fraction", r"(train/)?clip_ratio(/region_mean)?"),
        ("grad_norm", r"(train/)?grad_norm"),
        ("loss", r"(train/)?loss"),
    ),
    caveats=(
        "TRL's step_time leaves out evaluations and checkpoints; GPUs of a vLLM server count only if given in n_gpus.",
    ),
)

NEMO_RL = Framework(
    name="NeMo-RL",
    marks=(r"timing/train/total_step_time", r"validation/accuracy"),
    scores=(r"validation/accuracy", r"validation/pass_?k"),
    training=r"train/(reward|accuracy)",
    step=(r"train/step", r"_step", r"step"),
    seconds=(r"timing/train/total_step_time",),
    testing=(r"timing/validation/total_validation_time",),
    testing_inside=True,
    tokens=(r"train/global_valid_toks", r"console/tokens"),
    rate=(r"(timing/train|train|performance)/valid_tokens_per_sec_per_gpu", r"console/tokens_per_second_per_gpu"),
    gpus=((("cluster.num_nodes", "cluster.gpus_per_node"),),),
    columns=(("mean_length", r"train/mean_gen_tokens_per_sample"), ("entropy", r"train/approx_entropy")),
    caveats=(
        "NeMo-RL's validation/accuracy is a mean reward since its change 1619: a pass rate only for 0/1 rewards.",
    ),
)

OPENRLHF = Framework(
    name="OpenRLHF",
    marks=(r"eval/eval_.+_pass\d+", r"train/timing/step_total", r"train/rollout/.*"),
    scores=(r"eval/eval_(?P<domain>.+)_pass1",),
    training=r"train/(reward|rollout/reward.*)",
    step=(r"(train|eval)/global_step", r"_step"),
    seconds=(r"train/timing/step_total",),
    tokens=(),
    gpus=(
        (
            ("actor_num_nodes", "actor_num_gpus_per_node"),
            ("vllm_num_engines", "vllm_tensor_parallel_size"),
            ("ref_num_nodes", "ref_num_gpus_per_node"),
            ("critic_num_nodes", "critic_num_gpus_per_node"),
            ("reward_num_nodes", "reward_num_gpus_per_node"),
        ),
    ),
    colocated=("colocate_all_models",),
    columns=(
        ("truncation_rate", r"train/rollout/truncated_rate"),
        ("mean_length", r"train/rollout/response_length_mean"),
    ),
    caveats=("OpenRLHF's pass1 is a mean reward: a pass rate only for 0/1 rewards.",),
)

SKYRL = Framework(
    name="SkyRL",
    marks=(r"trainer/global_step", r"eval/.+/avg_score", r"eval/.+/pass_at_\d+", r"trainer/tokens_per_second_per_gpu"),
    scores=(r"eval/all/avg_score", r"eval/(?P<domain>.+)/avg_score"),
    training=r"reward/.*",
    step=(r"trainer/global_step", r"_step"),
    seconds=(r"timing/step",),
    testing=(r"timing/eval",),
    gpus=(
        (
            ("trainer.placement.policy_num_nodes", "trainer.placement.policy_num_gpus_per_node"),
            ("generator.num_inference_engines", "generator.inference_engine_tensor_parallel_size"),
        ),
    ),
    colocated=("trainer.placement.colocate_all",),
    columns=(("mean_length", r"generate/avg_num_tokens"), ("entropy", r"policy/policy_entropy")),
    caveats=("SkyRL's avg_score is a mean reward: a pass rate only for 0/1 rewards.",),
)

SLIME = Framework(
    name="slime",
    marks=(r"rollout/step", r"perf/(actor_train_tok_per_s|rollout_time|train_wait_time)", r"eval/.+-truncated_ratio"),
    scores=(rf"eval/(?!step$)(?!.*(-truncated_ratio|-pass{AT}\d+|/).*$)(?P<domain>.+)",),
    training=r"rollout/(raw_)?reward",
    step=(r"train/step", r"rollout/step", r"eval/step", r"_step"),
    seconds=(r"perf/step_time",),
    gpus=((("actor_num_nodes", "actor_num_gpus_per_node"), ("rollout_num_gpus",)),),
    colocated=("colocate",),
    columns=(("truncation_rate", r"rollout/truncated_ratio"), ("mean_length", r"rollout/response_len/mean")),
    caveats=("slime's step may count rollouts, not updates; its eval score is a mean reward.",),
)

AREAL = Framework(
    name="AReaL",
    marks=(r"timeperf/.*", r"eval-rollout/.*"),
    scores=(r"eval-rollout/(reward|score)(/avg)?",),
    training=r"rollout/reward(/avg)?",
    summed=r"timeperf/(?!eval)[^/]+",
    testing=(r"timeperf/eval",),
    gpus=((("cluster.n_nodes", "cluster.n_gpus_per_node"),),),
    caveats=("AReaL does not log the total time of a step: the phases under timeperf/ were added up.",),
)

PIPELINE_RL = Framework(
    name="PipelineRL",
    marks=(r"actor/trainer_model_version", r"throughput/sec_per_step", r"actor/test_success_mean"),
    scores=(r"actor/test_success_mean", r"actor/(?P<domain>.+)/success_mean"),
    training=r"actor/success_mean",
    step=(r"stats/completed_steps", r"actor/trainer_model_version"),
    seconds=(r"throughput/sec_per_step",),
    tokens=(r"stats/tokens",),
    columns=(("truncation_rate", r"actor/test_overlong_.*"),),
    caveats=(
        "PipelineRL splits one training into three runs; actor/trainer_model_version counts samples, not updates.",
    ),
)

PRIME_RL = Framework(
    name="prime-rl",
    marks=(
        rf"eval/.+/avg{AT}\d+",
        r"progress/(total_tokens|tokens)",
        r"time/wait_for_batch",
        r"perf/throughput_per_gpu",
        r"console/seconds",
    ),
    scores=(
        rf"eval/(?P<domain>.+)/all/.+/avg{AT}(?P<n>\d+)",
        rf"eval/(?P<domain>.+)/effective/.+/avg{AT}(?P<n>\d+)",
        rf"eval/(?P<domain>.+)/avg{AT}(?P<n>\d+)",
        r"eval/(?P<domain>.+)/reward",
    ),
    training=r"reward/.*",
    step=("step", "_step"),
    seconds=("console/seconds",),  # printed lines only: elsewhere two processes write one key
    tokens=(r"progress/tokens",),
    tokens_so_far=(r"progress/total_tokens",),
    trainer_rates=("perf/throughput", "perf/throughput_per_gpu"),
    clock=True,
    gpus=((("deployment.num_train_gpus",), ("deployment.num_infer_gpus",)),),
    columns=(("truncation_rate", r"(.+/)?is_truncated/mean"), ("entropy", r"entropy/all/mean")),
    caveats=("prime-rl's 'effective' scores and its printed lines leave out failed rollouts; 'all' counts them.",),
)

TINKER = Framework(
    name="tinker",
    marks=(r"env/all/.*", r"test/env/.*", r"progress/done_frac"),
    scores=(r"test/env/all/correct", r"test/env/all/reward/total"),
    training=r"env/all/(reward/total|correct)",
    step=("step", "_step"),
    seconds=(r"time/total",),
    testing=(r"time/(run_evals|eval|evals)",),
    testing_inside=True,
    before_update=True,
    tokens=(r"env/all/total_ac_tokens",),
    columns=(("entropy", r"optim/entropy"), ("reward_mean", r"env/all/reward/total")),
    caveats=("tinker evaluates before the update of the row's step, and its time/total includes evaluations.",),
)

TORCHTUNE = Framework(
    name="torchtune",
    marks=(r"num_stop_tokens", r"response_lengths"),
    scores=(r"(val|eval|test)_?/?.*(success|accuracy|reward).*",),
    training=r"successes|rewards",
    step=("step", "_step"),
    clock=True,
    columns=(("mean_length", r"response_lengths"), ("clip_fraction", r"clipfrac")),
)

FRAMEWORKS = (
    VERL, NEMO_RL, OPENRLHF, SKYRL, SLIME, AREAL, PIPELINE_RL, PRIME_RL, TINKER, TORCHTUNE, TRL,
)  # fmt: skip
"""The one with the most marks among the keys counts; of several, one with a score among them, else the first."""

UNKNOWN = Framework(
    name="",
    marks=(),
    scores=(),
    step=(r"(train/|training/|trainer/)?global_step", r"(train/)?step", r"_step"),
    seconds=(r"(timing_s|timing|time|perf)/(step|step_time|total)", r"(train/)?step_time"),
    clock=True,
    tokens_so_far=(r"(.+/)?(total_tokens|num_tokens|tokens_seen)",),
)
"""For keys of no framework above: common names, and the clock."""


def framework_of(keys: Iterable[str]) -> Framework | None:
    """Return the framework that the keys belong to, or None.

    Examples
    --------
    >>> framework_of(["perf/time_per_step", "val-core/math/acc/mean@16"]).name
    'verl'
    >>> framework_of(["loss", "accuracy"])
    """
    return _framework_of(tuple(keys))


@functools.lru_cache(maxsize=64)
def _framework_of(names: tuple[str, ...]) -> Framework | None:
    votes = [(_matched(framework.marks, names), _matched(framework.scores, names) > 0) for framework in FRAMEWORKS]
    most = max(votes)
    return FRAMEWORKS[votes.index(most)] if most[0] else None


def _matched(patterns: tuple[str, ...], names: tuple[str, ...]) -> int:
    return sum(any(re.fullmatch(pattern, key) for key in names) for pattern in patterns)


def find(patterns: Iterable[str], keys: Iterable[str]) -> str | None:
    """Return the first key that the first matching pattern matches, or None."""
    matching = find_all(patterns, keys)
    return matching[0] if matching else None


def find_all(patterns: Iterable[str], keys: Iterable[str]) -> list[str]:
    """Return every key that a pattern matches, in the order of the patterns."""
    return list(_find_all(tuple(patterns), tuple(keys)))


@functools.lru_cache(maxsize=1024)
def _find_all(patterns: tuple[str, ...], keys: tuple[str, ...]) -> tuple[str, ...]:
    """Match once for all logs with the same keys, as those of a batch have."""
    matching = [key for pattern in patterns for key in keys if re.fullmatch(pattern, key)]
    return tuple(dict.fromkeys(matching))
