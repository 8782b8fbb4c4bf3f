"""The emulation finds what it is there to find, and finds nothing in our kernels."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.clip_bounds import CLIPS
from helpers.float64_kernels import rows_of_every_kind, tokens_for
from helpers.kernel_recording import MEMORY, THREADS, Recorder
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.kernels import backends, emulation, ops, sources
from rlscaling.trainer.kernels.compiled import Compiled, Launch

PLANTED = Path(__file__).parents[2] / "support" / "helpers" / "planted_kernels" / "planted.cu"
ORDERS = (0, 1, 2, 3, 4)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs")


@contextlib.contextmanager
def backend_of(monkeypatch: pytest.MonkeyPatch, launch: Launch) -> Iterator[None]:
    """Let kernels started by this function answer."""
    with monkeypatch.context() as patch:
        patch.setattr(backends, "_override", backends.BackendChoice("test", "", Compiled(launch)))
        yield


def planted(kernel: str, grid: int = 1) -> Tensor:
    x, out = torch.arange(1.0, 65.0), torch.zeros(64)
    emulation.launch(PLANTED, kernel, grid, 64, (x, out))
    return out


def in_every_order(kernel: str, monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    results = []
    for order in ORDERS:
        monkeypatch.setattr(emulation, "thread_order", order)
        results.append(planted(kernel))
    return results


def test_a_sound_kernel_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    for result in in_every_order("sound", monkeypatch):
        assert torch.equal(result, torch.arange(64.0, 0.0, -1.0))


def test_a_missing_barrier_shows_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    first, *others = in_every_order("missing_barrier", monkeypatch)
    assert any(not torch.equal(first, other) for other in others)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("divergent_barrier", r"divergent_barrier: divergent __syncthreads in line 18: thread 0 of block 0 waits"),
        ("two_barriers", "divergent __syncthreads in line 24"),
        ("partial_shuffle", "partial-warp __shfl_xor_sync in line 33"),
        ("partial_mask", "partial-warp __shfl_xor_sync in line 38"),
    ],
)
def test_threads_that_part_are_refused(kernel: str, message: str) -> None:
    with pytest.raises(emulation.EmulationError, match=message):
        planted(kernel)
    assert torch.equal(planted("sound"), torch.arange(64.0, 0.0, -1.0)), "the next launch starts afresh"


def test_shared_memory_is_poisoned_between_blocks() -> None:
    assert torch.equal(planted("left_over"), torch.arange(1.0, 65.0))
    assert planted("left_over", grid=2).isnan().all()


def test_half_a_warp_is_refused() -> None:
    with pytest.raises(emulation.EmulationError, match="a block of 40 threads is no whole number of warps"):
        emulation.launch(PLANTED, "sound", 1, 40, (torch.zeros(64), torch.zeros(64)))


@pytest.mark.parametrize(
    ("kernel", "report"),
    [
        ("out_of_bounds", r"heap-buffer-overflow[\s\S]*planted.cu:41"),
        ("out_of_shared", r"global-buffer-overflow[\s\S]*planted.cu:46"),
        ("misaligned", "planted.cu:52.*misaligned address"),
    ],
)
def test_a_read_out_of_bounds_is_named(kernel: str, report: str, programs: Path) -> None:
    recorder = Recorder()
    recorder(PLANTED, "sound", 1, 64, (torch.ones(64), torch.zeros(64)))
    sound = recorder.launches[PLANTED][0]
    assert recorder.repeat(programs, MEMORY) == "1 launches\n"
    recorder.launches[PLANTED] = [sound.replace(b"sound".ljust(64, b"\0"), kernel.encode().ljust(64, b"\0"))]
    with pytest.raises(AssertionError, match=report):
        recorder.repeat(programs, MEMORY)


def test_a_race_is_named(programs: Path) -> None:
    recorder = Recorder()
    recorder(PLANTED, "sound", 1, 64, (torch.ones(64), torch.zeros(64)))
    assert recorder.repeat(programs, THREADS) == "1 launches\n"
    recorder.launches.clear()
    recorder(PLANTED, "race", 1, 64, (torch.ones(64), torch.zeros(64)))
    with pytest.raises(AssertionError, match=r"data race[\s\S]*planted.cu:56"):
        recorder.repeat(programs, THREADS)


def run_rows(width: int, rows: int, dtype: torch.dtype, shift: int) -> list[Tensor]:
    """Row kernels and sampler once; the rows start ``shift`` elements off a boundary."""
    x = rows_of_every_kind(width)[:rows].to(dtype)
    room = torch.empty(rows * (width + 1) + shift, dtype=dtype)
    x = room[shift:].as_strided((rows, width), (width + 1, 1)).copy_(x).requires_grad_()
    n, tokens = torch.arange(rows), tokens_for(x)
    logp, entropy = ops.token_logprobs(x, tokens, 0.7)
    (gradient,) = torch.autograd.grad((2 * logp + entropy).sum(), x)
    return [logp.detach(), entropy.detach(), gradient, *ops.sample(x, n, n, key=5)]


def run_losses() -> list[Tensor]:
    """Every loss once."""
    results: list[Tensor] = []
    generator = torch.Generator().manual_seed(0)
    per_token = torch.randn(4, 300, generator=generator)
    per_token[3] = per_token[3].abs() * (per_token[3] > -1)
    for loss, (low, high) in CLIPS.items():
        leaf = per_token[0].clone().requires_grad_()
        clips = {"clip_low": low, "clip_high": high}
        value, stats = ops.policy_loss(leaf, *per_token[1:], loss=loss, **clips, sequence=torch.arange(300) % 7)
        results += [value.detach(), *torch.autograd.grad(value, leaf), *stats]
    return results


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("width", [1, 31, 1000, 4097])
def test_the_order_of_the_threads_changes_no_bit(
    width: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    same_in_every_order(lambda: run_rows(width, 9, dtype, 1), monkeypatch)


def test_the_order_of_the_threads_changes_no_bit_of_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    same_in_every_order(run_losses, monkeypatch)


def same_in_every_order(run: Callable[[], list[Tensor]], monkeypatch: pytest.MonkeyPatch) -> None:
    with backend_of(monkeypatch, emulation.launch):
        expected = run()
        for order in ORDERS[1:]:
            monkeypatch.setattr(emulation, "thread_order", order)
            for got, want in zip(run(), expected, strict=True):
                assert torch.equal(got.nan_to_num(7.0), want.nan_to_num(7.0))


def test_the_memory_sanitizers_find_nothing(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    with backend_of(monkeypatch, recorder):
        for dtype in (torch.float32, torch.bfloat16):
            for width in (1, 2, 31, 1000, 1029):
                for shift in (0, 1):
                    run_rows(width, 3, dtype, shift)
        run_losses()
    assert len(re.findall(r"\d+ launches", recorder.repeat(programs, MEMORY))) == len(sources.OPERATIONS)


@pytest.mark.slow
def test_the_thread_sanitizer_finds_nothing(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    with backend_of(monkeypatch, recorder):
        for dtype in (torch.float32, torch.bfloat16):
            run_rows(31, 2, dtype, 0)
            run_rows(1029, 2, dtype, 0)
        run_losses()
    assert len(re.findall(r"\d+ launches", recorder.repeat(programs, THREADS))) == len(sources.OPERATIONS)


KNOWN = {
    "__global__", "__device__", "__forceinline__", "__shared__", "__launch_bounds__", "__syncthreads",
    "__shfl_xor_sync", "__uint_as_float", "__float_as_uint", "__umulhi",
}  # fmt: skip
"""Words with two underscores that the header defines."""
REFUSED = {
    r"\batomic\w*": "atomics",
    r"\bextern\s+__shared__": "dynamic shared memory",
    r"\basm\b": "inline assembly",
    r"\b(?:thread|block|grid)(?:Idx|Dim)\.[yz]\b": "grids of more than one dimension",
    r"#include(?! \"block\.cuh\")": "an include other than block.cuh",
    r"<<<": "a launch",
    r"\bnamespace\s+cg\b|cooperative_groups": "cooperative groups",
    r"\bmalloc\b|\bnew\b": "memory from the heap",
}


def not_emulated(text: str) -> list[str]:
    """What the emulation cannot do in a source."""
    code = re.sub(r"//[^\n]*|/\*[\s\S]*?\*/", "", text)
    found = [what for pattern, what in REFUSED.items() if re.search(pattern, code)]
    return found + sorted(set(re.findall(r"\b__\w+", code)) - KNOWN)


@pytest.mark.parametrize("file", sorted(sources.FOLDER.glob("*.cu*")), ids=lambda file: file.name)
def test_a_source_holds_only_what_is_emulated(file: Path) -> None:
    assert not_emulated(file.read_text()) == []


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("atomicAdd(out, 1.0f);", "atomics"),
        ("extern __shared__ float s[];", "dynamic shared memory"),
        ("asm volatile(\"cp.async.ca.shared.global [%0], [%1], 16;\");", "inline assembly"),
        ("int row = blockIdx.y;", "grids of more than one dimension"),
        ("#include <cuda_bf16.h>", "an include other than block.cuh"),
        ("__syncwarp();", "__syncwarp"),
        ("x = __shfl_down_sync(m, x, 1);", "__shfl_down_sync"),
        ("y = __logf(x);", "__logf"),
        ("cooperative_groups::this_grid().sync();", "cooperative groups"),
    ],
)  # fmt: skip
def test_a_source_with_more_is_refused(line: str, what: str) -> None:
    assert what in not_emulated(line)
    assert not_emulated(f"// {line}") == []


def test_every_kernel_is_among_those_run_in_every_order(monkeypatch: pytest.MonkeyPatch) -> None:
    started = set()

    def launch(path: str, kernel: str, *how: Any) -> None:
        started.add((path, kernel))
        emulation.launch(path, kernel, *how)

    with backend_of(monkeypatch, launch):
        for dtype in (torch.float32, torch.bfloat16):
            run_rows(31, 2, dtype, 0)
        run_losses()
    assert started == {(name, kernel) for name in sources.OPERATIONS for kernel in sources.read(name).kernels}


def test_a_source_that_does_not_compile_names_its_line(tmp_path: Path) -> None:
    file = tmp_path / "broken.cu"
    file.write_text('#include "block.cuh"\nextern "C" __global__ void broken(float* x) {\n    x[0] = y;\n}\n')
    with pytest.raises(TrainError, match=r"g\+\+ cannot compile broken.cu[\s\S]*broken.cu:3:12: error: .y. was not"):
        emulation.launch(file, "broken", 1, 32, (torch.zeros(1),))
