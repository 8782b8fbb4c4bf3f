"""Every field of ``TrainConfig`` as an option of a command line."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from rlscaling.trainer.config import TrainConfig
from rlscaling.trainer.errors import TrainError

_SKIPPED = ("recipe", "seed")  # the commands have options of their own for these


def add_fields(parser: argparse.ArgumentParser) -> None:
    """Add one option per field; one that is not given stays out of the namespace."""
    for field in dataclasses.fields(TrainConfig):
        if field.name in _SKIPPED:
            continue
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            dest=field.name,
            default=argparse.SUPPRESS,
            metavar="VALUE",
            help=f"{field.metadata['help']} (default: the recipe's, or {_spell(field.default)})".replace("%", "%%"),
        )


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
    rlscaling.trainer.errors.TrainError: --steps 'many' is not of type int; its default is 1600
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
            f"--{option} {text!r} is not of type {wanted.__name__}; its default is {_spell(default)}"
        ) from None


def _spell(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
