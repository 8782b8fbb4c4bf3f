"""`select_model`: the sigmoid against competing models, by AICc, BIC and the error on held-out later evaluations.

The sigmoid is kept unless another form beats it by more than 6 in AICc under correlated noise: choosing the lowest AICc
would reject a true sigmoid too often (benchmarks/model_choice.py). The form of a fit is never changed silently.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.arrays import Array
from rlscaling.curves.forms import FORMS
from rlscaling.curves.sigmoid import sigmoid
from rlscaling.errors import FitError
from rlscaling.fitting.curve_fit import OTHER_FORMS
from rlscaling.fitting.data import relative_weights
from rlscaling.fitting.fit import fit_sigmoid, fit_trace, refit
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import check_enough_points
from rlscaling.printing.document import Document, Table
from rlscaling.printing.numbers import number
from rlscaling.solver.fitted_model import N_STARTS
from rlscaling.solver.noise import aicc, log_likelihood_of, spacing_ratio
from rlscaling.solver.problem import Problem
from rlscaling.solver.variable_projection import solve
from rlscaling.traces.trace import Trace

if TYPE_CHECKING:
    import pandas as pd


CLEARLY = 6.0  # of AICc: a form that much worse is ruled out
HELD_OUT = (0.6, 0.7, 0.8)  # shares of the points that are fitted; the rest is predicted
MIN_FOR_HELD_OUT = 12
SIGMOIDS = ("sigmoid, R0 fixed", "sigmoid, R0 free")
N_PARAMETERS = {
    SIGMOIDS[0]: FORMS["sigmoid"].n_parameters - 1,
    SIGMOIDS[1]: FORMS["sigmoid"].n_parameters,
    **{form: FORMS[form].n_parameters for form in OTHER_FORMS},
}
HEADER = ("", "parameters", "AICc", "difference", "BIC", "weight", "held-out error", "A")
Predict = Callable[[Array], Array]
Points = tuple[Array, Array, Array]  # compute, pass rate, weights


@dataclass(frozen=True, eq=False)
class Candidate:
    """One form fitted to the run.

    Attributes
    ----------
    n_parameters : int
        Of the curve; the noise has one more (its size), or two with correlation.
    ssr, log_likelihood, aicc, bic : float
        Of the weighted residuals where the evaluations have weights.
    weight : float
        Akaike weight among the forms.
    out_of_sample : float
        Mean absolute error on the last 40, 30 and 20 % of the points, fitted on those before, weighted as they are;
        nan with few points.
    A : float
        Its ceiling; nan for a form without one.
    """

    form: str
    params: dict[str, float]
    n_parameters: int
    ssr: float
    log_likelihood: float
    aicc: float
    bic: float
    weight: float
    out_of_sample: float

    @property
    def A(self) -> float:
        """Its ceiling."""
        return self.params.get("A", math.nan)


@dataclass(frozen=True, eq=False, repr=False)
class ModelSelection(Document):
    """Forms ranked by AICc, and whether the data can tell them apart.

    Attributes
    ----------
    candidates : tuple of Candidate
        Lowest AICc first.
    noise : str
        ``ar1`` or ``iid``: what the likelihood assumes.
    """

    candidates: tuple[Candidate, ...]
    noise: str
    n_points: int
    compute_range: tuple[float, float]
    notes: tuple[str, ...] = ()

    @cached_property
    def choice(self) -> Candidate:
        """The best sigmoid, unless another form beats it by more than 6."""
        best = self.candidates[0]
        ours = next(candidate for candidate in self.candidates if candidate.form in SIGMOIDS)
        return best if ours.aicc - best.aicc > CLEARLY else ours

    @cached_property
    def open(self) -> tuple[Candidate, ...]:
        """The other forms that the data do not rule out: within 6 of the lowest AICc (two sigmoids count as one)."""
        limit = self.candidates[0].aicc + CLEARLY
        same = SIGMOIDS if self.choice.form in SIGMOIDS else (self.choice.form,)
        return tuple(c for c in self.candidates if c.aicc <= limit and c.form not in same)

    @property
    def decided(self) -> bool:
        """Whether every other form is ruled out."""
        return not self.open

    @property
    def headline(self) -> str:
        """Whether the data decide for a form, in a sentence."""
        if self.decided:
            return f"decided: {self.choice.form}; every other form is worse by more than {CLEARLY:g} in AICc"
        ceilings = [c.A for c in (self.choice, *self.open) if math.isfinite(c.A)]
        spread = f"; over them A ranges from {min(ceilings):.3f} to {max(ceilings):.3f}" if len(ceilings) > 1 else ""
        return (
            f"undecided: the data cannot tell {self.choice.form} from {', '.join(c.form for c in self.open)} "
            f"(within {CLEARLY:g} of AICc){spread}"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return one row per form, the lowest AICc first."""
        import pandas as pd

        rows = [
            {
                "form": c.form, "n_parameters": c.n_parameters, "ssr": c.ssr, "aicc": c.aicc, "bic": c.bic,
                "delta": c.aicc - self.candidates[0].aicc, "weight": c.weight, "out_of_sample": c.out_of_sample,
                "A": c.A,
            }
            for c in self.candidates
        ]  # fmt: skip
        return pd.DataFrame(rows).set_index("form")

    def _record(self) -> dict[str, Any]:
        return {
            "headline": self.headline,
            "decided": self.decided,
            "choice": self.choice.form,
            "open": [c.form for c in self.open],
            "noise": self.noise,
            "n_points": self.n_points,
            "forms": self.to_frame().reset_index().to_dict("records"),
            "notes": self.notes,
        }

    def _rows(self) -> list[list[str]]:
        best = self.candidates[0].aicc
        return [
            [c.form, str(c.n_parameters), f"{c.aicc:.1f}", f"{c.aicc - best:.1f}", f"{c.bic:.1f}", f"{c.weight:.2f}",
             f"{c.out_of_sample:.4f}" if math.isfinite(c.out_of_sample) else "",
             number(c.A, 3) if math.isfinite(c.A) else "none"]
            for c in self.candidates
        ]  # fmt: skip

    def tables(self) -> Sequence[Table]:
        """Return the table of the forms."""
        return [Table.of(HEADER, self._rows())]

    def footnotes(self) -> Sequence[str]:
        """Return the lines on the data and the noise, and the notes."""
        low, high = self.compute_range
        noise = "correlated (AR(1))" if self.noise == "ar1" else "independent"
        return [f"{self.n_points} points, {number(low)} to {number(high)}; noise taken as {noise}", *self.notes]


