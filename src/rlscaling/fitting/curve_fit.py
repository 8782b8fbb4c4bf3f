"""`fit_curve` and `fit_power_law`: other functional forms, fitted for comparison with the sigmoid.

The paper argues with them: on the first half of a run the power law promises a ceiling of 1.0 where the
sigmoid says 0.645 and the run ends at 0.645 [ScaleRL, A.4]. They carry no verdict and no forecast.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from rlscaling.arrays import Array
from rlscaling.curves.forms import FORMS
from rlscaling.errors import FitError
from rlscaling.fitting.data import relative_weights
from rlscaling.fitting.fit import fit_sigmoid
from rlscaling.fitting.options import resolve_options
from rlscaling.fitting.selection import checked_weights, select
from rlscaling.printing.document import Document
from rlscaling.solver.noise import aicc_of_ssr
from rlscaling.traces.series import check_series

OTHER_FORMS = tuple(form.name for form in FORMS.values() if form.fit is not None)


class Parameters(Protocol):
    """Parameters by name: a dictionary, or `SigmoidParams`. ``dict(params)`` and ``params["A"]`` work with both."""

    def keys(self) -> Iterable[str]:
        """Return the names."""

    def __getitem__(self, name: str, /) -> float: ...


class FittedCurve(Protocol):
    """What every result of `fit_curve` has, whatever its form: `SigmoidFit` and `CurveFit` satisfy it.

    Attributes
    ----------
    form : str
        Its name, as in ``fit_curve(form=)``.
    params : mapping of str to float
        Parameters by name; for the sigmoid `SigmoidParams`, which can be indexed like a mapping.
    ssr : float
        Sum of squared residuals, weighted where weights were given.
    n_parameters : int
        Number of estimated parameters of the curve.
    aicc : float
        Akaike's criterion as if evaluations were independent.

    Examples
    --------
    >>> from rlscaling import datasets
    >>> run = datasets.load_demo()["scalerl"]
    >>> fits = [fit_curve(run.compute, run.pass_rate, form=form) for form in ("sigmoid", "exponential")]
    >>> min(fits, key=lambda fit: fit.aicc).form
    'sigmoid'
    """

    @property
    def form(self) -> str:
        """Name of the form."""

    @property
    def params(self) -> Parameters:
        """Parameters by name."""

    @property
    def ssr(self) -> float:
        """Sum of squared residuals."""

    @property
    def n_parameters(self) -> int:
        """Number of estimated parameters."""

    @property
    def aicc(self) -> float:
        """Akaike's criterion."""

    def predict(self, compute: ArrayLike) -> Array:
        """Return the fitted pass rate at ``compute``."""


@dataclass(frozen=True, eq=False, repr=False)
class CurveFit(Document):
    """A fit of another functional form, for comparison with the sigmoid.

    Attributes
    ----------
    form : str
        ``power-law``, ``exponential``, ``log-linear``, ``gompertz`` or ``richards``.
    params : dict
        Parameters by name.
    R0_fixed : bool
        Whether ``R0`` was given rather than estimated.
    """

    form: str
    params: Mapping[str, float]
    ssr: float
    residual: Array
    n_points: int
    compute_range: tuple[float, float]
    compute_unit: str = "gpu-hours"
    at_bound: tuple[str, ...] = ()
    R0_fixed: bool = False

    def predict(self, compute: ArrayLike) -> Array:
        """Return the fitted pass rate at ``compute``."""
        return np.asarray(FORMS[self.form].function(compute, **self.params))

    @property
    def n_parameters(self) -> int:
        """Number of estimated parameters of the curve."""
        return len(self.params) - self.R0_fixed

    @property
    def aicc(self) -> float:
        """Akaike's criterion, as if evaluations were independent; `select_model` takes their correlation into account.

        inf with too few points for it.
        """
        return aicc_of_ssr(self.ssr, self.n_points, self.n_parameters)

    @property
    def headline(self) -> str:
        """The form and its parameters."""
        values = ", ".join(f"{k} = {v:.4g}" for k, v in self.params.items())
        bound = f"; at its bound: {', '.join(self.at_bound)}" if self.at_bound else ""
        return f"{self.form}: {values} ({self.n_points} points, SSR {self.ssr:.4g}{bound})"

    def _record(self) -> dict[str, Any]:
        return {
            "form": self.form, "params": self.params, "ssr": self.ssr, "residual": self.residual,
            "n_points": self.n_points, "compute_range": self.compute_range, "compute_unit": self.compute_unit,
            "at_bound": self.at_bound,
        }  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class PowerLawFit(CurveFit):
    """``R = A - D / C**B``, the pre-training form: the sigmoid's limit for ``C >> C_mid`` [ScaleRL, A.4]."""

    @property
    def A(self) -> float:
        """Asymptote."""
        return self.params["A"]

    @property
    def B(self) -> float:
        """Exponent."""
        return self.params["B"]

    @property
    def D(self) -> float:
        """Distance from the asymptote at C = 1 (inf where it leaves the range of numbers: see ``params["log_D"]``)."""
        log_D = self.params["log_D"]
        return math.exp(log_D) if log_D < 709.0 else math.inf


