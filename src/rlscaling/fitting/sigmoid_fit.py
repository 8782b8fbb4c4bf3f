"""How results read: the verdict first, then parameters with their errors, then what was done and noted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.arrays import Array
from rlscaling.curves.sigmoid import PARAMETER_NAMES, sigmoid, sigmoid_inverse
from rlscaling.errors import FitError
from rlscaling.fitting.data import FitData, build, check_lengths
from rlscaling.fitting.options import FitOptions
from rlscaling.fitting.verdict import ComputeNeeded, Verdict
from rlscaling.printing.document import html_table, text_table
from rlscaling.printing.numbers import error_decimals, interval, number, plus_minus, unit_text
from rlscaling.serialization import finite, infinite, plain
from rlscaling.solver.fitted_model import FittedModel, fit_model

if TYPE_CHECKING:
    import pandas as pd
    from lmfit.model import ModelResult


NO_BARE_CEILING = ("ceiling-not-identified", "flat", "falling")
NO_MIDPOINT = ("flat", "falling")  # B and C_mid mean nothing there


def headline(fit: SigmoidFit) -> str:
    """Return the first line of a printed fit: the verdict, the run and the reason."""
    return f"{fit.verdict}{f' [{fit.name}]' if fit.name else ''}: {fit.reason}"


def not_identified(fit: SigmoidFit, name: str) -> bool:
    """Return whether a parameter must not be printed as a number."""
    verdict = str(fit.verdict)
    return (name == "A" and verdict in NO_BARE_CEILING) or (name in ("B", "C_mid") and verdict in NO_MIDPOINT)


def twice_lines(fit: SigmoidFit) -> list[str]:
    """Return the line on R at twice the data, where the ceiling is not identified: as far as a number is given."""
    if fit.at_twice is None or str(fit.verdict) != "ceiling-not-identified":
        return []
    value, low, high = fit.at_twice
    budget = f"{number(2.0 * fit.compute_range[1])} {unit_text(fit.compute_unit)}"
    return [f"  R at {budget} (twice the data): {plus_minus(value, (high - low) / 4.0)}  {interval(low, high)}"]


def parameter_rows(fit: SigmoidFit) -> list[list[str]]:
    """Return one row a parameter: name, value with error, 95 % interval, remark."""
    rows = []
    ci, error = fit.confidence_interval or {}, fit.robust_error or {}
    for name in ("A", "B", "C_mid", "R0"):
        value = getattr(fit.params, name)
        low_high = ci.get(name)
        text = "not identified" if not_identified(fit, name) else plus_minus(value, error.get(name, 0.0))
        fixed = low_high is not None and low_high[0] == low_high[1] == value
        span = interval(*low_high) if low_high and not fixed and not _meaningless(fit, name) else ""
        rows.append([name, text, span, _remark(fit, name, low_high)])
    return rows


def _meaningless(fit: SigmoidFit, name: str) -> bool:
    return name in ("B", "C_mid") and str(fit.verdict) in NO_MIDPOINT


def _remark(fit: SigmoidFit, name: str, low_high: tuple[float, float] | None = None) -> str:
    if name == "A" and low_high is not None and str(fit.verdict) == "ceiling-not-identified":
        low, high = low_high
        return f"at least {number(low, min(error_decimals((high - low) / 4.0), 9))}"
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
    left_out = len(fit.data) - fit.n_points - (fit.data.anchor is not None)
    parts = [f"{fit.n_points} points, {number(low)} to {number(high)} {unit_text(fit.compute_unit)}"]
    if left_out:
        parts.append(f"{left_out} left out (min_compute {number(fit.options.min_compute)})")
    return ", ".join(parts)


def fit_text(fit: SigmoidFit) -> str:
    """Return the plain-text form of a fit."""
    rows = parameter_rows(fit)
    header = ["", "estimate", "95 % interval", ""] if fit.confidence_interval else ["", "estimate", "", ""]
    lines = [headline(fit), text_table(rows, header), *twice_lines(fit), "  " + provenance(fit)]
    lines += [f"  note: {note}" for note in fit.notes]
    return "\n".join(lines)


def fit_html(fit: SigmoidFit) -> str:
    """Return the HTML form of a fit, for notebooks."""
    header = ["", "estimate", "95 % interval", ""]
    return html_table(
        parameter_rows(fit),
        header,
        headline(fit),
        [*(t.strip() for t in twice_lines(fit)), provenance(fit), *fit.notes],
    )


def model_of(fit: SigmoidFit) -> FittedModel:
    """Return the fitted model behind a result, for resampling it."""
    if isinstance(fit.model, FittedModel):
        return fit.model
    return fit_model(*build(fit.data, fit.options))


@dataclass(frozen=True)
class FailedFit:
    """What ``on_failure="return"`` gives for a run that cannot be fitted: false, with the reason."""

    name: str
    error: str

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"{self.name + ': ' if self.name else ''}no fit: {self.error}"

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"run", "error"}``, as in the command line's JSON."""
        return {"run": self.name, "error": self.error}