def select_model(
    compute: Trace | SigmoidFit | ArrayLike, pass_rate: ArrayLike | None = None, *, noise: str = "ar1", **options: Any
) -> ModelSelection:
    """Rank functional forms by how well they describe a run, and say when the data cannot decide.

    Sigmoid with R0 fixed at the earliest evaluation (or at ``R0=``) and free, power law, exponential, log-linear,
    Gompertz and Richards, all by least squares on the same points.
    ``AICc = 2 k - 2 log L + 2 k (k + 1) / (n - k - 1)``, ``BIC = k log n - 2 log L``; ``k`` counts the curve's
    parameters and the noise's.

    Parameters
    ----------
    compute : Trace, SigmoidFit, or array-like of shape (n,)
        The run, or its compute. A weighted fit keeps its weights.
    pass_rate : array-like of shape (n,), optional
        With arrays.
    noise : {"ar1", "iid"}
        ``ar1``: the likelihood of correlated residuals, its correlation estimated for each form. ``iid``: the
        textbook's ``n log(SSR / n)``, which takes AR(1) training noise for information.
    **options
        Options of `fit_sigmoid`, ``weights`` among them; with a fit those to change.

    Returns
    -------
    ModelSelection

    Raises
    ------
    FitError
        With too few points for the form with the most parameters.

    Examples
    --------
    >>> from rlscaling import datasets, select_model
    >>> selection = select_model(datasets.load_demo()["scalerl"])
    >>> selection.choice.form.split(",")[0]
    'sigmoid'
    """
    if noise not in ("ar1", "iid"):
        raise FitError(f'noise={noise!r} is unknown; choose "ar1" (correlated) or "iid" (independent)')
    fit = _fit(compute, pass_rate, options)
    C, y, w = fit.data.compute[fit.data.used], fit.data.pass_rate[fit.data.used], relative_weights(fit.data)
    positive = C > 0
    C, y, w = C[positive], y[positive], w[positive]
    n, most = len(C), max(N_PARAMETERS.values()) + 2
    check_enough_points(
        n, "to choose among the forms", needed=most + 2, what="points", remedy="run on, or evaluate more"
    )
    A_max, start, notes = fit.options.A_max, _observed_R0(fit), []
    if start is None:
        notes.append("no evaluation before the cutoff and no R0=: the sigmoid with R0 fixed is left out")
    if fit.data.weights is not None:
        notes.append("evaluations weighted as given")
    forms = [form for form in N_PARAMETERS if start is not None or form != SIGMOIDS[0]]
    position = C if fit.data.step is None else fit.data.step[fit.data.used][positive]
    ratio = spacing_ratio(position if np.all(np.diff(position) > 0) else C)
    rows = [_scored(form, (C, y, w), ratio, A_max, start, noise) for form in forms]
    best = min(row["aicc"] for row in rows)
    weights = np.exp([-0.5 * (row["aicc"] - best) for row in rows])
    weights /= weights.sum()
    candidates = [Candidate(weight=float(w), **row) for row, w in zip(rows, weights, strict=True)]
    candidates.sort(key=lambda candidate: candidate.aicc)
    return ModelSelection(tuple(candidates), noise, n, (float(C[0]), float(C[-1])), tuple(notes))


