"""Answers compared as mathematics, and comparisons that hang or crash survived."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.tasks.answers import Answer
from rlscaling.trainer.tasks.verifier import WORKER, Verifier


@pytest.fixture(scope="module")
def verifier() -> Verifier:
    return Verifier(20.0)


EQUAL = [
    (r"\frac{1}{2}", "0.5", True),
    (r"$\frac{1}{2}$", r"\dfrac12", True),
    ("1,000", "1000", True),
    ("x+1", "1+x", True),
    (r"(1,2)", r"(1, 2)", True),
    (r"\sqrt{8}", r"2\sqrt{2}", True),
    ("3", "3.1", False),
    (r"\frac{1}{2}", r"\frac{1}{3}", False),
    ("x+1", "x+2", False),
]


@pytest.mark.parametrize(("gold", "answer", "same"), EQUAL)
def test_answers_are_compared_as_mathematics(verifier: Verifier, gold: str, answer: str, same: bool) -> None:
    assert verifier.check(gold, Answer(answer, True)) is same


def test_a_sentence_is_searched_for_its_answer(verifier: Verifier) -> None:
    assert verifier.check("12.50", Answer("So the answer is 12.5.")) is True
    assert verifier.check("12.50", Answer("So the answer is 13.")) is False


HANGING = """
import sys, time
print("ready", flush=True)
for line in sys.stdin:
    if "hang" in line:
        while True:
            time.sleep(1)
    if "crash" in line:
        sys.exit(3)
    print("true", flush=True)
"""


def test_a_comparison_that_hangs_or_crashes_is_given_up_and_the_next_one_works(tmp_path: Path) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text(HANGING)
    own = Verifier(0.3, worker)
    assert own.check("x", Answer("y")) is True
    process = own._process
    began = time.monotonic()
    assert own.check("x", Answer("hang")) is None
    assert time.monotonic() - began < 5
    assert process is not None
    assert process.poll() is not None, "the process that hung is gone"
    assert own.check("x", Answer("z")) is True
    assert own.check("x", Answer("crash")) is None
    assert own.check("x", Answer("w")) is True
    own.close()


def test_sympy_that_hangs_within_one_call_is_ended() -> None:
    """No exception reaches a power of integers that takes for ever; its process ends itself, or is killed."""
    own = Verifier(1.0)
    assert own.check("x", Answer(r"1+x", True)) is False  # started, so that the time below is that of the check
    began = time.monotonic()
    assert own.check("2x", Answer(r"7^{7^{7^{7}}}+x", True)) is not True
    assert time.monotonic() - began < 10
    assert own.check(r"\frac{1}{2}", Answer("0.5")) is True
    own.close()


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_the_process_ends_itself_when_the_trainer_is_gone() -> None:
    """Its standard input closes between two questions; within one, the alarm ends it."""
    request = '{"gold": "2x", "candidates": ["\\\\boxed{7^{7^{7^{7}}}+x}"], "limit": 1.0}\n'
    done = subprocess.run(
        [sys.executable, "-P", str(WORKER)], input=request, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.startswith("ready")
    assert done.returncode <= 0


def test_a_process_that_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text("raise SystemExit(1)")
    with pytest.raises(TrainError, match="the process that checks answers did not start: run"):
        Verifier(1.0, tmp_path / "worker.py").check("x", Answer("y"))


def test_without_math_verify(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(TrainError, match=r"needs math-verify, which is not installed: pip install 'rlscaling\[math\]'"):
        Verifier(1.0)