SAVED_FIT_KIND = "sigmoid-fit"
SAVED_FIT_SCHEMA = 1


@dataclass(frozen=True)
class SigmoidParams:
    """Parameters of the sigmoidal law [ScaleRL, Eq. 1].

    Attributes
    ----------
    A : float
        Asymptotic pass rate: the ceiling.
    B : float
        Scaling exponent: steepness, i.e. compute efficiency.
    C_mid : float
        Compute at which half of the gain ``A - R0`` is reached.
    R0 : float
        Pass rate before RL.

    Examples
    --------
    >>> SigmoidParams(A=0.61, B=1.92, C_mid=2542, R0=0.35).predict([0, 2542]).tolist()
    [0.35, 0.48]
    """

    A: float
    B: float
    C_mid: float
    R0: float

    def predict(self, compute: ArrayLike) -> Array:
        """Return the pass rate at ``compute`` (scalar or array)."""
        return sigmoid(compute, self.A, self.B, self.C_mid, self.R0)

    def compute_to_reach(self, pass_rate: ArrayLike) -> Array:
        """Return the compute at which the curve reaches ``pass_rate``: inf at A, nan outside [R0, A]."""
        return sigmoid_inverse(pass_rate, self.A, self.B, self.C_mid, self.R0)

    def as_tuple(self) -> tuple[float, float, float, float]:
        """Return ``(A, B, C_mid, R0)``."""
        return self.A, self.B, self.C_mid, self.R0


