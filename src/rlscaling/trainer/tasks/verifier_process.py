"""The process in which answers are compared by math-verify; ``verifier.py`` starts it by its path.

One JSON object a line: ``{"gold", "candidates", "limit"}`` comes in, ``true`` or ``false`` goes out. Nothing of the
package is imported here. Sympy can hang within one call that no exception reaches, so a signal whose default is death
ends the process, even when the trainer has ended already.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

MEMORY = 4 * 2**30
"""Bytes that the process may take: a power of a power would otherwise take all there is."""


def main() -> None:
    """Answer every line until there are no more."""
    _limit_memory()
    logging.disable(logging.CRITICAL)  # math-verify warns of missing time limits; they are set here
    from math_verify import parse, verify

    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        _die_after(request["limit"])
        print(json.dumps(_same(parse, verify, request["gold"], request["candidates"])), flush=True)
        _die_after(0)


def _same(parse: Any, verify: Any, gold: str, candidates: list[str]) -> bool:
    wanted = parse(f"\\boxed{{{gold}}}", parsing_timeout=None)
    return any(verify(wanted, parse(text, parsing_timeout=None), timeout_seconds=None) for text in candidates)


def _die_after(seconds: float) -> None:
    if sys.platform != "win32":
        import signal

        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _limit_memory() -> None:
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


if __name__ == "__main__":
    main()
