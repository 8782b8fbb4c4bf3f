"""Answers compared as mathematics, in a process of its own that is killed and started again when it hangs."""

from __future__ import annotations

import atexit
import functools
import importlib.util
import json
import queue
import subprocess
import sys
import threading
from pathlib import Path

from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.tasks.answers import Answer, bare, plainly_equal

WORKER = Path(__file__).with_name("verifier_process.py")
START_SECONDS = 120.0
"""How long the process may take to import sympy, on a busy machine as well."""
GRACE = 0.5
"""Seconds after its limit at which a process that did not end itself is killed."""
REMEMBERED = 65536


class Verifier:
    """Decides whether an answer is right; what text alone decides needs no process.

    Parameters
    ----------
    limit
        Seconds that one comparison may take.

    Raises
    ------
    TrainError
        When math-verify is not installed.
    """

    def __init__(self, limit: float, worker: Path = WORKER) -> None:
        if importlib.util.find_spec("math_verify") is None:
            raise TrainError(
                "checking mathematical answers needs math-verify, which is not installed: pip install 'rlscaling[math]'"
            )
        self.limit, self.worker = limit, worker
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()
        self._compare_once = functools.lru_cache(REMEMBERED)(self._compare)

    def check(self, gold: str, answer: Answer) -> bool | None:
        """Return whether an answer equals the known one; None when the comparison hung or crashed."""
        gold = bare(gold)
        plain = plainly_equal(gold, answer.text)
        if plain is not None:
            return plain
        boxed = f"\\boxed{{{answer.text}}}"
        return self._compare_once(gold, (boxed,) if answer.boxed else (boxed, answer.text))

    def _compare(self, gold: str, candidates: tuple[str, ...]) -> bool | None:
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps({"gold": gold, "candidates": candidates, "limit": self.limit}) + "\n")
            process.stdin.flush()
            verdict = self._lines.get(timeout=self.limit + GRACE)
        except (BrokenPipeError, queue.Empty):
            verdict = ""
        if not verdict:
            self.close()
            return None
        return bool(json.loads(verdict))

    def _running(self) -> subprocess.Popen[str]:
        """Return the process, started and ready."""
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        # -P: the folder of the file holds modules that must not be taken for others of the same name
        command = [sys.executable, "-P", str(self.worker)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._process, self._lines = process, queue.Queue()
        threading.Thread(target=_read, args=(process, self._lines), daemon=True).start()
        atexit.register(self.close)
        try:
            ready = self._lines.get(timeout=START_SECONDS)
        except queue.Empty:
            ready = ""
        if not ready:
            self.close()
            raise TrainError(
                f"the process that checks answers did not start: run {sys.executable} -P {self.worker} to see why"
            )
        return process

    def close(self) -> None:
        """End the process; the next check starts another."""
        process, self._process = self._process, None
        atexit.unregister(self.close)
        if process is not None:
            process.kill()
            process.wait()
            assert process.stdin is not None
            try:
                process.stdin.close()
            except BrokenPipeError:
                return  # what has not been read is lost with the process


def _read(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    """Pass on what the process prints; an empty line says that it has ended."""
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            lines.put(line.strip())
    lines.put("")