@dataclass(frozen=True, eq=False)
class SigmoidFit:
    """The sigmoid fitted to one run, with what the data can tell about it.

    Attributes
    ----------
    A, B, C_mid, R0 : float
        Least-squares parameters (see `SigmoidParams`).
    verdict : Verdict
        What the data can tell about ``A``.
    reason : str
        The verdict in a sentence, with its numbers.
    confidence_interval : dict or None
        95 % this-run intervals from the 200 replicates behind the verdict; None with fewer than 7 points. Use
        `rlscaling.bootstrap` for others.
    standard_error, covariance
        Of least squares, as if evaluations were independent; 0 for a parameter that was given or sits at a bound.
    ssr, residual, n_points, compute_range
        Sum of squared residuals, residuals, number and range of the fitted evaluations (the anchor is not one).
    R0_source : str
        ``anchored``, ``free`` or ``fixed``.
    at_bound : tuple of str
        Parameters at a bound of the fit.
    compute_needed : ComputeNeeded or None
        When ``A`` is not identified: how far to run.
    at_twice : tuple of float or None
        The curve at twice the compute so far and its 95 % interval.
    model
        The fitted model that replicates are drawn from; rebuilt from the data when a fit is loaded.
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
    confidence_interval: Mapping[str, tuple[float, float]] | None = None
    robust_error: Mapping[str, float] | None = None
    compute_needed: ComputeNeeded | None = None
    at_twice: tuple[float, float, float] | None = None
    at_bound: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    name: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    model: Any = field(default=None, repr=False)

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

    def summary(self) -> str:
        """Return the printed result (the same as ``str(fit)``)."""
        return fit_text(self)

    def __str__(self) -> str:
        return fit_text(self)

    def __repr__(self) -> str:
        p = self.params
        return (
            f"SigmoidFit({self.verdict}, A={p.A:.4g}, B={p.B:.4g}, C_mid={p.C_mid:.4g}, R0={p.R0:.4g}, "
            f"n_points={self.n_points})"
        )

    def _repr_html_(self) -> str:
        return fit_html(self)

    def to_frame(self) -> pd.DataFrame:
        """Return one row a parameter: estimate, least-squares error and the 95 % interval."""
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
        out: dict[str, Any] = {"verdict": str(self.verdict), "reason": self.reason, "name": self.name}
        out |= {"kind": SAVED_FIT_KIND, "schema_version": SAVED_FIT_SCHEMA, **asdict(self.params)}
        out |= {"R0_source": self.R0_source, "ssr": self.ssr, "covariance": self.covariance.tolist()}
        out |= {
            "residual": self.residual.tolist(),
            "at_bound": list(self.at_bound),
            "notes": list(self.notes),
        }
        ci = self.confidence_interval
        out["ci"] = None if ci is None else {k: list(v) for k, v in ci.items()}
        out["robust_error"] = None if self.robust_error is None else dict(self.robust_error)
        needed = self.compute_needed
        out["compute_needed"] = None if needed is None else {k: finite(v) for k, v in asdict(needed).items()}
        out["at_twice"] = None if self.at_twice is None else list(self.at_twice)
        out["options"] = plain(asdict(self.options))
        out["data"] = {f.name: plain(getattr(self.data, f.name)) for f in fields(FitData)}
        out["metadata"] = plain(self.metadata)
        return out

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
        if saved.get("schema_version") != SAVED_FIT_SCHEMA:
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

        It is a `SigmoidModel` on the same evaluations with the same weights. The observation of R0, where there is
        one, enters as one more data point, at its compute and with the weight that it has in this fit. Parameters
        that were given, or that sit at a bound, are fixed (``vary=False``): lmfit has no standard error of anything
        while a parameter sits at its bound.

        Returns
        -------
        lmfit.model.ModelResult
            With the parameters of this fit. Its standard errors and intervals take the evaluations for independent,
            and are therefore narrower than ``confidence_interval``: see `SigmoidModel`.

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

        return model_result(model_of(self), self.options.method)


def _restored(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constructor's arguments for `SigmoidFit` from a saved dict."""
    data = dict(saved["data"])
    for key, value in data.items():
        if value is not None and key not in ("anchor", "notes"):
            data[key] = np.array(value, dtype=bool if key == "used" else float)
    data["notes"] = tuple(data["notes"])
    options = dict(saved["options"])
    options["A_max"], options["max_compute"] = infinite(options["A_max"]), infinite(options["max_compute"])
    options["B_bounds"] = tuple(options["B_bounds"])
    options["exclude"] = tuple((low, infinite(high)) for low, high in options["exclude"])
    if options["grid"] is not None:
        options["grid"] = tuple(tuple(axis) for axis in options["grid"])
    needed = saved["compute_needed"]
    check_lengths(data, saved["residual"])
    return {
        "params": SigmoidParams(*(float(saved[name]) for name in PARAMETER_NAMES)),
        "covariance": np.array(saved["covariance"], dtype=float),
        "residual": np.array(saved["residual"], dtype=float),
        "verdict": Verdict(saved["verdict"]),
        "data": FitData(**data),
        "options": FitOptions(**options),
        "confidence_interval": None if saved["ci"] is None else {k: tuple(v) for k, v in saved["ci"].items()},
        "compute_needed": None if needed is None else ComputeNeeded(**{k: infinite(v) for k, v in needed.items()}),
        "at_twice": None if saved.get("at_twice") is None else tuple(saved["at_twice"]),
        "at_bound": tuple(saved["at_bound"]),
        "notes": tuple(saved["notes"]),
        "metadata": dict(saved["metadata"]),
        **{k: saved[k] for k in ("ssr", "reason", "R0_source", "robust_error", "name")},
    }
