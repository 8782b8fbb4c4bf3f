"""The head against the same in float64, for any chunk, precision and loss; its memory; its place in a module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.clip_bounds import CLIPS
from helpers.float64_kernels import head_values
from helpers.operation_inputs import tokens
from rlscaling.trainer.algorithm.losses import LOSSES
from rlscaling.trainer.kernels import backends, ops
from rlscaling.trainer.kernels.types import HeadResult

N, WIDTH, VOCAB, TEMPERATURE = 60, 24, 1031, 0.7
ONE_ROW, SEVEN_ROWS, ALL = 1, 7 * VOCAB * 4, 2**26


def inputs(dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(11)
    hidden, weight = (torch.randn(n, WIDTH, generator=generator).to(dtype) for n in (N, VOCAB))
    head_inputs = tokens(N)
    drawn = torch.randint(VOCAB, (N,), generator=generator)
    exact = (hidden.double() @ weight.double().T / TEMPERATURE).log_softmax(-1).gather(1, drawn[:, None])[:, 0]
    old = (exact.float() + head_inputs["old_logp"] - head_inputs["logp"]).float()
    others = {
        "advantage": head_inputs["advantage"],
        "token_weight": head_inputs["weight"],
        "sequence": head_inputs["sequence"],
    }
    return {"hidden": hidden, "weight": weight, "tokens": drawn, "old_logp": old, **others}


def run(
    head_inputs: dict[str, Tensor], device: torch.device, loss: str, **how: Any
) -> tuple[HeadResult, Tensor, Tensor]:
    moved = {name: value.to(device) for name, value in head_inputs.items()}
    leaves = [moved[name].requires_grad_() for name in ("hidden", "weight")]
    low, high = CLIPS[loss]
    how = {"temperature": TEMPERATURE, **how}
    result = ops.policy_head(**moved, loss=loss, clip_low=low, clip_high=high, **how)  # type: ignore[arg-type]
    d_hidden, d_weight = torch.autograd.grad(2 * result.loss, leaves)
    return result, d_hidden / 2, d_weight / 2


@pytest.mark.parametrize("chunk_bytes", [ONE_ROW, SEVEN_ROWS, ALL])
@pytest.mark.parametrize("loss", LOSSES)
def test_against_float64(loss: str, chunk_bytes: int, device: torch.device) -> None:
    """Chunks of one row, of seven (which do not divide 60, and split sequences), and all at once."""
    head_inputs = inputs()
    result, d_hidden, d_weight = run(head_inputs, device, loss, chunk_bytes=chunk_bytes)
    value, logp, want_hidden, want_weight = head_values(head_inputs, loss, TEMPERATURE)
    torch.testing.assert_close(result.loss.cpu().double(), value, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(result.logp.cpu().double(), logp, atol=1e-5, rtol=1e-6)
    for actual, expected in ((d_hidden, want_hidden), (d_weight, want_weight)):
        torch.testing.assert_close(actual.cpu().double(), expected, atol=1e-5 * float(expected.abs().max()), rtol=1e-4)


@pytest.mark.parametrize("loss", ["cispo", "gspo"])
def test_bf16_factors(loss: str, device: torch.device) -> None:
    """FP32 logits of bf16 factors: log-probabilities as exact as in FP32, gradients to bf16's half last digit."""
    head_inputs = inputs(torch.bfloat16)
    result, d_hidden, d_weight = run(head_inputs, device, loss, chunk_bytes=SEVEN_ROWS)
    _, logp, want_hidden, want_weight = head_values(head_inputs, loss, TEMPERATURE)
    torch.testing.assert_close(result.logp.cpu().double(), logp, atol=1e-5, rtol=1e-6)
    for actual, expected in ((d_hidden, want_hidden), (d_weight, want_weight)):
        assert actual.dtype == torch.bfloat16
        torch.testing.assert_close(
            actual.cpu().double(), expected, atol=2e-3 * float(expected.abs().max()), rtol=2.0**-8
        )


def test_a_bf16_head_is_rounded_like_the_generator(device: torch.device) -> None:
    head_inputs = inputs()
    result, *_ = run(head_inputs, device, "cispo", head_dtype="bf16", chunk_bytes=ALL)
    logits = ops.head(head_inputs["hidden"].detach().to(device), head_inputs["weight"].detach().to(device), "bf16")
    expected, _ = ops.token_logprobs(logits, head_inputs["tokens"].to(device), TEMPERATURE)
    torch.testing.assert_close(result.logp, expected, atol=2e-6, rtol=0)  # a logit rounded otherwise would be 1e-2 off


