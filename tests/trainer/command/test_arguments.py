"""Arguments made of the settings: parsed by type, refused before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlscaling import cli
from rlscaling.trainer import TrainError
from rlscaling.trainer.__main__ import main
from rlscaling.trainer.command.arguments import parse_field


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--recipe", "scalrl"], "did you mean scalerl"),
        (["--lr", "fast"], "--lr 'fast' is not of type float; its default is"),
        (["--prompts-per-step", "100000"], "less than one batch"),
        (["--seeds", "0,one"], "--seeds '0,one' is not a list of whole numbers"),
        (["--seeds", "1,1"], "--seeds 1,1 names a seed twice"),
    ],
)
def test_bad_options_are_refused_before_anything_is_written(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--out", str(tmp_path / "run"), *arguments]
    assert cli.main(["train", *arguments]) == 2
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert capsys.readouterr().err.replace("\n", " ").count(message) == 2
    assert not (tmp_path / "run").exists()


def test_fields_are_parsed_by_type() -> None:
    assert parse_field("tied_head", "no", bool) is False
    assert parse_field("interrupt_window", "28,36", tuple) == (28, 36)
    with pytest.raises(TrainError, match="--tied-head 'maybe' is not of type bool; its default is False"):
        parse_field("tied_head", "maybe", bool)
