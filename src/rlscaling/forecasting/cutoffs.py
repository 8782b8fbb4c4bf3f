"""`cutoff_sensitivity`: how the ceiling depends on ``min_compute``, where the fitted evaluations begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.arrays import as_floats
from rlscaling.errors import FitError, RLScalingError
from rlscaling.fitting.fit import fit_trace, refit
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import Verdict
from rlscaling.printing.document import Document, Table
from rlscaling.printing.numbers import interval, number, unit_text
from rlscaling.traces.trace import Trace
from rlscaling.validation import renamed

if TYPE_CHECKING:
    import pandas as pd


CUTOFFS = (0.0, 500.0, 1000.0, 1500.0, 2000.0, 3000.0)
CUTOFF_MOVE = 0.02  # of A: a larger move between cutoffs is worth a warning


@dataclass(frozen=True, eq=False, repr=False)
class CutoffSensitivity(Document):
    """``A`` and its interval for several cutoffs.

    ``rows`` hold ``min_compute, n_points, A, ci_low, ci_high, verdict`` (None where there is no fit, with ``error``);
    ``moves`` is how far ``A`` moves over the cutoffs where it is identified or approximate.
    """

    rows: tuple[dict[str, Any], ...]
    moves: float
    compute_unit: str

    @property
    def warning(self) -> str:
        """A sentence when ``A`` moves by more than 0.02, else empty."""
        if self.moves <= CUTOFF_MOVE:
            return ""
        return (
            f"A moves by {self.moves:.3f} with the cutoff: the early phase is not on the sigmoid; choose it with care"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the table as a DataFrame."""
        import pandas as pd

        return pd.DataFrame(list(self.rows))

    @property
    def headline(self) -> str:
        """What the table shows."""
        return f"A by cutoff ({unit_text(self.compute_unit)})"

    def tables(self) -> Sequence[Table]:
        """Return the table of the cutoffs."""
        return [Table.of(("min_compute", "points", "A", "95 % interval", "verdict"), [_cells(r) for r in self.rows])]

    def footnotes(self) -> Sequence[str]:
        """Return the warning, if there is one."""
        return [self.warning] if self.warning else []

    def _record(self) -> dict[str, Any]:
        return {"rows": self.rows, "moves": self.moves, "warning": self.warning}


def _cells(row: dict[str, Any]) -> list[str]:
    start = [number(row["min_compute"]), str(row["n_points"])]
    if row["A"] is None:
        return [*start, "", "", row["error"]]
    ci = interval(row["ci_low"], row["ci_high"]) if row["ci_low"] is not None else ""
    return [*start, number(row["A"], 3), ci, row["verdict"]]


@renamed(cutoffs="min_compute")
def cutoff_sensitivity(
    trace: Trace | SigmoidFit, min_compute: ArrayLike | None = None, **options: Any
) -> CutoffSensitivity:
    """Show how ``A`` depends on the cutoff ``min_compute``.

    Parameters
    ----------
    trace : Trace or SigmoidFit
        The run.
    min_compute : array-like, optional
        The cutoffs. Default: 0, 500, 1,000, 1,500, 2,000 and 3,000 GPU-hours; in other units 0 to
        40 % of the data.
    **options
        Options of `fit_sigmoid`.

    Returns
    -------
    CutoffSensitivity

    Examples
    --------
    >>> from rlscaling import cutoff_sensitivity, datasets
    >>> len(cutoff_sensitivity(datasets.load_demo()["scalerl"]).rows)
    6
    """
    if not isinstance(trace, Trace | SigmoidFit):
        raise FitError(f"cutoff_sensitivity takes a Trace or a SigmoidFit, not {type(trace).__name__}")
    options = {name: value for name, value in options.items() if name not in ("on_error", "on_failure")}
    compute = (trace.data if isinstance(trace, SigmoidFit) else trace).compute
    if min_compute is None:
        relative = np.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.4]) * float(compute[-1])
        min_compute = CUTOFFS if trace.compute_unit == "gpu-hours" else relative
    rows = []
    for cutoff in as_floats(min_compute, "min_compute").tolist():
        try:
            if isinstance(trace, SigmoidFit):
                fit = refit(trace, min_compute=cutoff, **options)
            else:
                fit = fit_trace(trace, min_compute=cutoff, **options)
        except RLScalingError as error:
            rows.append(_cutoff_row(cutoff, int(np.sum(compute >= cutoff)), str(error).split(";")[0]))
            continue
        rows.append(_cutoff_row(cutoff, fit.n_points, "", fit))
    ceilings = [r["A"] for r in rows if r["verdict"] in (Verdict.IDENTIFIED, Verdict.APPROXIMATE)]
    moves = float(np.ptp(ceilings)) if len(ceilings) > 1 else 0.0
    return CutoffSensitivity(tuple(rows), moves, trace.compute_unit)


def _cutoff_row(cutoff: float, n: int, error: str, fit: SigmoidFit | None = None) -> dict[str, Any]:
    ci = (fit.confidence_interval or {}).get("A") if fit else None
    return {
        "min_compute": cutoff,
        "n_points": n,
        "A": fit.A if fit else None,
        "ci_low": ci[0] if ci else None,
        "ci_high": ci[1] if ci else None,
        "verdict": str(fit.verdict) if fit else None,
        "error": error,
    }
