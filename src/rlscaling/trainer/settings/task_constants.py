"""Sizes and names of the built-in tasks that settings are checked against."""

from __future__ import annotations

import re
from pathlib import Path

from rlscaling.trainer.errors import TrainError

BASE_TASKS = ("hidden-sort", "sort", "addition", "modular")
"""Tasks by name; ``a+b`` trains on two at once."""

TEXT_TASK = "text"
"""The task of problems in files, read by a pretrained model."""

MODULUS = 20
HELD_OUT = 2048
"""Prompts of each task that are never trained on."""
SOLUTION_EXTRA = 2
"""Tokens of a solution beyond the digits of the operands: the leading digit of a sum and the end of the sequence."""
PHRASE_LENGTH = 2
"""Tokens of the phrase that ends thinking by force."""


def task_space(name: str, n_digits: int) -> int:
    """Return how many different prompts a task has (the place of a hidden digit not counted)."""
    digits = {"addition": 2 * n_digits, "modular": 4}.get(name, n_digits)
    return int(10**digits)


def answer_length(name: str, n_digits: int) -> int:
    """Return the number of digits of an answer."""
    return {"addition": n_digits + 1, "modular": 2}.get(name, n_digits)


TIME_UP = "Okay, time is up. Let me stop thinking and formulate a final answer now. "
"""The phrase of a forced interruption before the marker [ScaleRL, A.10]."""
_NAME = re.compile(r"[A-Za-z][\w.-]*")


def parse_sources(text: str, option: str) -> dict[str, Path]:
    """Return the files of an option by the name of their domain: ``math=a.jsonl,b.parquet``.

    Raises
    ------
    TrainError
        For an empty path, an invalid name, or two files of one name.

    Examples
    --------
    >>> list(parse_sources("math=polaris.parquet,code.jsonl", "data"))
    ['math', 'code']
    """
    sources: dict[str, Path] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, path = part.partition("=")
        if not equals:
            name, path = Path(part).stem, part
        if not _NAME.fullmatch(name) or not path:
            raise TrainError(
                f"{option}={text!r}: {part!r} is no file with a name for its domain, which begins with a letter; give "
                "such as math=problems.jsonl"
            )
        if name in sources:
            raise TrainError(f"{option}={text!r} names the domain {name!r} twice; give each file a name of its own")
        sources[name] = Path(path)
    return sources
