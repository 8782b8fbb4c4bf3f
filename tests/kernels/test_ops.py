"""The operations as torch and its users see them: custom operators, compilation, FSDP, refusals, the choice made."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from rlscaling.errors import RLScalingWarning
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.kernels import backends, cuda, emulate, inputs, library, ops

N, WIDTH, VOCAB = 12, 8, 31


def floats(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def ids(end: int = VOCAB) -> Tensor:
    return torch.arange(N) * 7 % end


def head_arguments(loss: str = "cispo", *, gradients: bool = True) -> tuple[Any, ...]:
    hidden, weight = floats(N, WIDTH).requires_grad_(gradients), floats(VOCAB, WIDTH).requires_grad_(gradients)
    tokens = (ids(), -floats(N).abs(), floats(N, seed=2), torch.full((N,), 1 / N), torch.arange(N) // 3)
    return (hidden, weight, *tokens, 0.7, "fp32", VOCAB * 4 * 5, loss, 0.2, 4.0, gradients)


CALLS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "row_forward": lambda: (library.row_forward, (floats(N, VOCAB).requires_grad_(), ids(), 0.7)),
    "row_backward": lambda: (
        library.row_backward,
        (floats(N, VOCAB), ids(), *library.row_forward(floats(N, VOCAB), ids(), 0.7), floats(N), floats(N), 0.7),
    ),
    "sample": lambda: (library.sample, (floats(N, VOCAB), ids(), ids(), 5, 0.7)),
    "policy_loss": lambda: (
        library.policy_loss,
        (floats(N).requires_grad_(), floats(N), floats(N), floats(N).abs(), ids(), "gspo", 0.2, 0.2),
    ),
    "policy_head": lambda: (library.policy_head, head_arguments()),
    "policy_head, gspo": lambda: (library.policy_head, head_arguments("gspo")),
    "policy_head, no gradients": lambda: (library.policy_head, head_arguments(gradients=False)),
}


# --- torch ----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")  # torch warns about its own tools
@pytest.mark.parametrize("name", CALLS)
def test_opcheck(name: str, device: torch.device) -> None:
    """Schema, gradient formula, fake implementation and both under AOT dispatch, by torch's own checks."""
    operator, arguments = CALLS[name]()
    moved = tuple(
        a.detach().to(device).requires_grad_(a.requires_grad) if isinstance(a, Tensor) else a for a in arguments
    )
    torch.library.opcheck(operator, moved)


@pytest.mark.filterwarnings("ignore")
def test_compiled_whole(device: torch.device) -> None:
    """``fullgraph``: nothing breaks the graph, and the numbers stay."""
    hidden, weight, tokens, old, advantage, token_weight, *_ = head_arguments()
    hidden, weight = hidden.detach().to(device), weight.detach().to(device).requires_grad_()
    given = [x.to(device) for x in (tokens, old, advantage, token_weight)]

    def step(hidden: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        head = ops.policy_head(hidden * 2, weight, *given)
        logp, entropy = ops.token_logprobs(ops.head(hidden, weight), given[0])
        drawn, _ = ops.sample(ops.head(hidden, weight), given[0], given[0], key=3)
        loss, _ = ops.policy_loss(logp, *given[1:])
        return head.loss + loss + entropy.sum(), drawn

    torch.compiler.reset()
    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    results = []
    for function in (step, compiled):
        loss, drawn = function(hidden, weight)
        (gradient,) = torch.autograd.grad(loss, weight)
        results.append((loss.detach(), drawn, gradient))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)


