"""What a trace may hold: its columns, its units, and the one door every series of numbers comes through."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlscaling.errors import TraceError

FloatArray = NDArray[np.float64]

SCHEMA_VERSION = 1
COMPUTE_UNITS = ("gpu-hours", "device-hours", "tokens", "flops", "rollouts", "steps", "wall-hours")
SCALES = ("fraction", "percent", "pm1", "reward")

COLUMNS: Mapping[str, tuple[str, str]] = {
    "kind": ("text", "What the row records: eval (an evaluation) or train (a training step)."),
    "step": ("steps", "Optimizer steps taken when the row was written; 0 is the model before training."),
    "domain": ("text", "Which evaluation set the pass rate belongs to, such as math or code."),
    "wall_time": ("s", "Wall-clock time since the run began, summed over resumes."),
    "compute": ("the header's compute_unit", "Training compute so far when it is not counted in GPU-hours."),
    "compute_gpu_hours": ("gpu-hours", "Training compute so far over all devices, evaluation time left out."),
    "eval_gpu_hours": ("gpu-hours", "Compute spent on evaluations so far; not part of compute_gpu_hours."),
    "modelled_gpu_hours": (
        "gpu-hours",
        "Training compute so far that the cost model predicts for the modelled cluster.",
    ),
    "lost_gpu_hours": ("gpu-hours", "Compute spent so far on steps that a resume threw away."),
    "flops": ("flops", "Floating-point operations of generation and training so far."),
    "tokens_generated": ("tokens", "Tokens sampled by the generators so far."),
    "tokens_trained": ("tokens", "Completion tokens that entered the loss so far."),
    "rollouts": ("rollouts", "Completions sampled so far."),
    "pass_rate": ("fraction", "Mean over prompts and samples of the 0/1 outcome of an evaluation."),
    "n_prompts": ("prompts", "Prompts in the evaluation."),
    "n_samples": ("samples", "Completions drawn for each prompt of the evaluation."),
    "pass_rate_se": (
        "fraction",
        "Standard error of pass_rate from sampling completions of the same prompts.",
    ),
    "truncation_rate": ("fraction", "Share of completions cut off at the length limit."),
    "mean_length": ("tokens", "Mean length of a completion."),
    "entropy": ("nats", "Mean entropy of the policy's next-token distribution."),
    "loss": ("1", "Value of the training loss."),
    "reward_mean": ("reward", "Mean reward of the completions of the step, before filters."),
    "grad_norm": ("1", "Norm of the gradient before clipping."),
    "clip_fraction": ("fraction", "Share of trained tokens whose importance ratio was clipped."),
    "ratio_mean": ("1", "Mean importance ratio of trainer to generator over trained tokens."),
    "ratio_max": ("1", "Largest importance ratio of trainer to generator over trained tokens."),
    "mismatch": (
        "nats",
        "Mean absolute difference of log-probabilities, trainer minus generator, at equal weights.",
    ),
    "lag_mean": ("steps", "Mean age of the weights that generated the trained completions."),
    "lag_max": ("steps", "Largest age of the weights that generated the trained completions."),
    "effective_batch": ("rollouts", "Completions left in the batch after filters."),
    "idle_fraction": ("fraction", "Share of device time in the step spent waiting."),
    "tokens_per_second": ("tokens/s", "Completion tokens of the step over the wall time it took, all ranks together."),
    "peak_state_bytes": (
        "bytes",
        "Most that weights, gradients and optimizer state have taken on one trainer rank.",
    ),
    "pool_left": ("prompts", "Training prompts that the curriculum still draws from."),
    "train_pass_rate": ("fraction", "Share of right answers among the step's completions, before filters."),
    "interruption_rate": ("fraction", "Share of the step's completions whose thinking was ended by force."),
    "checks_failed": ("answers", "Answers so far whose check hung or crashed; they count as wrong."),
    "epoch": ("epochs", "Passes over the training prompts begun before the current one."),
    "seconds_generate": ("s", "Measured time spent generating so far."),
    "seconds_train": ("s", "Measured time spent on updates so far."),
    "seconds_evaluate": ("s", "Measured time spent on evaluations so far."),
    "seconds_warmup": ("s", "Measured time of the supervised warm-up."),
    "seconds_checkpoint": ("s", "Measured time spent writing checkpoints so far."),
}
"""Column name -> (unit, definition). Columns that are not listed are allowed in a row and kept."""

VERL_NAMES: Mapping[str, tuple[str, str]] = {
    "step": ("training/global_step", ""),
    "domain": ("val-core/<data source>/acc/mean@<n>", "the data source"),
    "pass_rate": ("val-core/<data source>/acc/mean@<n>", ""),
    "n_samples": ("val-core/<data source>/acc/mean@<n>", "the n"),
    "compute_gpu_hours": ("perf/time_per_step", "seconds of a step, to be multiplied by the devices"),
    "tokens_generated": ("perf/total_num_tokens", "of a step, prompts included"),
    "truncation_rate": ("response_length/clip_ratio", ""),
    "mean_length": ("response_length/mean", ""),
    "entropy": ("actor/entropy", ""),
    "loss": ("actor/pg_loss", ""),
    "reward_mean": ("critic/score/mean", ""),
    "grad_norm": ("actor/grad_norm", ""),
    "clip_fraction": ("actor/pg_clipfrac", ""),
    "ratio_mean": ("rollout_corr/rollout_is_mean", ""),
    "ratio_max": ("rollout_corr/rollout_is_max", ""),
    "mismatch": ("training/rollout_probs_diff_mean", "of probabilities, not of their logarithms"),
    "idle_fraction": ("fully_async/trainer/idle_ratio", "of the trainers alone"),
    "tokens_per_second": ("perf/throughput", "of a device, prompts included"),
    "epoch": ("training/epoch", ""),
    "seconds_generate": ("timing_s/gen", "of a step"),
    "seconds_train": ("timing_s/update_actor", "of a step"),
    "seconds_evaluate": ("timing_s/testing", "of a step"),
    "seconds_checkpoint": ("timing_s/save_checkpoint", "of a step"),
}
"""Column name -> (the metric of verl that comes nearest, how it differs). Columns that are not listed have none."""


def as_floats(values: Any, what: str) -> FloatArray:
    """Return ``values`` as a new one-dimensional float64 array.

    Lists, tuples, numpy arrays, pandas and polars series and torch tensors (any device and precision) are
    accepted without importing their libraries. Missing entries of a series (NA, null) become NaN.

    Parameters
    ----------
    values
        The numbers, shape (n,).
    what
        How an error message calls them, such as ``"pass_rate"``.

    Returns
    -------
    numpy.ndarray
        float64, shape (n,), owned by the caller.

    Raises
    ------
    TraceError
        For text, None, truth values, complex numbers, dates, and anything that is not one-dimensional.

    Examples
    --------
    >>> as_floats((1, 2.5), "compute")
    array([1. , 2.5])
    >>> as_floats([0.3, "n/a"], "pass_rate")
    Traceback (most recent call last):
    rlscaling.errors.TraceError: pass_rate[1] is 'n/a': text, not a number; drop or repair that value
    """
    if isinstance(values, (str, bytes, Mapping, set, frozenset)) or values is None:
        raise TraceError(f"{what} is {_short(values)}: not a series of numbers; pass a list or an array")
    array = _to_numpy(values, what)
    if array.ndim != 1:
        shape = "a single value" if array.ndim == 0 else f"of shape {array.shape}"
        raise TraceError(f"{what} is {shape}; pass one number per evaluation, a one-dimensional series")
    if array.dtype.kind in "fiu":
        return array.astype(np.float64)
    if array.dtype.kind in "mM":  # tolist() would turn dates into integers
        raise TraceError(f"{what}[0] is {array[0]}: a date or duration, not a number; convert it first")
    return np.array([_as_float(value, f"{what}[{i}]") for i, value in enumerate(array.tolist())], dtype=np.float64)


def _to_numpy(values: Any, what: str) -> NDArray[Any]:
    if hasattr(values, "detach"):  # a torch tensor; numpy knows no bfloat16 and no device memory
        values = values.detach().cpu()
        kind = str(values.dtype)
        if "complex" in kind or "bool" in kind:
            raise TraceError(f"{what} is a tensor of {kind}: not real numbers; convert it to floats first")
        return np.asarray(values.double().numpy())
    if isinstance(values, np.ma.MaskedArray):
        return np.asarray(np.ma.filled(values.astype(np.float64), np.nan))
    if hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy())
    if isinstance(values, np.ndarray):
        return values
    try:
        items = list(values)
    except TypeError:
        raise TraceError(f"{what} is {_short(values)}: not a series of numbers; pass a list or an array") from None
    # numpy turns [0.3, "n/a"] and [True, 0.3] into one type; there, keep every element as it was given
    as_given = objects(items)
    if any(isinstance(item, bool) for item in items):
        return as_given
    try:
        array = np.asarray(items)
    except (ValueError, TypeError, RuntimeError):  # ragged, or elements that numpy cannot read
        return as_given
    return array if array.ndim > 1 or array.dtype.kind in "fiu" else as_given


def objects(items: Sequence[Any]) -> NDArray[Any]:
    """Return ``items`` as a one-dimensional object array, whatever they are (also lists of one length)."""
    array = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        array[i] = item
    return array


def _as_float(value: Any, place: str) -> float:
    if hasattr(value, "item") and not isinstance(value, np.ndarray):
        value = value.item()  # a zero-dimensional tensor or numpy scalar
    if type(value).__name__ in ("NAType", "NaTType"):
        return float("nan")
    reason = "not a number"
    if isinstance(value, (bool, np.bool_)):
        reason = "a truth value, not a number (a pass rate is a mean over prompts)"
    elif isinstance(value, (str, bytes)):
        reason = "text, not a number"
    elif value is None:
        reason = "missing"
    elif isinstance(value, complex):
        reason = "a complex number"
    else:
        try:
            return float(value)
        except (TypeError, ValueError):
            pass
        except OverflowError:
            reason = "too large for a float"
    raise TraceError(f"{place} is {_short(value)}: {reason}; drop or repair that value")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def check_series(
    compute: Any,
    pass_rate: Any,
    *,
    bounded: bool = True,
    scale: str = "fraction",
    rows: Sequence[int] | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Validate one run's evaluations and return them as float arrays, pass rates as fractions.

    Parameters
    ----------
    compute
        Compute of each evaluation, shape (n,), not negative and strictly increasing; 0 is legal.
    pass_rate
        Score of each evaluation, shape (n,).
    bounded
        Refuse scores outside [0, 1].
    scale
        What the scores are: ``"fraction"``, ``"percent"`` (divided by 100), ``"pm1"`` (from [-1, 1], mapped
        by (y + 1) / 2) or ``"reward"`` (left as they are, not bounded).
    rows
        Row of each evaluation in the file it came from; messages then name rows instead of positions.

    Returns
    -------
    tuple of numpy.ndarray
        Compute and pass rate, float64, shape (n,) each.

    Raises
    ------
    TraceError
        When the series cannot be used as it stands; the message says where, why and what to do.

    Examples
    --------
    >>> check_series([100, 200], [31.0, 40.0], scale="percent")
    (array([100., 200.]), array([0.31, 0.4 ]))
    """
    if scale not in SCALES:
        raise TraceError(f"scale={scale!r} is unknown; choose one of {', '.join(SCALES)}")
    C, y = as_floats(compute, "compute"), as_floats(pass_rate, "pass_rate")
    if len(C) != len(y):
        raise TraceError(f"compute has {len(C)} values and pass_rate {len(y)}; pass one of each per evaluation")
    if not len(C):
        raise TraceError("no evaluations: compute and pass_rate are empty; pass at least one evaluation")

    def place(i: int) -> str:
        return f"position {i}" if rows is None else f"row {rows[i]}"

    for what, values in (("compute", C), ("pass_rate", y)):
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            more = f" ({len(bad)} such values in all)" if len(bad) > 1 else ""
            raise TraceError(
                f"{what} at {place(bad[0])} is {values[bad[0]]}{more}: not a finite number; drop or repair "
                "that evaluation"
            )
    if C.min() < 0:
        i = int(C.argmin())
        raise TraceError(f"compute at {place(i)} is {C[i]:g}: negative; compute counts up from 0, repair the axis")
    _check_order(C, place, "rows" if rows is not None else "positions")
    return C, _to_fraction(y, scale, bounded, place)


