"""Tests of `rlscaling/datasets/published.py`."""

from __future__ import annotations

from rlscaling.datasets import table1

# [ScaleRL, Table 1], as printed: C_mid, B, A
PRINTED = {
    "scalerl": (2542, 1.92, 0.610),
    "length-32k": (11272, 1.89, 0.645),
    "generations-8": (2542, 2.44, 0.585),
    "generations-24": (3054, 2.22, 0.590),
    "generations-32": (2936, 2.07, 0.595),
    "scout-moe": (4242, 1.65, 0.710),
    "batch-512": (2818, 1.77, 0.605),
    "batch-2048": (10909, 1.70, 0.645),
    "math-code-math": (2896, 2.05, 0.595),
    "math-code-code": (1675, 1.09, 0.615),
}


def test_table1_is_as_printed():
    assert {name: (p.C_mid, p.B, p.A) for name, p in table1().items()} == PRINTED
    assert {p.R0 for p in table1(R0=0.3).values()} == {0.3}
    frame = table1(as_frame=True)
    assert frame.loc["scout-moe"].to_dict() == {"A": 0.71, "B": 1.65, "C_mid": 4242, "R0": 0.35}
    assert list(frame.index) == list(PRINTED)
