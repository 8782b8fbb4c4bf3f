"""The ``rlscaling`` command.

Exit codes: 0 answered; 2 the command line cannot be carried out as written; 3 data refused (in a batch the other runs
are still answered); 4 with ``--require-identified`` when a ceiling is not known well enough; 5 workers
died; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from rlscaling.cli.parser import build_parser

__all__ = ["main"]

USAGE, REFUSED, WORKERS, INTERRUPTED, CLOSED_PIPE = 2, 3, 5, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; by default those of the process.

    Examples
    --------
    >>> main(["--version"])
    rlscaling 0.1.0
    0
    """
    try:
        args = build_parser().parse_args(argv)
    except SystemExit as stop:  # argparse has already said what and why
        return int(stop.code or 0)
    _make_printable()
    from rlscaling.cli.inputs import UsageError
    from rlscaling.errors import RLScalingError, WorkersError

    try:
        code = int(args.command(args))
        sys.stdout.flush()
    except UsageError as error:
        return _complain(str(error), USAGE)
    except BrokenPipeError:
        _close_stdout()
        return CLOSED_PIPE
    except WorkersError as error:
        return _complain(str(error), WORKERS)
    except RLScalingError as error:
        return _complain(str(error), REFUSED)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _complain(f"{where}{error.strerror or error}", REFUSED)
    except KeyboardInterrupt:
        return _complain("interrupted", INTERRUPTED)
    return code


def _complain(message: str, code: int) -> int:
    print(f"rlscaling: error: {message}", file=sys.stderr)
    return code


def _make_printable() -> None:
    """Let a stream that cannot write a plus-minus sign write a question mark, rather than stop."""
    for stream in (sys.stdout, sys.stderr):
        if "utf" not in (getattr(stream, "encoding", None) or "utf-8").lower() and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _close_stdout() -> None:
    """Nobody reads any more: point stdout at nothing, so that the interpreter's last flush is silent."""
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
    except (OSError, ValueError):
        return
