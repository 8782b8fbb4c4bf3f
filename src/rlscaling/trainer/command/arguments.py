"""The options of a training command: which runs, where they go, and every field of ``TrainConfig``."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.settings.config import TrainConfig
from rlscaling.trainer.settings.recipes import RECIPES

PAPER_EVAL = {"eval_prompts": 1000, "eval_samples": 16, "eval_every": 100}
"""``--paper-eval``: the evaluation of [ScaleRL, 2.1]."""

_SKIPPED = ("recipe", "seed")  # the command has options of its own for these
_SHORT = {"model_path": "--model"}
"""Field -> a shorter name of its option."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a training command."""
    parser.add_argument("--recipe", metavar="NAME", default="scalerl", help=f"{', '.join(RECIPES)} (default: scalerl)")
    parser.add_argument("--out", metavar="DIR", required=True, type=Path, help="folder for trace.jsonl and checkpoint")
    parser.add_argument(
        "--resume", action="store_true", help="go on with the run in the folder, wherever it was killed"
    )
    parser.add_argument(
        "--save-model", metavar="DIR", type=Path,
        help="write the trained model in the layout of its --model; several seeds go into DIR/seed-0 ... "
        "(default: not written)",
    )  # fmt: skip
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument("--seed", metavar="N", dest="seeds", help="seed: same seed, same rows (default: 0)")
    seeds.add_argument("--seeds", metavar="N,N", help="several runs one after the other, into DIR/seed-0, DIR/seed-1")
    parser.add_argument(
        "--paper-eval", action="store_true",
        help="evaluate as the paper does: mean@16 on 1,000 prompts every 100 steps (default: mean@8 on 512 every 40)",
    )  # fmt: skip
    _add_fields(parser.add_argument_group("settings", "The fields of TrainConfig; 'rlscaling recipes' has sources."))


def _add_fields(parser: argparse._ArgumentGroup) -> None:
    """Add one option per field; one that is not given stays out of the namespace."""
    for field in dataclasses.fields(TrainConfig):
        if field.name in _SKIPPED:
            continue
        short = [_SHORT[field.name]] if field.name in _SHORT else []
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            *short,
            dest=field.name,
            default=argparse.SUPPRESS,
            metavar="VALUE",
            help=f"{_about(field)} (default: the recipe's, or {spell(field.default) or 'none'})".replace("%", "%%"),
        )


def _about(field: dataclasses.Field[Any]) -> str:
    choices = ", ".join(field.metadata["choices"])
    return f"{field.metadata['help']}{': ' * bool(choices)}{choices}"


def given_fields(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the fields that were given, as the types that ``make_config`` takes.

    Raises
    ------
    TrainError
        For text that is not of the field's type.
    """
    fields = {field.name: field for field in dataclasses.fields(TrainConfig) if field.name not in _SKIPPED}
    return {
        name: parse_field(name, text, type(fields[name].default))
        for name, text in vars(arguments).items()
        if name in fields
    }


def parse_field(name: str, text: str, wanted: type) -> Any:
    """Return the value of one field.

    Examples
    --------
    >>> parse_field("lr", "3e-4", float), parse_field("tied_head", "yes", bool)
    (0.0003, True)
    >>> parse_field("interrupt_window", "28,36", tuple)
    (28, 36)
    >>> parse_field("steps", "many", int)
    Traceback (most recent call last):
    rlscaling.trainer.errors.TrainError: --steps 'many' is not of type int; its default is 2000
    """
    try:
        if wanted is bool:
            return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[text.lower()]
        if wanted is tuple:
            return tuple(int(part) for part in text.split(","))
        return wanted(text)
    except (ValueError, KeyError):
        default = next(field.default for field in dataclasses.fields(TrainConfig) if field.name == name)
        option = name.replace("_", "-")
        raise TrainError(
            f"--{option} {text!r} is not of type {wanted.__name__}; its default is {spell(default)}"
        ) from None


def spell(value: Any) -> str:
    """Return the value of a field as the command line takes it."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
