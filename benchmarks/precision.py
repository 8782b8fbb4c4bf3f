"""How far apart are the log-probabilities of generator and trainer, by precision of their heads?

Both see the same hidden states and weights, rounded to bf16. The generator decodes a few rows at a time and samples;
the trainer computes the same tokens' log-probabilities in chunks of many rows, so the products may order their sums
otherwise. A bf16 head rounds logits near 10 in steps of 1/16: it is far from the truth, and from an FP32 head.
"""

from __future__ import annotations

import _common as common

# isort: split
import sys

import torch
from torch import Tensor

from rlscaling.trainer.kernels import ops

ROWS, WIDTH, VOCAB = 256, 512, 32_000
AT_ONCE = 8  # rows of a decoding call
PAIRS = (("fp32", "fp32"), ("bf16", "bf16"), ("bf16", "fp32"), ("fp32", "bf16"))


def inputs(device: torch.device) -> tuple[Tensor, Tensor]:
    """Hidden states and head weight in bf16: logits of standard deviation 3."""
    generator = torch.Generator().manual_seed(common.SEED)
    hidden = torch.randn(ROWS, WIDTH, generator=generator) * 3 / WIDTH**0.5
    weight = torch.randn(VOCAB, WIDTH, generator=generator)
    return hidden.to(device, torch.bfloat16), weight.to(device, torch.bfloat16)


def generated(hidden: Tensor, weight: Tensor, head_dtype: str) -> tuple[Tensor, Tensor]:
    """Tokens and their log-probabilities as the generator has them."""
    streams = torch.arange(ROWS, device=hidden.device)
    parts = [
        ops.sample(ops.head(h, weight, head_dtype), s, torch.zeros_like(s), key=1)
        for h, s in zip(hidden.split(AT_ONCE), streams.split(AT_ONCE), strict=True)
    ]
    tokens, logp = (torch.cat(part) for part in zip(*parts, strict=True))
    return tokens, logp


def trained(hidden: Tensor, weight: Tensor, head_dtype: str, tokens: Tensor) -> Tensor:
    """Log-probabilities of these tokens as the trainer has them."""
    one = torch.ones(ROWS, device=hidden.device)
    return ops.policy_head(hidden, weight, tokens, -one, one, one, head_dtype=head_dtype).logp


def exact(hidden: Tensor, weight: Tensor, tokens: Tensor) -> Tensor:
    logits = hidden.double() @ weight.double().T
    return logits.log_softmax(-1).gather(1, tokens[:, None])[:, 0]


def main() -> int:
    options = common.arguments(__doc__.splitlines()[0]).parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    hidden, weight = inputs(device)
    table = []
    for generator, trainer in PAIRS:
        tokens, old = generated(hidden, weight, generator)
        logp = trained(hidden, weight, trainer, tokens)
        gap, truth = (logp - old).abs().double(), exact(hidden, weight, tokens)
        error = max(float((value.double() - truth).abs().mean()) for value in (old, logp))
        row = {"mean": float(gap.mean()), "max": float(gap.max()), "error": error}
        table.append({"generator": generator, "trainer": trainer, **row})
    if options.json != "-":
        print(f"{'generator':<11}{'trainer':<9}{'mean |d log p|':>15}{'largest':>11}{'mean error':>13}")
        for row in table:
            print(
                f"{row['generator']:<11}{row['trainer']:<9}{row['mean']:>15.2g}{row['max']:>11.2g}{row['error']:>13.2g}"
            )
        print()
    fp32, bf16, one_sided, _ = table
    checks = [
        common.Check("FP32 heads: mean |d log p|", fp32["mean"], 1e-6, False, ""),
        common.Check("error of bf16 heads / of FP32 heads", bf16["error"] / fp32["error"], 100, True),
        common.Check("apart with one bf16 head / with none", one_sided["mean"] / max(fp32["mean"], 1e-9), 100, True),
    ]
    about = {
        **common.versions("rlscaling", "torch"),
        "backend": ops.backend()[0],
        "shape": f"{ROWS} x {WIDTH} x {VOCAB}",
    }
    return common.finish("Generator against trainer, bf16 inputs", checks, about, options.json, {"table": table})


if __name__ == "__main__":
    sys.exit(main())
