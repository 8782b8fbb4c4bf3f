"""Exit codes of the command and their meaning."""

from __future__ import annotations

USAGE = 2  # the command line is invalid
REFUSED = 3  # some data could not be used; the other runs are still analysed
NOT_IDENTIFIED = 4  # with --require-identified: a ceiling is not identified well enough
WORKERS = 5  # worker processes died
INTERRUPTED = 130
CLOSED_PIPE = 141

EXIT_CODES = """\
exit codes:
  0    success
  2    the command line is invalid
  3    some data could not be used; the other runs are still analysed
  4    with --require-identified: a verdict is neither identified nor approximate
  5    workers died; with --out, finished rows are kept
"""
EXIT_CODES_OF_LOGS = """\
exit codes:
  0    success
  2    the command line is invalid
  3    some data could not be used; the others are still read. doctor: something needs a decision
"""
