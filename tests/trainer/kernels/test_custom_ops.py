"""The operations as torch sees them: custom operators, compilation, FSDP."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.operation_inputs import VOCAB, WIDTH, N, floats, ids
from rlscaling.trainer.kernels import custom_ops, ops


def head_arguments(loss: str = "cispo", *, gradients: bool = True) -> tuple[Any, ...]:
    hidden, weight = floats(N, WIDTH).requires_grad_(gradients), floats(VOCAB, WIDTH).requires_grad_(gradients)
    tokens = (ids(), -floats(N).abs(), floats(N, seed=2), torch.full((N,), 1 / N), torch.arange(N) // 3)
    return (hidden, weight, *tokens, 0.7, "fp32", VOCAB * 4 * 5, loss, 0.2, 4.0, gradients)


CALLS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "row_forward": lambda: (custom_ops.row_forward, (floats(N, VOCAB).requires_grad_(), ids(), 0.7)),
    "row_backward": lambda: (
        custom_ops.row_backward,
        (floats(N, VOCAB), ids(), *custom_ops.row_forward(floats(N, VOCAB), ids(), 0.7), floats(N), floats(N), 0.7),
    ),
    "sample": lambda: (custom_ops.sample, (floats(N, VOCAB), ids(), ids(), 5, 0.7)),
    "policy_loss": lambda: (
        custom_ops.policy_loss,
        (floats(N).requires_grad_(), floats(N), floats(N), floats(N).abs(), ids(), "gspo", 0.2, 0.2),
    ),
    "policy_head": lambda: (custom_ops.policy_head, head_arguments()),
    "policy_head, gspo": lambda: (custom_ops.policy_head, head_arguments("gspo")),
    "policy_head, no gradients": lambda: (custom_ops.policy_head, head_arguments(gradients=False)),
}


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
    per_token = [x.to(device) for x in (tokens, old, advantage, token_weight)]

    def step(hidden: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        head = ops.policy_head(hidden * 2, weight, *per_token)
        logp, entropy = ops.token_logprobs(ops.head(hidden, weight), per_token[0])
        drawn, _ = ops.sample(ops.head(hidden, weight), per_token[0], per_token[0], key=3)
        loss, _ = ops.policy_loss(logp, *per_token[1:])
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
from rlscaling.trainer.model.head import Head

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
