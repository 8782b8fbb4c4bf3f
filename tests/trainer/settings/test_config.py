"""The settings need no torch."""

from __future__ import annotations

import subprocess
import sys


def test_config_imports_no_torch() -> None:
    code = "import sys, rlscaling.trainer.settings.config; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
