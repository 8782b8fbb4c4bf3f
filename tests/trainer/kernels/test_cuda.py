"""The way to a GPU as far as it goes without one: compilers, registers, the bindings, a fake driver."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers import kernel_registers
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.kernels import cuda, sources

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
"""A100, H100 and H200, B200."""

HERE = Path(__file__).parent
SPILLS = """#include "block.cuh"
extern "C" __global__ void __launch_bounds__(1024, 2) spills(const float* x, float* out) {
    float v[64];
    for (int i = 0; i < 64; i++) v[i] = x[i * 1024 + threadIdx.x];
    __syncthreads();
    float sum = 0.0f;
    for (int i = 0; i < 64; i++) sum += expf(v[i] * v[63 - i]);
    for (int i = 0; i < 64; i++) out[i * 1024 + threadIdx.x] = sum * v[i];
}
"""


def nvcc() -> str:
    """The compiler of the toolkit or of the package ``nvidia-cuda-nvcc``; without one the tests fail."""
    found = shutil.which("nvcc")
    if found is None:
        files = importlib.metadata.files("nvidia-cuda-nvcc") or []
        found = next(str(file.locate()) for file in files if file.name == "nvcc" and file.parent.name == "bin")
    return found


def show(found: dict[tuple[str, str], kernel_registers.Usage]) -> None:
    for (kernel, arch), usage in sorted(found.items()):
        print(f"{kernel:<18} {arch:<7} {usage.registers:>3} registers, {usage.spilled} bytes spilled")


@pytest.mark.parametrize("name", sources.OPERATIONS)
def test_nvcc_compiles_without_spills(name: str, tmp_path: Path) -> None:
    targets = [f"-gencode=arch=compute_{a[3:]},code={a}" for a in ARCHITECTURES]
    command = [nvcc(), "-fatbin", *targets, "-Xptxas=-v", "-Werror=all-warnings", "-std=c++17", "-ftz=true"]
    source = sources.read(name)
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "out"), str(source.path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = kernel_registers.parse_usage(done.stderr)
    show(found)
    assert set(found) == {(kernel, arch) for kernel in source.kernels for arch in ARCHITECTURES}
    assert not any(usage.spilled for usage in found.values())


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("name", sources.OPERATIONS)
def test_nvrtc_compiles_without_spills(name: str, arch: str) -> None:
    """At most 85 of 65,536 registers, so that three blocks of 256 threads share a multiprocessor."""
    found = kernel_registers.usage(name, arch)
    show(found)
    assert set(found) == {(kernel, arch) for kernel in sources.read(name).kernels}
    assert not any(usage.spilled for usage in found.values())
    assert max(usage.registers for usage in found.values()) <= 85


def test_a_kernel_that_spills_is_seen() -> None:
    _, log = cuda.compile_text("spills.cu", SPILLS, "sm_90", "--ptxas-options=-v")
    assert kernel_registers.parse_usage(log)["spills", "sm_90"].spilled > 0


def test_a_compile_error_names_file_and_line() -> None:
    text = '#include "block.cuh"\nextern "C" __global__ void broken(float* x) {\n    x[0] = y;\n}\n'
    with pytest.raises(TrainError, match=r"cannot compile broken.cu for sm_90:\nbroken.cu\(3\): error: .*\"y\""):
        cuda.compile_text("broken.cu", text, "sm_90")
    with pytest.raises(TrainError, match=r"block.cuh\(\d+\): error"):
        cuda.compile_text("broken.cu", "#define Sums 1\n" + text, "sm_90")


def test_an_unknown_architecture_is_refused() -> None:
    with pytest.raises(TrainError, match=r"NVRTC \d+\.\d+ does not know sm_35, only .*sm_90.*--upgrade"):
        cuda.compile_cubin("row", "sm_35")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bindings:
        @staticmethod
        def nvrtcVersion() -> Any:
            raise RuntimeError("libnvrtc.so.13 not found\nsearched everywhere")

    monkeypatch.setattr(cuda, "_nvrtc", lambda: Bindings)
    cuda.nvrtc_version.cache_clear()
    with pytest.raises(
        TrainError, match=r"no NVRTC found, .*pip install 'rlscaling\[cuda\]' \(libnvrtc.so.13 not found"
    ):
        cuda.nvrtc_version()


def test_the_nvrtc_of_torch_comes_first(tmp_path: Path) -> None:
    """Beside a newer one, which an older driver would refuse; here it is a library that says it is 12.3."""
    folder = tmp_path / "nvidia" / "cuda_nvrtc" / "lib"
    folder.mkdir(parents=True)
    (tmp_path / "v.cpp").write_text('extern "C" int nvrtcVersion(int* a, int* b) { return *a = 12, *b = 3, 0; }')
    command = ["g++", "-shared", "-fPIC", "-Wl,-soname,libnvrtc.so.12", "-o", folder / "libnvrtc.so.12"]
    subprocess.run([*command, tmp_path / "v.cpp"], check=True)
    script = (
        "import sys, torch; torch.version.cuda = '12.3'; sys.path.insert(0, sys.argv[1])\n"
        "from rlscaling.trainer.kernels import cuda; print(cuda.nvrtc_version())"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout == "(12, 3)\n"


LAUNCHES = """
import contextlib, ctypes, types, sys, torch
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.kernels import backends, cuda, emulation, ops, sources
from rlscaling.trainer.kernels.compiled import Compiled