@pytest.mark.parametrize("loss", LOSSES)
def test_the_chunk_changes_no_bit_of_what_the_kernels_compute(loss: str, kernel_device: torch.device) -> None:
    """With logits that are sums of multiples of 1/16, exact in any order, everything is equal bit for bit."""
    head_inputs = inputs()
    generator = torch.Generator().manual_seed(3)
    for name in ("hidden", "weight"):
        head_inputs[name] = torch.randint(-2, 3, head_inputs[name].shape, generator=generator).float() / 4
    head_inputs["old_logp"] = head_values(head_inputs, loss, TEMPERATURE)[1].float() + torch.linspace(-0.3, 0.3, N)
    results = [run(head_inputs, kernel_device, loss, chunk_bytes=size) for size in (ONE_ROW, SEVEN_ROWS, ALL)]
    for result, d_hidden, _ in results[1:]:
        for actual, expected in zip(
            (*result[:3], *result.stats), (*results[0][0][:3], *results[0][0].stats), strict=True
        ):
            assert torch.equal(actual, expected)
        # a product of slopes, whose sums the library may order by its shape
        torch.testing.assert_close(d_hidden, results[0][1], atol=1e-6 * float(d_hidden.abs().max()), rtol=1e-5)


def test_without_gradients_none_are_computed(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = backends.active(device)

    def never(*_: Any) -> None:
        raise AssertionError("a gradient was computed")

    monkeypatch.setattr(backend, "row_backward", never)
    head_inputs = {name: value.to(device) for name, value in inputs().items()}
    assert not ops.policy_head(**head_inputs).loss.requires_grad  # type: ignore[arg-type]
    head_inputs["weight"].requires_grad_()
    with torch.no_grad():
        assert not ops.policy_head(**head_inputs).loss.requires_grad  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="a gradient was computed"):
        ops.policy_head(**head_inputs)  # type: ignore[arg-type]


@pytest.mark.parametrize(("chunk_bytes", "times"), [(ALL, 1), (SEVEN_ROWS, 10)])
def test_one_chunk_computes_its_loss_once(
    chunk_bytes: int, times: int, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nine chunks: one loss each for its slope, one over all tokens."""
    backend, calls = backends.active(device), []
    plain = backend.policy_loss
    monkeypatch.setattr(backend, "policy_loss", lambda *head_inputs: calls.append(1) or plain(*head_inputs))
    run(inputs(), device, "cispo", chunk_bytes=chunk_bytes)
    assert len(calls) == times


MEMORY = """
import sys, torch
from rlscaling.trainer.kernels import ops
torch.set_num_threads(1)
def resident(field):  # GiB of this program; getrusage would begin with the peak of the one that started it
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(field)) / 2**20
n, vocab, width = 1024, 131072, 64
g = torch.Generator().manual_seed(0)
hidden = torch.randn(n, width, generator=g).requires_grad_()
weight = torch.randn(vocab, width, generator=g).requires_grad_()
tokens = torch.randint(vocab, (n,), generator=g)
old, one = torch.full((n,), -11.0), torch.ones(n)
ops.policy_head(hidden[:2], weight[:2], tokens[:2] % 2, old[:2], one[:2], one[:2]).loss.backward()  # loads libraries
hidden.grad = weight.grad = None
before = resident("VmRSS")
ops.policy_head(hidden, weight, tokens, old, one, one / n, loss=sys.argv[1], sequence=tokens % 32).loss.backward()
print(resident("VmHWM") - before - (hidden.nbytes + weight.nbytes) / 2**30)
"""


@pytest.mark.parametrize(
    ("backend", "loss"),
    [("reference", "cispo"), pytest.param("emulate", "gspo", marks=pytest.mark.slow)],
)
def test_full_logits_never_exist(backend: str, loss: str, tmp_path: Path) -> None:
    """1,024 rows of 131,072 logits are 512 MiB, thrice that with their softmax and gradient; we need less than half."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, loss], capture_output=True, text=True, check=True, timeout=300,
        env={"RLSCALING_KERNELS": backend, "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "HOME": str(tmp_path)},
    )  # fmt: skip
    assert float(done.stdout) < 0.5, f"{done.stdout} GiB beside the inputs, dX and dW"
