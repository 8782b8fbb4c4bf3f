"""How much memory and time does the policy head take at 16,384 rows of 131,072 tokens?

Each width in a process of its own, whose largest size is compared with that before the call, the inputs there already;
the size of both gradients is taken off. Full logits in FP32 alone would be 8 GiB.
"""

from __future__ import annotations

import _common as common

# isort: split
import json
import subprocess
import sys
import time

import torch

import _gpu_speed as speed
from rlscaling.trainer.kernels import ops

VOCAB = 131_072
LIMIT = 1.0  # GiB


def one(rows: int, width: int, device: torch.device) -> dict[str, float]:
    """Memory and time of one call, gradients included, chunks of 64 MiB."""
    inputs = speed.head_inputs(rows, VOCAB, width, torch.float32, device)
    few = {name: value.detach()[:2].requires_grad_(value.requires_grad) for name, value in inputs.items()}
    speed.head({**few, "tokens": few["tokens"] % 2}, "cispo", 0.0, 4.0, chunk_bytes=2**20)  # loads the libraries
    began = time.perf_counter()
    peak = speed.peak_above(lambda: speed.head(inputs, "cispo", 0.0, 4.0, chunk_bytes=64 * 2**20), device)
    elapsed = time.perf_counter() - began
    gradients = sum(inputs[name].nbytes for name in ("hidden", "weight")) / 2**30
    return {"GiB": peak - gradients, "seconds": elapsed}


def main() -> int:
    parser = common.arguments(__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=16_384)
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--one", type=int, help="measure this width in this process, and print JSON")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if options.one:
        print(json.dumps(one(options.rows, options.one, device)))
        return 0
    name, _ = ops.backend()
    checks, by_width = [], {}
    for width in options.widths:
        command = [sys.executable, __file__, "--one", str(width), "--rows", str(options.rows)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        by_width[width] = json.loads(done.stdout)
        note = f"{by_width[width]['seconds']:.1f} s"
        checks.append(common.Check(f"width {width}: memory", by_width[width]["GiB"], LIMIT, False, "GiB", note))
    about = {**common.versions("rlscaling", "torch"), "backend": name, "device": str(device)}
    title = f"Policy head, {options.rows} x {VOCAB}; FP32 logits alone: {options.rows * VOCAB * 4 / 2**30:.3g} GiB"
    return common.finish(title, checks, about, options.json, {"by_width": by_width})


if __name__ == "__main__":
    sys.exit(main())
