"""What the header of a trace says of its run."""

from __future__ import annotations

import pytest

from helpers.small_runs import SMALL
from rlscaling.trainer import make_config
from rlscaling.trainer.training.learner import Learner


@pytest.mark.parametrize(("recipe", "change"), [("loo-fp32", "bf16 head"), ("scalerl", ""), ("gspo", "")])
def test_the_header_says_what_a_leave_one_out_recipe_undoes(recipe: str, change: str) -> None:
    header = Learner(make_config(recipe, **SMALL)).header({"generators": 1, "trainers": 1, "modelled": True})
    assert header["recipe"] == recipe
    assert header["change"] == change
