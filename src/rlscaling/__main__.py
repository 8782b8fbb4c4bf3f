"""``python -m rlscaling``: the same as the ``rlscaling`` command."""

from __future__ import annotations

import sys

from rlscaling.cli import main

if __name__ == "__main__":
    sys.exit(main())
