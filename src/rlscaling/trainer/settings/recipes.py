"""Named recipes with the source of each choice.

Only the fields in which a recipe differs from the defaults of ``TrainConfig`` stand here; the source of a default is
in ``DEFAULT_SOURCES``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A named set of choices.

    Attributes
    ----------
    name
        Name on the command line.
    summary
        What it is, one line.
    fields
        Fields of ``TrainConfig`` that it sets.
    source
        Where each of these comes from, same keys.
    change
        What it undoes in ScaleRL, of which it is a leave-one-out variant; empty for all others.
    """

    name: str
    summary: str
    fields: Mapping[str, Any]
    source: Mapping[str, str]
    change: str = ""


_OURS = "ours"
_SAME_BATCH = "ours: one batch size for every recipe (48 prompts x 16 in [ScaleRL, 2], 1280 in [ScaleRL, A.16])"

DEFAULT_SOURCES: Mapping[str, str] = MappingProxyType(
    {
        "prompts_per_step": _SAME_BATCH,
        "generations": "[ScaleRL, 2]",
        "temperature": "ours: 1, so that the ratio is that of the policy itself",
        "lr": "ours: 5e-7 in [ScaleRL, A.3], a thousand times that for a model 300,000 times smaller",
        "lr_warmup": "[ScaleRL, A.3]",
        "adam_eps": "[ScaleRL, A.3]",
        "adam_beta1": _OURS,
        "adam_beta2": _OURS,
        "weight_decay": "[ScaleRL, A.3]",
        "grad_clip": "ours: not stated in [ScaleRL]",
        "npr_threshold": "[ScaleRL, 3.2]",
        "interrupt_window": "[ScaleRL, A.10]: 10k to 12k of 12k thinking tokens, scaled to the thinking budget",
        "penalty_max": "[ScaleRL, A.10]: L_max 14k of 14k new tokens, scaled",
        "penalty_cache": "[ScaleRL, A.10]: L_cache 2k of 14k new tokens, scaled",
        "clock_decode_base": "ours: generation is the slower side, and a batch is 1 to 2 steps old when it is used",
        "clock_decode_row": "ours: as clock_decode_base",
        "clock_update_token": "ours: as clock_decode_base",
        "clock_generators": "[ScaleRL, 2]: 64 generators and 16 trainers, scaled",
        "clock_trainers": "[ScaleRL, 2]: 64 generators and 16 trainers, scaled",
        "eval_every": "ours: 100 in [ScaleRL, 2.1]",
        "eval_prompts": "ours: 1,000 in [ScaleRL, 2.1]",
        "eval_samples": "ours: 16 in [ScaleRL, 2.1]",
    }
)
"""Source of the default of a field; a field that is not listed is our own choice."""

_LENGTH_RULE = "; without a thinking budget nothing can be too long, and the recipe's own rule makes it none"

_SCALERL: dict[str, tuple[Any, str]] = {
    "schedule": ("pipeline", "[ScaleRL, 3.1]"),
    "k": (8, "[ScaleRL, 3.1]; 4 as good"),
    "loss": ("cispo", "[ScaleRL, 3.2], MiniMax-M1 (arXiv 2506.13585)"),
    "clip_low": (0.0, "[ScaleRL, A.17]: no lower bound"),
    "clip_high": (4.0, "[ScaleRL, A.17]: 4, 5 or 8 alike"),
    "aggregation": ("prompt", "[ScaleRL, 3.2]"),
    "advantage_norm": ("batch", "[ScaleRL, 3.2]"),
    "zero_variance": ("drop", "[ScaleRL, 3.2]"),
    "curriculum": ("npr", "[ScaleRL, 3.2], Polaris"),
    "length_control": ("interruption", "[ScaleRL, 2 and A.10]" + _LENGTH_RULE),
    "head_dtype": ("fp32", "[ScaleRL, 3.2], MiniMax-M1 (arXiv 2506.13585)"),
}

_BASELINE: dict[str, tuple[Any, str]] = {
    "schedule": ("ppo-off-policy", "[ScaleRL, 2]"),
    "k": (8, "[ScaleRL, 2]"),
    "loss": ("dapo", "[ScaleRL, 2]: GRPO without KL, with DAPO's asymmetric clip"),
    "clip_low": (0.2, "[ScaleRL, A.17]"),
    "clip_high": (0.26, "[ScaleRL, A.17]; 0.28 in DAPO (arXiv 2503.14476)"),
    "aggregation": ("sample", "[ScaleRL, 2]"),
    "advantage_norm": ("prompt", "[ScaleRL, 2]"),
    "zero_variance": ("keep", "[ScaleRL, 3.2]"),
    "curriculum": ("uniform", "[ScaleRL, 3.2]"),
    "length_control": ("interruption", "[ScaleRL, 2]" + _LENGTH_RULE),
    "head_dtype": ("bf16", "[ScaleRL, 3.2]"),
}

_CISPO = {key: _SCALERL[key] for key in ("loss", "clip_low", "clip_high")}
_PROMPT_AVERAGE = "[ScaleRL, A.16]"


def _recipe(name: str, summary: str, base: Mapping[str, tuple[Any, str]], **changes: tuple[Any, str]) -> Recipe:
    """Return the recipe that is ``base`` with some fields changed; each field is a pair of value and source."""
    pairs = {**base, **changes}
    fields = MappingProxyType({key: value for key, (value, _) in pairs.items()})
    return Recipe(name, summary, fields, MappingProxyType({key: source for key, (_, source) in pairs.items()}))


