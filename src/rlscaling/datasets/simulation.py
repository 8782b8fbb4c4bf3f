"""Simulated runs on the sigmoid, with the two kinds of noise that real runs have."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlscaling.arrays import FloatArray, as_floats
from rlscaling.curves.sigmoid import SigmoidParams, sigmoid
from rlscaling.errors import TraceError
from rlscaling.traces.trace import Trace


def simulate(
    params: SigmoidParams,
    *,
    compute: Any,
    n_prompts: int | None = 1000,
    n_samples: int = 16,
    concentration: float = 0.4,
    rho: float = 0.0,
    wander_sd: float = 0.0,
    rng: int | np.random.Generator | None = None,
    name: str = "",
    compute_unit: str = "gpu-hours",
) -> Trace:
    """Simulate the evaluations of one run on the sigmoid, with the two kinds of noise that real runs have.

    The pass rate is the curve plus training noise plus generation noise. The training noise is an AR(1) process
    over evaluations. The generation noise is that of ``n_samples`` completions of ``n_prompts`` fixed prompts
    whose pass probabilities are Beta(a, b) with ``a + b = concentration``, so its variance is ``mean (1 - mean)
    concentration / (1 + concentration) / (n_prompts n_samples)``: a standard deviation of 0.0019 to 0.0021 for
    the paper's 1,000 prompts x 16 at pass rates of 0.3 to 0.7.

    Parameters
    ----------
    params
        The true curve.
    compute
        Compute of each evaluation, shape (n,), rising; 0 is the model before training.
    n_prompts
        Prompts of an evaluation; None leaves the generation noise out.
    n_samples
        Completions per prompt.
    concentration
        ``a + b`` of the prompts' Beta distribution: near 0 each prompt is always or never passed, at infinity all
        are equally hard. On 1,060 prompts x 128 samples of a public RL run it was 0.52 before training and 0.35
        after it; 0.4 lies between.
    rho
        Correlation of the training noise between neighbouring evaluations, in (-1, 1).
    wander_sd
        Standard deviation of the training noise.
    rng
        Seed, generator or None (unpredictable).
    name, compute_unit
        As in ``Trace``.

    Returns
    -------
    Trace
        With columns ``n_prompts, n_samples, pass_rate_se``; ``metadata["simulated"]`` is True and
        ``metadata["true_params"]`` holds the parameters.

    Raises
    ------
    TraceError
        For compute that does not rise or noise parameters out of range.

    Examples
    --------
    >>> from rlscaling.datasets import table1
    >>> simulate(table1()["scalerl"], compute=[0, 2542, 16000], n_prompts=None).pass_rate.round(3).tolist()
    [0.35, 0.48, 0.603]
    """
    truth = {key: float(getattr(params, key)) for key in ("A", "B", "C_mid", "R0")}
    noise = {"n_prompts": n_prompts, "n_samples": n_samples, "concentration": float(concentration)}
    noise |= {"rho": rho, "wander_sd": wander_sd}
    _check_noise(n_prompts, n_samples, concentration, rho, wander_sd)
    bounded = 0 <= truth["R0"] <= 1 and 0 <= truth["A"] <= 1
    if n_prompts is not None and not bounded:
        raise TraceError(
            f"R0={truth['R0']:g}, A={truth['A']:g}: not pass rates, so there are no prompts to pass; give "
            "n_prompts=None"
        )
    generator = np.random.default_rng(rng)
    C = as_floats(compute, "compute")
    mean = sigmoid(C, **truth) + _training_noise(len(C), rho, wander_sd, generator)
    if bounded:
        mean = np.clip(mean, 0.0, 1.0)
    columns: dict[str, FloatArray] = {}
    if n_prompts is None:
        pass_rate = mean
    else:
        n = n_prompts * n_samples
        variance = mean * (1 - mean) * concentration / (1 + concentration) / n
        pass_rate = _counts(mean * n, variance * n**2, generator).clip(0, n) / n
        columns = {
            "n_prompts": np.full(len(C), float(n_prompts)),
            "n_samples": np.full(len(C), float(n_samples)),
            "pass_rate_se": np.sqrt(variance),
        }
    metadata = {
        "simulated": True,
        "true_params": truth,
        "noise": noise,
        "seed": int(rng) if isinstance(rng, int | np.integer) else None,
        "scale": "fraction" if bounded else "reward",
    }
    return Trace(C, pass_rate, compute_unit=compute_unit, name=name, columns=columns, metadata=metadata)


def _check_noise(n_prompts: int | None, n_samples: int, concentration: float, rho: float, wander_sd: float) -> None:
    if n_prompts is not None and (n_prompts < 1 or n_samples < 1):
        raise TraceError(f"n_prompts={n_prompts}, n_samples={n_samples}: both count from 1; None leaves noise out")
    if not 0 < concentration < np.inf:
        raise TraceError(f"concentration={concentration}: a + b of a Beta distribution is a finite number above 0")
    if not -1 < rho < 1:
        raise TraceError(f"rho={rho}: a correlation of the training noise must lie between -1 and 1, ends excluded")
    if not 0 <= wander_sd < np.inf:
        raise TraceError(f"wander_sd={wander_sd}: a standard deviation is a finite number from 0")


def _training_noise(n: int, rho: float, sd: float, generator: np.random.Generator) -> FloatArray:
    """Return a stationary AR(1) process with marginal standard deviation ``sd``."""
    z = generator.standard_normal(n)
    chain = np.empty(n)
    last = 0.0
    for i in range(n):
        last = z[i] if i == 0 else rho * last + np.sqrt(1 - rho**2) * z[i]
        chain[i] = last
    return sd * chain


def _counts(mean: FloatArray, variance: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Return whole numbers with these means and variances.

    Rounding adds a variance of 1/12, which is subtracted from that of the draw beforehand. Where the variance is
    smaller, rounding would shift the mean; there the number is rounded up or down at random instead.
    """
    z, u = generator.standard_normal(len(mean)), generator.random(len(mean))
    drawn = np.rint(mean + z * np.sqrt(np.maximum(variance - 1 / 12, 0)))
    return np.asarray(np.where(variance > 0.25, drawn, np.floor(mean + u)))
