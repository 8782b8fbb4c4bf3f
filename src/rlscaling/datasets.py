"""Numbers as data: the paper's published fits, simulated runs, and the traces of the demo."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from rlscaling.curves import sigmoid
from rlscaling.errors import TraceError
from rlscaling.readers import read_trace
from rlscaling.results import SigmoidParams
from rlscaling.schema import FloatArray, as_floats
from rlscaling.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_R0 = 0.35
"""The paper does not publish R0; for its 8B runs 0.35 to 0.40 fits what is shown."""

_TABLE1 = {  # name: (A, B, C_mid), [ScaleRL, Table 1]
    "scalerl": (0.610, 1.92, 2542.0),
    "length-32k": (0.645, 1.89, 11272.0),
    "generations-8": (0.585, 2.44, 2542.0),
    "generations-24": (0.590, 2.22, 3054.0),
    "generations-32": (0.595, 2.07, 2936.0),
    "scout-moe": (0.710, 1.65, 4242.0),
    "batch-512": (0.605, 1.77, 2818.0),
    "batch-2048": (0.645, 1.70, 10909.0),
    "math-code-math": (0.595, 2.05, 2896.0),
    "math-code-code": (0.615, 1.09, 1675.0),
}


@overload
def table1(as_frame: Literal[False] = False, *, R0: float = DEFAULT_R0) -> dict[str, SigmoidParams]: ...
@overload
def table1(as_frame: Literal[True], *, R0: float = DEFAULT_R0) -> pd.DataFrame: ...
def table1(as_frame: bool = False, *, R0: float = DEFAULT_R0) -> dict[str, SigmoidParams] | pd.DataFrame:
    """Return the published fits [ScaleRL, Table 1].

    Parameters
    ----------
    as_frame
        Return a pandas DataFrame, one row per run, instead of a dict.
    R0
        Pass rate before RL to fill in; it is not published.

    Returns
    -------
    dict of str to SigmoidParams, or pandas.DataFrame

    Examples
    --------
    >>> table1()["scalerl"]
    SigmoidParams(A=0.61, B=1.92, C_mid=2542.0, R0=0.35)
    """
    fits = {name: SigmoidParams(A=A, B=B, C_mid=C_mid, R0=R0) for name, (A, B, C_mid) in _TABLE1.items()}
    if not as_frame:
        return fits
    import pandas as pd

    rows = {name: {"A": p.A, "B": p.B, "C_mid": p.C_mid, "R0": p.R0} for name, p in fits.items()}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("run")


def simulate(
    params: SigmoidParams,
    *,
    compute: Any,
    n_prompts: int | None = 1000,
    n_samples: int = 16,
    rho: float = 0.0,
    wander_sd: float = 0.0,
    rng: int | np.random.Generator | None = None,
    name: str = "",
    compute_unit: str = "gpu-hours",
) -> Trace:
    """Simulate the evaluations of one run on the sigmoid, with the two kinds of noise that real runs have.

    The pass rate is ``mean + wander + generation noise``. The wander is the training's own: an AR(1) chain
    over evaluations. The generation noise is that of ``n_samples`` completions of ``n_prompts`` fixed prompts
    whose pass probabilities are Beta(a, b) with a + b = 1, so its variance is ``mean (1 - mean) / 2 /
    (n_prompts n_samples)``.

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
    rho
        Correlation of the wander between neighbouring evaluations, in (-1, 1).
    wander_sd
        Standard deviation of the wander.
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
    >>> simulate(table1()["scalerl"], compute=[0, 2542, 16000], n_prompts=None).pass_rate.round(3).tolist()
    [0.35, 0.48, 0.603]
    """
    truth = {key: float(getattr(params, key)) for key in ("A", "B", "C_mid", "R0")}
    _check_noise(n_prompts, n_samples, rho, wander_sd)
    bounded = 0 <= truth["R0"] <= 1 and 0 <= truth["A"] <= 1
    if n_prompts is not None and not bounded:
        raise TraceError(
            f"R0={truth['R0']:g}, A={truth['A']:g}: not pass rates, so there are no prompts to pass; give "
            "n_prompts=None"
        )
    generator = np.random.default_rng(rng)
    C = as_floats(compute, "compute")
    mean = sigmoid(C, **truth) + _wander(len(C), rho, wander_sd, generator)
    if bounded:
        mean = np.clip(mean, 0.0, 1.0)
    columns: dict[str, FloatArray] = {}
    if n_prompts is None:
        pass_rate = mean
    else:
        n = n_prompts * n_samples
        variance = mean * (1 - mean) / 2 / n
        pass_rate = _counts(mean * n, variance * n**2, generator).clip(0, n) / n
        columns = {
            "n_prompts": np.full(len(C), float(n_prompts)),
            "n_samples": np.full(len(C), float(n_samples)),
            "pass_rate_se": np.sqrt(variance),
        }
    metadata = {
        "simulated": True,
        "true_params": truth,
        "noise": {"n_prompts": n_prompts, "n_samples": n_samples, "rho": rho, "wander_sd": wander_sd},
        "seed": int(rng) if isinstance(rng, int | np.integer) else None,
        "scale": "fraction" if bounded else "reward",
    }
    return Trace(C, pass_rate, compute_unit=compute_unit, name=name, columns=columns, metadata=metadata)


def _check_noise(n_prompts: int | None, n_samples: int, rho: float, wander_sd: float) -> None:
    if n_prompts is not None and (n_prompts < 1 or n_samples < 1):
        raise TraceError(f"n_prompts={n_prompts}, n_samples={n_samples}: both count from 1; None leaves noise out")
    if not -1 < rho < 1:
        raise TraceError(f"rho={rho}: a correlation of the wander must lie between -1 and 1, ends excluded")
    if not 0 <= wander_sd < np.inf:
        raise TraceError(f"wander_sd={wander_sd}: a standard deviation is a finite number from 0")


def _wander(n: int, rho: float, sd: float, generator: np.random.Generator) -> FloatArray:
    """Return a stationary AR(1) chain with marginal standard deviation ``sd``."""
    z = generator.standard_normal(n)
    chain = np.empty(n)
    last = 0.0
    for i in range(n):
        last = z[i] if i == 0 else rho * last + np.sqrt(1 - rho**2) * z[i]
        chain[i] = last
    return sd * chain


def _counts(mean: FloatArray, variance: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Return whole numbers with these means and variances.

    Rounding adds a variance of 1/12 (the draw gives it up beforehand). Where less than that is wanted,
    rounding a narrow draw would shift the mean, so there the number is rounded up or down at random instead.
    """
    z, u = generator.standard_normal(len(mean)), generator.random(len(mean))
    drawn = np.rint(mean + z * np.sqrt(np.maximum(variance - 1 / 12, 0)))
    return np.asarray(np.where(variance > 0.25, drawn, np.floor(mean + u)))


def load_demo() -> dict[str, Trace]:
    """Return the bundled demo traces: simulated runs of rows of Table 1, with the noise of real ones.

    ``scalerl`` and ``batch-512`` run to 16,000 GPU-hours, ``batch-2048`` to 50,000; ``scalerl-8k`` is the
    first half of ``scalerl``. Their metadata says ``simulated`` and the row of Table 1.

    Examples
    --------
    >>> load_demo()["scalerl-8k"]
    Trace('scalerl-8k': 38 evaluations, 0 to 7999.4 gpu-hours, pass rate 0.354 to 0.578)
    """
    folder = resources.files("rlscaling") / "data"
    traces: dict[str, Trace] = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".jsonl"):
            with resources.as_file(file) as path:
                traces[path.stem] = read_trace(path)
    return traces
