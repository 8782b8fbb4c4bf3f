"""The `Trace` object: the evaluations of one run, from which every fit starts."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlscaling.arrays import FloatArray, as_floats, objects
from rlscaling.errors import TraceError
from rlscaling.traces.schema import COMPUTE_UNITS
from rlscaling.traces.series import check_series

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """The evaluations of one run in one domain.

    Parameters
    ----------
    compute
        Compute of each evaluation in ``compute_unit``, shape (n,), strictly increasing.
    pass_rate
        Pass rate of each evaluation as a fraction, shape (n,); any real score with
        ``metadata={"scale": "reward"}``.
    compute_unit
        One of ``COMPUTE_UNITS``.
    name
        Name of the run.
    columns
        Other values of each evaluation, shape (n,) each, such as ``step``, ``n_prompts``, ``pass_rate_se``.
    metadata
        What the header of the file states about the run.
    notes
        What was assumed or recovered while reading, one sentence each.

    Raises
    ------
    TraceError
        When the series cannot be used as it stands.

    Examples
    --------
    >>> Trace([0, 100, 200], [0.3, 0.35, 0.39], name="run7")
    Trace('run7': 3 evaluations, 0 to 200 gpu-hours, pass rate 0.3 to 0.39)
    """

    compute: FloatArray
    pass_rate: FloatArray
    compute_unit: str = "gpu-hours"
    name: str = ""
    columns: Mapping[str, NDArray[Any]] = dataclasses.field(default_factory=dict)
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.compute_unit not in COMPUTE_UNITS:
            raise TraceError(f"compute_unit={self.compute_unit!r} is unknown; choose one of {', '.join(COMPUTE_UNITS)}")
        C, y = check_series(self.compute, self.pass_rate, bounded=self.scale != "reward")
        columns = {str(key): _column(values, str(key), len(C)) for key, values in self.columns.items()}
        for array in (C, y, *columns.values()):
            array.flags.writeable = False
        for field, value in (("compute", C), ("pass_rate", y), ("columns", columns)):
            object.__setattr__(self, field, value)
        object.__setattr__(self, "metadata", {"scale": "fraction", **self.metadata})
        object.__setattr__(self, "notes", tuple(self.notes))

    @property
    def scale(self) -> str:
        """Scale in which the scores were logged; here they are fractions, except for ``"reward"``."""
        return str(self.metadata.get("scale", "fraction"))

    @property
    def n_prompts(self) -> FloatArray | None:
        """Prompts of each evaluation, shape (n,), or None when not recorded."""
        return self.columns.get("n_prompts")

    @property
    def n_samples(self) -> FloatArray | None:
        """Completions per prompt of each evaluation, shape (n,), or None when not recorded."""
        return self.columns.get("n_samples")

    @property
    def pass_rate_se(self) -> FloatArray | None:
        """Standard error of each evaluation, shape (n,), or None when not recorded."""
        return self.columns.get("pass_rate_se")

    def __len__(self) -> int:
        return len(self.compute)

    def __repr__(self) -> str:
        C, y = self.compute, self.pass_rate
        count = f"{len(self)} evaluation{'s' if len(self) != 1 else ''}"
        span = f"{C[0]:g} to {C[-1]:g} {self.compute_unit}"
        return f"Trace({self.name!r}: {count}, {span}, pass rate {y[0]:.3g} to {y[-1]:.3g})"

    def named(self, name: str) -> Trace:
        """Return the same evaluations under another name."""
        other = copy.copy(self)
        object.__setattr__(other, "name", name)
        return other

    def up_to(self, compute: float) -> Trace:
        """Return the evaluations at or below ``compute``."""
        keep = self.compute <= compute
        if not keep.any():
            raise TraceError(
                f"no evaluation at or below {compute:g} {self.compute_unit}: the first is at "
                f"{self.compute[0]:g}; choose that or more"
            )
        columns = {key: values[keep] for key, values in self.columns.items()}
        return dataclasses.replace(self, compute=self.compute[keep], pass_rate=self.pass_rate[keep], columns=columns)

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame, one row per evaluation; name, unit and metadata are in its ``attrs``."""
        import pandas as pd

        frame = pd.DataFrame({"compute": self.compute, "pass_rate": self.pass_rate, **self.columns})
        frame.attrs = {
            "name": self.name,
            "compute_unit": self.compute_unit,
            "metadata": dict(self.metadata),
            "notes": self.notes,
        }
        return frame

    @classmethod
    def from_frame(cls, frame: Any, *, compute: str = "compute", pass_rate: str = "pass_rate", **fields: Any) -> Trace:
        """Return the trace in a pandas or polars frame.

        Parameters
        ----------
        frame
            One row per evaluation; columns beyond the two named ones are kept.
        compute, pass_rate
            Names of the two columns.
        **fields
            Other fields of the trace; those not given are taken from ``frame.attrs`` where it has them.
        """
        names = [str(column) for column in frame.columns]
        for wanted in (compute, pass_rate):
            if wanted not in names:
                raise TraceError(
                    f"the frame has no column {wanted!r}; it has {', '.join(names)}; name it with compute= / pass_rate="
                )
        attrs = getattr(frame, "attrs", {})
        attributes = {key: attrs[key] for key in ("name", "compute_unit", "metadata", "notes") if key in attrs}
        columns = {name: frame[name] for name in names if name not in (compute, pass_rate)}
        return cls(frame[compute], frame[pass_rate], columns=columns, **{**attributes, **fields})


def _column(values: Any, name: str, n: int) -> NDArray[Any]:
    """Return numbers as floats (None is NaN); anything else, such as text, as it is."""
    try:
        array: NDArray[Any] = as_floats(values, name)
    except TraceError:
        items = values.tolist() if hasattr(values, "tolist") else list(values)
        if all(item is None or type(item) in (int, float) for item in items):
            array = np.array([math.nan if item is None else item for item in items], dtype=np.float64)
        else:
            # pandas marks a missing text by NaN, polars by None
            array = objects([None if isinstance(item, float) and math.isnan(item) else item for item in items])
    if len(array) != n:
        raise TraceError(f"column {name!r} has {len(array)} values for {n} evaluations; pass one per evaluation")
    return array
