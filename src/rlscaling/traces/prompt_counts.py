"""`PromptCounts`: how many samples of each prompt were right, at every evaluation of a run."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlscaling.errors import TraceError
from rlscaling.files import check_not_there, replace_file
from rlscaling.traces.schema import COMPUTE_UNITS
from rlscaling.traces.trace import Trace

SUFFIX = ".counts.parquet"
COLUMNS = ("compute", "prompt", "correct", "samples")
UNIT_KEY, NAME_KEY = b"rlscaling.compute_unit", b"rlscaling.name"


@dataclasses.dataclass(frozen=True, eq=False)
class PromptCounts:
    """Right samples of each prompt at every evaluation of one run.

    Parameters
    ----------
    compute
        Compute of each evaluation in ``compute_unit``, shape (n,), strictly increasing.
    correct, samples
        Right samples, and samples drawn, of each prompt: whole numbers of shape (n, prompts); ``samples`` may be one
        number for all. ``samples`` of 0 means that a prompt was not evaluated there.
    prompts
        Names of the prompts, shape (prompts,); numbered by default. Runs are paired by them.
    compute_unit
        One of ``COMPUTE_UNITS``.
    name
        Name of the run.

    Raises
    ------
    TraceError
        For counts that are no whole numbers, more right than drawn, or shapes that do not agree.

    Examples
    --------
    >>> counts = PromptCounts([0, 100], [[1, 0, 4], [2, 1, 4]], 4)
    >>> counts.to_trace().pass_rate.round(3).tolist()
    [0.417, 0.583]
    """

    compute: NDArray[np.float64]
    correct: NDArray[np.int64]
    samples: NDArray[np.int64]
    prompts: tuple[str, ...] = ()
    compute_unit: str = "gpu-hours"
    name: str = ""

    def __post_init__(self) -> None:
        compute = np.asarray(self.compute, dtype=float).reshape(-1)
        correct = _whole(self.correct, "correct")
        if correct.ndim == 1:
            correct = correct[None, :] if len(compute) == 1 else correct[:, None]
        if correct.ndim != 2 or len(correct) != len(compute) or not correct.size:
            raise TraceError(f"correct has shape {correct.shape} for {len(compute)} evaluations; give (n, prompts)")
        given = _whole(self.samples, "samples")
        try:
            samples = np.broadcast_to(given, correct.shape).copy()
        except ValueError:
            raise TraceError(f"samples has shape {given.shape}, correct {correct.shape}; give one for each") from None
        if not np.all(np.isfinite(compute)) or np.any(np.diff(compute) <= 0) or compute[0] < 0:
            raise TraceError("compute must be finite, 0 or more, and increase from one evaluation to the next")
        bad = np.argwhere((correct > samples) | (correct < 0))
        if len(bad):
            i, j = bad[0]
            raise TraceError(
                f"prompt {j} at compute {compute[i]:g}: {correct[i, j]} of {samples[i, j]} samples are right; give "
                "0 to as many as were drawn"
            )
        if np.any(samples.sum(axis=1) == 0):
            raise TraceError("an evaluation has no samples at all; leave it out")
        if self.compute_unit not in COMPUTE_UNITS:
            raise TraceError(f"compute_unit={self.compute_unit!r} is unknown; choose one of {', '.join(COMPUTE_UNITS)}")
        prompts = tuple(map(str, self.prompts)) or tuple(map(str, range(correct.shape[1])))
        if len(prompts) != correct.shape[1] or len(set(prompts)) != len(prompts):
            raise TraceError(f"{len(set(prompts))} different names for {correct.shape[1]} prompts; give one each")
        for field, value in (("compute", compute), ("correct", correct), ("samples", samples), ("prompts", prompts)):
            object.__setattr__(self, field, value)

    def __len__(self) -> int:
        return len(self.compute)

    def at(self, compute: float | None = None) -> int:
        """Return the index of the evaluation nearest to ``compute``; of the last one by default."""
        return len(self) - 1 if compute is None else int(np.argmin(np.abs(self.compute - compute)))

    def rates(self, i: int) -> NDArray[np.float64]:
        """Return the share of right samples of each prompt at evaluation ``i``; nan where none were drawn."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.correct[i] / self.samples[i])

    def to_trace(self) -> Trace:
        """Return the trace of the mean over prompts, with its standard error for the sampling of these prompts.

        The error is that of the samples of given prompts: the prompts are the same at every evaluation, so what they
        add to the error is shared by the whole run.
        """
        n = (self.samples > 0).sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            p = self.correct / self.samples
            variance = np.where(self.samples > 1, p * (1.0 - p) / (self.samples - 1.0), p * (1.0 - p))
        mean, error = np.nanmean(p, axis=1), np.sqrt(np.nansum(variance, axis=1)) / n
        columns: dict[str, NDArray[Any]] = {
            "n_prompts": n.astype(float), "n_samples": self.samples.sum(axis=1) / n, "pass_rate_se": error,
        }  # fmt: skip
        return Trace(self.compute, mean, compute_unit=self.compute_unit, name=self.name, columns=columns)

    def write(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write a Parquet file with the columns ``compute, prompt, correct, samples``, one row a prompt evaluated."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        target = Path(path)
        check_not_there(target, overwrite)
        i, j = np.nonzero(self.samples > 0)
        names = np.array(self.prompts)
        columns = (self.compute[i], names[j], self.correct[i, j], self.samples[i, j])
        about = {UNIT_KEY: self.compute_unit.encode(), NAME_KEY: self.name.encode()}
        table = pa.table(dict(zip(COLUMNS, columns, strict=True))).replace_schema_metadata(about)
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        replace_file(target, sink.getvalue().to_pybytes())


def read_counts(path: str | os.PathLike[str]) -> PromptCounts:
    """Read the counts of a run, as `PromptCounts.write` wrote them.

    Raises
    ------
    TraceError
        For a file that is not there, is no Parquet, or lacks a column.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise TraceError(f"{path} holds no counts by prompt: {str(error).splitlines()[0]}") from None
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise TraceError(f"{path} has no column {', '.join(missing)}; counts have {', '.join(COLUMNS)}")
    metadata = table.schema.metadata or {}
    C, names = (table[name].to_numpy(zero_copy_only=False) for name in ("compute", "prompt"))
    compute, i = np.unique(C.astype(float), return_inverse=True)
    prompts, j = np.unique(names.astype(str), return_inverse=True)
    correct, samples = (np.zeros((len(compute), len(prompts)), dtype=np.int64) for _ in range(2))
    np.add.at(correct, (i, j), table["correct"].to_numpy(zero_copy_only=False))
    np.add.at(samples, (i, j), table["samples"].to_numpy(zero_copy_only=False))
    unit = metadata.get(UNIT_KEY, b"gpu-hours").decode()
    name = metadata.get(NAME_KEY, b"").decode() or Path(path).name.removesuffix(SUFFIX)
    return PromptCounts(compute, correct, samples, tuple(prompts.tolist()), unit, name)


def _whole(values: ArrayLike, name: str) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.dtype.kind not in "iufb" or not np.all(np.isfinite(array)) or np.any(array != np.round(array)):
        raise TraceError(f"{name} must be whole numbers: right samples are counted")
    return array.astype(np.int64)
