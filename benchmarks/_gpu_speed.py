"""Time and memory of the kernels on a device, for ``gpu_check.py`` and ``policy_head.py``."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import _common as common
from rlscaling.trainer.kernels import cuda, ops
from rlscaling.trainer.kernels.types import HeadResult


class Sizes(NamedTuple):
    """How much is measured."""

    steps: int  # of training
    rows: int  # of logits
    vocab: int
    tokens: int  # of the policy loss
    head_rows: int
    width: int
    repeats: int
    chunks: tuple[int, ...]  # MiB of logits in the policy head


FULL = Sizes(50, 2048, 131_072, 4_000_000, 16_384, 1024, 15, (64, 256, 1024))
REHEARSAL = Sizes(3, 4, 4096, 5000, 64, 32, 1, (1,))

Row = dict[str, Any]


def machine(device: torch.device) -> dict[str, str]:
    """The device and what the kernels were compiled by."""
    nvrtc = {"NVRTC": ".".join(map(str, cuda.nvrtc_version()))}
    if device.type != "cuda":
        return {**nvrtc, "device": "none: a rehearsal on emulated kernels"}
    free, total = torch.cuda.mem_get_info()
    return {
        **nvrtc,
        "device": torch.cuda.get_device_name(),
        "memory": f"{total / 2**30:.0f} GiB, {free / 2**30:.0f} free",
    }


def seconds(call: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Median time of a call after three unmeasured ones, by the device's clock."""
    for _ in range(3 if repeats > 1 else 0):
        call()
    times = []
    for _ in range(repeats):
        if device.type != "cuda":
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
            continue
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times)