def _check_order(C: FloatArray, place: Callable[[int], str], places: str) -> None:
    """Refuse compute that does not rise, naming the likeliest reason."""
    change = np.diff(C)
    if (change > 0).all():
        return
    falls = np.flatnonzero(change < 0) + 1
    values, counts = np.unique(C, return_counts=True)
    if len(falls) and all(_is_restart(C, int(i)) for i in falls):
        where = ", ".join(place(int(i)).split()[1] for i in falls[:5]) + (", ..." if len(falls) > 5 else "")
        raise TraceError(
            f"compute looks like {len(falls) + 1} runs one after the other (compute restarts at {places} "
            f"{where}); read one run at a time: --run NAME / run= with run_column= on a file, or split the "
            "arrays there"
        )
    if len(values) > 1 and counts.min() == counts.max() > 1:
        raise TraceError(
            f"every compute value is a duplicate ({counts[0]} times each): looks like {counts[0]} runs or "
            "domains in one series; read one at a time: --run NAME / run= with run_column= on a file, or "
            "split the arrays"
        )
    if len(falls):
        i = int(falls[0])
        tail = f", and {len(falls) - 1} more times" if len(falls) > 1 else ""
        raise TraceError(
            f"compute falls from {C[i - 1]:g} to {C[i]:g} at {place(i)}{tail}; sort by compute (if a run was "
            "resumed and logged these steps again, keep one copy of them)"
        )
    if counts.max() > 1:
        twice = values[counts > 1][0]
        first, second = np.flatnonzero(C == twice)[:2]
        total = f" (duplicate compute at {int((counts > 1).sum())} values)" if (counts > 1).sum() > 1 else ""
        raise TraceError(
            f"compute {twice:g} is a duplicate: it stands at {place(int(first))} and at "
            f"{place(int(second))}{total}; average them or keep one"
        )


