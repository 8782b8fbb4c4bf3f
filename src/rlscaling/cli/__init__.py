"""The ``rlscaling`` command: one module per command.

To add an option of fitting or reading, add a field to ``FitOptions`` or ``ReadOptions``; to add a command, write its
module and one line in ``app.COMMANDS``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from rlscaling.cli.app import build_parser
from rlscaling.cli.arguments import UsageError
from rlscaling.cli.exit_codes import CLOSED_PIPE, INTERRUPTED, REFUSED, USAGE, WORKERS
from rlscaling.errors import RLScalingError, WorkersError

__all__ = ["main"]


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
        _make_printable()
        code = int(args.run_command(args))
        sys.stdout.flush()
    except SystemExit as stop:  # argparse has already said what and why
        return int(stop.code or 0)
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
    """Let a stream that cannot write a plus-minus sign write a question mark, and a closed one nothing."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if "utf" not in (getattr(stream, "encoding", None) or "utf-8").lower() and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _close_stdout() -> None:
    """Point stdout at nothing once its reader is gone, so that the interpreter's last flush is silent."""
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
    except (OSError, ValueError):
        return