def copy_bandwidth(device: torch.device, sizes: Sizes) -> float:
    """Bytes a second of a copy on the device, read and written, of as many bytes as the logits."""
    source = torch.empty(sizes.rows * sizes.vocab, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / seconds(lambda: target.copy_(source), device, sizes.repeats)


# --- the same in plain torch ----------------------------------------------------------------------------


def plain_rows(x: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    logp = x.float().log_softmax(-1)
    return logp.gather(-1, tokens[:, None])[:, 0], -(logp.exp() * logp).sum(-1)


def plain_sample(x: Tensor) -> tuple[Tensor, Tensor]:
    logp = x.float().log_softmax(-1)
    tokens = (logp - torch.empty_like(logp).exponential_().log()).argmax(-1)
    return tokens, logp.gather(-1, tokens[:, None])[:, 0]


def plain_loss(logp: Tensor, old: Tensor, advantage: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    ratio = (logp - old).exp()
    slope = -ratio.clamp(max=4.0) * advantage * weight
    return (slope * logp).sum(), slope, ratio.sum(), ratio.max(), (ratio > 4.0).sum()


def plain_head(hidden: Tensor, weight: Tensor, tokens: Tensor, old: Tensor, adv: Tensor, w: Tensor) -> Tensor:
    logits = torch.nn.functional.linear(hidden, weight).float()
    logp = logits.log_softmax(-1).gather(-1, tokens[:, None])[:, 0]
    return plain_loss(logp, old, adv, w)[0]


# --- speed ----------------------------------------------------------------------------------------------


def measure(device: torch.device, sizes: Sizes) -> list[Row]:
    """One row for each operation: time, bytes a second beside the copy's, time against eager and compiled torch."""
    copy = copy_bandwidth(device, sizes)
    table = [{"operation": "copy", "ms": None, "GB/s": copy / 1e9, "of copy": 1.0, "eager": None, "compiled": None}]
    for dtype in (torch.float32, torch.bfloat16):
        table += row_speed(device, sizes, dtype, copy)
    table.append(loss_speed(device, sizes, copy))
    return table + head_speed(device, sizes)


def entry(name: str, elapsed: float, moved: float | None, copy: float | None, others: list[float | None]) -> Row:
    eager, compiled = (other / elapsed if other else None for other in others)
    rate = moved / elapsed / 1e9 if moved else None
    share = moved / elapsed / copy if moved and copy else None
    return {
        "operation": name,
        "ms": elapsed * 1e3,
        "GB/s": rate,
        "of copy": share,
        "eager": eager,
        "compiled": compiled,
    }


def against(device: torch.device, sizes: Sizes, plain: Callable[..., object], *inputs: Tensor) -> list[float | None]:
    """Seconds of the same in eager torch and compiled by inductor; None in a rehearsal."""
    eager = seconds(lambda: plain(*inputs), device, sizes.repeats)
    if device.type != "cuda":
        return [eager, None]
    compiled = torch.compile(plain)
    return [eager, seconds(lambda: compiled(*inputs), device, sizes.repeats)]


def row_speed(device: torch.device, sizes: Sizes, dtype: torch.dtype, copy: float) -> list[Row]:
    """Row kernels and sampler."""
    x = torch.randn(sizes.rows, sizes.vocab, device=device).to(dtype)
    tokens = torch.randint(sizes.vocab, (sizes.rows,), device=device)
    leaf = x.clone().requires_grad_()
    logp, _ = ops.token_logprobs(leaf, tokens)
    plain_logp, _ = plain_rows(leaf, tokens)

    def backward(of: Tensor) -> float:
        call = lambda: torch.autograd.grad(of.sum(), leaf, retain_graph=True)  # noqa: E731
        return seconds(call, device, sizes.repeats)

    def ours(call: Callable[[], object]) -> float:
        return seconds(call, device, sizes.repeats)

    shape = f"{sizes.rows} x {sizes.vocab} {str(dtype)[6:]}"
    return [
        entry(f"row forward {shape}", ours(lambda: ops.token_logprobs(x, tokens)), x.nbytes, copy,
              against(device, sizes, plain_rows, x, tokens)),
        entry(f"row backward {shape}", backward(logp), 2 * x.nbytes, copy, [backward(plain_logp), None]),
        entry(f"sample {shape}", ours(lambda: ops.sample(x, tokens, tokens, key=1)), x.nbytes, copy,
              against(device, sizes, plain_sample, x)),
    ]  # fmt: skip


def loss_speed(device: torch.device, sizes: Sizes, copy: float) -> Row:
    inputs = [torch.randn(sizes.tokens, device=device) * 0.1 for _ in range(3)]
    inputs.append(torch.rand(sizes.tokens, device=device))
    elapsed = seconds(lambda: ops.policy_loss(*inputs), device, sizes.repeats)
    return entry(
        f"policy loss {sizes.tokens}", elapsed, 20 * sizes.tokens, copy, against(device, sizes, plain_loss, *inputs)
    )


def head_inputs(n: int, vocab: int, width: int, dtype: torch.dtype, device: torch.device) -> dict[str, Tensor]:
    """What the policy head is given: logits of standard deviation 2, ratios near 1."""
    generator = torch.Generator().manual_seed(3)
    hidden = (torch.randn(n, width, generator=generator) * 2 / width**0.5).to(device, dtype)
    weight = torch.randn(vocab, width, generator=generator).to(device, dtype)
    tokens = torch.randint(vocab, (n,), generator=generator).to(device)
    wide = weight.float()
    logp = torch.empty(n, device=device)  # filled in place: small results kept between large ones would tear the heap
    for i in range(0, n, 16):
        full = (hidden[i : i + 16].float() @ wide.T).log_softmax(-1)
        logp[i : i + 16] = full.gather(1, tokens[i : i + 16, None])[:, 0]
    return {
        "hidden": hidden.requires_grad_(),
        "weight": weight.requires_grad_(),
        "tokens": tokens,
        "old_logp": logp + torch.randn(n, generator=generator).to(device) * 0.1,
        "advantage": torch.randn(n, generator=generator).to(device),
        "token_weight": torch.full((n,), 1 / n, device=device),
        "sequence": torch.arange(n, device=device) // 32,
    }


def head(
    inputs: dict[str, Tensor], loss: str, clip_low: float, clip_high: float, *, chunk_bytes: int
) -> tuple[HeadResult, tuple[Tensor, ...]]:
    """Loss and gradients of the policy head."""
    result = ops.policy_head(**inputs, loss=loss, clip_low=clip_low, clip_high=clip_high, chunk_bytes=chunk_bytes)  # type: ignore[arg-type]
    return result, torch.autograd.grad(result.loss, (inputs["hidden"], inputs["weight"]))


def full_head(inputs: dict[str, Tensor]) -> object:
    """The policy head's gradients in plain torch, all logits at once."""
    order = ("hidden", "weight", "tokens", "old_logp", "advantage", "token_weight")
    loss = plain_head(*(inputs[name] for name in order))
    return torch.autograd.grad(loss, (inputs["hidden"], inputs["weight"]))


def full_fits(device: torch.device, sizes: Sizes) -> bool:
    """Whether all logits fit six times: in bf16 and FP32, their softmax, its gradient, and room."""
    return device.type != "cuda" or torch.cuda.mem_get_info()[0] > 6 * sizes.head_rows * sizes.vocab * 4


def head_speed(device: torch.device, sizes: Sizes) -> list[Row]:
    """The policy head by size of its chunk, against full logits."""
    inputs = head_inputs(sizes.head_rows, sizes.vocab, sizes.width, torch.bfloat16, device)
    repeats = min(sizes.repeats, 3)
    eager = seconds(lambda: full_head(inputs), device, repeats) if full_fits(device, sizes) else None
    rows = []
    for megabytes in sizes.chunks:
        elapsed = seconds(lambda m=megabytes: head(inputs, "cispo", 0.0, 4.0, chunk_bytes=m * 2**20), device, repeats)
        name = f"policy head {sizes.head_rows} x {sizes.width} x {sizes.vocab} bf16, chunks of {megabytes} MiB"
        rows.append(entry(name, elapsed, None, None, [eager, None]))
    return rows


# --- what to expect ---------------------------------------------------------------------------------------

DEVICES = {"H100 SXM": (3.35e12, 2.97e13), "H200 SXM": (4.8e12, 2.97e13)}
"""Bytes a second by NVIDIA's data sheets; FP32 instructions a second: 132 multiprocessors, 128 lanes, 1.755 GHz."""

COUNTED = {  # bytes and instructions of an element (a logit, or a token of the loss), by hand in the code for sm_90
    "row forward, FP32": (4, 12),
    "row forward, bf16": (2, 11),
    "row backward, FP32": (8, 14),
    "row backward, bf16": (4, 20),
    "sample, FP32": (4, 36),
    "sample, bf16": (2, 35),
    "policy loss": (20, 15),
}


def expectation(sizes: Sizes) -> str:
    """Time of each kernel if bytes, or instructions, are all that counts: the larger of the two."""
    lines = [f"{'kernel':<20}{'elements':>11}{'bytes':>8}{'instr.':>8}" + "".join(f"{name:>24}" for name in DEVICES)]
    for kernel, (size, work) in COUNTED.items():
        n = sizes.tokens if kernel == "policy loss" else sizes.rows * sizes.vocab
        cells = []
        for bandwidth, rate in DEVICES.values():
            memory, compute = n * size / bandwidth * 1e3, n * work / rate * 1e3
            cells.append(f"{max(memory, compute):>10.3f} ms, {'memory' if memory > compute else 'compute'}".rjust(24))
        lines.append(f"{kernel:<20}{n:>11}{size:>8}{work:>8}" + "".join(cells))
    return "\n".join(lines)


# --- memory ---------------------------------------------------------------------------------------------


def resident(field: str) -> float:
    """GiB of this program, now (``VmRSS``) or at most (``VmHWM``).

    The peak that ``getrusage`` tells begins with that of the program which started this one.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 2**20


def peak_above(call: Callable[[], object], device: torch.device) -> float:
    """GiB that a call needs at most beyond what is held before it.

    On a CPU: the largest size the process ever had above its size before. That is too much rather than too little.
    """
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        return (torch.cuda.max_memory_allocated() - before) / 2**30
    before = resident("VmRSS")
    call()
    return resident("VmHWM") - before


def memory(device: torch.device, sizes: Sizes) -> list[common.Check]:
    """Peak memory of the policy head beside its inputs and both gradients, and that of full logits."""
    inputs = head_inputs(sizes.head_rows, sizes.vocab, sizes.width, torch.bfloat16, device)
    gradients = sum(inputs[name].nbytes for name in ("hidden", "weight")) / 2**30
    ours = max(0.0, peak_above(lambda: head(inputs, "cispo", 0.0, 4.0, chunk_bytes=64 * 2**20), device) - gradients)
    note = "full logits do not fit"
    if full_fits(device, sizes):
        full = max(0.0, peak_above(lambda: full_head(inputs), device) - gradients)
        note = f"full logits: {full:.3g} GiB"
    in_fp32 = 2 * sizes.vocab * sizes.width * 4 / 2**30  # the sum of dW, and a product before it is added
    return [common.Check("policy head: memory", ours, in_fp32 + 1, False, "GiB", note)]


def text(table: list[Row]) -> str:
    """The table of times; a ratio above 1 says how many times longer torch takes."""
    lines = [f"{'operation':<58}{'ms':>10}{'GB/s':>9}{'of copy':>9}{'eager':>8}{'compiled':>10}"]
    for row in table:
        cells = [
            ("ms", 10, ".3f"),
            ("GB/s", 9, ".0f"),
            ("of copy", 9, ".2f"),
            ("eager", 8, ".2f"),
            ("compiled", 10, ".2f"),
        ]
        shown = (f"{row[k]:>{w}{f}}" if row[k] is not None else f"{'':>{w}}" for k, w, f in cells)
        lines.append(f"{row['operation']:<58}" + "".join(shown))
    return "\n".join(lines) + "\n\n"