driver = ctypes.CDLL("libcuda.so.1")
of_kernel = {kernel: name for name in sources.OPERATIONS for kernel in sources.read(name).kernels}
streams = []

@ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
def launch(kernel, grid, block, stream, arguments):
    kernel = kernel.decode()
    streams.append(stream)
    assert emulation.entry(of_kernel[kernel], kernel)(grid, block, 0, arguments) is None

driver.fake_launcher(launch)
torch.cuda.device = lambda device: contextlib.nullcontext()
torch.cuda.current_device = lambda: 0
torch.cuda.get_device_capability = lambda device: (9, 0)
torch.cuda.current_stream = lambda: types.SimpleNamespace(cuda_stream=0x5EED)

def results():
    g = torch.Generator().manual_seed(0)
    hidden, weight = torch.randn(9, 6, generator=g).requires_grad_(), torch.randn(31, 6, generator=g).requires_grad_()
    tokens, given = torch.arange(9), torch.randn(3, 9, generator=g)
    out = [*ops.sample(ops.head(hidden, weight).detach(), tokens, tokens, key=2**63 + 5)]
    for loss in ("cispo", "gspo"):
        head = ops.policy_head(hidden, weight, tokens, *given[:2], given[2].abs(), loss=loss, sequence=tokens // 4)
        out += [*head[:3], *head.stats, *torch.autograd.grad(head.loss, (hidden, weight))]
    logp, entropy = ops.token_logprobs(ops.head(hidden, weight).bfloat16(), tokens)
    return [x.detach() for x in (*out, logp, entropy, *torch.autograd.grad((logp + entropy).sum(), weight))]

with backends.using("emulate"):
    expected = results()
backends._override = backends.BackendChoice("cuda", "", Compiled(cuda.launch))
cuda.check_driver()
for got, want in zip(results(), expected, strict=True):
    assert torch.equal(got, want)
assert streams == [0x5EED] * 9, streams  # a sample, three of each head, two of the rows
assert driver.fake_context() == 0x100, "the thread has torch's context"
driver.fake_version(12040 if cuda.nvrtc_version()[0] == 13 else 11080)
try:
    cuda.check_driver()
except TrainError as error:
    print(error)
cuda.cubin = lambda name, arch: b"no cubin"
cuda._function.cache_clear()
try:
    results()
except TrainError as error:
    print(error)
"""


def test_launches_through_the_real_bindings(tmp_path: Path) -> None:
    """A driver that hands each launch to the emulation: arguments, grid, stream and context arrive as they should."""
    for name in sources.OPERATIONS:
        cuda.cubin(name, "sm_90")  # to the disk: NVRTC asks a driver beside it for more than the fake one has
    library = tmp_path / "libcuda.so.1"
    subprocess.run(["g++", "-shared", "-fPIC", "-o", library, HERE / "fake_driver.cpp", "-ldl"], check=True)
    env = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", LAUNCHES], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    old_driver, no_cubin = done.stdout.splitlines()
    assert re.match(r"NVRTC is 1[23].* and the driver runs CUDA 1[12] at most; update the driver, or pip", old_driver)
    assert no_cubin.startswith("cuLibraryLoadData failed: CUDA_ERROR")


@pytest.mark.gpu
def test_every_kernel_loads_on_the_gpu() -> None:
    cuda.prepare(torch.device("cuda"))
