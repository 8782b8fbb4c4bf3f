"""Are the kernels right on this GPU, and how fast? One command, under five minutes on an H100 or H200.

    python benchmarks/gpu_check.py --json gpu_check.json

Compiles every kernel, compares every operation with float64, trains 50 steps in which each call is computed by the
kernels and by plain torch on the same rollouts, times the kernels against a copy, eager torch and torch.compile, and
measures the memory of the policy head. ``--rehearse`` runs all of it on emulated kernels and small sizes, where no
time means anything.
"""

from __future__ import annotations

import _common as common

# isort: split
import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import _gpu_speed as speed

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "support"))

# isort: split
import exact
import registers
from clips import CLIPS
from exact import worst

from rlscaling.trainer import make_config, train
from rlscaling.trainer.algorithm.losses import LOSSES
from rlscaling.trainer.kernels import backends, cuda, ops, sources

Check = common.Check
WIDTHS = (1, 31, 1000, 32_000, 151_936)


def compiled(device: torch.device) -> list[Check]:
    """Registers and spills of every kernel; on a GPU every kernel is loaded too."""
    arch = cuda.architecture(device) if device.type == "cuda" else "sm_90"
    checks = []
    for name in sources.OPERATIONS:
        for (kernel, _), usage in registers.usage(name, arch).items():
            note = f"{usage.registers} registers"
            checks.append(Check(f"{kernel}, {arch}: spilled", usage.spilled, 0, False, "B", note))
    if device.type == "cuda":
        cuda.prepare(device)
    return checks


# --- against float64 ------------------------------------------------------------------------------------


def rows_and_sampler(device: torch.device) -> list[Check]:
    """Largest error in units of what is allowed, over temperatures 0.1 to 2 and rows off their boundary."""
    checks = []
    for dtype in (torch.float32, torch.bfloat16):
        for width in WIDTHS:
            x = exact.rows_of_every_kind(width).to(dtype)
            errors = zip(*(row_errors(x, temperature, device) for temperature in exact.TEMPERATURES), strict=True)
            kind = f"{str(dtype)[6:]} V = {width}"
            names = ("log-prob", "entropy", "gradient", "log-prob of the draw")
            checks += [Check(f"{n}, {kind}", worst(*e), 1, False, "tol") for n, e in zip(names, errors, strict=True)]
    return checks


def row_errors(x: Tensor, temperature: float, device: torch.device) -> list[float]:
    tokens, ones = exact.tokens_for(x), torch.ones(len(x))
    room = torch.empty(len(x), x.shape[1] + 1, dtype=x.dtype, device=device)
    leaf = room[:, 1:].copy_(x).requires_grad_()  # off the 16-byte boundary
    logp, entropy = ops.token_logprobs(leaf, tokens.to(device), temperature)
    (gradient,) = torch.autograd.grad((logp + entropy).sum(), leaf)
    streams = torch.arange(len(x), device=device)
    drawn, drawn_logp = ops.sample(leaf.detach(), streams, streams, key=5, temperature=temperature)
    want_logp, want_entropy = exact.row_values(x, tokens, temperature)
    half_ulp = 0.0 if x.dtype == torch.float32 else 2.0**-8
    want_gradient = exact.row_gradient(x, tokens, temperature, ones, ones)
    return [
        float(exact.far(logp.detach(), want_logp, 5e-6, 1e-7)),
        float(exact.far(entropy.detach(), want_entropy, 5e-6)),
        float(exact.far(gradient, want_gradient, 2e-5 / temperature, half_ulp)),
        float(exact.far(drawn_logp, exact.row_values(x, drawn.cpu(), temperature)[0], 5e-6, 1e-7)),
    ]


def losses(device: torch.device) -> list[Check]:
    """Every loss and its slope over 5,000 tokens in float64."""
    n, generator = 5000, torch.Generator().manual_seed(1)
    logp = -torch.rand(n, generator=generator) * 3
    old = logp + torch.randn(n, generator=generator) * 0.3
    advantage, weight = torch.randn(n, generator=generator), torch.rand(n, generator=generator) / n
    sequence = torch.arange(n) // 50
    checks = []
    for loss, clip in CLIPS.items():
        leaf = logp.double().requires_grad_()
        inputs = (old.double(), advantage.double(), weight.double())
        expected, _ = LOSSES[loss](leaf, *inputs, clip, sequence)
        (want_slope,) = torch.autograd.grad(expected, leaf)
        ours = logp.to(device).requires_grad_()
        moved = (x.to(device) for x in (old, advantage, weight))
        clips = {"clip_low": clip.low, "clip_high": clip.high}
        value, _ = ops.policy_loss(ours, *moved, loss=loss, **clips, sequence=sequence.to(device))
        (slope,) = torch.autograd.grad(value, ours)
        error = worst(
            exact.far(value.detach(), expected.detach(), 1e-6, 1e-5), exact.far(slope, want_slope, 1e-5 / n, 1e-5)
        )
        checks.append(Check(f"policy loss {loss}", error, 1, False, "tol"))
    return checks


