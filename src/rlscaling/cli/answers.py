"""What the command says about one run, as a JSON object."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from rlscaling.version import __version__
from rlscaling.answering import Answer, Progress, Refusal, Request, answer
from rlscaling.forecast import CutoffSensitivity
from rlscaling.results import finite

__all__ = ["SCHEMA_VERSION", "Answer", "Progress", "Refusal", "Request", "answer", "document", "record"]

SCHEMA_VERSION = 1


def record(given: Answer | Refusal, request: Request) -> dict[str, Any]:
    """Return the JSON object of one run; a refused run is ``{"run", "error"}``."""
    if isinstance(given, Refusal):
        return {"run": given.name, "error": given.error}
    fit, boot = given.fit, given.bootstrap
    intervals = {"ci": None, "ci_new_run": None, "standard_error": None} if boot is None else boot.to_dict()
    needed = fit.compute_needed
    out: dict[str, Any] = {"verdict": str(fit.verdict), "reason": fit.reason, "run": given.name}
    out |= {name: finite(getattr(fit.params, name)) for name in ("R0", "A", "B", "C_mid")}
    out |= {
        "R0_source": fit.R0_source,
        **{name: intervals[name] for name in ("ci", "ci_new_run", "standard_error")},
        "confidence_level": request.confidence_level,
        "n_points": fit.n_points,
        "compute_range": list(fit.compute_range),
        "compute_unit": fit.compute_unit,
        "min_compute": fit.options.min_compute,
        "max_compute": finite(fit.options.max_compute),
        "ssr": finite(fit.ssr),
        "at_bound": list(fit.at_bound),
        "compute_needed": None
        if needed is None
        else {key: finite(value) for key, value in dataclasses.asdict(needed).items()},
        "at_twice": None if fit.at_twice is None else {"pass_rate": fit.at_twice[0], "ci": list(fit.at_twice[1:])},
        "extrapolation": _extrapolation(given),
        "reach": _reach(given),
        "notes": list(given.notes),
        "scheme": request.scheme,
        "n_resamples": 0 if boot is None else boot.n_resamples,
        "seed_sd": request.seed_sd,
    }
    if given.cutoffs is not None:
        out["cutoffs"] = _cutoffs(given.cutoffs)
    return out


def _extrapolation(given: Answer) -> list[dict[str, Any]]:
    if given.forecast is not None:
        return given.forecast.to_dict()
    last = given.fit.compute_range[1]
    return [
        {
            "compute": budget,
            "pass_rate": finite(float(given.fit.predict(budget))),
            "ci": None,
            "ci_new_run": None,
            "prediction": None,
            "beyond": budget / last,
            "supported": False,
        }
        for budget in given.budgets
    ]


def _reach(given: Answer) -> list[dict[str, Any]]:
    if given.bootstrap is None:
        at = [float(given.fit.compute_to_reach(pass_rate)) for pass_rate in given.reach_asked]
        return [
            {"pass_rate": pass_rate, "compute": finite(compute), "ci": None, "probability": None}
            for pass_rate, compute in zip(given.reach_asked, at, strict=True)
        ]
    return [
        {
            "pass_rate": reach.pass_rate,
            "compute": finite(reach.compute),
            "ci": [finite(value) for value in reach.confidence_interval],
            "probability": reach.probability,
        }
        for reach in given.reach
    ]


def _cutoffs(cutoffs: CutoffSensitivity) -> dict[str, Any]:
    rows = [
        {key: finite(value) if isinstance(value, float) else value for key, value in row.items()}
        for row in cutoffs.rows
    ]
    return {"rows": rows, "moves": finite(cutoffs.moves), "warning": cutoffs.warning}


def document(answers: Sequence[Answer | Refusal], request: Request) -> dict[str, Any]:
    """Return the JSON object of the whole command: the run's own when there is one, else with ``runs``."""
    head = {"schema_version": SCHEMA_VERSION, "version": __version__, "seed": request.seed}
    records = [record(given, request) for given in answers]
    return records[0] | head if len(records) == 1 else {**head, "runs": records}