def _is_restart(C: FloatArray, i: int) -> bool:
    """Whether a new run starts at ``i``: back near the beginning, then at least three rising points.

    A single dip, after which compute goes on where it was, is not a restart.
    """
    near = C[0] + 0.1 * (C[i - 1] - C[0])
    rising = C[i : i + 3]
    return bool(C[i] <= near and len(rising) == 3 and np.all(np.diff(rising) > 0) and rising[1] < C[i - 1])


def likely_scale(y: FloatArray) -> str:
    """Return the scale in which ``y`` was probably logged: an entry of ``SCALES``, from its range alone."""
    low, high = float(y.min()), float(y.max())
    if 0 <= low and high <= 1:
        return "fraction"
    if 0 <= low and 2 < high <= 100:
        return "percent"
    if -1 <= low < 0 and high <= 1:
        return "pm1"
    return "reward"


_SCALE_ADVICE = {
    "percent": 'looks like percent; divide by 100, or read the file with scale="percent" (--scale percent)',
    "pm1": 'looks like a mean of +1/-1 rewards; take (y + 1) / 2, or read the file with scale="pm1" (--scale pm1)',
    "reward": 'a reward? fit an unbounded score with A_max=inf, or read the file with scale="reward" (--scale reward)',
}


def _to_fraction(y: FloatArray, scale: str, bounded: bool, place: Callable[[int], str]) -> FloatArray:
    if scale == "percent":
        y = y / 100
    elif scale == "pm1":
        y = (y + 1) / 2
    outside = np.flatnonzero((y < 0) | (y > 1))
    if scale == "reward" or not bounded or not len(outside):
        return y
    i = int(outside[0])
    if scale != "fraction":
        raise TraceError(
            f"pass_rate at {place(i)} is {y[i]:g} after scale={scale!r}: outside [0, 1]; choose another scale"
        )
    raise TraceError(
        f"pass_rate at {place(i)} is {y[i]:g}: outside [0, 1] (values span {y.min():g} to {y.max():g}); "
        + _SCALE_ADVICE[likely_scale(y)]
    )


def json_line(row: Mapping[str, Any]) -> bytes:
    """Return one line of the file."""
    return json.dumps(plain(row), allow_nan=False).encode() + b"\n"


def plain(value: Any) -> Any:
    """Return ``value`` as JSON can hold it: numbers that are not finite become None, arrays lists."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # numpy arrays and scalars, torch tensors
        return plain(value.tolist())
    return str(value)
