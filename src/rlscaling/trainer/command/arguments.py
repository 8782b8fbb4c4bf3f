"""Arguments of a training command: which runs, where they go, and every field of `TrainConfig`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rlscaling.option_fields import info_of
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.settings.config import FIELDS, TrainConfig
from rlscaling.trainer.settings.recipes import RECIPES

PAPER_EVAL = {"eval_prompts": 1000, "eval_samples": 16, "eval_every": 100}
"""``--paper-eval``: the evaluation of [ScaleRL, 2.1]."""

_SKIPPED = ("recipe", "seed")  # the command has options of its own for these


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
    for name, field in FIELDS.items():
        if name in _SKIPPED:
            continue
        info = info_of(TrainConfig, name)
        choices = f": {', '.join(info.choices)}" if info.choices else ""
        parser.add_argument(
            *(info.flag or f"--{name.replace('_', '-')}").split(),
            dest=name,
            default=argparse.SUPPRESS,
            metavar="VALUE",  # text, so that the messages on a wrong value are those of make_config
            help=f"{info.help}{choices} (default: the recipe's, or {spell(field.default) or 'none'})".replace(
                "%", "%%"
            ),
        )


def field_values(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the fields on the command line, as the types that ``make_config`` takes.

    Raises
    ------
    TrainError
        For text that is not of the field's type.
    """
    return {
        name: parse_field(name, text, type(FIELDS[name].default))
        for name, text in vars(arguments).items()
        if name in FIELDS and name not in _SKIPPED
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
        raise TrainError(
            f"--{name.replace('_', '-')} {text!r} is not of type {wanted.__name__}; its default is "
            f"{spell(FIELDS[name].default)}"
        ) from None


def spell(value: Any) -> str:
    """Return the value of a field as the command line takes it."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