SHARDED = """
import sys, torch, torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh
from rlscaling.trainer.head import Head

rank, file = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
g = torch.Generator().manual_seed(0)
torch.manual_seed(0)
head = Head(8, 31, "fp32")
hidden = torch.randn(12, 8, generator=g)
given = dict(tokens=torch.arange(12), old_logp=-torch.rand(12, generator=g), advantage=torch.randn(12, generator=g),
             token_weight=torch.ones(12) / 12)
half = lambda r: {k: v[6 * r:6 * r + 6] for k, v in {"hidden": hidden, **given}.items()}
sharded = Head(8, 31, "fp32")
sharded.load_state_dict(head.state_dict())
fully_shard(sharded, mesh=init_device_mesh("cpu", (2,)))
part = half(rank)
sharded(part.pop("hidden"), **part).loss.backward()
head(hidden, **given).loss.backward()
torch.testing.assert_close(sharded.weight.grad.full_tensor() * 2, head.weight.grad)  # FSDP averages over ranks
print("same")
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_fsdp_sees_the_head_whole(tmp_path: Path) -> None:
    """Two processes, half of the weight and half of the tokens each, against one."""
    command = [sys.executable, "-W", "ignore", "-c", SHARDED]
    ranks = [
        subprocess.Popen(
            [*command, str(rank), str(tmp_path / "store")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    for process in ranks:
        out, err = process.communicate(timeout=120)
        assert out == "same\n", err


# --- refusals -------------------------------------------------------------------------------------------


def refused(message: str) -> Any:
    return pytest.raises(TrainError, match=message)


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
    row = torch.empty(1, inputs.LONGEST_ROW + 1, device="meta")
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
    given = (ids(), floats(N), floats(N), floats(N).abs())
    with refused(r"hidden is \(12, 8\) and weight \(31, 7\); both need the same width"):
        ops.policy_head(hidden, weight[:, :7], *given)
    with refused("weight is torch.float16"):
        ops.policy_head(hidden, weight.half(), *given)
    with refused(r"^token_weight has shape \(11,\); it must be \(12,\)"):
        ops.policy_head(hidden, weight, *given[:3], given[3][1:])
    with refused("head_dtype='fp8' is unknown; choose fp32 or bf16"):
        ops.policy_head(hidden, weight, *given, head_dtype="fp8")
    with refused("head_dtype='fp16' is unknown"):
        ops.head(hidden, weight, "fp16")
    with refused("chunk_bytes=0 holds no row"):
        ops.policy_head(hidden, weight, *given, chunk_bytes=0)
    with refused("loss='gspo' without sequence"):
        ops.policy_head(hidden, weight, *given, loss="gspo")


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


# --- the choice -----------------------------------------------------------------------------------------


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    def force(name: str) -> None:
        monkeypatch.setenv(backends.VARIABLE, name)
        backends.choose.cache_clear()

    backends.choose.cache_clear()
    yield force
    backends.choose.cache_clear()


def test_a_cpu_takes_the_reference(forced: Callable[[str], None]) -> None:
    forced("")
    assert ops.backend("cpu") == ("reference", "plain torch in FP32: tensors on the CPU need no kernels")


def test_each_can_be_forced(forced: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    forced("reference")
    assert ops.backend("cpu")[0] == "reference"
    assert "forced by RLSCALING_KERNELS" in ops.backend("cpu")[1]
    monkeypatch.setenv(backends.VARIABLE, "emulate")
    assert ops.backend("cpu")[0] == "reference", "decided once"
    forced("emulate")
    name, reason = ops.backend("cpu")
    assert (name, "g++" in reason) == ("emulate", True)


def test_what_is_forced_and_not_there_is_an_error(
    forced: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    forced("hip")
    with refused("RLSCALING_KERNELS='hip' is unknown; choose one of reference, cuda, emulate, or unset it"):
        ops.backend()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    forced("cuda")
    with refused("RLSCALING_KERNELS=cuda, and torch sees no CUDA device here"):
        ops.token_logprobs(floats(N, VOCAB), ids())
    forced("emulate")
    with refused("RLSCALING_KERNELS=emulate runs on CPU tensors, these are on cuda"):
        ops.backend("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    forced("cuda")
    with refused("RLSCALING_KERNELS=cuda, and these tensors are on the cpu; set device='cuda', or unset it"):
        ops.backend("cpu")
    forced("emulate")
    emulate.compiler.cache_clear()
    monkeypatch.setenv("PATH", "")
    try:
        with refused(r"no g\+\+ found, and kernels are emulated by compiling them with it: apt-get install g\+\+"):
            ops.backend("cpu")
    finally:
        emulate.compiler.cache_clear()


def test_a_gpu_without_nvrtc_is_told_and_served(forced: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Unforced it warns and takes torch; forced it is an error. Both name the command that helps."""
    missing = r"no module 'cuda.bindings', through which the CUDA compiler is called: pip install 'rlscaling\[cuda\]'"

    def absent() -> Any:
        raise ModuleNotFoundError("gone", name="cuda.bindings")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(cuda, "_nvrtc", absent)
    cuda.nvrtc_version.cache_clear()
    try:
        forced("")
        with pytest.warns(RLScalingWarning, match=f"CUDA kernels cannot be used, plain torch is: {missing}"):
            assert ops.backend("cuda")[0] == "reference"
        forced("cuda")
        with refused(missing):
            ops.backend("cuda")
    finally:
        cuda.nvrtc_version.cache_clear()


def test_the_reference_needs_no_compiler(tmp_path: Path) -> None:
    """No g++, no nvcc, no CUDA package, no cache: a CPU trains all the same."""
    script = (
        "import sys\n"
        "sys.modules.update({'cuda': None, 'cuda.bindings': None})\n"
        "from rlscaling.trainer import make_config, train\n"
        "train(make_config(steps=1, n_train_prompts=60, prompts_per_step=6, generations=4, warmup_steps=2,"
        " eval_prompts=4, n_digits=3))\n"
        "from rlscaling.trainer.kernels import ops\n"
        "print(ops.backend()[0])\n"
    )
    env = {"PATH": str(tmp_path), "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env=env)
    assert done.stdout == "reference\n", done.stderr
    assert os.listdir(tmp_path) == []
