"""The argument parser class and the types of its arguments."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from rlscaling.option_fields import positive


class UsageError(Exception):
    """The command line cannot be carried out as it is written."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors read like all others of the command."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and where help is, and exit with 2."""
        self.exit(2, f"rlscaling: error: {message} (see {self.prog} --help)\n")


def add_renamed(group: argparse._ActionsContainer, name: str, former: tuple[str, ...], **settings: Any) -> None:
    """Add an argument that its former names still set, until 1.0; the help shows the new name alone."""
    if settings.get("action") != "append":
        group = group.add_mutually_exclusive_group()  # the new name and a former one contradict each other
    action = group.add_argument(name, **settings)
    hidden = settings | {"dest": action.dest, "help": argparse.SUPPRESS, "default": argparse.SUPPRESS}
    for alias in former:
        group.add_argument(alias, **hidden)


def device_factor(text: str) -> tuple[str, float]:
    """Return the device and the factor of ``NAME=X``."""
    name, equals, value = text.rpartition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=X, e.g. H100=0.45")
    return name, positive(value)
