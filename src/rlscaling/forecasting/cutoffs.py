"""`cutoff_sensitivity`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.arrays import as_floats
from rlscaling.errors import FitError, RLScalingError
from rlscaling.fitting.fit import fit_trace, refit
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import Verdict
from rlscaling.printing.document import text_table
from rlscaling.printing.numbers import interval, number, unit_text
from rlscaling.traces.trace import Trace

if TYPE_CHECKING:
    import pandas as pd


CUTOFFS = (0.0, 500.0, 1000.0, 1500.0, 2000.0, 3000.0)
CUTOFF_MOVE = 0.02  # of A: a larger move between cutoffs is worth a warning


@dataclass(frozen=True, eq=False)
class CutoffSensitivity:
    """``A`` and its interval for several cutoffs.

    ``rows`` hold ``min_compute, n_points, A, ci_low, ci_high, verdict`` (None where the fit is refused, with
    ``error``); ``moves`` is how far ``A`` moves over the cutoffs where it is known to 0.05.
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

    def __str__(self) -> str:
        rows = []
        for r in self.rows:
            if r["A"] is None:
                rows.append([number(r["min_compute"]), str(r["n_points"]), "", "", r["error"]])
                continue
            ci = interval(r["ci_low"], r["ci_high"]) if r["ci_low"] is not None else ""
            rows.append([number(r["min_compute"]), str(r["n_points"]), number(r["A"], 3), ci, r["verdict"]])
        table = text_table(rows, ["min_compute", "points", "A", "95 % interval", "verdict"])
        return "\n".join(
            [
                f"A by cutoff ({unit_text(self.compute_unit)})",
                table,
                *([self.warning] if self.warning else []),
            ]
        )


def cutoff_sensitivity(
    trace: Trace | SigmoidFit, cutoffs: ArrayLike | None = None, **options: Any
) -> CutoffSensitivity:
    """Show how ``A`` depends on the cutoff (``min_compute``; a value for it among the options is not used).

    Parameters
    ----------
    trace : Trace or SigmoidFit
        The run.
    cutoffs : array-like, optional
        Values of ``min_compute``. Default: 0, 500, 1,000, 1,500, 2,000 and 3,000 GPU-hours; in other units 0 to
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
    options = {name: value for name, value in options.items() if name not in ("min_compute", "on_failure")}
    unit, last = (
        trace.compute_unit,
        float((trace.data if isinstance(trace, SigmoidFit) else trace).compute[-1]),
    )
    if cutoffs is None:
        cutoffs = CUTOFFS if unit == "gpu-hours" else np.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.4]) * last
    rows = []
    for cutoff in as_floats(cutoffs, "cutoffs"):
        try:
            if isinstance(trace, SigmoidFit):
                found = refit(trace, min_compute=cutoff, **options)
            else:
                found = fit_trace(trace, min_compute=float(cutoff), **options)
        except RLScalingError as error:
            n = int(np.sum((trace.data if isinstance(trace, SigmoidFit) else trace).compute >= cutoff))
            rows.append(_cutoff_row(float(cutoff), n, str(error).split(";")[0]))
            continue
        rows.append(_cutoff_row(float(cutoff), found.n_points, "", found))
    known = [r["A"] for r in rows if r["verdict"] in (Verdict.IDENTIFIED, Verdict.APPROXIMATE)]
    return CutoffSensitivity(tuple(rows), float(np.ptp(known)) if len(known) > 1 else 0.0, unit)


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
