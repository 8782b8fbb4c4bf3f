"""Tests of `rlscaling/readers/column_scale.py`."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rlscaling.errors import TraceError
from rlscaling.readers.column_names import unit_of
from rlscaling.readers.column_scale import scale_of
from rlscaling.readers.read import read_trace

DAY = 86400.0


@pytest.mark.parametrize(
    ("names", "unit", "factor"),
    [
        ("kgpu_hours|kGPU-hours|k gpu hours|gpu_hours_k|GPU-hours (k)|gpu hours (thousands)", "gpu-hours", 1e3),
        ("thousand GPU hours|1e3_gpu_hours|gpu_hours_x1000|gpu_hours/1e3|GPU-kh|kH100-hours", "gpu-hours", 1e3),
        ("MGPU-hours|million GPU-hours|gpu_hours_M", "gpu-hours", 1e6),
        ("gpu_days|H100-days", "gpu-hours", 24.0),
        ("gpu_minutes", "gpu-hours", 1 / 60),
        ("npu_hours|tpu_hours|NPU-h", "device-hours", 1.0),
        ("knpu_hours|TPU-hours (k)", "device-hours", 1e3),
        ("ktokens|tokens_k|Tokens (thousands)", "tokens", 1e3),
        ("mtok|million tokens|tokens[M]|tokensM|tokens_mn|tok_M", "tokens", 1e6),
        ("tokens_B|tokens_b|tokens (B)|Btokens|btok|GTokens|tokensB|tokens_in_billions|tokens_bn", "tokens", 1e9),
        ("tokens_1e9|tokens/1e9|10^9 tokens|tokens_seen_B|1e+09 tokens", "tokens", 1e9),
        ("tokens_T|trillion tokens", "tokens", 1e12),
        ("TFLOPs|teraflops", "flops", 1e12),
        ("PFLOPs|pflops|petaflops|compute_pflops|flops (P)", "flops", 1e15),
        ("exaflops|EFLOPs|FLOPs (1e18)|flops_E", "flops", 1e18),
        ("zettaflops|total_flops_1e21", "flops", 1e21),
        ("PF-days|petaflop_s_days|petaflop/s-days", "flops", 1e15 * DAY),
        ("exaFLOP-days", "flops", 1e18 * DAY),
        ("ksteps|steps_k|steps (thousands)", "steps", 1e3),
        ("env_steps_m", "steps", 1e6),
        ("rollouts_M|million rollouts", "rollouts", 1e6),
        ("khours|hours (k)", "wall-hours", 1e3),
    ],
)
def test_sizes_as_people_write_them(names: str, unit: str, factor: float) -> None:
    for name in names.split("|"):
        scale = scale_of(name)
        assert (unit_of(name), scale.logarithm) == (unit, ""), name
        assert scale.factor == pytest.approx(factor), name


@pytest.mark.parametrize(
    "name",
    ["gpu_hours", "num_tokens", "tokens_a", "steps_b", "top_k_tokens", "prompt_tokens", "gemm_flops", "log/tokens",
     "logs/flops", "log_step", "global_step", "_step", "train/num_input_tokens_seen", "H100 hours", "compute"],
)  # fmt: skip
def test_names_without_a_size(name: str) -> None:
    scale = scale_of(name)
    assert (scale.core, scale.factor, scale.logarithm) == (name.lower(), 1.0, "")


@pytest.mark.parametrize(
    ("name", "numbers", "compute"),
    [
        ("log10_gpu_hours", [-math.inf, 2.0, 3.5], [0.0, 100.0, 3162.2776602]),
        ("log10(gpu_hours)", [1.0, 2.0, 3.0], [10.0, 100.0, 1000.0]),
        ("gpu_hours (log10)", [1.0, 2.0, 3.0], [10.0, 100.0, 1000.0]),
        ("log2_tokens", [1.0, 2.0, 10.0], [2.0, 4.0, 1024.0]),
        ("ln_flops", [0.0, 1.0, 2.0], [1.0, math.e, math.e**2]),
        ("log1p_tokens", [0.0, 1.0, 2.0], [0.0, math.e - 1, math.e**2 - 1]),
        ("log10_tokens_B", [0.0, 1.0, 2.0], [1e9, 1e10, 1e11]),
        ("log10_compute", [1.0, 2.0, 3.0], [10.0, 100.0, 1000.0]),
        ("compute_k", [0.0, 1.0, 2.0], [0.0, 1e3, 2e3]),
        ("tokens_B", [0.0, 8.0, 16.0], [0.0, 8e9, 16e9]),
        ("gpu_days", [0.0, 1.0, 2.0], [0.0, 24.0, 48.0]),
    ],
)
def test_bug_logarithms_and_sizes_are_read_as_such(file, name: str, numbers: list[float], compute: list[float]) -> None:
    """pRRophetic#4 took log IC50 for IC50; prefixes of units were dropped."""
    rows = "".join(f"{x},{0.3 + 0.05 * i}\n" for i, x in enumerate(numbers))
    trace = read_trace(file(f"{name},pass_rate\n{rows}"))
    np.testing.assert_allclose(trace.compute, compute, rtol=1e-9)
    assert any("as its name says" in note for note in trace.notes)
    assert trace.compute_unit == unit_of(name)


def test_a_logarithm_of_unknown_base_is_refused(file) -> None:
    with pytest.raises(TraceError, match="'log_gpu_hours' looks like a logarithm of unknown base; rename it to log10_"):
        read_trace(file("log_gpu_hours,pass_rate\n1,0.3\n2,0.35\n3,0.4\n"))
    with pytest.raises(TraceError, match="holds 16000, too large for a logarithm; leave 'log10' out of its name"):
        read_trace(file("log10_gpu_hours,pass_rate\n0,0.3\n800,0.35\n16000,0.4\n"))


def test_a_unit_given_overrules_the_size_in_the_name(file) -> None:
    path = file("tokens_B,pass_rate\n0,0.3\n8,0.35\n16,0.4\n")
    assert read_trace(path, compute_unit="steps").compute.tolist() == [0, 8, 16]
    assert read_trace(path, compute_unit="tokens").compute.tolist() == [0, 8e9, 16e9]