def heads(device: torch.device, vocab: int) -> list[Check]:
    """The policy head in chunks against float64 on the same device: relative error of both gradients."""
    checks = []
    for dtype, allowed in ((torch.float32, 1e-5), (torch.bfloat16, 2.0**-8)):
        for loss in ("cispo", "gspo"):
            inputs = speed.head_inputs(300, vocab, 64, dtype, device)
            result, gradients = speed.head(inputs, loss, *CLIPS[loss], chunk_bytes=vocab * 4 * 77)
            value, _, *expected = exact.head_values(inputs, loss)
            error = worst(*((g.double() - w).norm() / w.norm() for g, w in zip(gradients, expected, strict=True)))
            name = f"policy head {loss}, {str(dtype)[6:]} V = {vocab}"
            checks.append(Check(f"{name}: gradients", error, allowed, False, ""))
            checks.append(Check(f"{name}: loss", abs(float(result.loss.detach()) / float(value) - 1), 1e-5, False, ""))
    return checks


# --- training -------------------------------------------------------------------------------------------


class Compared:
    """What both implementations answered to every call of a run."""

    def __init__(self) -> None:
        self.loss = self.gradient = self.logp = 0.0
        self.tokens = self.agreeing = self.updates = 0

    def sample(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def both(*args: Any, **kwargs: Any) -> Any:
            result = plain(*args, **kwargs)
            with backends.using("reference"):
                expected = plain(*args, **kwargs)
            self.tokens += len(result[0])
            self.agreeing += int((result[0] == expected[0]).sum())
            return result

        return both

    def policy_head(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def both(hidden: Tensor, weight: Tensor, **kwargs: Any) -> Any:
            def again() -> tuple[Any, tuple[Tensor, ...]]:
                leaves = (hidden.detach().requires_grad_(), weight.detach().requires_grad_())
                result = plain(*leaves, **kwargs)
                return result, torch.autograd.grad(result.loss, leaves)

            ours, gradients = again()
            with backends.using("reference"):
                theirs, expected = again()
            self.updates += 1
            scale = float((kwargs["advantage"].abs() * kwargs["token_weight"]).sum())  # the loss itself may be near 0
            self.loss = worst(self.loss, (ours.loss - theirs.loss).detach().abs() / scale)
            self.logp = worst(self.logp, (ours.logp - theirs.logp).abs().max())
            apart = ((a - b).norm() / b.norm() for a, b in zip(gradients, expected, strict=True))
            self.gradient = worst(self.gradient, *apart)
            return plain(hidden, weight, **kwargs)

        return both


def training(device: torch.device, steps: int) -> list[Check]:
    """Train with the kernels; plain torch answers every call too, on the same rollouts and weights."""
    seen = Compared()
    config = make_config(
        steps=steps, device=device.type, eval_every=steps, eval_prompts=64, eval_samples=2, checkpoint_every=0
    )
    plain = ops.sample, ops.policy_head
    ops.sample, ops.policy_head = seen.sample(ops.sample), seen.policy_head(ops.policy_head)
    try:
        train(config)
    finally:
        ops.sample, ops.policy_head = plain
    note = f"{seen.updates} updates, {seen.tokens} sampled tokens"
    return [
        Check("training: loss, relative", seen.loss, 1e-5, False, "", note),
        Check("training: gradients, relative", seen.gradient, 1e-5, False, ""),
        Check("training: log-probabilities", seen.logp, 1e-5, False, ""),
        Check("training: sampled tokens that agree", seen.agreeing / seen.tokens, 0.9999, True, ""),
    ]


@contextlib.contextmanager
def kernels(rehearse: bool) -> Iterator[torch.device]:
    torch.backends.cuda.matmul.allow_tf32 = False
    with backends.using("emulate" if rehearse else "cuda"):
        yield torch.device("cpu" if rehearse else "cuda")


def main() -> int:
    parser = common.arguments(__doc__.splitlines()[0])
    parser.add_argument("--rehearse", action="store_true", help="emulated kernels on a CPU, small sizes")
    parser.add_argument(
        "--expect", action="store_true", help="only print what the kernels should take on H100 and H200"
    )
    options = parser.parse_args()
    if options.expect:
        print(speed.expectation(speed.FULL))
        return 0
    if not options.rehearse and not torch.cuda.is_available():
        parser.error("torch sees no CUDA device here; --rehearse runs everything on emulated kernels")
    sizes = speed.REHEARSAL if options.rehearse else speed.FULL
    with kernels(options.rehearse) as device:
        checks = compiled(device) + rows_and_sampler(device) + losses(device) + heads(device, sizes.vocab)
        checks += training(device, sizes.steps)
        table = speed.measure(device, sizes)
        checks += speed.memory(device, sizes)
    about = {**common.versions("rlscaling", "torch", "numpy"), **speed.machine(device)}
    print(speed.text(table) if options.json != "-" else "", end="")
    return common.finish("The kernels on a GPU", checks, about, options.json, {"speed": table})


if __name__ == "__main__":
    sys.exit(main())
