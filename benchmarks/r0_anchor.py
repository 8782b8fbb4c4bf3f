"""How far may the early phase sit off the sigmoid? The choice of R0_se, the standard error of the anchor.

    python benchmarks/r0_anchor.py [--series 200] [--real ../shared/data/traces]

Simulated: eight shapes of the first phase (on the curve; a straight line to 1.5k or 3k hours; a base model 0.10 below
the sigmoid's R0 with a line to 0.75k, 1.5k or 3k; a bump of 0.04 fading over 1k or 1.5k), ScaleRL to 8k and 16k hours,
noise (0.6, 0.006): error of A, coverage and width of its interval. Real (where the folder is there): forecasts to 2x
and 4x on held-out curves, error against the mean of the later points and against "last value".
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
from multiprocessing import Pool
from pathlib import Path

import numpy as np

import rlscaling
from rlscaling import RLScalingError, fit_sigmoid, read_trace
from rlscaling.curves.sigmoid import sigmoid
from simulation import evaluations, truth

CHOICES: tuple[float | str, ...] = (0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.10, "free", "fixed")
SHAPES = ("none", "line 1.5k", "line 3k", "low .75k", "low 1.5k", "low 3k", "bump 1k", "bump 1.5k")


def early_phase(shape: str, C: np.ndarray, params: tuple[float, float, float, float]) -> np.ndarray:
    """Return the mean pass rate with the first phase of that shape."""
    mean = sigmoid(C, *params)
    if shape == "none":
        return mean
    kind, length = shape.split()
    T = 1000.0 * float(length[:-1])
    if kind == "bump":
        return np.asarray(mean + 0.04 * np.exp(-C / T))
    start = params[3] - (0.10 if kind == "low" else 0.0)
    line = start + (sigmoid(T, *params) - start) * C / T
    return np.where(T > C, line, mean)


def options(choice: float | str) -> dict[str, object]:
    """Return the options of `fit_sigmoid` for a choice."""
    return {"R0": "free"} if choice == "free" else {} if choice == "fixed" else {"R0_se": choice}


def one(task: tuple[str, float, int]) -> list[tuple[float, bool, float]]:
    """Return the error of A, whether its interval holds, and its width, for every choice."""
    shape, end, k = task
    params = truth("scalerl")
    C = evaluations(end)
    rng = np.random.default_rng([77, k])
    mean = early_phase(shape, C, params)
    noise = rng.standard_normal(len(C))
    for t in range(1, len(C)):
        noise[t] = 0.6 * noise[t - 1] + 0.8 * noise[t]
    y = np.clip(mean + 0.006 * noise + 0.0027 * rng.standard_normal(len(C)), 0.0, 1.0)
    found = []
    for choice in CHOICES:
        given = {"R0": float(y[0])} if choice == "fixed" else options(choice)
        fit = fit_sigmoid(C, y, **given)  # type: ignore[arg-type]
        low, high = fit.confidence_interval["A"]  # type: ignore[index]
        found.append((fit.A - params[0], low <= params[0] <= high, high - low))
    return found


def simulated(n_series: int, jobs: int) -> None:
    print("RMSE of A, mean over the 8 shapes / worst shape; coverage; mean width of the 95 % interval\n")
    for end in (16000.0, 8000.0):
        per_shape = []
        with Pool(jobs) as pool:
            for shape in SHAPES:
                per_shape.append(pool.map(one, [(shape, end, k) for k in range(n_series)], chunksize=5))
        table = np.array(per_shape, dtype=float)  # (shape, series, choice, 3)
        rmse = np.sqrt(np.mean(table[..., 0] ** 2, axis=1))
        held, width = table[..., 1].mean(axis=1), table[..., 2].mean(axis=1)
        print(
            f"data to {end:g} h: {'R0_se':>6}  mean/worst RMSE  on the curve | coverage mean/worst  on the curve "
            "| width on the curve"
        )
        for j, choice in enumerate(CHOICES):
            print(
                f"{choice!s:>22}  {rmse[:, j].mean():.4f}/{rmse[:, j].max():.4f}  {rmse[0, j]:.4f}       | "
                f"{held[:, j].mean():.3f}/{held[:, j].min():.3f}           {held[0, j]:.3f}        | {width[0, j]:.4f}",
                flush=True,
            )


def real(folder: Path) -> None:
    """Print the errors of forecasts on real held-out curves."""
    print("\nreal held-out curves: forecasts from the first half and quarter")
    correlation: list[float] = []
    errors: dict[float, dict[float | str, list[float]]] = {2.0: {}, 4.0: {}}
    for path in sorted(folder.glob("*.csv")):
        if "train" in path.stem:
            continue
        trace = read_trace(path, scale="auto")
        whole = fit_sigmoid(trace.compute, trace.pass_rate, min_compute=0, on_error="return")
        if whole and whole.n_points >= 20:
            r = whole.residual
            correlation.append(float(r[1:] @ r[:-1] / (r @ r)))
        for factor, book in errors.items():
            last = float(trace.compute[-1])
            early = trace.compute <= last / factor
            late = trace.compute > 0.8 * last
            if early.sum() < 7 or late.sum() < 2:
                continue
            target = float(trace.pass_rate[late].mean())
            C, y = trace.compute[early], trace.pass_rate[early]
            book.setdefault("last value", []).append(float(y[-max(1, len(y) // 20) :].mean()) - target)
            for choice in CHOICES:
                given = {"R0": float(y[0])} if choice == "fixed" else options(choice)
                # the first evaluation is the anchor even where it is not at compute 0
                cutoff = float(np.nextafter(C[0], np.inf)) if choice not in ("free", "fixed") else 0.0
                try:
                    fit = fit_sigmoid(C, y, min_compute=cutoff, **given)  # type: ignore[arg-type]
                except RLScalingError:
                    continue
                book.setdefault(choice, []).append(float(fit.predict(trace.compute[late]).mean()) - target)
    low, median, high = np.quantile(correlation, [0.1, 0.5, 0.9])
    print(
        f"lag-1 correlation of the residuals of {len(correlation)} curves with 20 evaluations or more: median "
        f"{median:.2f}, 10-90 % {low:.2f} to {high:.2f}"
    )
    for factor, book in errors.items():
        n = len(book["last value"])
        reference = np.abs(book["last value"])
        for choice, values in book.items():
            e = np.abs(values)
            wins = f"{np.mean(e < reference):.2f}" if len(e) == n else "-"
            print(
                f"{factor:g}x  {choice!s:>10}: median |error| {np.median(e):.4f}, mean {e.mean():.4f}, "
                f"beats last value {wins}, n={len(e)}"
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--real", type=Path, default=Path("../shared/data/traces"))
    args = parser.parse_args()
    print(f"rlscaling {rlscaling.__version__}, numpy {np.__version__}\n")
    simulated(args.series, args.jobs)
    if args.real.is_dir():
        real(args.real)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
