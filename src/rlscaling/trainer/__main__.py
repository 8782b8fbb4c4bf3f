"""``python -m rlscaling.trainer --recipe scalerl --out runs/scalerl``: train, and say where the trace is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rlscaling.errors import RLScalingError
from rlscaling.trainer.config import RECIPES, make_config
from rlscaling.trainer.options import add_fields, given_fields
from rlscaling.trainer.progress import Progress


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m rlscaling.trainer", description=__doc__)
    parser.add_argument("--recipe", default="scalerl", help=f"one of {', '.join(RECIPES)}")
    parser.add_argument("--out", required=True, type=Path, help="folder for trace.jsonl and the checkpoint")
    parser.add_argument("--seeds", default="0", help="one seed, or several runs into OUT/seed-0, OUT/seed-1 ...: 0,1,2")
    parser.add_argument("--resume", action="store_true", help="go on with the run in the folder")
    add_fields(parser)
    options = parser.parse_args(arguments)
    try:
        seeds = [int(seed) for seed in options.seeds.split(",")]
        for seed in seeds:
            folder = options.out if len(seeds) == 1 else options.out / f"seed-{seed}"
            _train(options, seed, folder)
    except RLScalingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    return 0


def _train(options: argparse.Namespace, seed: int, folder: Path) -> None:
    from rlscaling.trainer.loop import train

    config = make_config(options.recipe, seed=seed, **given_fields(options))
    progress = Progress(config.steps)
    result = train(config, folder, resume=options.resume, on_row=progress)
    progress.close()
    rates = list(result.pass_rates.values())
    print(f"{result.trace_path}: {result.steps} steps, held-out pass rate {rates[0]:.3f} -> {rates[-1]:.3f}")
    if result.stopped:
        print(f"stopped early: {result.stopped}")


if __name__ == "__main__":
    sys.exit(main())
