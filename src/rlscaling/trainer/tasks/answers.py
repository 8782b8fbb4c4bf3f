r"""The final answer in a completion, and whether its text alone decides if it is the right one.

What counts as the answer, in this order: the last ``\boxed{...}``, what follows the last ``Answer:`` on its line, the
last line that holds anything. Where the model thinks, only what follows the end of its thinking is looked at.
"""

from __future__ import annotations

import dataclasses
import re

LONGEST_ANSWER = 1000
"""Characters of an answer that are looked at; no answer of a problem is longer."""

LOOKED_AT = 4 * LONGEST_ANSWER
"""Characters at the end of a completion in which its answer is looked for."""

_BOXES = re.compile(r"\\f?boxed\s*\{")
_AFTER = re.compile(r"answer\s{0,3}(?:\*\*)?\s{0,3}:\s{0,3}(?:\*\*)?[ \t]{0,3}(\S.*)", re.IGNORECASE)
_INTEGER = re.compile(r"[+-]?\d+")
_DELIMITERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))


@dataclasses.dataclass(frozen=True)
class Answer:
    """A final answer as it stands in a completion."""

    text: str
    boxed: bool = False


def find_answer(text: str, think_end: str = "") -> Answer | None:
    r"""Return the final answer of a completion, None where there is none.

    Parameters
    ----------
    text
        The completion.
    think_end
        The marker that ends thinking; without it in the text there is no answer. Empty: the model does not think.

    Examples
    --------
    >>> find_answer(r"so 3 pears</think>It is \boxed{\frac{1}{2}}.", "</think>")
    Answer(text='\\frac{1}{2}', boxed=True)
    >>> find_answer("The sum is 7.\nAnswer: 7")
    Answer(text='7', boxed=False)
    >>> find_answer("still thinking", "</think>") is None
    True
    """
    if think_end:
        _, ended, text = text.partition(think_end)
        if not ended:
            return None
    text = text[-LOOKED_AT:]
    inside = last_boxed(text)
    if inside is not None:
        return _answer(inside, boxed=True)
    after = _AFTER.findall(text)
    if after:
        return _answer(after[-1])
    lines = [line for line in text.splitlines() if line.strip()]
    return _answer(lines[-1]) if lines else None


def _answer(text: str, *, boxed: bool = False) -> Answer | None:
    text = bare(text)[:LONGEST_ANSWER]
    return Answer(text, boxed) if text else None


def last_boxed(text: str) -> str | None:
    r"""Return what stands in the last ``\boxed{...}`` whose braces are balanced.

    Examples
    --------
    >>> last_boxed(r"\boxed{1} or rather \boxed{\sqrt{2}}, \boxed{unfinished")
    '\\sqrt{2}'
    """
    for box in reversed(list(_BOXES.finditer(text))):
        depth, at = 1, box.end()
        while at < len(text) and depth:
            if text[at] == "\\":  # an escaped brace is a character of the answer
                at += 1
            elif text[at] in "{}":
                depth += 1 if text[at] == "{" else -1
            at += 1
        if not depth:
            return text[box.end() : at - 1]
    return None


def bare(text: str) -> str:
    """Return an answer without spaces and mathematics delimiters around it.

    Examples
    --------
    >>> bare(" $12$ ")
    '12'
    """
    text = text.strip()
    for left, right in _DELIMITERS:
        if len(text) > len(left) + len(right) and text.startswith(left) and text.endswith(right):
            inner = text[len(left) : -len(right)]
            return inner.strip() if left not in inner else text
    return text


def plainly_equal(gold: str, answer: str) -> bool | None:
    """Return whether two answers are the same where their text decides it; None where it takes mathematics.

    Examples
    --------
    >>> plainly_equal("12", "012"), plainly_equal("12", "13"), plainly_equal("0.5", "1/2")
    (True, False, None)
    """
    if gold == answer:
        return True
    if _INTEGER.fullmatch(gold) and _INTEGER.fullmatch(answer):
        return _digits(gold) == _digits(answer)
    return None


def _digits(text: str) -> tuple[bool, str]:
    """Return sign and digits: ``int`` does not take more than a few thousand of them."""
    digits = text.lstrip("+-").lstrip("0")
    return text.startswith("-") and bool(digits), digits
