"""``rlscaling export-recipe``: options of another engine, and what they do not reproduce."""

from __future__ import annotations

import json

import pytest

from rlscaling.cli import main
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.export.engines import export_recipe


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export-recipe", "scalerl", "--to", "verl", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["engine"] == "verl"
    assert found["options"]["data.train_batch_size"] == 48
    assert "no average over prompts" in found["not_reproduced"]["aggregation"]
    assert main(["export-recipe", "scalerl", "--to", "trl"]) == 0
    assert "loss_type='cispo'" in capsys.readouterr().out
    assert main(["export-recipe", "scalrl", "--to", "trl"]) == 2
    assert "recipe 'scalrl' is unknown (did you mean scalerl" in capsys.readouterr().err
    with pytest.raises(TrainError, match="engine 'nemo' is unknown; choose one of trl, verl"):
        export_recipe("scalerl", "nemo")