def _fit(compute: Any, pass_rate: ArrayLike | None, options: dict[str, Any]) -> SigmoidFit:
    if isinstance(compute, Trace | SigmoidFit):
        if pass_rate is not None:
            raise FitError(f"a {type(compute).__name__} holds its pass rates; give it alone, or two arrays")
        if isinstance(compute, SigmoidFit):
            return refit(compute, **options) if options else compute
        return fit_trace(compute, **options)
    if pass_rate is None:
        raise FitError("pass_rate is missing: give a Trace, a fit, or compute and pass_rate")
    return fit_sigmoid(compute, pass_rate, **options)


def _observed_R0(fit: SigmoidFit) -> float | None:
    """Return the fixed R0, else the earliest evaluation where that is the observation of R0."""
    if isinstance(fit.options.R0, int | float):
        return float(fit.options.R0)
    return None if fit.data.anchor is None else float(fit.data.pass_rate[fit.data.anchor])


def _fitted(form: str, points: Points, A_max: float, R0: float | None) -> tuple[dict[str, float], Predict]:
    """Fit one form; return its parameters and its curve."""
    C, y, w = points
    if form not in SIGMOIDS:
        fit, function = FORMS[form].fit, FORMS[form].function
        assert fit is not None, "one of OTHER_FORMS"
        params, _ = fit(C, y, w, A_max, None)
        return params, lambda at: function(at, **params)
    problem = Problem(
        compute=C, weights=w, R0=R0 if form == SIGMOIDS[0] else None,
        R0_min=0.0 if math.isfinite(A_max) else -math.inf, A_max=A_max,
    )  # fmt: skip
    A, B, C_mid, start = solve(problem, y[None, :], n_starts=N_STARTS, rtol=1e-13).draws()[0].tolist()
    return {"A": A, "B": B, "C_mid": C_mid, "R0": start}, lambda at: sigmoid(at, A, B, C_mid, start)


def _scored(
    form: str, points: Points, ratio: Array, A_max: float, R0: float | None, noise: str
) -> dict[str, Any]:  # fmt: skip
    C, y, w = points
    params, predict = _fitted(form, points, A_max, R0)
    residual = np.sqrt(w) * (y - predict(C))
    log_likelihood = log_likelihood_of(residual, ratio, noise) + 0.5 * float(np.log(w).sum())
    n, k = len(C), N_PARAMETERS[form] + (2 if noise == "ar1" else 1)
    return {
        "form": form,
        "params": params,
        "n_parameters": N_PARAMETERS[form],
        "ssr": float(residual @ residual),
        "log_likelihood": log_likelihood,
        "aicc": aicc(log_likelihood, k, n),
        "bic": k * math.log(n) - 2.0 * log_likelihood,
        "out_of_sample": _held_out_error(form, points, A_max, R0),
    }


def _held_out_error(form: str, points: Points, A_max: float, R0: float | None) -> float:
    """Return the mean absolute error on later evaluations, each time fitted to those before them."""
    C, y, w = points
    if len(C) < MIN_FOR_HELD_OUT:
        return math.nan
    errors = []
    for share in HELD_OUT:
        cut = math.ceil(share * len(C))
        _, predict = _fitted(form, (C[:cut], y[:cut], w[:cut]), A_max, R0)
        errors.append(float(np.average(np.abs(y[cut:] - predict(C[cut:])), weights=w[cut:])))
    return float(np.mean(errors))
