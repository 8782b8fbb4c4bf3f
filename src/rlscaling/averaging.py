"""``extrapolate(fit, method="auto")``: where a run will stand, averaged over curves, noise and departures."""

from __future__ import annotations

import numpy as np

from rlscaling.bootstrapping import SEED_SD, RngLike, check_seed_sd, entropy_of
from rlscaling.curves import Array, Mask
from rlscaling.errors import FitError
from rlscaling.fit import model_of
from rlscaling.intervals import Forecast
from rlscaling.posterior import posterior
from rlscaling.priors import DEFAULT, Prior
from rlscaling.results import SigmoidFit
from rlscaling.verdict import score_scale

N_DRAWS = 1000


def average_forecast(
    fit: SigmoidFit,
    budgets: Array,
    supported: Mask,
    *,
    prior: Prior | None = None,
    seed_sd: float = SEED_SD,
    rng: RngLike = None,
    notes: tuple[str, ...] = (),
) -> Forecast:
    """Return the posterior forecast of a run at ``budgets``: median and draws.

    Parameters
    ----------
    fit : SigmoidFit
    budgets : array of shape (n,)
        In the fit's unit.
    supported : boolean array of shape (n,)
        Where a number may be given.
    prior : Prior, optional
    seed_sd : float
        Spread of ``A`` between seeds of one recipe; for unbounded scores a share of their range.
    rng : int, Generator, SeedSequence or None
    notes : tuple of str
        Added to those of the fit.

    Returns
    -------
    Forecast
    """
    if prior is not None and not isinstance(prior, Prior):
        raise FitError(f"prior= takes a Prior, e.g. from learn_prior, not {type(prior).__name__}")
    check_seed_sd(seed_sd)
    model, entropy = model_of(fit), entropy_of(rng)
    found = posterior(model, prior or DEFAULT)
    generator = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(3,)))
    runs, evaluations = found.draw(generator, N_DRAWS).runs(budgets, generator)
    new = runs + seed_sd * score_scale(model) * generator.standard_normal((N_DRAWS, 1))
    if np.isfinite(fit.options.A_max):
        new = np.clip(new, 0.0, fit.options.A_max)
    slow = found.shape_probability("slow")
    how = f"average over curves: {slow:.2f} on the slow shape; prior: {found.prior.source}"
    return Forecast(
        fit=fit, compute=budgets, pass_rate=np.median(runs, axis=0), distribution=runs, distribution_new_run=new,
        supported=supported, confidence_level=0.95, seed=entropy, evaluations=evaluations,
        notes=(*fit.notes, *notes, how), method="auto",
    )  # fmt: skip
