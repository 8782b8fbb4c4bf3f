"""`SigmoidFit` and `FailedFit`: the result of a fit, its text and its dictionary."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.arrays import Array
from rlscaling.curves.sigmoid import PARAMETER_NAMES, SigmoidParams
from rlscaling.errors import FitError
from rlscaling.fitting.data import FitData, build, restored_data
from rlscaling.fitting.options import FitOptions, infinite, restored_options
from rlscaling.fitting.selection import left_out
from rlscaling.fitting.verdict import ComputeNeeded, Verdict
from rlscaling.printing.document import Document, Table
from rlscaling.printing.numbers import interval, interval_ends, number, plus_minus, unit_text
from rlscaling.solver.fitted_model import FittedModel, fit_model
from rlscaling.solver.intervals import ConfidenceInterval
from rlscaling.solver.noise import aicc_of_ssr

if TYPE_CHECKING:
    import pandas as pd
    from lmfit.model import ModelResult


NO_BARE_CEILING = (Verdict.NOT_IDENTIFIED, Verdict.FLAT, Verdict.FALLING)
NO_MIDPOINT = (Verdict.FLAT, Verdict.FALLING)  # B and C_mid mean nothing there
SAVED_FIT_KIND = "sigmoid-fit"
SAVED_FIT_SCHEMA = 2  # 1: half_width_68 was called robust_error


def not_identified(fit: SigmoidFit, name: str) -> bool:
    """Return whether a parameter must not be printed as a number."""
    return (name == "A" and fit.verdict in NO_BARE_CEILING) or is_meaningless(fit, name)


def is_meaningless(fit: SigmoidFit, name: str) -> bool:
    """Return whether a parameter has no meaning under the verdict of the fit."""
    return name in ("B", "C_mid") and fit.verdict in NO_MIDPOINT


def at_twice_text(fit: SigmoidFit) -> list[str]:
    """Return a line on R at twice the data where the ceiling is not identified: as far as a number is given."""
    if fit.at_twice is None or fit.verdict is not Verdict.NOT_IDENTIFIED:
        return []
    value, low, high = fit.at_twice
    budget = f"{number(2.0 * fit.compute_range[1])} {unit_text(fit.compute_unit)}"
    return [f"R at {budget} (twice the data): {plus_minus(value, (high - low) / 4.0)}  {interval(low, high)}"]


def _parameter_rows(fit: SigmoidFit) -> list[list[str]]:
    """Return one row per parameter: name, value with its error, 95 % interval, remark."""
    rows = []
    ci, error = fit.confidence_interval or {}, fit.half_width_68 or {}
    for name in PARAMETER_NAMES:
        value, ends = fit.params[name], ci.get(name)
        text = "not identified" if not_identified(fit, name) else plus_minus(value, error.get(name, 0.0))
        rows.append([name, text, interval_text(fit, name, ends), remark(fit, name, ends)])
    return rows


def interval_text(fit: SigmoidFit, name: str, ends: tuple[float, float] | None) -> str:
    """Return the interval of a parameter as text; empty for one that is fixed or has no meaning."""
    if ends is None or ends[0] == ends[1] == fit.params[name] or is_meaningless(fit, name):
        return ""
    return interval(*ends)


def remark(fit: SigmoidFit, name: str, ends: tuple[float, float] | None = None) -> str:
    """Return what is printed beside a parameter: its lower end, source, bound or unit."""
    if name == "A" and ends is not None and fit.verdict is Verdict.NOT_IDENTIFIED:
        return f"at least {interval_ends(*ends)[0]}"
    if name == "R0":
        return fit.R0_source
    if name in fit.at_bound:
        return "at its bound"
    if getattr(fit.options, name, None) is not None:
        return "given"
    return unit_text(fit.compute_unit) if name == "C_mid" else ""


def provenance(fit: SigmoidFit) -> str:
    """Return one line on the data: how many points, over which range, what was left out."""
    low, high = fit.compute_range
    parts = [f"{fit.n_points} points, {number(low)} to {number(high)} {unit_text(fit.compute_unit)}"]
    return ", ".join([*parts, *left_out(fit.data, fit.options)])


@dataclass(frozen=True)
class FailedFit(Document):
    """What ``on_error="return"`` gives for a run that cannot be fitted: false, with the reason."""

    name: str
    error: str

    def __bool__(self) -> bool:
        return False

    @property
    def headline(self) -> str:
        """Why there is no fit."""
        return f"{self.name + ': ' if self.name else ''}no fit: {self.error}"

    def _record(self) -> dict[str, Any]:
        return {"run": self.name, "error": self.error}


@dataclass(frozen=True, eq=False, repr=False)
class SigmoidFit(Document):
    """The sigmoid fitted to one run, with the verdict on its ceiling.

    Attributes
    ----------
    A, B, C_mid, R0 : float
        Least-squares parameters (see `SigmoidParams`).
    verdict : Verdict
        What the data say about ``A``.
    reason : str
        The verdict in a sentence, with its numbers.
    confidence_interval : dict of ConfidenceInterval, or None
        95 % this-run intervals by parameter, from the replicates behind the verdict; None with fewer than 7 points. Use
        `rlscaling.bootstrap` for others.
    half_width_68 : dict of float, or None
        Half-width of the central 68 % of the same replicates, by parameter: what is printed after ±.
    standard_error, covariance
        Of least squares, as if evaluations were independent; 0 for a parameter that is fixed or lies at a bound.
    ssr, residual, n_points, compute_range
        Sum of squared residuals, residuals, number and range of the fitted evaluations (the observation of R0 is not
        one).
    R0_source : str
        ``anchored``, ``free`` or ``fixed``.
    at_bound : tuple of str
        Parameters at a bound of the fit.
    compute_needed : ComputeNeeded or None
        When ``A`` is not identified: how far to run.
    at_twice : tuple of float or None
        The curve at twice the compute so far and its 95 % interval.
    """

    params: SigmoidParams
    covariance: Array
    ssr: float
    residual: Array
    R0_source: str
    verdict: Verdict
    reason: str
    data: FitData
    options: FitOptions
    confidence_interval: Mapping[str, ConfidenceInterval[float]] | None = None
    half_width_68: Mapping[str, float] | None = None
    compute_needed: ComputeNeeded | None = None
    at_twice: tuple[float, float, float] | None = None
    at_bound: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    name: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    _model: FittedModel | None = field(default=None, repr=False)

    @property
    def form(self) -> str:
        """``sigmoid``: its name among the functional forms."""
        return "sigmoid"

    @property
    def A(self) -> float:
        """Asymptotic pass rate."""
        return self.params.A

    @property
    def B(self) -> float:
        """Scaling exponent."""
        return self.params.B

    @property
    def C_mid(self) -> float:
        """Compute at half of the gain."""
        return self.params.C_mid

    @property
    def R0(self) -> float:
        """Pass rate before RL."""
        return self.params.R0

    @property
    def standard_error(self) -> dict[str, float]:
        """Least-squares standard errors by parameter name."""
        return dict(zip(PARAMETER_NAMES, np.sqrt(np.diag(self.covariance)).tolist(), strict=True))

    @property
    def n_points(self) -> int:
        """Number of fitted evaluations."""
        return int(self.data.used.sum())

    @property
    def compute_range(self) -> tuple[float, float]:
        """First and last fitted compute."""
        used = self.data.compute[self.data.used]
        return float(used[0]), float(used[-1])

    @property
    def compute_unit(self) -> str:
        """Unit of compute, e.g. ``gpu-hours``."""
        return self.options.compute_unit

    def predict(self, compute: ArrayLike) -> Array:
        """Return the fitted pass rate at ``compute`` (scalar or array)."""
        return self.params.predict(compute)

    def compute_to_reach(self, pass_rate: ArrayLike) -> Array:
        """Return the compute at which the fitted curve reaches ``pass_rate`` (point estimate).

        inf at A, nan outside [R0, A]. With an interval: `rlscaling.compute_to_reach`.
        """
        return self.params.compute_to_reach(pass_rate)

    def linearized(self) -> tuple[Array, Array]:
        """Return ``(compute, F)`` of the fitted evaluations in the form where the law is a straight line.

        ``F = C_mid**B / ((A - R0) / (R - R0) - 1)`` equals ``C**B`` on the curve, so that log F against log C has
        slope B [ScaleRL, Fig. 7]. Evaluations outside (R0, A) have no F and are left out.
        """
        C, R = self.data.compute[self.data.used], self.data.pass_rate[self.data.used]
        inside = (self.R0 < R) & (self.A > R) & (C > 0)
        odds = (R[inside] - self.R0) / (self.A - R[inside])
        with np.errstate(over="ignore"):
            return C[inside], np.exp(self.B * math.log(self.C_mid)) * odds

    @property
    def n_parameters(self) -> int:
        """Number of estimated parameters of the curve."""
        fixed = (self.options.A is not None) + (self.options.B is not None) + (self.R0_source == "fixed")
        return len(PARAMETER_NAMES) - fixed

    @property
    def aicc(self) -> float:
        """Akaike's criterion, as if evaluations were independent; `select_model` takes their correlation into account.

        inf with too few points for it.
        """
        return aicc_of_ssr(self.ssr, self.n_points, self.n_parameters)

    def fitted_model(self) -> FittedModel:
        """Return the solver's model, from which replicates are drawn; rebuilt from the data when a fit was loaded."""
        if self._model is None:
            object.__setattr__(self, "_model", fit_model(*build(self.data, self.options)))
        assert self._model is not None
        return self._model

    def summary(self) -> str:
        """Return the printed result (the same as ``str(fit)``)."""
        return str(self)

    @property
    def headline(self) -> str:
        """The verdict, the run and the reason."""
        return f"{self.verdict}{f' [{self.name}]' if self.name else ''}: {self.reason}"

    def tables(self) -> Sequence[Table]:
        """Return the table of the parameters."""
        span = "95 % interval" if self.confidence_interval else ""
        return [Table.of(("", "estimate", span, ""), _parameter_rows(self))]

    def footnotes(self) -> Sequence[str]:
        """Return the lines on the data, and the notes."""
        return [*at_twice_text(self), provenance(self), *(f"note: {note}" for note in self.notes)]

    def __repr__(self) -> str:
        p = self.params
        return (
            f"SigmoidFit({self.verdict}, A={p.A:.4g}, B={p.B:.4g}, C_mid={p.C_mid:.4g}, R0={p.R0:.4g}, "
            f"n_points={self.n_points})"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return one row per parameter: estimate, least-squares error and the 95 % interval."""
        import pandas as pd

        ci = self.confidence_interval or {}
        rows = [
            {
                "estimate": getattr(self.params, name),
                "standard_error": self.standard_error[name],
                "ci_low": ci.get(name, (math.nan, math.nan))[0],
                "ci_high": ci.get(name, (math.nan, math.nan))[1],
            }
            for name in PARAMETER_NAMES
        ]
        return pd.DataFrame(rows, index=pd.Index(PARAMETER_NAMES, name="parameter"))

    def to_dict(self) -> dict[str, Any]:
        """Return everything, the data included, as JSON-ready values (infinite numbers become null)."""
        return super().to_dict()

    def _record(self) -> dict[str, Any]:
        needed = self.compute_needed
        return {
            "verdict": self.verdict, "reason": self.reason, "name": self.name,
            "kind": SAVED_FIT_KIND, "schema_version": SAVED_FIT_SCHEMA, **self.params,
            "R0_source": self.R0_source, "ssr": self.ssr, "covariance": self.covariance, "residual": self.residual,
            "at_bound": self.at_bound, "notes": self.notes, "ci": self.confidence_interval,
            "half_width_68": self.half_width_68, "compute_needed": None if needed is None else asdict(needed),
            "at_twice": self.at_twice, "options": asdict(self.options),
            "data": {f.name: getattr(self.data, f.name) for f in fields(FitData)}, "metadata": self.metadata,
        }  # fmt: skip

    def _check(self) -> None:
        """Raise ValueError when a loaded fit is not one that could have been saved."""
        p, d = self.params, self.data
        if not np.all(np.isfinite(p.as_tuple())) or p.B <= 0 or p.C_mid <= 0:
            raise ValueError(f"its parameters are {p}")
        if not (np.all(np.isfinite(d.compute)) and np.all(np.isfinite(d.pass_rate)) and np.all(np.diff(d.compute) > 0)):
            raise ValueError("its evaluations are not finite and rising in compute")
        if d.anchor is not None and not 0 <= d.anchor < len(d):
            raise ValueError(f"its anchor is evaluation {d.anchor} of {len(d)}")
        if self.covariance.shape != (4, 4) or not math.isfinite(self.ssr):
            raise ValueError("its covariance or sum of squares is damaged")

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> SigmoidFit:
        """Return the fit that ``to_dict`` saved, exactly.

        Raises
        ------
        FitError
            When ``saved`` is not a saved fit, or was written by a newer version.
        """
        if not isinstance(saved, Mapping):
            raise FitError(f"not a saved fit: a {type(saved).__name__}, not an object")
        if saved.get("kind") != SAVED_FIT_KIND:
            raise FitError(f"not a saved fit: 'kind' is {saved.get('kind')!r}, expected {SAVED_FIT_KIND!r}")
        if saved.get("schema_version") not in (1, SAVED_FIT_SCHEMA):
            raise FitError(
                f"saved fit has schema_version {saved.get('schema_version')!r}, this version reads {SAVED_FIT_SCHEMA}; "
                "update rlscaling or fit the data again"
            )
        try:
            restored = cls(**_restored(saved))
            restored._check()
            return restored
        except (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError) as error:
            raise FitError(f"the saved fit is damaged ({error}); fit the data again") from error

    def to_lmfit(self) -> ModelResult:
        """Return the fit as lmfit's result, for `fit_report`, `conf_interval`, `eval_uncertainty` and `plot`.

        It is a `SigmoidModel` on the same evaluations with the same weights; the observation of R0, where there is
        one, is one more data point. Parameters that were given, or that sit at a bound, have ``vary=False``.

        Returns
        -------
        lmfit.model.ModelResult
            Its errors and intervals assume independent evaluations, so they are narrower than ours (`SigmoidModel`).

        Raises
        ------
        FitError
            When the fitted curve is a constant, or was read off the paper's grid.

        Examples
        --------
        >>> from rlscaling import datasets, fit_trace
        >>> result = fit_trace(datasets.load_demo()["scalerl"]).to_lmfit()
        >>> result.var_names
        ['A', 'B', 'C_mid', 'R0']
        """
        from rlscaling.fitting.lmfit_model import model_result

        return model_result(self.fitted_model(), self.options.method)


def _restored(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `SigmoidFit` from a saved dictionary."""
    needed = saved["compute_needed"]
    return {
        "params": SigmoidParams(*(float(saved[name]) for name in PARAMETER_NAMES)),
        "covariance": np.array(saved["covariance"], dtype=float),
        "residual": np.array(saved["residual"], dtype=float),
        "verdict": Verdict(saved["verdict"]),
        "data": restored_data(saved["data"], len(saved["residual"])),
        "options": restored_options(saved["options"]),
        "confidence_interval": None
        if saved["ci"] is None
        else {k: ConfidenceInterval(*v) for k, v in saved["ci"].items()},
        "half_width_68": saved["half_width_68"] if "half_width_68" in saved else saved["robust_error"],
        "compute_needed": None if needed is None else ComputeNeeded(**{k: infinite(v) for k, v in needed.items()}),
        "at_twice": None if saved.get("at_twice") is None else tuple(saved["at_twice"]),
        "at_bound": tuple(saved["at_bound"]),
        "notes": tuple(saved["notes"]),
        "metadata": dict(saved["metadata"]),
        **{k: saved[k] for k in ("ssr", "reason", "R0_source", "name")},
    }