def _left_out(name: str, summary: str, change: str, **changes: tuple[Any, str]) -> Recipe:
    """Return ScaleRL with one choice undone."""
    return dataclasses.replace(_recipe(name, summary, _SCALERL, **changes), change=change)


_FIG15 = "[ScaleRL, 3.3 and Fig. 15]"

RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        recipe.name: recipe
        for recipe in [
            _recipe("scalerl", "ScaleRL: the recipe of the paper", _SCALERL),
            _recipe(
                "scalerl-lag8",
                "ScaleRL with generators so fast that every batch waits k = 8 steps for the trainer",
                _SCALERL,
                clock_decode_base=(0.1, "ours: a tenth of the default, so that k binds"),
                clock_decode_row=(0.001, "ours: a tenth of the default, so that k binds"),
            ),
            _recipe("baseline", "The paper's starting point: GRPO, asymmetric clip, PPO-off-policy-8", _BASELINE),
            _recipe(
                "grpo",
                "DeepSeek: GRPO with symmetric clips",
                _BASELINE,
                loss=("grpo", "[ScaleRL, A.16], DeepSeekMath (arXiv 2402.03300)"),
                clip_high=(0.2, "[ScaleRL, A.16]"),
            ),
            _recipe(
                "dapo",
                "Qwen2.5 with DAPO: asymmetric clip, prompt average, zero-variance prompts dropped",
                _BASELINE,
                aggregation=("prompt", _PROMPT_AVERAGE),
                zero_variance=("drop", "[ScaleRL, A.16]; DAPO itself samples others instead"),
            ),
            _recipe(
                "magistral",
                "Magistral: as dapo, with PipelineRL",
                _BASELINE,
                schedule=("pipeline", "[ScaleRL, A.16]"),
                k=(8, "ours: not stated in [ScaleRL]; as scalerl"),
                aggregation=("prompt", _PROMPT_AVERAGE),
                advantage_norm=("batch", "ours: not stated in [ScaleRL]; after Magistral (arXiv 2506.10910)"),
                zero_variance=("drop", "[ScaleRL, A.16]"),
            ),
            _recipe(
                "minimax",
                "MiniMax-M1: CISPO, FP32 head, PPO-off-policy",
                {**_BASELINE, **_CISPO},
                k=(8, "ours: not stated in [ScaleRL]"),
                aggregation=("prompt", _PROMPT_AVERAGE),
                advantage_norm=("prompt", "ours: not stated in [ScaleRL]; after GRPO"),
                zero_variance=("drop", "[ScaleRL, A.16]"),
                head_dtype=("fp32", "[ScaleRL, A.16]"),
            ),
            _recipe(
                "gspo",
                "ScaleRL with GSPO's sequence-level ratio",
                _SCALERL,
                loss=("gspo", "[ScaleRL, 3.2], GSPO (arXiv 2507.18071)"),
                clip_low=(3e-3, "[ScaleRL, A.17]"),
                clip_high=(4e-3, "[ScaleRL, A.17]: 4e-3 or 5e-3 alike"),
                aggregation=("sample", "ours: not stated in [ScaleRL]"),
            ),
            _recipe(
                "dr-grpo",
                "Dr. GRPO: no division by the standard deviation nor by the length of a completion",
                _BASELINE,
                loss=("grpo", "Dr. GRPO (arXiv 2503.20783)"),
                clip_high=(0.2, "Dr. GRPO (arXiv 2503.20783)"),
                aggregation=("token", "ours: the nearest to Dr. GRPO's constant denominator"),
                advantage_norm=("none", "Dr. GRPO (arXiv 2503.20783)"),
            ),
            _left_out(
                "loo-plan",
                "ScaleRL but prompt-level normalisation",
                "prompt-level advantage normalisation",
                advantage_norm=("prompt", _FIG15),
            ),
            _left_out(
                "loo-lp",
                "ScaleRL but a length penalty instead of interruption",
                "length penalty",
                length_control=("penalty", _FIG15 + _LENGTH_RULE),
            ),
            _left_out(
                "loo-batch",
                "ScaleRL but zero-variance prompts kept",
                "zero-variance prompts kept",
                zero_variance=("keep", _FIG15),
            ),
            _left_out(
                "loo-8op",
                "ScaleRL but PPO-off-policy-8",
                "PPO-off-policy-8",
                schedule=("ppo-off-policy", _FIG15),
                k=(8, _FIG15),
            ),
            _left_out("loo-fp32", "ScaleRL but a bf16 head", "bf16 head", head_dtype=("bf16", _FIG15)),
            _left_out("loo-savg", "ScaleRL but sample average", "sample average", aggregation=("sample", _FIG15)),
            _left_out(
                "loo-dapo",
                "ScaleRL but the DAPO loss",
                "DAPO loss",
                loss=("dapo", _FIG15),
                clip_low=_BASELINE["clip_low"],
                clip_high=_BASELINE["clip_high"],
            ),
            _left_out(
                "loo-npr",
                "ScaleRL but every prompt in every epoch",
                "no positive resampling",
                curriculum=("uniform", "ours: an axis of [ScaleRL, 3.2] that Fig. 15 leaves out"),
            ),
        ]
    }
)
"""Name -> recipe."""
