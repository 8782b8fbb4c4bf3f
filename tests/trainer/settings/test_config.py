"""The settings need no torch."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

from rlscaling.option_fields import info_of
from rlscaling.trainer.settings.config import TrainConfig


def test_config_imports_no_torch() -> None:
    code = "import sys, rlscaling.trainer.settings.config; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_number_has_a_lower_limit_and_every_field_help() -> None:
    for field in dataclasses.fields(TrainConfig):
        info = info_of(TrainConfig, field.name)
        assert info.help
        if type(field.default) in (int, float):
            assert (info.least is None) != (info.above is None), field.name
