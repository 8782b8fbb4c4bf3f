"""Options that stand once: a field of an options class carries its default, help, choices and limits.

`check_options` refuses bad values, `add_options` makes command-line options of the same fields.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import numbers
from collections.abc import Callable, Iterable, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class OptionInfo:
    """What is known of an option besides its name and default.

    Attributes
    ----------
    help : str
        A line for ``--help``, without the default.
    choices : tuple of str
        The values it may have; empty for any.
    least, above, most : float or None
        Limits of a number: at least, more than, at most.
    flag : str
        Its name on the command line, where that is not ``--name-of-the-field``.
    metavar : str
        What stands for its value in ``--help``.
    parse : callable or None
        Makes a value of the text of the command line; by default the type of the choices or of the limits.
    default_help : str
        What ``--help`` says of the default; empty: the default itself.
    argparse : dict
        Anything else for ``add_argument`` (``nargs``, ``action``).
    """

    help: str
    choices: tuple[str, ...] = ()
    least: float | None = None
    above: float | None = None
    most: float | None = None
    flag: str = ""
    metavar: str = ""
    parse: Callable[[str], Any] | None = None
    default_help: str = ""
    argparse: dict[str, Any] = dataclasses.field(default_factory=dict)


def option(default: Any, help: str, **info: Any) -> Any:
    """Return a field of an options class; ``info`` are the fields of `OptionInfo`.

    Examples
    --------
    >>> @dataclasses.dataclass(frozen=True)
    ... class Options:
    ...     margin: float = option(0.02, "ceilings closer than this are equal", above=0.0)
    >>> check_options(Options(margin=-1.0), ValueError)
    Traceback (most recent call last):
    ValueError: margin=-1.0 must be more than 0; the default is 0.02
    """
    return dataclasses.field(default=default, metadata={"option": OptionInfo(help, **info)})


def info_of(options_class: type, name: str) -> OptionInfo:
    """Return what is known of an option."""
    fields = options_class.__dataclass_fields__  # type: ignore[attr-defined]
    return fields[name].metadata["option"]  # type: ignore[no-any-return]


def check_options(options: Any, error: type[Exception]) -> None:
    """Raise ``error`` for the first value outside its choices or limits: the value, what is wrong, what to do."""
    for field in dataclasses.fields(options):
        info, value = field.metadata.get("option"), getattr(options, field.name)
        if info is None or value == field.default:
            continue
        if info.choices and value not in info.choices:
            raise error(f"{field.name}={value!r} is unknown; choose one of {', '.join(info.choices)}")
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            continue
        if wrong := _outside(float(value), info):
            raise error(f"{field.name}={value!r} must be {wrong}; the default is {field.default}")


def _outside(value: float, info: OptionInfo) -> str:
    """Return the limit that a number breaks, in words; empty when it breaks none."""
    if math.isnan(value):
        return "a number"
    if info.least is not None and value < info.least:
        return f"{info.least:g} or more"
    if info.above is not None and value <= info.above:
        return f"more than {info.above:g}"
    if info.most is not None and value > info.most:
        return f"{info.most:g} or less"
    return ""


def add_options(
    group: argparse._ActionsContainer,
    options_class: type,
    names: Iterable[str] | None = None,
    *,
    defaults: bool = False,
) -> None:
    """Add the options of a class, or some of them, to a group of a parser.

    An option that is not given stays None in the namespace, so that the public function's own default holds; with
    ``defaults=True`` it has the default of its field.
    """
    fields = {field.name: field for field in dataclasses.fields(options_class) if "option" in field.metadata}
    for name in fields if names is None else names:
        field, info = fields[name], info_of(options_class, name)
        flags: Sequence[str] = (info.flag or f"--{name.replace('_', '-')}").split()
        shown = info.default_help or f"{field.default}"
        arguments: dict[str, Any] = {
            "dest": name, "default": field.default if defaults else None,
            "help": f"{info.help} (default: {shown})".replace("%", "%%"),
        }  # fmt: skip
        if isinstance(field.default, bool) and "action" not in info.argparse:
            arguments["action"] = "store_true"
        else:
            arguments |= {"metavar": info.metavar} if info.metavar else {}
            arguments |= {"choices": info.choices} if info.choices else {}
            arguments |= {"type": info.parse} if info.parse else {}
        group.add_argument(*flags, **(arguments | info.argparse))
