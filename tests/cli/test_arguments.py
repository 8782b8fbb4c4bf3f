"""Arguments that cannot be understood: one line each, and exit code 2."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--plot", "fit.gif"), "--plot fit.gif: the suffix says the format; choose one of .png, .svg, .pdf"),
        (("--plot", "no/fit.png"), "there is no folder no; make it first"),
        (("--save", "fit.txt"), "a fit is saved as JSON; end the name in .json"),
        (("--save", "no/fit.json"), "there is no folder no; make it first"),
        (("--A-max", "2"), "A_max=2: a pass rate has a bound in (0, 1]"),
        (("--min-compute", "5", "--max-compute", "4"), "leave no range"),
        (("--method", "paper-grid", "--A", "0.6"), "drop A= and B="),
        (("--seed", "-1"), "'-1' is not a whole number of 0 or more"),
        (("--resamples", "1"), "'1' is not a whole number of 2 or more"),
        (("--jobs", "0"), "'0' is not a whole number of 1 or more"),
        (("--confidence-level", "95"), "95 is not between 0 and 1; for 95 % give 0.95"),
        (("--exclude", "3000"), "'3000' is not LOW:HIGH, e.g. 3000:3500"),
        (("--compute", "0"), "0 is not a positive, finite number"),
        (("--compute", "batch-512.jsonl"), "is not a number; files go before this option"),
        (("--R0", "nan"), "'nan' is not a number"),
        (("--seed-sd", "-1"), "-1 is not a finite number of 0 or more"),
        (("--scale", "ten"), "invalid choice: 'ten'"),
        (("--frobnicate",), "unrecognized arguments: --frobnicate"),
    ],
)
def test_usage_errors(run: Any, argv: tuple[str, ...], message: str) -> None:
    said = run("fit", "scalerl.jsonl", *argv)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("rlscaling: error: ")
    assert message in said.err
