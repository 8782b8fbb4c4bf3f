"""The argument parser class and the types of its arguments."""

from __future__ import annotations

import argparse
from typing import NoReturn

from rlscaling.option_fields import positive


class UsageError(Exception):
    """The command line cannot be carried out as it is written."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors read like all others of the command."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and where help is, and exit with 2."""
        self.exit(2, f"rlscaling: error: {message} (see {self.prog} --help)\n")


def device_factor(text: str) -> tuple[str, float]:
    """Return the device and the factor of ``NAME=X``."""
    name, equals, value = text.rpartition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=X, e.g. H100=0.45")
    return name, positive(value)
