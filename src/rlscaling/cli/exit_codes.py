"""Exit codes of the command and their meaning."""

from __future__ import annotations

USAGE = 2  # the command line cannot be carried out as written
REFUSED = 3  # data refused; in a batch the other runs are still analysed
NOT_IDENTIFIED = 4  # with --require-identified: a ceiling is not known well enough
WORKERS = 5  # worker processes died
INTERRUPTED = 130
CLOSED_PIPE = 141

EXIT_CODES = """\
exit codes:
  0    answered
  2    the command line cannot be carried out as written
  3    data refused; in a batch the other runs are still answered
  4    with --require-identified: a verdict is neither identified nor approximate
  5    workers died; with --out, what was finished is kept
"""
EXIT_CODES_OF_LOGS = """\
exit codes:
  0    answered
  2    the command line cannot be carried out as written
  3    data refused, in a batch the others are still read; doctor: something must be decided
"""
