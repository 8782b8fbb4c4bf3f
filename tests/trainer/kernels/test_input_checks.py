"""Inputs that the operations refuse."""

from __future__ import annotations

import pytest
import torch

from helpers.operation_inputs import VOCAB, WIDTH, N, floats, ids, refused
from rlscaling.trainer.kernels import backends, input_checks, ops


def test_wrong_logits(device: torch.device) -> None:
    tokens = ids().to(device)
    x = floats(N, VOCAB).to(device)
    with refused(r"logits is torch.float64; the kernels take float32 and bfloat16: convert it, for example .float\(\)"):
        ops.token_logprobs(x.double(), tokens)
    with refused(r"logits has shape \(31,\); it must be \(N, V\)"):
        ops.sample(x[0], tokens, tokens, key=1)
    with refused(r"logits has shape \(12, 0\)"):
        ops.sample(x[:, :0], tokens, tokens, key=1)
    with refused(r"logits has strides \(1, 12\); elements of a row must be neighbours: logits.contiguous\(\)"):
        ops.token_logprobs(x.T.contiguous().T, tokens)
    for temperature in (0.0, -1.0, float("nan"), float("inf")):
        with refused(f"temperature={temperature} divides the logits; take a finite number above 0"):
            ops.token_logprobs(x, tokens, temperature)


def test_a_row_longer_than_the_kernels_count() -> None:
    row = torch.empty(1, input_checks.LONGEST_ROW + 1, device="meta")
    with refused("logits has 1073741825 columns, more than the kernels' 1073741824"):
        ops.token_logprobs(row, torch.empty(1, dtype=torch.long, device="meta"))


def test_wrong_vectors(device: torch.device) -> None:
    x, tokens = floats(N, VOCAB).to(device), ids().to(device)
    with refused(r"tokens has shape \(11,\); it must be \(12,\), one number for each row"):
        ops.token_logprobs(x, tokens[1:])
    with refused(r"tokens is torch.int32; it must be torch.int64: tokens.to\(torch.int64\)"):
        ops.token_logprobs(x, tokens.int())
    with refused("positions is torch.float32"):
        ops.sample(x, tokens, tokens.float(), key=1)
    with refused(r"tokens is on meta and the others are on (cpu|cuda:\d+); move it"):
        ops.token_logprobs(x, tokens.to("meta"))
    y = floats(N).to(device)
    with refused("advantage is torch.float64; it must be torch.float32"):
        ops.policy_loss(y, y, y.double(), y)
    with refused(r"^weight is torch.float64"):
        ops.policy_loss(y, y, y, y.double())
    with refused("logp is torch.float64"):
        ops.policy_loss(y.double(), y, y, y)


def test_wrong_heads() -> None:
    hidden, weight = floats(N, WIDTH), floats(VOCAB, WIDTH)
    per_token = (ids(), floats(N), floats(N), floats(N).abs())
    with refused(r"hidden is \(12, 8\) and weight \(31, 7\); both need the same width"):
        ops.policy_head(hidden, weight[:, :7], *per_token)
    with refused("weight is torch.float16"):
        ops.policy_head(hidden, weight.half(), *per_token)
    with refused(r"^token_weight has shape \(11,\); it must be \(12,\)"):
        ops.policy_head(hidden, weight, *per_token[:3], per_token[3][1:])
    with refused("head_dtype='fp8' is unknown; choose fp32 or bf16"):
        ops.policy_head(hidden, weight, *per_token, head_dtype="fp8")
    with refused("head_dtype='fp16' is unknown"):
        ops.head(hidden, weight, "fp16")
    with refused("chunk_bytes=0 holds no row"):
        ops.policy_head(hidden, weight, *per_token, chunk_bytes=0)
    with refused("loss='gspo' without sequence"):
        ops.policy_head(hidden, weight, *per_token, loss="gspo")


@pytest.mark.parametrize("backend", ["reference", "emulate"])
def test_ids_out_of_range_on_the_cpu(backend: str) -> None:
    x = floats(N, VOCAB)
    with backends.using(backend):
        for wrong, value in ((ids() - 1, -1), (ids() + 15, 43)):
            with refused(f"tokens holds {value}, outside 0 to 30; the vocabulary has 31 tokens"):
                ops.token_logprobs(x, wrong)
        y = floats(N)
        with refused("sequence holds -3, outside 0 to inf; number the completions from 0 up"):
            ops.policy_loss(y, y, y, y.abs(), loss="gspo", sequence=torch.arange(N) - 3)


def test_ids_out_of_range_in_a_kernel_give_nan() -> None:
    """As on CUDA, where nobody looks at them before: nothing is read out of bounds."""
    x = floats(N, VOCAB)
    rows = backends.EMULATED.row_forward(x, torch.tensor([-1, VOCAB, 2**40, *range(9)]), 1.0)
    assert rows.logp.isnan().tolist() == [True] * 3 + [False] * 9
