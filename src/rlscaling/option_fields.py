"""Options that stand once: a field of an options class carries its default, help, choices and limits.

`check_options` refuses bad values, `add_options` makes command-line options of the same fields; `number` and the
functions after it read the text of the command line.
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
    metavar : str or tuple of str
        What stands for its value in ``--help``.
    parse : callable or None
        Makes a value of the text of the command line, or raises ``argparse.ArgumentTypeError``; by default the type of
        the default and of the limits.
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
    metavar: str | tuple[str, ...] = ""
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
        if info is None or value is field.default:
            continue
        if info.choices and not (value is None and field.default is None) and value not in info.choices:
            raise error(f"{field.name}={value!r} is unknown; choose one of {', '.join(info.choices)}")
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            continue
        try:
            number = float(value)
        except OverflowError:
            raise error(f"{field.name} is too large for a number; give a finite value") from None
        if wrong := _outside(number, info):
            raise error(f"{field.name}={value!r} must be {wrong}; the default is {field.default}")


def _outside(value: float, info: OptionInfo) -> str:
    """Return the limit that a number breaks, in words; empty when it breaks none."""
    if math.isnan(value) and (info.least, info.above, info.most) != (None, None, None):
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
    ``defaults=True`` it has the default of its field. Fields without `OptionInfo` are no options of the command.
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
            arguments |= {"type": parse} if (parse := info.parse or _type_of(info, field.default)) else {}
        group.add_argument(*flags, **(arguments | info.argparse))


def given_options(arguments: argparse.Namespace, options_class: type) -> dict[str, Any]:
    """Return the options of a class that were given on the command line, by the names of their fields."""
    values = vars(arguments)
    names = (field.name for field in dataclasses.fields(options_class))
    return {name: values[name] for name in names if values.get(name) is not None}


def _type_of(info: OptionInfo, default: Any) -> Callable[[str], Any] | None:
    """Return what reads an option without a reader of its own: a number within the limits; None for text."""
    if isinstance(default, int) and not isinstance(default, bool):
        return whole_number(0 if info.least is None else int(info.least))
    if info.above == 0:
        return positive
    if info.least == 0:
        return not_negative
    return number if isinstance(default, float) else None


def number(text: str) -> float:
    """Return a number, which may be infinite."""
    try:
        value = float(text)
    except ValueError:
        hint = "; files go before this option" if "." in text or "/" in text else ""
        raise argparse.ArgumentTypeError(f"{text!r} is not a number{hint}") from None
    if math.isnan(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return value


def positive(text: str) -> float:
    """Return a positive, finite number."""
    value = number(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a positive, finite number")
    return value


def not_negative(text: str) -> float:
    """Return a finite number of 0 or more."""
    value = number(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a finite number of 0 or more")
    return value


def level(text: str) -> float:
    """Return a confidence level."""
    value = number(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1; for 95 % give 0.95")
    return value


def whole_number(least: int) -> Callable[[str], int]:
    """Return the reader of a whole number of ``least`` or more."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
        return int(text)

    return read


def workers(text: str) -> int:
    """Return a number of workers; -1 stands for all cores."""
    if text == "-1":
        return -1
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more, nor -1 for all cores")
    return int(text)
