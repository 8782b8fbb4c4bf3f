"""What a run on problems from files must satisfy, and what its pretrained model decides."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlscaling.trainer.checks import TEXT_TASK
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.hf_config import read_architecture
from rlscaling.trainer.text_data import parse_sources

if TYPE_CHECKING:
    from rlscaling.trainer.config import TrainConfig

TIME_UP = "Okay, time is up. Let me stop thinking and formulate a final answer now. "
"""The phrase of a forced interruption before the marker [ScaleRL, A.10]."""

SIZES = ("d_model", "n_layers", "n_heads", "n_kv_heads", "d_ff", "tied_head", "rope_theta")
"""Fields that a pretrained model decides."""
_OTHER_SIZES = ("n_experts", "top_k_experts")


def with_pretrained(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields given with what follows from a pretrained model and from a template in a file.

    Raises
    ------
    TrainError
        When sizes are given beside a model, or the model cannot be used.
    """
    fields = dict(overrides)
    if fields.get("data") or fields.get("model_path"):
        fields.setdefault("task", TEXT_TASK)
    template = fields.get("prompt_template")
    if isinstance(template, str) and template.startswith("@"):
        fields["prompt_template"] = _template_file(Path(template[1:]))
    model = fields.get("model_path")
    if not isinstance(model, str) or not model:
        return fields
    for name in (*SIZES, *_OTHER_SIZES):
        if name in fields:
            raise TrainError(f"{name}={fields[name]!r} beside model_path={model!r}: the checkpoint decides the sizes")
    found = dataclasses.asdict(read_architecture(model))
    return fields | {name: found[name] for name in SIZES}


def _template_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TrainError(f"prompt_template='@{path}': the file cannot be read ({error})") from None


def check_text(config: TrainConfig) -> None:
    """Check the fields of the text task, and that no other task has them."""
    if not config.is_text:
        for name in ("data", "downstream", "model_path"):
            if getattr(config, name):
                raise TrainError(
                    f"{name}={getattr(config, name)!r} with task={config.task!r}, which makes its own problems and "
                    f"model; take task={TEXT_TASK!r} or leave it out"
                )
        return
    for name, what in (("data", "problems to train on: data=problems.jsonl"), ("model_path", "a pretrained model")):
        if not getattr(config, name):
            raise TrainError(f"task={TEXT_TASK!r} needs {what}; set {name}")
    both = set(parse_sources(config.data, "data")) & set(parse_sources(config.downstream, "downstream"))
    if both:
        raise TrainError(f"{sorted(both)[0]!r} names a domain of data and of downstream; give each a name of its own")
    if config.prompt_template and config.prompt_template.count("{problem}") != 1:
        raise TrainError(f"prompt_template={config.prompt_template!r} must hold {{problem}} exactly once")
    if config.thinks and not config.think_end:
        raise TrainError("think_end='' with a thinking budget: nothing would end the thinking; name its marker")
    if config.held_out_share >= 1:
        raise TrainError(f"held_out_share={config.held_out_share:g} leaves nothing to train on; take such as 0.05")