def fit_power_law(
    compute: ArrayLike,
    pass_rate: ArrayLike,
    *,
    min_compute: float | None = None,
    max_compute: float = math.inf,
    compute_unit: str = "gpu-hours",
    A_max: float = 1.0,
    weights: ArrayLike | None = None,
) -> PowerLawFit:
    """Fit ``A - D / C**B`` by least squares, with ``A <= A_max``.

    Parameters
    ----------
    compute, pass_rate : array-like of shape (n,)
        As in `fit_sigmoid`. Evaluations at compute 0 are left out: the form is not defined there.
    min_compute, max_compute, compute_unit, weights
        As in `fit_sigmoid`.
    A_max : float
        Upper bound of the asymptote; ``inf`` for none.

    Returns
    -------
    PowerLawFit

    Raises
    ------
    TraceError, FitError
        As in `fit_sigmoid`.

    Examples
    --------
    >>> import numpy as np
    >>> C = np.arange(2000.0, 20000.0, 500.0)
    >>> fit = fit_power_law(C, 0.6 - 3.0 / C**0.5)
    >>> round(fit.A, 5), round(fit.B, 5), round(fit.D, 4)
    (0.6, 0.5, 3.0)
    """
    fitted = fit_curve(
        compute, pass_rate, form="power-law", min_compute=min_compute, max_compute=max_compute,
        compute_unit=compute_unit, A_max=A_max, weights=weights,
    )  # fmt: skip
    assert isinstance(fitted, PowerLawFit)
    return fitted


def fit_curve(
    compute: ArrayLike,
    pass_rate: ArrayLike,
    *,
    form: str,
    min_compute: float | None = None,
    max_compute: float = math.inf,
    compute_unit: str = "gpu-hours",
    A_max: float = 1.0,
    R0: float | None = None,
    weights: ArrayLike | None = None,
) -> FittedCurve:
    """Fit a functional form by name.

    Parameters
    ----------
    form : {"sigmoid", "power-law", "exponential", "log-linear", "gompertz", "richards"}
        ``power-law``: ``A - D / C**B``. ``exponential``: ``A - (A - R0) exp(-C / tau)``. ``log-linear``:
        ``intercept + slope log C``. ``gompertz``: ``R0 + (A - R0) exp(-(C_0 / C)**B)``. ``richards``:
        ``R0 + (A - R0) / (1 + (C_0 / C)**B)**(1 / nu)``. ``sigmoid`` is `fit_sigmoid`.
    compute, pass_rate, min_compute, max_compute, compute_unit, A_max, weights
        As in `fit_power_law`.
    R0 : float, optional
        Pass rate before RL, held fixed; None fits it. For ``gompertz``, ``richards`` and ``sigmoid``.

    Returns
    -------
    FittedCurve
        `SigmoidFit` for the sigmoid, `PowerLawFit` for the power law, else `CurveFit`.

    Examples
    --------
    >>> import numpy as np
    >>> C = np.arange(2000.0, 20000.0, 500.0)
    >>> fit = fit_curve(C, 0.6 - 0.25 * np.exp(-C / 4000.0), form="exponential")
    >>> round(fit.params["tau"], 2)
    4000.0
    """
    shared = {
        "min_compute": min_compute,
        "max_compute": max_compute,
        "compute_unit": compute_unit,
        "A_max": A_max,
    }
    if form == "sigmoid":
        return fit_sigmoid(compute, pass_rate, R0=R0, weights=weights, **shared)  # type: ignore[arg-type]
    fit = FORMS[form].fit if form in FORMS else None
    if fit is None:
        raise FitError(f"form={form!r} is unknown; choose one of sigmoid, {', '.join(OTHER_FORMS)}")
    if R0 is not None and not FORMS[form].R0_can_be_fixed:
        choices = ", ".join(name for name in OTHER_FORMS if FORMS[name].R0_can_be_fixed)
        raise FitError(f"R0={R0:g}: the {form} form has no R0 to fix; leave it out, or choose {choices}")
    options = resolve_options({**shared, "R0": "free" if R0 is None else R0})
    C, y = check_series(compute, pass_rate, bounded=options.bounded)
    w = None if weights is None else checked_weights(weights, len(C))
    if not FORMS[form].at_zero:
        w = None if w is None else w[C > 0]
        C, y = C[C > 0], y[C > 0]
    data, _ = select(C, y, w, options, {})
    C, y, w = C[data.used], y[data.used], relative_weights(data)
    params, at_bound = fit(C, y, w, options.A_max, R0)
    residual = y - FORMS[form].function(C, **params)
    kind = PowerLawFit if form == "power-law" else CurveFit
    return kind(
        form=form, params=params, ssr=float((w * residual) @ residual), residual=residual, n_points=len(C),
        compute_range=(float(C[0]), float(C[-1])), compute_unit=compute_unit, at_bound=at_bound,
        R0_fixed=R0 is not None,
    )  # fmt: skip
