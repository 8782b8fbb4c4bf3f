"""``rlscaling recipes``: every field with its source."""

from __future__ import annotations

import dataclasses
import json

import pytest

from rlscaling import cli
from rlscaling.trainer import RECIPES, TrainConfig


def test_recipes_show_every_field_with_its_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["recipes"]) == 0
    overview = capsys.readouterr().out
    assert all(f"\n{name}: " in overview for name in RECIPES)
    assert "ppo-off-policy-8   dapo     0.2/0.26" in overview
    assert cli.main(["recipes", "gspo", "--all", "--json"]) == 0
    (gspo,) = json.loads(capsys.readouterr().out)["recipes"]
    assert gspo["fields"]["loss"] == {"value": "gspo", "source": RECIPES["gspo"].source["loss"]}
    assert set(gspo["fields"]) == {field.name for field in dataclasses.fields(TrainConfig)} - {"recipe"}
    assert cli.main(["recipes", "gpso"]) == 2
    assert "did you mean gspo" in capsys.readouterr().err
