"""Finding the answer in a completion."""

from __future__ import annotations

import time

import pytest

from rlscaling.trainer.tasks.answers import Answer, bare, find_answer, last_boxed, plainly_equal

pytest.importorskip("math_verify")

FOUND = [
    (r"so \boxed{12}.", Answer("12", True)),
    (r"\boxed{1}, no: \fbox{\frac{1}{2}}", Answer("1", True)),
    (r"\boxed{\frac{1}{\sqrt{2}}} and Answer: 3", Answer(r"\frac{1}{\sqrt{2}}", True)),
    (r"\boxed {7}", Answer("7", True)),
    (r"\boxed{\{1, 2\}}", Answer(r"\{1, 2\}", True)),
    (r"\boxed{12", Answer(r"\boxed{12", False)),
    (r"\boxed{}", None),
    ("Answer: 3\nAnswer: $\\frac34$ \n", Answer(r"\frac34")),
    ("The answer: 12", Answer("12")),
    ("**Answer:** 12", Answer("12")),
    ("first\n\n  x = 4  \n", Answer("x = 4")),
    ("", None),
    (" \n", None),
    ("Answer:", Answer("Answer:")),
]


@pytest.mark.parametrize(("text", "answer"), FOUND, ids=[text for text, _ in FOUND])
def test_find_answer(text: str, answer: Answer | None) -> None:
    assert find_answer(text) == answer
    assert find_answer(f"I think \\boxed{{99}} </think>{text}", "</think>") == answer
    assert find_answer(f"<think>{text}", "</think>") is None


def test_delimiters_around_an_answer() -> None:
    assert [bare(text) for text in ("$$x$$", r"\(x\)", r"\[ x \]", "$x$ and $y$", "$")] == [
        "x",
        "x",
        "x",
        "$x$ and $y$",
        "$",
    ]
    assert last_boxed("nothing") is None
    assert find_answer("9" * 5000) == Answer("9" * 1000)


def test_integers_of_any_length_are_compared_as_text() -> None:
    assert plainly_equal("9" * 9000, "0" * 9 + "9" * 9000) is True
    assert plainly_equal("-0", "0") is True
    assert plainly_equal("-12", "12") is False
    assert plainly_equal("+12", "12") is True
    assert plainly_equal("1,000", "1000") is None


def test_finding_an_answer_takes_time_in_proportion_to_its_length() -> None:
    """Boxes that never close, and spaces after the word: once they took time by the square."""
    began = time.process_time()
    assert find_answer("</think>" + r"\boxed{" * 100_000, "</think>") is not None
    assert find_answer("answer" + " " * 100_000 + "7") == Answer("7")
    assert time.process_time() - began < 2.0
    assert find_answer("x" * 100_000 + r" so \boxed{12}.") == Answer("12", boxed=True)
